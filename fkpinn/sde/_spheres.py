r"""Walk on spheres: elliptic Dirichlet problems without a time step.

From the center of a ball of radius $R$ inside the domain, Brownian motion leaves through a
uniform point of the sphere, after a mean time $T = R^2 / (d\sigma^2)$. One jump therefore
replaces all the small steps inside the ball (Muller, Ann. Math. Statist. 27, 1956).
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._types import Point, Scalar, Vector
from ..problem import Dirichlet, Problem
from ._random import Stream, box_muller, philox, uniforms

_UNIFORMS = 1  # what tells the uniforms of a step from its normals
_LAYER = 2.0  # width, in shells, of the layer that a walk leaves at its end
_FORGOTTEN = 1e-7  # a path with a smaller discount adds nothing any more
_TERMS = 18  # of the series of `screening`, exact to rounding up to 1 (1 / 18! is 2e-16)


class SpherePath(NamedTuple):
    """What one walk brings in; without the boundary value where it is not `finished`."""

    payoff: Scalar
    steps: Int[Array, ""]
    finished: Bool[Array, ""]


class SphereState(NamedTuple):
    """A walk on its way; `distance` is the signed distance at `x`."""

    x: Point
    distance: Scalar
    payoff: Scalar
    discount: Scalar
    steps: Int[Array, ""]
    running: Bool[Array, ""]


class Spheres(eqx.Module):
    r"""Walk on spheres, for $\tfrac12\sigma^2\Delta u - c\,u + f = 0$ with $u = g$ on $\partial D$.

    The diffusion is a constant number, the reaction $c \ge 0$ a constant, the drift zero and
    each boundary condition `Dirichlet`; the source is any function. The one bias is that of the
    end: within `epsilon` diameters of the boundary, $u$ is taken as linear across a layer of
    twice that width, an error of second order in `epsilon`. The number of steps grows with
    $\log(1/\epsilon)$, and in proportion to the dimension.

    Args:
        epsilon: distance from the boundary at which a walk may end, over the domain's diameter.
    """

    epsilon: float = eqx.field(default=2e-4, static=True)

    def __check_init__(self):
        if not 0 < self.epsilon < 0.1:
            raise ValueError(
                f"`Spheres(epsilon=...)` must lie between 0 and 0.1, as a part of the domain's "
                f"diameter; got {self.epsilon}. Try 2e-4."
            )

    def check(self, problem: Problem) -> None:
        """Refuse a problem that a walk on spheres does not solve."""
        instead = "Try a time stepper, such as `Heun`."
        if problem.timed:
            raise ValueError(
                f"`Spheres` solves elliptic problems; got one with `horizon`={problem.horizon}. "
                f"{instead}"
            )
        diffusion, reaction = problem.diffusion, problem.reaction
        if diffusion.function is not None or diffusion.shape != () or diffusion.is_zero:
            kind = "a function" if diffusion.function is not None else f"{diffusion.constant}"
            raise ValueError(
                f"`Spheres` needs a `diffusion` that is one number, not zero, the same everywhere "
                f"and in all directions; got {kind}. {instead}"
            )
        if not problem.drift.is_zero:
            raise ValueError(f"`Spheres` needs a zero `drift`; got another one. {instead}")
        if reaction.function is not None or _number(reaction.constant) < 0:
            kind = "a function" if reaction.function is not None else f"{reaction.constant}"
            raise ValueError(
                f"`Spheres` needs a `reaction` that is a constant and not negative; got {kind}. "
                f"{instead}"
            )
        for part, condition in problem.boundary.items():
            if not isinstance(condition, Dirichlet):
                raise ValueError(
                    f"`Spheres` needs `Dirichlet` on each boundary part; got "
                    f"{type(condition).__name__} on {part!r}. {instead}"
                )
        if not problem.domain.is_bounded():
            raise ValueError(
                "`Spheres` needs a bounded domain, since `epsilon` is a part of its diameter. Try "
                "to cut it with a large `Box`."
            )

    def run(self, problem: Problem, x: Point, of: Stream, max_steps: int) -> SpherePath:
        r"""One walk from `x`, whose payoff is $u(x)$ on average.

        Args:
            problem: what `check` accepts.
            x: where the walk starts; sets the precision.
            of: the random numbers of this walk.
            max_steps: spheres after which the walk is cut short and `finished` is False.

        Returns:
            `SpherePath`: payoff, number of spheres, whether the walk came to its end.
        """
        return self.finish(problem, self.advance(problem, self.start(problem, x), of, max_steps))

    def start(self, problem: Problem, x: Point) -> SphereState:
        """A walk that has not left `x` yet."""
        self.check(problem)
        distance = problem.domain.signed_distance(x)
        zero = jnp.zeros((), x.dtype)
        return SphereState(x, distance, zero, zero + 1.0, jnp.zeros((), jnp.int32), distance < 0)

    def advance(
        self, problem: Problem, state: SphereState, of: Stream, until: int | Int[Array, ""]
    ) -> SphereState:
        """Go on until the walk ends or has made `until` steps in all.

        To stop and go on changes nothing, so finished walks can be taken out in between.
        """
        shell = self._shell(problem, state.x.dtype)
        return jax.lax.while_loop(
            lambda state: state.running & (state.steps < until),
            lambda state: _step(problem, state, of, shell),
            state,
        )

    def finish(self, problem: Problem, state: SphereState) -> SpherePath:
        """Collect the boundary value of a walk that ended."""
        value = jnp.where(state.running, 0.0, _boundary_value(problem, state.x))
        return SpherePath(state.payoff + state.discount * value, state.steps, ~state.running)

    def _shell(self, problem: Problem, dtype) -> float:
        """Width of the layer in which a walk ends, not below what rounding can resolve."""
        reach = float(np.max(np.abs(problem.domain.bounding_box())))
        return max(
            self.epsilon * problem.domain.diameter(), 8 * float(jnp.finfo(dtype).eps) * reach
        )


def screening(t: Float[Array, "*shape"], dim: int) -> Float[Array, "*shape"]:
    r"""What a radius means to a discounted path: $A = 1 / \mathbb{E}[e^{-c\tau}]$, `t` up to 1.

    Here $t = c\,r^2/(d\sigma^2)$ is the rate times the mean exit time from the ball of radius
    $r$. With $\nu = d/2 - 1$ and $z = r\sqrt{2c}/\sigma$ this is
    $A = \Gamma(\nu+1)\,(2/z)^\nu I_\nu(z) = \sum_m \frac{t^m}{m!}\prod_{j<m}\frac{1}{1+2j/d}$:
    positive terms in any dimension, and $e^t$ as $d \to \infty$.
    """
    total = jnp.ones_like(t)
    for m in range(_TERMS, 0, -1):
        total = 1.0 + total * t / (m * (1.0 + 2.0 * (m - 1) / dim))
    return total


def source_radii(
    first: Float[Array, "*shape"], second: Float[Array, "*shape"], dim: int
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    r"""Radii $\rho < s$ from two uniforms: $\rho$ has the law of Green's function of the unit ball.

    Its density, in proportion to $|\rho - \rho^{d-1}|$ (or $-\rho\log\rho$ in the plane), says
    that $-\log\rho$ is a sum of two exponential times of rates 2 and $d$, in all dimensions.
    """
    outer = jnp.sqrt(first)
    return outer * second ** (1.0 / dim), outer


def source_weight(
    t: Float[Array, "*shape"],
    inner: Float[Array, "*shape"],
    outer: Float[Array, "*shape"],
    dim: int,
) -> Float[Array, "*shape"]:
    r"""Weight, at most 1, that turns Green's function of the ball into the screened one.

    By reduction of order the screened function is
    $G_c(r) \propto A(r)\int_r^R s^{1-d} A(s)^{-2}\,ds$, all terms positive. `source_radii` draws
    $r$ and $s$ together from the density with $A = 1$, so $A(r)/A(s)^2$ is left as a weight.
    """
    return screening(t * inner**2, dim) / screening(t * outer**2, dim) ** 2


def _step(problem: Problem, state: SphereState, of: Stream, shell: float) -> SphereState:
    """Jump to a sphere or, close to the boundary, end or step back."""
    block = state.steps.astype(jnp.uint32)
    draws = uniforms(of, block, _UNIFORMS, state.x.dtype)
    near = state.distance > -shell
    jumped = _jump(problem, state, _direction(of, block, problem.dim, state.x.dtype), draws)
    moved = _end(problem, state, draws[2], shell)
    moved = jax.tree.map(lambda a, b: jnp.where(near, a, b), moved, jumped)
    distance = jnp.where(moved.running, problem.domain.signed_distance(moved.x), state.distance)
    running = moved.running & (distance < 0) & (moved.discount > _FORGOTTEN)
    return moved._replace(distance=distance, steps=state.steps + 1, running=running)


def _jump(
    problem: Problem, state: SphereState, direction: Vector, draws: tuple[Scalar, ...]
) -> SphereState:
    """From the center of a ball to a point of its sphere."""
    d, x = problem.dim, state.x
    sigma, c = _constants(problem)
    radius = -state.distance
    if c > 0:  # where the discount is strong, large balls would make rare, heavy source samples
        radius = jnp.minimum(radius, sigma * math.sqrt(d / c))
    time = radius**2 / (d * sigma**2)
    payoff, discount = state.payoff, state.discount
    if not problem.source.is_zero:
        inner, outer = source_radii(draws[0], draws[1], d)
        # Opposite to the jump: means add up whatever the dependence, and where the source is
        # high on the same side as the solution, the two errors partly cancel.
        f = problem.source(x - radius * inner * direction)
        weight = source_weight(c * time, inner, outer, d) if c > 0 else 1.0
        payoff = payoff + discount * weight * time * f
    if c > 0:
        discount = discount / screening(c * time, d)
    return state._replace(x=x + radius * direction, payoff=payoff, discount=discount)


def _end(problem: Problem, state: SphereState, uniform: Scalar, shell: float) -> SphereState:
    r"""Leave through the boundary, or step back to the far side of a layer of width $L$.

    At distance $\delta$ a path leaves a flat layer through the boundary with probability
    $1 - \delta/L$, after a mean time $\delta(L - \delta)/\sigma^2$. To stop at once instead would
    be wrong by $\delta$ times the slope.
    """
    sigma, c = _constants(problem)
    foot = problem.domain.project(state.x)
    inward = state.x - foot
    depth = jnp.minimum(jnp.sqrt(jnp.sum(inward**2)), shell)
    width = _LAYER * shell
    time = depth * (width - depth) / sigma**2
    payoff, discount = state.payoff, state.discount
    if not problem.source.is_zero:
        payoff = payoff + discount * time * problem.source(state.x)
    if c > 0:
        discount = discount / (1.0 + c * time)
    back = uniform * width < depth
    x = jnp.where(back, foot + inward * (width / jnp.where(back, depth, 1.0)), state.x)
    return state._replace(x=x, payoff=payoff, discount=discount, running=back)


def _direction(of: Stream, block: Array, dim: int, dtype) -> Vector:
    """A uniform direction."""
    fours = -(-dim // 4)  # all groups of four in one batch: in a row, they are slow to compile

    def four(position):
        counter = (position, of.path, of.point, jnp.zeros_like(position))
        a, b, c, d = philox(counter, of.seed)
        return jnp.stack([*box_muller(a, b, dtype), *box_muller(c, d, dtype)])

    positions = block * np.uint32(fours) + jnp.arange(fours, dtype=jnp.uint32)
    z = jax.vmap(four)(positions).reshape(-1)[:dim]
    return z / jnp.sqrt(jnp.sum(z**2))


def _boundary_value(problem: Problem, x: Point) -> Scalar:
    """Dirichlet data at the boundary point nearest to `x`."""
    part, foot = problem.domain.part_at(x), problem.domain.project(x)
    value = jnp.zeros((), x.dtype)
    for index, condition in enumerate(problem.conditions()):
        assert isinstance(condition, Dirichlet)
        value = jnp.where(part == index, condition.value(foot), value)
    return value


def _constants(problem: Problem) -> tuple[float, float]:
    return abs(_number(problem.diffusion.constant)), _number(problem.reaction.constant)


def _number(constant) -> float:
    return float(np.asarray(constant))
