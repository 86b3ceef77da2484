"""Which walk to use for a problem, and which step."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._compute import FEW_DIMENSIONS
from ..problem import CompoundPoisson, OfCandidate, Problem, Stable, corners
from ..sde import (
    NEAR,
    AbstractWalk,
    BridgeExit,
    EulerMaruyama,
    Heun,
    PlainExit,
    Platen,
    Scheme,
    ShiftedExit,
    Spheres,
    StableSpheres,
)

SCHEMES: dict[str, AbstractWalk] = {
    "euler": Scheme(EulerMaruyama(), PlainExit()),  # Algorithm alg:fk-mc as written
    "euler-shifted": Scheme(EulerMaruyama(), ShiftedExit()),
    "euler-bridge": Scheme(EulerMaruyama(), BridgeExit()),
    "heun": Scheme(Heun(), ShiftedExit()),
    "heun-bridge": Scheme(Heun(), BridgeExit()),
    "platen": Scheme(Platen(), ShiftedExit()),
    "spheres": Spheres(),
    "stable-spheres": StableSpheres(),
}


_REACH = 0.005  # of a step, over the size of the domain
_FAR = 0.02  # the same in many dimensions, away from walls
_TO_EXIT = 64.0  # steps, at least, in the mean time to leave a ball as wide as the domain
_FAR_TO_EXIT = 4.0  # the same away from walls
_CHANGE = 0.1  # of drift and discount in a long step, about
_MOST_REFINED = 1024
_LOOKS, _ITERATIONS = 64, 8  # points, and products, that tell how fast drift changes
_DETAILS = 20.0  # a domain counts as no larger than so many of its smallest details
_SPHERES = 30  # dimensions up to which spheres are chosen: walks take some ten in each of them
_SHELL = 0.02  # of a detail, at most, for the layer in which a walk on spheres ends


class Choice(NamedTuple):
    """A scheme, its name, and why it was chosen."""

    name: str
    walk: AbstractWalk
    reason: str


def choose_scheme(
    problem: Problem, name: str | AbstractWalk = "default", *, cut: bool = False
) -> Choice:
    """The scheme of that name; `default` chooses one for the problem.

    Args:
        problem: the boundary value problem.
        name: a key of `SCHEMES`, or `default`; or your own walk.
        cut: whether paths are cut at a largest time, which walks on spheres do not support.
    """
    if isinstance(name, AbstractWalk):
        if cut and not name.stepped:
            kind = type(name).__name__
            raise ValueError(f"`{kind}` simulate no time, so `t_max` must be infinite.")
        name.check(problem)
        return Choice(_spelled(name), name, "given")
    if name != "default":
        if name not in SCHEMES:
            raise ValueError(
                f"`scheme` must be 'default' or one of {tuple(SCHEMES)}; got {name!r}."
            )
        if cut and not SCHEMES[name].stepped:
            raise ValueError(f"`scheme={name!r}` simulates no time, so `t_max` must be infinite.")
        SCHEMES[name].check(problem)
        walk = _spheres(problem) if name == "spheres" else SCHEMES[name]
        return Choice(name, walk, "asked for")
    if not cut and _fits("stable-spheres", problem):
        reason = "pure stable process: walks on spheres need no time step"
        return Choice("stable-spheres", SCHEMES["stable-spheres"], reason)
    if not cut and _fits("spheres", problem):
        if problem.dim > _SPHERES:
            reason = (
                f"more than {_SPHERES} dimensions: far fewer time steps than jumps of a walk on "
                f"spheres"
            )
            return Choice("heun", SCHEMES["heun"], reason)
        reason = (
            "constant diffusion, no drift, constant reaction: walks on spheres need no time step"
        )
        return Choice("spheres", _spheres(problem), reason)
    if problem.jumps is not None:
        return _for_jumps(problem)
    if problem.diffusion.is_constant:
        return Choice("heun", SCHEMES["heun"], "constant diffusion: Heun has weak order 2")
    if isinstance(problem.diffusion.function, OfCandidate):
        reason = "the diffusion contains a network: second-order steps would evaluate it too often"
        return Choice("euler-shifted", SCHEMES["euler-shifted"], reason)
    if not all(problem.absorbing()):
        reason = (
            "variable diffusion, and reflection has weak order 1: a higher-order step gains nothing"
        )
        return Choice("euler-shifted", SCHEMES["euler-shifted"], reason)
    reason = "the diffusion depends on position: Platen's step keeps weak order 2"
    return Choice("platen", SCHEMES["platen"], reason)


def _for_jumps(problem: Problem) -> Choice:
    """Steps that end at jumps have all lengths, which a bridge minds least."""
    if isinstance(problem.jumps, Stable):
        reason = "a stable process with other terms: exits are detected at grid times"
        return Choice("euler", SCHEMES["euler"], reason)
    if problem.diffusion.is_constant:
        reason = "steps end at jumps; constant diffusion: Heun has weak order 2"
        return Choice("heun-bridge", SCHEMES["heun-bridge"], reason)
    reason = "steps end at jumps; the diffusion depends on position or time"
    return Choice("euler-bridge", SCHEMES["euler-bridge"], reason)


class Steps(NamedTuple):
    """A time step, and how many times shorter it may be next to walls and in strong drift.

    A wall is close if its distance is at most `near` times the reach of a step. In a family, `dt`
    is the step for a variance `noise` of the noise along an axis, and steps of other problems are
    scaled to the same reach; `noise` is 0 if all problems have the same step.
    """

    dt: float
    refine: int
    near: float = NEAR
    noise: float = 0.0

    def times(self, factor: float) -> "Steps":
        """All steps longer by this factor, also those next to walls."""
        near = self.near / math.sqrt(factor)
        return Steps(factor * self.dt, self.refine, near, self.noise)


def step_size(problem: Problem, points: Float[Array, "n z"], reach: float = _REACH) -> float:
    """A step that moves a path by about the fraction `reach` of the domain's size.

    The diagonal of the bounding box, which grows with the square root of the dimension while the
    distance to the wall does not, is replaced by that of a square of the same width; if there are
    small holes, the size is at most twenty times their detail (`AbstractDomain.detail`), or paths
    would jump over them. In hundreds of dimensions the exit time from a ball decreases with the
    dimension, and so do the steps. Where there is no wall, in four and more dimensions, only
    coefficients need short steps, and these are as long as those far from walls.
    """
    size = _size(problem)
    length = min(reach * min(size, _DETAILS * problem.domain.detail()), _way(problem, _TO_EXIT))
    if problem.dim > FEW_DIMENSIONS and not list(problem.conditions()):
        length = max(reach, _FAR) * size
    step = _time_over(problem, points, length)
    return step if problem.horizon is None else min(step, problem.horizon / 100)


def steps_for(
    problem: Problem, points: Float[Array, "n z"], walk: AbstractWalk, reach: float = _REACH
) -> Steps:
    """Steps of paths: those of `step_size`, or longer ones that are equally short next to walls.

    Long steps are used in elliptic problems with absorbing walls only: in four and more dimensions,
    or with jumps (Brownian bridges detect walls between long steps), if the noise is constant and
    drift and reaction hardly change in a step; and if only small holes need short steps. Otherwise
    all steps are equal.

    Args:
        problem: the boundary value problem.
        points: where paths start, one point per row.
        walk: how paths move.
        reach: reach of equal steps, relative to the size of the domain.
    """
    dt = step_size(problem, points, reach)
    holes = problem.domain.detail() * _DETAILS < (size := _size(problem))
    many = problem.dim > FEW_DIMENSIONS or problem.jumps is not None
    many = many and problem.diffusion.is_constant and not problem.diffusion.is_zero
    ends = all(problem.absorbing()) and not problem.timed
    if not (isinstance(walk, Scheme) and ends and (holes or many)):
        return Steps(dt, 1, noise=family_noise(problem))
    longest = min((_FAR if many else reach) * size, _way(problem, _FAR_TO_EXIT))
    long = min(_time_over(problem, points, longest), _CHANGE / max(_rate(problem, points), 1e-300))
    shortest = 0.25 * dt if many else dt
    refine = min(1 << max(math.ceil(math.log2(max(long / shortest, 1.0))), 0), _MOST_REFINED)
    long = max(dt, min(long, refine * shortest))
    # a ball of radius R pushes paths outwards as a drift of d σ² / 2R would: twice what it does
    pushed = problem.dim * math.sqrt(8.0 * long * _variance(problem, points)) / size
    return Steps(long, refine, max(NEAR, pushed), family_noise(problem))


def _size(problem: Problem) -> float:
    """The diagonal of a square as wide as the domain."""
    return problem.domain.diameter() / max(problem.dim / 2, 1.0) ** 0.5


def _way(problem: Problem, steps: float) -> float:
    r"""That noise goes along an axis in a part of the mean time to leave a ball from its center.

    That time is $R^2 / (d \sigma^2)$; `_size` is that of a square, $2\sqrt2 R$.
    """
    return _size(problem) / math.sqrt(8.0 * problem.dim * steps)


def _time_over(problem: Problem, points: Float[Array, "n z"], length: float) -> float:
    """In which noise carries a path that far; jumps at random times end steps by themselves."""
    times = [math.inf if (v := _variance(problem, points)) == 0 else length**2 / v]
    if isinstance(problem.jumps, Stable):
        times.append((length / problem.jumps.scale) ** problem.jumps.alpha)
    elif isinstance(problem.jumps, CompoundPoisson) and math.isinf(times[0]):
        times.append(_CHANGE / max(problem.jumps.highest, 1e-300))
    return min(times)


def _variance(problem: Problem, points: Float[Array, "n z"]) -> float:
    """Of the noise along an axis, the largest seen; of a family with steps of its own, of all."""
    return family_noise(problem) or float(jnp.max(jax.vmap(problem.mean_variance)(points)))


def family_noise(problem: Problem) -> float:
    """The largest variance of the noise along an axis, where each problem of a family has its step.

    They have in few dimensions, without a horizon, where noise depends on parameters alone; else 0.
    """
    layout, noise = problem.layout, problem.diffusion
    own = bool(noise.reads) and noise.is_constant and not problem.timed and problem.jumps is None
    if not own or problem.dim > FEW_DIMENSIONS:
        return 0.0
    tried = corners(layout)
    with jax.ensure_compile_time_eval():
        points = jnp.concatenate([jnp.asarray(tried), jnp.zeros((len(tried), problem.dim))], axis=1)
        return float(jnp.max(jax.vmap(problem.mean_variance)(points)))


def _rate(problem: Problem, points: Float[Array, "n z"]) -> float:
    """How fast drift changes along paths, and reaction discounts: the largest seen, about."""
    some = points[:_LOOKS]
    rate = float(jnp.max(jnp.abs(jax.vmap(problem.reaction)(some))))
    if problem.drift.is_zero:
        return rate
    return max(rate, float(jnp.max(_slopes(problem, some))))


@eqx.filter_jit
def _slopes(problem: Problem, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    """Largest singular values of the derivative of the drift, by power iteration."""
    layout = problem.layout

    def one(z):
        drift = lambda x: problem.drift(layout.placed(layout.ahead(z), x))
        x = layout.space(z)
        _, back = jax.vjp(drift, x)
        unit = lambda v: v / jnp.maximum(jnp.sqrt(jnp.sum(v**2)), jnp.finfo(v.dtype).tiny)
        forth = lambda v: jax.jvp(drift, (x,), (v,))[1]
        again = lambda _, v: unit(back(forth(v))[0])
        # a start with no symmetry that coefficients might have
        first = jnp.sin(jnp.linspace(1.0, 7.0, len(x), dtype=x.dtype))
        v = jax.lax.fori_loop(0, _ITERATIONS, again, unit(first))
        return jnp.sqrt(jnp.sum(forth(v) ** 2))

    return jax.vmap(one)(points)


def _spheres(problem: Problem) -> Spheres:
    """Walks that end close enough to the boundary to resolve its details."""
    usual = Spheres()
    share = _SHELL * problem.domain.detail() / usual.width(problem)
    return usual if share >= 1 else Spheres(epsilon=share * usual.epsilon)


def _spelled(walk: AbstractWalk) -> str:
    """A name for records: that of the table, or what the walk is made of."""
    named = [name for name, known in SCHEMES.items() if known == walk]
    if named:
        return named[0]
    if isinstance(walk, Scheme):
        return f"{type(walk.stepper).__name__}, {type(walk.exit).__name__}"
    return type(walk).__name__


def _fits(name: str, problem: Problem) -> bool:
    try:
        SCHEMES[name].check(problem)
    except ValueError:
        return False
    return True
