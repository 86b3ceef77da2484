r"""Walk on spheres of a stable process: exact, in any dimension, without a time step.

From the center of a ball of radius $r$ the process leaves by a jump, in a uniform direction and to
the distance $r/\sqrt{s}$ with $s$ of the law Beta$(\alpha/2, 1-\alpha/2)$; before, it spends a mean
time $r^\alpha/K$ at places $r\sqrt{w}\,v^{1/\alpha}$ from the center, $w$ of the law
Beta$(d/2, \alpha/2)$ and $v$ uniform (Blumenthal, Getoor and Ray, Trans. Amer. Math. Soc. 99, 1961;
Kyprianou, Osojnik and Shardlow, IMA J. Numer. Anal. 38, 2018).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._types import Point, Scalar
from ..problem import Problem, Stable
from ._lane import AbstractWalk, Control, Lane, Need, Numbers

_FARTHEST = 1e-30  # s of the longest jump: squares of places stay finite in single precision


class StableSpheres(AbstractWalk):
    r"""Walk on spheres for $-c^\alpha(-\Delta)^{\alpha/2}u + f = 0$, with $u$ given outside.

    Every domain with a distance to its boundary, every source, any data outside.
    """

    def check(self, problem: Problem) -> None:
        """Refuse a problem that has anything but jumps of a stable process in it."""
        instead = "Try `scheme='euler'`, which has a time step."
        if not isinstance(problem.jumps, Stable):
            raise ValueError(f"`StableSpheres` needs `jumps=Stable(alpha)`. {instead}")
        for name, given in (
            ("diffusion", problem.diffusion), ("drift", problem.drift),
            ("reaction", problem.reaction),
        ):  # fmt: skip
            if not given.is_zero:
                raise ValueError(f"`StableSpheres` needs a zero `{name}`. {instead}")
        if problem.timed:
            raise ValueError(f"`StableSpheres` simulate no time; got a `horizon`. {instead}")
        if not problem.domain.parts:
            raise ValueError(f"`StableSpheres` need a domain that is not all of space. {instead}")

    @property
    def stepped(self) -> bool:
        """No."""
        return False

    @property
    def short(self) -> bool:
        """The process soon jumps out."""
        return True

    def need(self, problem: Problem) -> Need:
        """A direction, its distance, and where the source is read unless it is a constant.

        In the plane an angle is a direction, and one number cheaper than two normal ones.
        """
        plane = problem.dim == 2
        return Need(0 if plane else problem.dim, plane + _of_exit(problem) + _of_source(problem))

    def round(self, problem: Problem) -> int:
        """Few: the process soon jumps out."""
        return 2

    def begin(self, problem: Problem, lane: Lane) -> Lane:
        """Nothing to prepare."""
        return lane

    def advance(self, problem: Problem, control: Control, lane: Lane, numbers: Numbers) -> Lane:
        """Jump from ball to ball."""
        assert control is None
        need = self.need(problem)
        for k in range(len(numbers.uniforms) // need.uniforms):
            lane = lane.then(_step(problem, lane, *numbers.of_step(k, need)))
        return lane

    def left(self, problem: Problem, lane: Lane) -> Point:
        """Where the last jump led."""
        return lane.x

    def finish(self, problem: Problem, lane: Lane) -> Scalar:
        """What is given outside, unless the walk was cut."""
        assert problem.exterior is not None
        value = problem.exterior(lane.x)
        if lane.late is not None:
            value = jnp.where(lane.late > 0, 0.0, value)
        payoff = lane.payoff + lane.partial + value
        return jnp.where(jnp.all(jnp.isfinite(lane.x)), payoff, jnp.nan)


def exit_shares(alpha: float, uniforms: Float[Array, " k"]) -> tuple[Scalar, Bool[Array, ""]]:
    r"""$s$ of the law Beta$(\alpha/2, 1 - \alpha/2)$ from two uniforms, and whether to take it.

    By Johnk's rejection, which takes at least 78 % of the pairs; for $\alpha = 1$ by a formula of
    one.
    """
    if alpha == 1.0:
        return on_circle(0.25 * uniforms[0])[1] ** 2, jnp.ones((), bool)
    x, y = _power(uniforms[0], 2.0 / alpha), _power(uniforms[1], 2.0 / (2.0 - alpha))
    return x / jnp.maximum(x + y, jnp.finfo(x.dtype).tiny), (x + y) <= 1.0


def on_circle(share: Scalar) -> tuple[Scalar, Scalar]:
    """Cosine and sine of a share of the full turn, between 0 and 1.

    By their series within an eighth of a turn, since those of XLA on CPUs take eight times as long.
    """
    quarter = jnp.round(4.0 * share)
    angle = 0.5 * math.pi * (4.0 * share - quarter)
    square = angle**2
    terms = 8 if share.dtype == jnp.float64 else 5  # the last one is below the precision
    cosine, sine = jnp.ones_like(share), jnp.ones_like(share)
    for k in range(terms, 0, -1):
        cosine = 1.0 - square * cosine / ((2 * k - 1) * (2 * k))
        sine = 1.0 - square * sine / ((2 * k) * (2 * k + 1))
    sine = angle * sine
    turned = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = jnp.where(turned, sine, cosine), jnp.where(turned, cosine, sine)
    left, below = (quarter == 1.0) | (quarter == 2.0), quarter >= 2.0
    below = below & (quarter < 4.0)
    return jnp.where(left, -cosine, cosine), jnp.where(below, -sine, sine)


def source_shares(
    alpha: float, dim: int, uniforms: Float[Array, " k"]
) -> tuple[Scalar, Bool[Array, ""]]:
    r"""Distance from the center where the source is read, over the radius; and whether to take it.

    Beta$(\alpha/2, k)$ is a product of powers of $k$ uniforms; in odd dimensions one factor of the
    law Beta$(\alpha/2, 1/2)$ comes before them, by Johnk's rejection.
    """
    b, rest, taken = 0.5 * alpha, uniforms[1:], jnp.ones((), bool)
    log = jnp.zeros((), uniforms.dtype)
    if dim % 2:
        x, y = rest[0] ** (1.0 / b), rest[1] ** 2
        taken = (x + y) <= 1.0
        log = jnp.log(jnp.maximum(x / (x + y), jnp.finfo(x.dtype).tiny))
        b, rest = b + 0.5, rest[2:]
    for j in range(dim // 2):
        log = log + jnp.log(rest[j]) / (b + j)
    w = -jnp.expm1(log)  # 1 - exp(log)
    return jnp.sqrt(w) * uniforms[0] ** (1.0 / alpha), taken


def _power(x: Scalar, exponent: float) -> Scalar:
    """A power of a number that is not negative; general ones are slow."""
    if exponent == int(exponent):
        return x ** int(exponent)
    if 2.0 * exponent == int(2.0 * exponent):
        return x ** int(exponent) * jnp.sqrt(x)
    return jnp.exp(exponent * jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny)))


def _of_exit(problem: Problem) -> int:
    """Uniforms that the length of a jump takes."""
    assert isinstance(problem.jumps, Stable)
    return 1 if problem.jumps.alpha == 1.0 else 2


def _of_source(problem: Problem) -> int:
    """Uniforms that the place of the source takes."""
    if problem.source.function is None:
        return 0
    return 1 + problem.dim // 2 + 2 * (problem.dim % 2)


def _step(
    problem: Problem, lane: Lane, noise: Float[Array, " d"], uniform: Float[Array, " w"]
) -> Lane:
    """Leave the largest ball around the path that lies in the domain."""
    jumps, d = problem.jumps, problem.dim
    assert isinstance(jumps, Stable)
    radius = jnp.maximum(-problem.domain.signed_distance(lane.x), 0.0)
    if d == 2:
        direction, uniform = jnp.stack(on_circle(uniform[0])), uniform[1:]
    else:
        noise = noise + 1e-15  # in single precision, one pair of normals in 2**25 is zero
        direction = noise / jnp.sqrt(jnp.sum(noise**2))
    share, taken = exit_shares(jumps.alpha, uniform)
    uniform = uniform[_of_exit(problem) :]
    spent, inside = _power(radius, jumps.alpha) * jumps.ball_time(d), lane.x
    if problem.source.function is not None:
        way, also = source_shares(jumps.alpha, d, uniform)
        inside, taken = lane.x - radius * way * direction, taken & also
    moved = lane.saw(inside, spent)
    partial = lane.partial + spent * problem.source(inside)
    x = lane.x + radius / jnp.sqrt(jnp.maximum(share, _FARTHEST)) * direction
    out = ~(problem.domain.level(x) < 0)  # NaN is out too
    moved = moved._replace(x=x, partial=partial, running=(~out).astype(jnp.int32))
    # a pair that was not taken is a step on the spot
    kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, lane)
    step = lane.step + np.uint32(1)
    running = kept.running > 0
    if lane.n_steps is not None:
        late = running & (step >= lane.n_steps)
        kept, running = kept._replace(late=late.astype(jnp.int32)), running & ~late
    return kept._replace(step=step, running=running.astype(jnp.int32))
