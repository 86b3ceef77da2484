"""Many Euler paths of the diffusion behind a problem, run until they leave the domain."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._progress import AbstractProgress
from .._types import Point, Scalar
from ..problem import Dirichlet, Neumann, Problem, Robin

_FORGOTTEN = math.log(1e-7)  # a path with a smaller discount adds nothing any more
_BLOCK = 256  # steps between two looks at which paths are still running


class Paths(NamedTuple):
    """The state of paths that are still running, one row a path."""

    owner: Int[Array, " k"]
    time: Float[Array, " k"]
    x: Float[Array, "k d"]
    log_discount: Float[Array, " k"]
    payoff: Float[Array, " k"]
    running: Bool[Array, " k"]
    key: PRNGKeyArray


class Payoffs(NamedTuple):
    """Payoff of every path, by starting point, and how many were cut short."""

    payoff: Float[np.ndarray, "n k"]
    unfinished: Int[np.ndarray, " n"]
    path_steps: int


def run_paths(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    dt: float,
    n_paths: int,
    t_max: float,
    progress: AbstractProgress,
    key: PRNGKeyArray,
) -> Payoffs:
    """Run `n_paths` paths from each point until they leave, or until `t_max`.

    Finished paths are removed as the run goes on, so the work is in proportion to the number
    of steps really taken.
    """
    n, total = len(points), len(points) * n_paths
    paths = _start(problem, points, n_paths, key)
    payoff, unfinished = np.zeros(total), np.zeros(total, dtype=bool)
    steps_left = np.inf if np.isinf(t_max) else int(np.ceil(t_max / dt))
    done, path_steps = 0, 0
    progress.start("labels", total)
    while done < total and steps_left > 0:
        steps = int(min(_BLOCK, steps_left))
        paths, taken = _advance(problem, paths, dt, steps)
        path_steps += int(taken)
        steps_left -= steps
        finished = ~np.asarray(paths.running)
        owner = np.asarray(paths.owner)
        ended = finished & (owner >= 0)
        payoff[owner[ended]] = np.asarray(paths.payoff)[ended]
        done += int(np.count_nonzero(ended))
        paths = _compact(paths, np.flatnonzero(~finished))
        progress.update(done)
    left = np.asarray(paths.owner)[np.asarray(paths.running)]
    payoff[left] = np.asarray(paths.payoff)[np.asarray(paths.running)]
    unfinished[left] = True
    return Payoffs(
        payoff.reshape(n, n_paths), unfinished.reshape(n, n_paths).sum(axis=1), path_steps
    )


def _start(problem: Problem, points, n_paths: int, key: PRNGKeyArray) -> Paths:
    rows = jnp.repeat(points, n_paths, axis=0)
    k = rows.shape[0]
    zero = jnp.zeros(k, rows.dtype)
    return Paths(
        owner=jnp.arange(k),
        time=rows[:, 0] if problem.timed else zero,
        x=rows[:, 1:] if problem.timed else rows,
        log_discount=zero,
        payoff=zero,
        running=jnp.ones(k, bool),
        key=jr.split(key, k),
    )


def _compact(paths: Paths, keep: np.ndarray) -> Paths:
    """Keep the given rows, padded to a power of two with rows that do nothing."""
    size = max(1024, 1 << int(np.ceil(np.log2(max(len(keep), 1)))))
    if size >= paths.owner.shape[0]:
        return paths._replace(owner=jnp.where(paths.running, paths.owner, -1))
    rows = np.concatenate([keep, np.zeros(size - len(keep), keep.dtype)])
    real = jnp.arange(size) < len(keep)
    paths = jax.tree.map(lambda a: a[rows], paths)
    return paths._replace(owner=jnp.where(real, paths.owner, -1), running=real & paths.running)


@eqx.filter_jit
def _advance(problem: Problem, paths: Paths, dt: float, steps: int) -> tuple[Paths, Array]:
    width = jnp.asarray(dt, paths.x.dtype)
    step = jax.vmap(lambda path: _step(problem, path, width))

    def body(_, state):
        paths, taken = state
        return step(paths), taken + jnp.sum(paths.running)

    return jax.lax.fori_loop(0, steps, body, (paths, jnp.array(0)))


def _step(problem: Problem, path: Paths, dt: Scalar) -> Paths:
    """One Euler step of alg:fk-mc; a path that has ended stays as it is."""
    key, noise_key = jr.split(path.key)
    z = _join(problem, path.time, path.x)
    noise = jnp.sqrt(dt) * jr.normal(noise_key, (problem.noise_dim,), path.x.dtype)
    x = path.x + problem.drift(z) * dt + problem.sigma(z) @ noise
    payoff = path.payoff + jnp.exp(path.log_discount) * problem.source(z) * dt
    log_discount = path.log_discount - problem.reaction(z) * dt
    time = path.time + dt
    hit = ~problem.domain.contains(x)
    ended = hit
    if not all(isinstance(c, Dirichlet) for c in problem.conditions()):
        x, payoff, log_discount, ended = _reflect(problem, time, x, payoff, log_discount, hit)
    boundary_value = _absorbed_value(problem, time, x)
    last = jnp.where(ended, boundary_value, 0.0)
    if problem.horizon is not None and problem.terminal is not None:
        over = time >= problem.horizon - 0.5 * dt
        last = jnp.where(ended, boundary_value, problem.terminal(x))
        ended = ended | over
    payoff = jnp.where(ended, payoff + jnp.exp(log_discount) * last, payoff)
    ended = ended | (log_discount < _FORGOTTEN)
    moved = Paths(path.owner, time, x, log_discount, payoff, ~ended, key)
    return jax.tree.map(lambda new, old: jnp.where(path.running, new, old), moved, path)


def _join(problem: Problem, time: Scalar, x: Point) -> Array:
    return jnp.concatenate([time[None], x]) if problem.timed else x


def _absorbed_value(problem: Problem, time: Scalar, x: Point) -> Scalar:
    """Dirichlet data of the part nearest to `x`, read at the point itself."""
    part = problem.domain.part_at(x)
    z = _join(problem, time, x)
    value = jnp.zeros_like(time)
    for index, condition in enumerate(problem.conditions()):
        if isinstance(condition, Dirichlet):
            value = jnp.where(part == index, condition.value(z), value)
    return value


def _reflect(problem: Problem, time, x, payoff, log_discount, hit):
    """Mirror a path that crossed a reflecting part; collect flux by the local time there."""
    domain = problem.domain
    part = domain.part_at(x)
    overshoot, normal = domain.signed_distance(x), domain.normal(x)
    mirrored = x - 2.0 * overshoot * normal
    # next to a corner the mirror image may be outside too: fall back to the boundary
    mirrored = jnp.where(domain.contains(mirrored), mirrored, domain.project(x))
    z = _join(problem, time, domain.project(x))
    ended = hit
    for index, condition in enumerate(problem.conditions()):
        if not isinstance(condition, (Neumann, Robin)):
            continue
        here = hit & (part == index)
        local_time = jnp.where(here, 2.0 * overshoot, 0.0)
        payoff = payoff + jnp.exp(log_discount) * condition.flux(z) * local_time
        if isinstance(condition, Robin):
            log_discount = log_discount - condition.coefficient(z) * local_time
        x = jnp.where(here, mirrored, x)
        ended = ended & ~here
    return x, payoff, log_discount, ended
