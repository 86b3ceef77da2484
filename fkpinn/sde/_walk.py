"""Many paths at once, in lanes that are refilled as paths end."""

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from ..problem import Problem
from ._apart import apart
from ._lane import AbstractWalk, Lane, Numbers
from ._random import Stream, ahead, normals, seed_words, uniforms, whole_blocks

_ROUND = 128  # normals a lane draws at a time, about
_LONG = 64  # steps between additions to the payoff, at most


class Plan(NamedTuple):
    """Which paths to run: `n_paths` from each point, cut after `n_steps`.

    With `antithetic`, path `2 j + 1` takes the normals of path `2 j` with the other sign.
    `control` is a function of one point whose gradient makes a martingale to be subtracted.
    """

    problem: Problem
    walk: AbstractWalk
    points: Float[Array, "n z"]
    n_paths: int
    dt: float
    n_steps: int | None
    seed: int
    antithetic: bool = False
    control: Callable[..., Any] | None = None


class Widths(NamedTuple):
    """How many lanes run side by side, from wide to narrow, and how many paths make a batch.

    With `unroll`, the steps of a round are compiled into one piece without a loop.
    """

    lanes: tuple[int, ...]
    batch: int
    threads: int
    unroll: bool = False


def default_widths() -> Widths:
    """Lanes that fit the cache of a core, or that fill an accelerator."""
    if jax.default_backend() == "cpu":
        return Widths((2048, 256, 64), 1 << 16, os.cpu_count() or 1)
    return Widths(tuple(1 << k for k in (18, 17, 16, 15, 14, 13, 12)), 1 << 22, 1, True)


class Ended(NamedTuple):
    """Payoffs of consecutive paths, whether each was cut, and the steps it took."""

    first: int
    payoff: np.ndarray
    late: np.ndarray
    steps: np.ndarray


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
    queue, run = _queue(plan, 0, count), _runner(plan, widths)
    for width in _lanes(widths, count):
        state = _begin(plan, queue, width, count)
        jax.block_until_ready(run(queue, state, jnp.asarray(0)))


def _lanes(widths: Widths, count: int) -> list[int]:
    return [w for w in widths.lanes if w < 2 * count] or [widths.lanes[-1]]


