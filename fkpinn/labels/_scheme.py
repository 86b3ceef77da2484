"""Which walk to use for a problem, and which step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..problem import Problem
from ..sde import (
    AbstractWalk,
    BridgeExit,
    EulerMaruyama,
    Heun,
    PlainExit,
    Platen,
    Scheme,
    ShiftedExit,
    Spheres,
)

SCHEMES: dict[str, AbstractWalk] = {
    "euler": Scheme(EulerMaruyama(), PlainExit()),  # Algorithm alg:fk-mc as written
    "euler-shifted": Scheme(EulerMaruyama(), ShiftedExit()),
    "euler-bridge": Scheme(EulerMaruyama(), BridgeExit()),
    "heun": Scheme(Heun(), ShiftedExit()),
    "heun-bridge": Scheme(Heun(), BridgeExit()),
    "platen": Scheme(Platen(), ShiftedExit()),
    "spheres": Spheres(),
}


_DETAILS = 20.0  # a domain counts as no larger than so many of its smallest details
_SHELL = 0.02  # of a detail, at most, for the layer in which a walk on spheres ends


class Choice(NamedTuple):
    """A scheme, its name, and why it was chosen."""

    name: str
    walk: AbstractWalk
    reason: str


def choose_scheme(
    problem: Problem, name: str | AbstractWalk = "default", *, cut: bool = False
) -> Choice:
    """The scheme of that name; `default` looks at the problem.

    Args:
        problem: the boundary value problem.
        name: a key of `SCHEMES`, or `default`; or a walk of one's own.
        cut: whether paths are cut at a largest time, which spheres know nothing of.
    """
    if isinstance(name, AbstractWalk):
        if cut and isinstance(name, Spheres):
            raise ValueError("`Spheres` have no time, so `t_max` must be infinite.")
        name.check(problem)
        return Choice(_spelled(name), name, "given")
    if name != "default":
        if name not in SCHEMES:
            raise ValueError(
                f"`scheme` must be 'default' or one of {tuple(SCHEMES)}; got {name!r}."
            )
        if cut and name == "spheres":
            raise ValueError("`scheme='spheres'` has no time, so `t_max` must be infinite.")
        SCHEMES[name].check(problem)
        walk = _spheres(problem) if name == "spheres" else SCHEMES[name]
        return Choice(name, walk, "asked for")
    if not cut and _fits_spheres(problem):
        reason = "constant diffusion, no drift, constant reaction: spheres need no time step"
        return Choice("spheres", _spheres(problem), reason)
    if problem.diffusion.function is None:
        return Choice("heun", SCHEMES["heun"], "constant diffusion: Heun has weak order 2")
    if not all(problem.absorbing()):
        reason = "variable diffusion, and reflection has weak order 1: a better step gains nothing"
        return Choice("euler-shifted", SCHEMES["euler-shifted"], reason)
    reason = "the diffusion depends on the place: Platen's step keeps weak order 2"
    return Choice("platen", SCHEMES["platen"], reason)


def step_size(problem: Problem, points: Float[Array, "n z"], reach: float = 0.005) -> float:
    """A step that moves a path by that share of the domain's size, about.

    The diagonal of the bounding box, which grows with the root of the dimension while the way to
    the wall does not, counts as that of a square as wide; and where holes are small, no more than
    twenty times their detail (`AbstractDomain.detail`), or paths would jump over them.
    """
    variance = jax.vmap(lambda z: jnp.trace(problem.covariance(z)) / problem.dim)(points)
    size = problem.domain.diameter() / max(problem.dim / 2, 1.0) ** 0.5
    size = min(size, _DETAILS * problem.domain.detail())
    step = (reach * size) ** 2 / float(jnp.max(variance))
    return step if problem.horizon is None else min(step, problem.horizon / 100)


def _spheres(problem: Problem) -> Spheres:
    """Walks that end close enough to the boundary to tell its details."""
    usual = Spheres()
    finest = _SHELL * problem.domain.detail() / problem.domain.diameter()
    return usual if usual.epsilon <= finest else Spheres(epsilon=finest)


def _spelled(walk: AbstractWalk) -> str:
    """A name for records: that of the table, or what the walk is made of."""
    named = [name for name, known in SCHEMES.items() if known == walk]
    if named:
        return named[0]
    if isinstance(walk, Scheme):
        return f"{type(walk.stepper).__name__}, {type(walk.exit).__name__}"
    return type(walk).__name__


def _fits_spheres(problem: Problem) -> bool:
    try:
        SCHEMES["spheres"].check(problem)
    except ValueError:
        return False
    return True
