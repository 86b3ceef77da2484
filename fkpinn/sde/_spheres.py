r"""Walk on spheres: elliptic Dirichlet problems without a time step.

From the center of a ball of radius $R$ inside the domain, Brownian motion leaves through a
uniform point of the sphere, after a mean time $T = R^2 / (d\sigma^2)$. One jump therefore
replaces all the small steps inside the ball (Muller, Ann. Math. Statist. 27, 1956).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import FEW_DIMENSIONS
from .._types import Point, Scalar, SpaceTimePoint, Vector
from ..problem import Problem
from ._lane import FORGET, AbstractWalk, Control, Lane, Need, Numbers, absorbed_value

_LAYER = 2.0  # width, in shells, of the layer that a walk leaves at its end
_TERMS = 18  # of the series of `screening`, exact to rounding up to 1 (1 / 18! is 2e-16)


class Spheres(AbstractWalk):
    r"""Walk on spheres, for $\tfrac12\sigma^2\Delta u - c\,u + f = 0$ with $u = g$ on $\partial D$.

    The diffusion is a constant number, the reaction $c \ge 0$ a constant, the drift zero and each
    boundary condition `Dirichlet`; the source is any function. The only bias is that of the end:
    within `width` of the boundary, $u$ is assumed to be linear across a layer of twice that width,
    an error of second order in `epsilon`. The number of steps grows with $\log(1/\epsilon)$, and in
    proportion to the dimension.

    Args:
        epsilon: distance from the boundary at which a walk may end, relative to the domain's
            diameter; from three dimensions on, also divided by half the dimension.
    """

    epsilon: float = eqx.field(default=2e-4, static=True)

    def __check_init__(self) -> None:
        if not 0 < self.epsilon < 0.1:
            raise ValueError(
                f"`Spheres(epsilon=...)` must lie between 0 and 0.1, as a fraction of the "
                f"domain's diameter; got {self.epsilon}. Try 2e-4."
            )

    def check(self, problem: Problem) -> None:
        """Refuse a problem that a walk on spheres does not solve."""
        instead = "Try a time stepper, such as `Heun`."
        if problem.timed:
            raise ValueError(
                f"`Spheres` solves elliptic problems; got one with `horizon`={problem.horizon}. "
                f"{instead}"
            )
        if problem.jumps is not None:
            raise ValueError(f"`Spheres` are for paths without jumps; got `jumps`. {instead}")
        diffusion, reaction = problem.diffusion, problem.reaction
        if not problem.dynamics.is_isotropic_constant:
            kind = "a function" if diffusion.function is not None else f"{diffusion.constant}"
            raise ValueError(
                f"`Spheres` needs a constant, isotropic and nonzero `diffusion`; got {kind}. "
                f"{instead}"
            )
        if not problem.drift.is_zero:
            raise ValueError(f"`Spheres` needs a zero `drift`; got a nonzero one. {instead}")
        if reaction.function is not None or _number(reaction.constant) < 0:
            kind = "a function" if reaction.function is not None else f"{reaction.constant}"
            raise ValueError(
                f"`Spheres` needs a `reaction` that is a constant and not negative; got {kind}. "
                f"{instead}"
            )
        for part, condition in problem.boundary.items():
            if not condition.absorbs:
                raise ValueError(
                    f"`Spheres` needs `Dirichlet` on each boundary part; got "
                    f"{type(condition).__name__} on {part!r}. {instead}"
                )
        if not problem.domain.is_bounded():
            raise ValueError(
                "`Spheres` needs a bounded domain, since `epsilon` is a fraction of its diameter. "
                "Intersect it with a large `Box`."
            )

    @property
    def stepped(self) -> bool:
        """No."""
        return False

    def need(self, problem: Problem) -> Need:
        """A direction; and uniforms for the place of the source and for the end."""
        return Need(problem.dim, 3)

    def round(self, problem: Problem) -> int:
        """Few: a walk in the plane takes about a dozen, and grows with the dimension."""
        return 8 if problem.dim < 5 else 16

    def fits_kernel(self, problem: Problem) -> bool:
        """In few dimensions; in more it compiles for minutes, and walks take few steps."""
        return problem.dim <= FEW_DIMENSIONS

    def begin(self, problem: Problem, lane: Lane) -> Lane:
        """Nothing to prepare."""
        return lane

    def advance(self, problem: Problem, control: Control, lane: Lane, numbers: Numbers) -> Lane:
        """Jump from sphere to sphere."""
        assert control is None
        need, shell = self.need(problem), self._shell(problem, lane.x.dtype)
        for k in range(len(numbers.normals) // need.normals):
            lane = lane.then(_step(problem, lane, *numbers.of_step(k, need), shell))
        return lane

    def finish(self, problem: Problem, lane: Lane) -> Scalar:
        """The boundary value, unless the walk was cut."""
        discount = 1.0 if lane.log_discount is None else jnp.exp(lane.log_discount)
        value = discount * absorbed_value(
            problem, _at(problem, lane, lane.domain(problem).project(lane.x))
        )
        if lane.late is not None:
            value = jnp.where(lane.late > 0, 0.0, value)
        payoff = lane.payoff + lane.partial + value
        return jnp.where(jnp.all(jnp.isfinite(lane.x)), payoff, jnp.nan)

    def _shell(self, problem: Problem, dtype) -> float:
        """Width of the layer in which a walk ends, not below what rounding can resolve."""
        reach = float(np.max(np.abs(problem.domain.bounding_box())))
        return max(self.width(problem), 8 * float(jnp.finfo(dtype).eps) * reach)

    def width(self, problem: Problem) -> float:
        r"""Distance from the boundary at which a walk may end.

        The diameter is that of a box, $2R\sqrt{d}$ around a ball. Solutions in a ball of radius $R$
        bend as $d\,u'/R$ next to its boundary, so that the layer is to be as thin as $R/\sqrt{d}$.
        """
        return self.epsilon * problem.domain.diameter() / max(problem.dim / 2, 1.0)


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


def _step(problem: Problem, lane: Lane, noise: Vector, uniform: Array, shell: float) -> Lane:
    """Jump to a sphere or, close to the boundary, end or step back."""
    distance = lane.domain(problem).signed_distance(lane.x)
    noise = noise + 1e-15  # in single precision, one pair of normals in 2**25 is zero
    direction = noise / jnp.sqrt(jnp.sum(noise**2))
    near = ~(distance < -shell)
    jumped = _jump(problem, lane, distance, direction, uniform)
    ended = _end(problem, lane, uniform[2], shell)
    moved = jax.tree.map(lambda a, b: jnp.where(near, a, b), ended, jumped)
    step = lane.step + np.uint32(1)
    running = (moved.running > 0) & jnp.all(jnp.isfinite(moved.x))
    if lane.log_discount is not None:
        running = running & ~(moved.log_discount < math.log(FORGET))
    if lane.n_steps is not None:
        late = running & (step >= lane.n_steps)
        moved, running = moved._replace(late=late.astype(jnp.int32)), running & ~late
    return moved._replace(step=step, running=running.astype(jnp.int32))


def _jump(problem: Problem, lane: Lane, distance: Scalar, direction: Vector, uniform) -> Lane:
    """From the center of a ball to a point of its sphere."""
    d, x = problem.dim, lane.x
    sigma, c = _constants(problem)
    radius = -distance
    if c > 0:  # where the discount is strong, large balls would make rare, heavy source samples
        radius = jnp.minimum(radius, sigma * math.sqrt(d / c))
    time = radius**2 / (d * sigma**2)
    partial, log_discount = lane.partial, lane.log_discount
    if lane.visit is not None or not problem.source.is_zero:
        inner, outer = source_radii(uniform[0], uniform[1], d)
        # Opposite to the jump: means add up whatever the dependence, and where the source is
        # high on the same side as the solution, the two errors partly cancel.
        inside, spent = x - radius * inner * direction, time
        if log_discount is not None:
            spent = jnp.exp(log_discount) * source_weight(c * time, inner, outer, d) * time
        partial = partial + spent * problem.source(_at(problem, lane, inside))
        lane = lane.saw(inside, spent)
    if log_discount is not None:
        log_discount = log_discount - jnp.log(screening(c * time, d))
    return lane._replace(x=x + radius * direction, partial=partial, log_discount=log_discount)


def _end(problem: Problem, lane: Lane, uniform: Scalar, shell: float) -> Lane:
    r"""Leave through the boundary, or step back to the far side of a layer of width $L$.

    At distance $\delta$ a path leaves a flat layer through the boundary with probability
    $1 - \delta/L$, after a mean time $\delta(L - \delta)/\sigma^2$. To stop at once instead would
    be wrong by $\delta$ times the slope.
    """
    sigma, c = _constants(problem)
    foot = lane.domain(problem).project(lane.x)
    inward = lane.x - foot
    depth = jnp.minimum(jnp.sqrt(jnp.sum(inward**2)), shell)
    width = _LAYER * shell
    time = depth * (width - depth) / sigma**2
    partial, log_discount = lane.partial, lane.log_discount
    if lane.visit is not None or not problem.source.is_zero:
        spent = time if log_discount is None else jnp.exp(log_discount) * time
        partial = partial + spent * problem.source(_at(problem, lane, lane.x))
        lane = lane.saw(lane.x, spent)
    if log_discount is not None:
        log_discount = log_discount - jnp.log1p(c * time)
    back = uniform * width < depth
    x = jnp.where(back, foot + inward * (width / jnp.where(back, depth, 1.0)), lane.x)
    running = back.astype(jnp.int32)
    return lane._replace(x=x, partial=partial, log_discount=log_discount, running=running)


def _at(problem: Problem, lane: Lane, x: Point) -> SpaceTimePoint:
    return lane.at(problem.layout, x)


def _constants(problem: Problem) -> tuple[float, float]:
    return abs(_number(problem.diffusion.constant)), _number(problem.reaction.constant)


def _number(constant) -> float:
    return float(np.asarray(constant))
