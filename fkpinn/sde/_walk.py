"""Many paths at once, in lanes that are refilled as paths end."""

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..problem import Problem
from ._path import Lane, Scheme, advance, finish, steps_per_block
from ._random import Stream, normals, seed_words

_LANE_AXES: Any = Lane._make(1 if name == "x" else 0 for name in Lane._fields)
_NEVER = 2**32 - 1
_AHEAD = 8  # blocks of normals drawn at a time


class Plan(NamedTuple):
    """Which paths to run: `n_paths` from each point, cut after `n_steps`."""

    problem: Problem
    scheme: Scheme
    points: Float[Array, "n z"]
    n_paths: int
    dt: float
    n_steps: int | None
    seed: int


class Widths(NamedTuple):
    """How many lanes run side by side, from wide to narrow, and how many paths make a batch."""

    lanes: tuple[int, ...]
    batch: int
    threads: int


def default_widths() -> Widths:
    """Lanes that fit the cache of a core, or that fill an accelerator."""
    if jax.default_backend() == "cpu":
        return Widths((4096, 512), 1 << 16, os.cpu_count() or 1)
    return Widths((1 << 19, 1 << 15, 1 << 11), 1 << 22, 1)


class Ended(NamedTuple):
    """Payoffs of consecutive paths, whether each was cut, and the steps all of them took."""

    first: int
    payoff: np.ndarray
    late: np.ndarray
    path_steps: int


def run_batches(
    plan: Plan, batches: list[tuple[int, int]], widths: Widths | None = None
) -> Iterator[Ended]:
    """Run ranges of path numbers (path `i` starts at point `i // n_paths`), several at a time."""
    widths = widths or default_widths()
    run = functools.partial(_run_batch, plan, widths)
    if widths.threads == 1 or len(batches) == 1:
        yield from map(run, batches)
        return
    with ThreadPoolExecutor(widths.threads) as pool:
        yield from pool.map(run, batches)


def compile_batch(plan: Plan, widths: Widths, count: int) -> None:
    """Compile what a batch of that many paths needs, without running a path."""
    queue = _queue(plan, 0, count)
    for width in _lanes(widths, count):
        state = _begin(plan.problem.dim, width, count, plan.points.dtype)
        jax.block_until_ready(_advance(plan.problem, plan.scheme, queue, state, jnp.asarray(0)))


def _lanes(widths: Widths, count: int) -> list[int]:
    return [w for w in widths.lanes if w < 2 * count] or [widths.lanes[-1]]


def _run_batch(plan: Plan, widths: Widths, batch: tuple[int, int]) -> Ended:
    first, count = batch
    queue = _queue(plan, first, count)
    lanes_at = _lanes(widths, count)
    width = lanes_at.pop(0)
    state = _begin(plan.problem.dim, width, count, plan.points.dtype)
    rounds, work = 1, 0
    steps_a_round = _AHEAD * steps_per_block(plan.problem.noise_dim)
    while True:
        state = _advance(plan.problem, plan.scheme, queue, state, jnp.asarray(rounds))
        left, cursor = int(state.left), int(state.cursor)
        if left == 0 and cursor >= count:
            break
        work += width * rounds * steps_a_round
        if cursor >= count and lanes_at and left <= lanes_at[0]:
            width = lanes_at.pop(0)
            state = _narrow(state, width)
        length = work / max(cursor - left, 1)  # of a path, about
        rounds = int(np.clip(length / 8 / steps_a_round, 1, 512))
    taken = int(np.sum(np.asarray(state.taken), dtype=np.int64))
    return Ended(first, np.asarray(state.payoff), np.asarray(state.late), taken)


def _queue(plan: Plan, first: int, count: int) -> "_Queue":
    """The paths of a batch; all points travel, so that batches share compiled code."""
    point, offset = divmod(first, plan.n_paths)
    points = plan.points
    return _Queue(
        points=points.T,
        base=np.uint32(point),
        offset=np.uint32(offset),
        total=np.uint32(count),
        n_paths=np.uint32(plan.n_paths),
        dt=jnp.asarray(plan.dt, points.dtype),
        n_steps=np.uint32(_NEVER if plan.n_steps is None else plan.n_steps),
        seed=tuple(map(jnp.asarray, seed_words(plan.seed))),
    )


class _Queue(NamedTuple):
    points: Float[Array, "z n"]
    base: Any
    offset: Any
    total: Any
    n_paths: Any
    dt: Array
    n_steps: Any
    seed: tuple


class _State(NamedTuple):
    lanes: Lane
    slot: Int[Array, " w"]  # where the lane's payoff goes; past the end for an idle lane
    cursor: Array
    left: Array
    payoff: Float[Array, " k"]
    late: Array
    taken: Array  # steps of each path


