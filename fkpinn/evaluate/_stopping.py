r"""Two bounds of the value of a stopping problem, from any candidate.

Whoever stops when the candidate says so gets at least a lower bound. The dual bound is from above:
for any martingale $M$, the value is at most $\mathbb{E}\max_t(D_t\psi(X_t) - M_t)$ (Rogers: Math.
Finance 12, 2002); the candidate's derivatives make a good one, which takes the noise out of the
lower bound as well. Where the noise is a line, a few other steps from each place tell what these
derivatives miss on average; the rest belongs to the martingale too. Both are for a process that may
be stopped, and is seen to leave the domain, at the grid times of its paths.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, PRNGKeyArray

from .._compute import precision
from .._field import taylor
from .._streams import Stream, fold
from .._types import Scalar, SpaceTimePoint
from ..loss import cast
from ..problem import Problem, reward_of
from ..sde import absorbed_value

_BATCH = 1 << 14
_OTHERS = 16  # steps from every place that tell the mean of the next one, where the noise is a line


class StoppingBounds(NamedTuple):
    """Means of both bounds with their standard errors, and limits that hold the value between."""

    lower: float
    lower_stderr: float
    upper: float
    upper_stderr: float
    low: float
    high: float
    level: float
    n_paths: int
    n_steps: int


def stopping_bounds(
    problem: Problem,
    candidate: Callable[..., Any],
    point: Any,
    *,
    n_paths: int = 1 << 13,
    n_steps: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> StoppingBounds:
    """Lower and upper bounds of the value of a stopping problem at one point.

    Args:
        problem: created by `optimal_stopping`, on all of space or with absorbing walls.
        candidate: its approximate solution: a differentiable function of one point, for example a
            network.
        point: the point, time first.
        n_paths: for each of the bounds.
        n_steps: times at which the process may be stopped.
        level: of confidence, for both limits together.
        seed: seed of all random numbers.
    """
    reward_of(problem)
    if not all(problem.absorbing()):
        raise ValueError("`stopping_bounds` is for problems with absorbing (Dirichlet) walls only.")
    if problem.jumps is not None:
        raise ValueError("`stopping_bounds` is for problems without `jumps`.")
    z = np.asarray(point, np.float64).reshape(-1)
    if z.shape != (problem.n_coords,) or not np.all(np.isfinite(z)):
        raise ValueError(f"`point` must be {problem.n_coords} finite numbers; got {point!r:.80}.")
    if n_paths < 2 or n_steps < 1 or not 0 < level < 1:
        raise ValueError(
            f"`n_paths` must be at least 2, `n_steps` at least 1 and `level` between 0 and 1; got "
            f"{n_paths}, {n_steps}, {level}."
        )
    stream, found = Stream(seed) / "stopping", []
    with precision("float64"):
        w = cast(candidate, "float64")
        start = jnp.asarray(z)
        for batch in range(-(-n_paths // _BATCH)):
            n = min(_BATCH, n_paths - batch * _BATCH)
            key = (stream / batch).key
            found.append(np.asarray(_payoffs(problem, w, start, n, n_steps, key)))
    below, above = np.concatenate(found, axis=1)
    spread = [float(np.std(side, ddof=1)) / math.sqrt(n_paths) for side in (below, above)]
    wide = NormalDist().inv_cdf(0.5 + level / 2)
    lower, upper = float(np.mean(below)), float(np.mean(above))
    return StoppingBounds(
        lower, spread[0], upper, spread[1], lower - wide * spread[0], upper + wide * spread[1],
        level, n_paths, n_steps,
    )  # fmt: skip


@eqx.filter_jit
def _payoffs(
    problem: Problem,
    w: Callable[..., Any],
    start: Float[Array, " z"],
    n: int,
    n_steps: int,
    key: PRNGKeyArray,
) -> Float[Array, "2 n"]:
    """What paths pay that stop by the rule, and the largest gain of those that know all."""
    layout, moves, reward = problem.layout, problem.dynamics, reward_of(problem).reward
    dt = layout.time_left(start) / n_steps

    def one(key: PRNGKeyArray) -> Float[Array, " 2"]:
        def advance(state, k):
            z, discount, martingale, paid, best, running, inside = state
            pays = reward(problem.space(z))
            value = w(z)
            due = (pays > 0) & (value <= pays * (1.0 + 1e-9))
            stops = running & inside & due
            paid = jnp.where(stops, discount * pays - martingale, paid)
            best = jnp.where(inside, jnp.maximum(best, discount * pays - martingale), best)
            running = running & ~stops
            noise = jr.normal(fold(key, "step", k), (moves.noise_dim,), z.dtype)
            push = lambda noise: moves.push(z, jnp.sqrt(dt) * noise)
            still = problem.space(z) + moves.drift(z) * dt
            after = lambda noise: layout.later(z, dt, still + push(noise))
            fallen = discount * jnp.exp(-problem.reaction(z) * dt)
            smooth = _second_order(problem, w, z, dt)
            gain = discount * smooth(noise)
            if moves.noise_dim == 1:  # what that misses, less the mean of it
                misses = lambda noise: fallen * w(after(noise)) - discount * smooth(noise)
                others = _spread_normals(fold(key, "others", k), z.dtype)
                mean = jnp.mean(jax.vmap(lambda noise: misses(noise[None]))(others))
                gain = gain + misses(noise) - mean
            later = after(noise), fallen, martingale + gain
            x = problem.space(later[0])
            kept = jax.tree.map(lambda new, old: jnp.where(inside, new, old), later, state[:3])
            inside = inside & (problem.domain.level(x) < 0)
            return (*kept, paid, best, running, inside), None

        zero = jnp.zeros((), start.dtype)
        yes = jnp.array(True)
        first = start, zero + 1.0, zero, zero, zero - jnp.inf, yes, yes
        last, _ = jax.lax.scan(advance, first, jnp.arange(n_steps, dtype=jnp.uint32))
        z, discount, martingale, paid, best, running, inside = last
        pays = reward(problem.space(z))
        if problem.domain.parts:  # who has left is paid there
            wall = layout.placed(layout.ahead(z), problem.domain.project(problem.space(z)))
            pays = jnp.where(inside, pays, absorbed_value(problem, wall))
        paid = jnp.where(running, discount * pays - martingale, paid)
        return jnp.stack([paid, jnp.maximum(best, discount * pays - martingale)])

    each = lambda number: one(fold(key, "path", number))
    return jax.vmap(each)(jnp.arange(n, dtype=jnp.uint32)).T


def _spread_normals(key: PRNGKeyArray, dtype: Any) -> Float[Array, " n"]:
    """Normals of which there is one in each of as many equally likely intervals.

    Their mean of a function is right on average, whatever it is, so that what is left of a step
    after it is taken off has mean zero; and it is near the true one, next to kinks too.
    """
    u = jr.uniform(key, (), dtype)
    return ndtri((jnp.arange(_OTHERS, dtype=dtype) + jnp.clip(u, 1e-6, 1 - 1e-6)) / _OTHERS)


def _second_order(
    problem: Problem, w: Callable[..., Any], z: SpaceTimePoint, dt: Scalar
) -> Callable[[Float[Array, " m"]], Scalar]:
    """What a step changes but for its mean, by the candidate's first and second derivatives."""
    moves, slope = problem.dynamics, jax.grad(lambda y: w(y))
    trace = taylor(w, z, *moves.directions(z)).curvature

    def change(noise: Float[Array, " m"]) -> Scalar:
        push = moves.push(z, jnp.sqrt(dt) * noise)
        first = jnp.dot(problem.space(slope(z)), push)
        if moves.noise_dim == 1:
            return first + 0.5 * trace * dt * (noise[0] ** 2 - 1.0)
        turn = jax.jvp(slope, (z,), (problem.layout.direction(push),))[1]
        return first + 0.5 * (jnp.dot(problem.space(turn), push) - trace * dt)

    return change