def _steps_a_round(plan: Plan) -> int:
    need, together = plan.walk.need(plan.problem), plan.walk.together(plan.problem)
    block = max(whole_blocks(need.normals), whole_blocks(need.uniforms), together)
    return block * max(1, min(_LONG, _ROUND // need.normals) // block)


def _run_batch(plan: Plan, widths: Widths, batch: tuple[int, int]) -> Ended:
    first, count = batch
    queue, run = _queue(plan, first, count), _runner(plan, widths)
    lanes_at = _lanes(widths, count)
    width = lanes_at.pop(0)
    state = _begin(plan, queue, width, count)
    rounds, work, step = 1, 0, _steps_a_round(plan)
    while True:
        state = run(queue, state, jnp.asarray(rounds))
        left, cursor = int(state.left), int(state.cursor)
        if left == 0 and cursor >= count:
            break
        work += width * rounds * step
        while cursor >= count and lanes_at and left <= lanes_at[0]:
            width = lanes_at.pop(0)
            state = _narrow(state, width)
        length = work / max(cursor - left, 1)  # of a path, about
        rounds = int(np.clip(length / 8 / step, 1, 512))
    late, steps = np.asarray(state.late) > 0, np.asarray(state.taken)
    return Ended(first, np.asarray(state.payoff), late, steps)


class _Queue(NamedTuple):
    points: Float[Array, "z n"]
    base: Any
    offset: Any
    total: Any
    n_paths: Any
    dt: Array
    n_steps: Any
    seed: tuple


def _queue(plan: Plan, first: int, count: int) -> _Queue:
    """The paths of a batch; all points travel, so that batches share compiled code."""
    point, offset = divmod(first, plan.n_paths)
    return _Queue(
        points=plan.points.T,
        base=np.uint32(point),
        offset=np.uint32(offset),
        total=np.uint32(count),
        n_paths=np.uint32(plan.n_paths),
        dt=jnp.asarray(plan.dt, plan.points.dtype),
        n_steps=None if plan.n_steps is None else np.uint32(plan.n_steps),
        seed=tuple(map(jnp.asarray, seed_words(plan.seed))),
    )


class _State(NamedTuple):
    lanes: Lane
    slot: UInt32[Array, " w"]  # where the lane's payoff goes; past the end for an idle lane
    cursor: Array
    left: Array
    payoff: Float[Array, " k"]
    late: Array
    taken: Array  # steps of each path


def _begin(plan: Plan, queue: _Queue, width: int, count: int) -> _State:
    start = functools.partial(_start, plan.problem, plan.walk, queue)
    shapes = jax.eval_shape(jax.vmap(start), jnp.zeros(width, jnp.uint32))
    return _State(
        lanes=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes),
        slot=jnp.full(width, count, jnp.uint32),
        cursor=jnp.asarray(np.uint32(0)),
        left=jnp.asarray(np.int32(0)),
        payoff=jnp.zeros(count, plan.points.dtype),
        late=jnp.zeros(count, jnp.int32),
        taken=jnp.zeros(count, jnp.uint32),
    )


def _narrow(state: _State, width: int) -> _State:
    """Keep the lanes that still run, in fewer lanes."""
    running = np.asarray(state.lanes.running) > 0
    rows = np.concatenate([np.flatnonzero(running), np.flatnonzero(~running)])[:width]
    return state._replace(
        lanes=jax.tree.map(lambda leaf: leaf[rows], state.lanes), slot=state.slot[rows]
    )


class _How(NamedTuple):
    """What is compiled in."""

    problem: Problem
    walk: AbstractWalk
    control: Callable[..., Any] | None
    antithetic: bool
    steps: int
    unroll: bool


def _runner(plan: Plan, widths: Widths):
    how = _How(
        plan.problem, plan.walk, plan.control, plan.antithetic, _steps_a_round(plan), widths.unroll
    )
    arrays, rest = eqx.partition(how, eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    compiled = _compiled(tuple(leaves), tree)
    return functools.partial(compiled, arrays)


@functools.cache
def _compiled(leaves: tuple, tree):
    rest = jax.tree.unflatten(tree, leaves)
    wide = (
        {
            "xla_cpu_prefer_vector_width": 512,
            "xla_cpu_multi_thread_eigen": False,
            "xla_cpu_enable_concurrency_optimized_scheduler": False,
        }
        if jax.default_backend() == "cpu"
        else None
    )

    def run(arrays, queue, state, rounds):
        return _advance(eqx.combine(arrays, rest), queue, state, rounds)

    return jax.jit(run, donate_argnums=2, compiler_options=wide)


def _advance(how: _How, queue: _Queue, state: _State, rounds: Int[Array, ""]) -> _State:
    """Start new paths in idle lanes, run all for some rounds, and harvest those that end."""
    state = _refill(how, queue, state)
    lanes = state.lanes._replace(x=tuple(state.lanes.x.T))  # apart, for the compiler's sake
    lanes = jax.lax.fori_loop(0, rounds, lambda _, lanes: _round(how, queue.seed, lanes), lanes)
    state = state._replace(lanes=lanes._replace(x=jnp.stack(lanes.x, axis=1)))
    return _harvest(how, queue, state)


def _round(how: _How, seed: tuple, lanes: Lane) -> Lane:
    """Some steps in all lanes, and the running sums added to the payoffs."""
    need, together = how.walk.need(how.problem), how.walk.together(how.problem)
    path, dtype, first = lanes.path, lanes.dt.dtype, lanes.step
    of = Stream(seed, lanes.point, path // np.uint32(2) if how.antithetic else path)
    sign = jnp.where(path % np.uint32(2) == 0, 1.0, -1.0).astype(dtype)

    def draw_normals(unit) -> list[Array]:
        drawn = normals(of, unit, need.normals, dtype)
        return [sign * n for n in drawn] if how.antithetic else drawn

    draw_uniforms = lambda unit: uniforms(of, unit, need.uniforms, dtype)
    scalar = jax.ShapeDtypeStruct((), dtype)
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), leaf.dtype), lanes)
    single = single._replace(x=jax.ShapeDtypeStruct((len(lanes.x),), dtype))
    some = Numbers((scalar,) * need.normals * together, (scalar,) * need.uniforms * together)
    advance = functools.partial(how.walk.advance, how.problem, how.control)
    advance = apart(advance, single, some)
    if how.unroll:  # a unit at a time, and no array that holds the numbers of many steps
        drawn = Numbers(
            _rows(draw_normals, first, need.normals, how.steps),
            _rows(draw_uniforms, first, need.uniforms, how.steps),
        )
        for k in range(0, how.steps, together):
            m, w = need.normals, need.uniforms
            own = (drawn.normals[k * m : (k + together) * m], drawn.uniforms[k * w :])
            lanes = advance(lanes, Numbers(own[0], own[1][: together * w]))
    else:
        drawn = Numbers(
            tuple(ahead(draw_normals, first, need.normals, how.steps)),
            tuple(ahead(draw_uniforms, first, need.uniforms, how.steps)),
        )

        def move(k, lanes: Lane) -> Lane:
            steps = range(together)
            pick = lambda numbers: tuple(n[k * together + j] for j in steps for n in numbers)
            return advance(lanes, Numbers(pick(drawn.normals), pick(drawn.uniforms)))

        lanes = jax.lax.fori_loop(0, how.steps // together, move, lanes)
    return lanes._replace(
        payoff=lanes.payoff + lanes.partial, partial=jnp.zeros_like(lanes.partial)
    )


def _rows(draw: Callable[..., list[Array]], first: Array, each: int, steps: int) -> tuple:
    """The numbers of many steps, each an array of its own."""
    if each == 0:
        return ()
    unit = whole_blocks(each)
    start = first // np.uint32(unit)
    return tuple(n for k in range(steps // unit) for n in draw(start + np.uint32(k)))


def _refill(how: _How, queue: _Queue, state: _State) -> _State:
    idle = state.lanes.running == 0
    number = state.cursor + jnp.cumsum(idle, dtype=jnp.uint32) - np.uint32(1)
    fresh = idle & (number < queue.total)
    start = functools.partial(_start, how.problem, how.walk, queue)
    new = jax.vmap(start)(jnp.minimum(number, queue.total - np.uint32(1)))
    like = lambda leaf: fresh.reshape(fresh.shape + (1,) * (leaf.ndim - 1))
    lanes = jax.tree.map(lambda a, b: jnp.where(like(a), a, b), new, state.lanes)
    return state._replace(
        lanes=lanes,
        slot=jnp.where(fresh, number, jnp.where(idle, queue.total, state.slot)),
        cursor=jnp.minimum(state.cursor + jnp.sum(idle, dtype=jnp.uint32), queue.total),
    )


def _harvest(how: _How, queue: _Queue, state: _State) -> _State:
    lanes = state.lanes
    over = lanes.running == 0
    slot = jnp.where(over, state.slot, queue.total)
    payoff = jax.vmap(functools.partial(how.walk.finish, how.problem))(lanes)
    late = jnp.zeros_like(lanes.running) if lanes.late is None else lanes.late
    return state._replace(
        payoff=state.payoff.at[slot].set(payoff, mode="drop"),
        late=state.late.at[slot].set(late, mode="drop"),
        taken=state.taken.at[slot].set(lanes.step, mode="drop"),
        slot=jnp.where(over, queue.total, state.slot),
        left=jnp.sum(lanes.running, dtype=jnp.int32),
    )


def _start(problem: Problem, walk: AbstractWalk, queue: _Queue, number: Array) -> Lane:
    """The path of that number, about to take its first step."""
    total = queue.offset + number
    row = queue.base + total // queue.n_paths
    z = queue.points[:, row]
    zero = jnp.zeros_like(queue.dt)
    dt, n_steps, start = queue.dt, queue.n_steps, None
    if problem.horizon is not None:  # equal steps that end at the horizon
        left = jnp.maximum(problem.horizon - z[0], 0.0)
        whole = jnp.maximum(jnp.ceil(left / queue.dt - 1e-3), 1.0)
        dt, n_steps, start = left / whole, whole.astype(jnp.uint32), z[0]
    lane = Lane(
        point=row,
        path=total % queue.n_paths,
        step=jnp.zeros((), jnp.uint32),
        n_steps=None if n_steps is None else jnp.asarray(n_steps),
        start=start,
        dt=dt,
        x=problem.space(z),
        log_discount=zero if walk.discounts(problem) else None,
        payoff=zero,
        partial=zero,
        running=jnp.ones((), jnp.int32),
        late=None if n_steps is None else jnp.zeros((), jnp.int32),
    )
    return walk.begin(problem, lane)