def _begin(dim: int, width: int, count: int, dtype) -> _State:
    zero, none = jnp.zeros(width, dtype), jnp.zeros(width, jnp.uint32)
    lanes = Lane(
        none, none, none, none, zero, zero, jnp.zeros((dim, width), dtype),
        zero, zero, zero, jnp.zeros(width, bool), jnp.zeros(width, bool),
    )  # fmt: skip
    return _State(
        lanes=lanes,
        slot=jnp.full(width, count, jnp.uint32),
        cursor=jnp.asarray(np.uint32(0)),
        left=jnp.asarray(np.int32(0)),
        payoff=jnp.zeros(count, dtype),
        late=jnp.zeros(count, bool),
        taken=jnp.zeros(count, jnp.uint32),
    )


def _narrow(state: _State, width: int) -> _State:
    """Keep the lanes that still run, in fewer lanes."""
    running = np.asarray(state.lanes.running)
    rows = np.concatenate([np.flatnonzero(running), np.flatnonzero(~running)])[:width]
    lanes = Lane(*(leaf[..., rows] for leaf in state.lanes))
    return state._replace(lanes=lanes, slot=state.slot[rows])


@eqx.filter_jit
def _advance(
    problem: Problem, scheme: Scheme, queue: _Queue, state: _State, rounds: Int[Array, ""]
) -> _State:
    """Harvest ended paths, start new ones in their lanes, and run all for some rounds."""
    count = problem.noise_dim * steps_per_block(problem.noise_dim)
    block_steps = np.uint32(steps_per_block(problem.noise_dim))

    def one_block(lane: Lane, numbers: tuple[Array, ...]) -> Lane:
        # coordinates travel as separate arrays, which the compiler keeps apart
        moved = advance(problem, scheme, lane._replace(x=jnp.stack(lane.x)), queue.seed, numbers)
        return moved._replace(x=tuple(moved.x))

    def one_round(_, lanes: Lane) -> Lane:
        of = Stream(queue.seed, lanes.point, lanes.path)
        numbers = normals(of, lanes.step // block_steps, count, _AHEAD, lanes.dt.dtype)

        def block(k, lanes):
            return jax.vmap(one_block)(lanes, tuple(n[k] for n in numbers))

        return jax.lax.fori_loop(0, _AHEAD, block, lanes)

    start = jax.vmap(lambda i: _start(problem, queue, i), in_axes=(0,), out_axes=_LANE_AXES)
    end = jax.vmap(lambda lane: finish(problem, scheme, lane), in_axes=(_LANE_AXES,))

    def refill(state: _State) -> _State:
        idle = ~state.lanes.running
        number = state.cursor + jnp.cumsum(idle, dtype=jnp.uint32) - 1
        fresh = idle & (number < queue.total)
        new = start(jnp.minimum(number, queue.total - 1))
        pick = lambda a, b: jnp.where(fresh, a, b)
        lanes = Lane(*(pick(a, b) for a, b in zip(new, state.lanes, strict=True)))
        lanes = lanes._replace(running=fresh | (state.lanes.running & ~idle))
        return state._replace(
            lanes=lanes,
            slot=jnp.where(fresh, number, jnp.where(idle, queue.total, state.slot)),
            cursor=jnp.minimum(state.cursor + jnp.sum(idle, dtype=jnp.uint32), queue.total),
        )

    def harvest(state: _State) -> _State:
        over = ~state.lanes.running
        slot = jnp.where(over, state.slot, queue.total)
        return state._replace(
            payoff=state.payoff.at[slot].set(end(state.lanes), mode="drop"),
            late=state.late.at[slot].set(state.lanes.late, mode="drop"),
            taken=state.taken.at[slot].set(state.lanes.step, mode="drop"),
            slot=jnp.where(over, queue.total, state.slot),
        )

    state = refill(state)
    lanes = state.lanes._replace(x=tuple(state.lanes.x))
    lanes = jax.lax.fori_loop(0, rounds, one_round, lanes)
    state = harvest(state._replace(lanes=lanes._replace(x=jnp.stack(lanes.x))))
    return state._replace(left=jnp.sum(state.lanes.running, dtype=jnp.int32))


def _start(problem: Problem, queue: _Queue, number: Array) -> Lane:
    """The path of that number, about to take its first step."""
    total = queue.offset + number
    row = queue.base + total // queue.n_paths
    z = queue.points[:, row]
    zero = jnp.zeros_like(queue.dt)
    dt, n_steps, begin = queue.dt, queue.n_steps, zero
    if problem.horizon is not None:  # equal steps that end at the horizon
        left = jnp.maximum(problem.horizon - z[0], 0.0)
        whole = jnp.maximum(jnp.ceil(left / queue.dt - 1e-3), 1.0)
        dt, n_steps, begin = left / whole, whole.astype(jnp.uint32), z[0]
    none = jnp.zeros((), jnp.uint32)
    yes, no = jnp.array(True), jnp.array(False)
    x = problem.space(z)
    point, path = row, total % queue.n_paths
    return Lane(point, path, none, n_steps, begin, dt, x, zero, zero, zero, yes, no)
