"""Many paths at once, in lanes that are refilled as paths end."""

import functools
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, UInt32

from .._compute import OVER_DEVICES, Lanes, current, in_context
from .._together import fetched, placed, several
from ..problem import Problem
from ._apart import apart
from ._jump import jumped, start_jumping
from ._lane import NEAR, AbstractWalk, Lane, Numbers, Varying, Visit
from ._path import Scheme
from ._random import (
    PathStream,
    ahead,
    normal_rows,
    normals,
    seed_words,
    uniform_rows,
    uniforms,
    whole_blocks,
    words,
)

_NORMALS = 128  # a lane draws at a time, at most
_POINTS = 1 << 12  # least room for points; no more than a few MB
_VISITS, _JUMPS = 2, 3  # uses of random words, after normals and uniforms
_NOT_WORTH_MOVING = 1 << 20  # payoffs from the device that nobody asked for
_PACK = 0.75  # share of lanes that still run, below which these are brought together
_THREADS = 128, 256  # lanes of a kernel's block, in narrow and in wide launches

_numbers: Callable[..., Numbers] = Numbers  # of tuples, where vectors are apart


class Plan(NamedTuple):
    """Which paths to run: `n_paths` from each point, cut after `n_steps`.

    With `antithetic`, path `2 j + 1` takes the normals of path `2 j` with the other sign.
    `control` is a function of one point whose gradient makes a martingale to be subtracted. Of a
    batch, `visits` paths or fewer, spread evenly, hand back a place they visited. Where steps vary,
    they are shorter in less than `near` times their reach from a wall. Of a family, `dt` is the
    step where the variance of the noise is `noise`, and others reach as far; 0 if all have `dt`.
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
    visits: int = 0
    near: float = NEAR
    noise: float = 0.0


class Visits(NamedTuple):
    """Of some paths: a place drawn from the occupation measure, and where the path left.

    `time` is the discounted time a path took, so `time * f(point)` has the mean of the integral of
    `f` along the path; `discount` is that at its end, and `start` the row of its first point.
    """

    start: np.ndarray
    point: np.ndarray
    time: np.ndarray
    exit: np.ndarray
    discount: np.ndarray


class Ended(NamedTuple):
    """Payoffs of consecutive paths, whether each was cut, and the steps it took."""

    first: int
    payoff: np.ndarray
    late: np.ndarray
    steps: np.ndarray
    visits: Visits | None = None


def run_batches(
    plan: Plan, batches: list[tuple[int, int]], lanes: Lanes | None = None
) -> Iterator[Ended]:
    """Run ranges of path numbers (path `i` starts at point `i // n_paths`), several at a time."""
    lanes = lanes or current().lanes_for(len(plan.points) * plan.n_paths, plan.problem.dim)
    run = in_context(functools.partial(_run_batch, plan, lanes))
    if lanes.threads == 1 or len(batches) == 1 or _mesh() is not None:
        yield from map(run, batches)
        return
    with ThreadPoolExecutor(lanes.threads) as pool:
        yield from pool.map(run, batches)


def compile_batch(plan: Plan, lanes: Lanes, count: int) -> None:
    """Compile what a batch of that many paths needs, without running a path."""
    work = _shared_out(plan, (0, count))

    def compile_width(width: int) -> None:
        like = work.shapes if work.mesh is None else work.begin
        state = like(plan, lanes, width)
        _compiled(plan, lanes, work.queue, state, work.mesh)

    widths = _widths(lanes, work.most)
    if several():  # which all compile in the same order
        list(map(compile_width, widths))
        return
    with ThreadPoolExecutor() as pool:  # one beside the other
        list(pool.map(in_context(compile_width), widths))


def _mesh() -> Mesh | None:
    """The devices of all processes; None if it is one."""
    return current().with_everyone().mesh


def follow(plan: Plan, number: int) -> Iterator[np.ndarray]:
    """The points of the problem that one path visits; for looking, not for speed."""
    queue, walk, dtype = _queue(plan, number, 1, 1), plan.walk, plan.points.dtype
    lane = walk.begin(plan.problem, _start(plan.problem, walk, queue, jnp.zeros((), jnp.uint32)))
    need, together = walk.need(plan.problem), _together(plan)
    advance = eqx.filter_jit(functools.partial(walk.advance, plan.problem, plan.control))
    path = lane.path // np.uint32(2) if plan.antithetic else lane.path
    sign = -1.0 if plan.antithetic and int(lane.path) % 2 else 1.0
    of, steps = PathStream(queue.seed, lane.point[None, None], path[None, None]), _block(plan)
    yield np.asarray(lane.at(plan.problem.layout, lane.x))
    while True:
        first = lane.step[None]
        n = sign * normal_rows(of, first, need.normals, steps, dtype)[0]
        u = uniform_rows(of, first, need.uniforms, steps, dtype)[0]
        for k in range(0, steps, together):
            own = Numbers(n[k : k + together].reshape(-1), u[k : k + together].reshape(-1))
            lane = advance(lane, own)
            yield np.asarray(lane.at(plan.problem.layout, lane.x))
            if int(lane.running) == 0:
                return


def _widths(lanes: Lanes, count: int) -> list[int]:
    return [w for w in lanes.widths if w < 2 * count] or [lanes.widths[-1]]


def _block(plan: "Plan | _How") -> int:
    """Steps, at least, that take whole blocks of random numbers and one look at the source."""
    return max(_unit(plan), _together(plan))


def _unit(plan: "Plan | _How") -> int:
    """Steps that take whole blocks of random numbers."""
    need = plan.walk.need(plan.problem)
    return max(whole_blocks(need.normals), whole_blocks(need.uniforms))


def _are_apart(plan: Plan, lanes: Lanes) -> bool:
    """Whether each coordinate is an array of its own."""
    fits = not lanes.kernel or plan.walk.fits_kernel(plan.problem)
    return plan.problem.dim <= lanes.apart and fits


def _steps_a_round(plan: Plan, lanes: Lanes) -> int:
    block, steps = _block(plan), plan.walk.round(plan.problem)
    if _are_apart(plan, lanes):
        steps = min(steps, _NORMALS // max(plan.walk.need(plan.problem).normals, 1))
    return block * max(1, steps // block)


class _Work(NamedTuple):
    """A batch as pieces of consecutive paths, one a device; without a `mesh` there is one."""

    pieces: list[tuple[int, int]]
    stride: int
    queue: "_Queue"
    mesh: Mesh | None

    @property
    def most(self) -> int:
        """Paths of the largest piece."""
        return max(count for _, count in self.pieces)

    def shapes(self, plan: Plan, lanes: Lanes, width: int) -> "_State":
        """Of the state, on one device."""
        return _shapes(plan, self.queue, width, _room(self.most, lanes.room))

    def begin(self, plan: Plan, lanes: Lanes, width: int) -> "_State":
        """The state of all devices."""
        room = _room(self.most, lanes.room)
        first = _queue(plan, *self.pieces[0], self.stride)
        state = _begin(plan, first, width, room)
        if self.mesh is None:
            return state
        totals = [np.uint32(count) for _, count in self.pieces]
        slots = np.stack([np.full(width, total, np.uint32) for total in totals])
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(self.pieces)), state)
        stacked = stacked._replace(slot=jnp.asarray(slots))
        over = NamedSharding(self.mesh, OVER_DEVICES)
        return placed(stacked, jax.tree.map(lambda _: over, stacked))


def _shared_out(plan: Plan, batch: tuple[int, int]) -> _Work:
    """The work of each device."""
    mesh, stride = _mesh(), _stride(plan, batch[1])
    if mesh is None:
        # numbers too: they would travel anew in every round
        return _Work([batch], stride, jax.device_put(_queue(plan, *batch, stride)), None)
    pieces = _pieces(*batch, mesh.size, stride)
    own = [_queue(plan, *piece, stride) for piece in pieces]
    joined = {name: np.stack([getattr(queue, name) for queue in own]) for name in _OWN}
    queue = own[0]._replace(**joined)
    return _Work(pieces, stride, placed(queue, _places(mesh, _queue_specs(queue))), mesh)


def _pieces(first: int, count: int, n: int, stride: int) -> list[tuple[int, int]]:
    """Consecutive ranges of about equal size that begin where a path hands back its place."""
    size = -(-count // (n * stride)) * stride
    ends = [min(k * size, count) for k in range(n + 1)]
    return [(first + a, b - a) for a, b in itertools.pairwise(ends)]


def _run_batch(plan: Plan, lanes: Lanes, batch: tuple[int, int]) -> Ended:
    work = _shared_out(plan, batch)
    counts = np.array([count for _, count in work.pieces])
    widths = _widths(lanes, work.most)
    width = widths.pop(0)
    state = work.begin(plan, lanes, width)
    run = _compiled(plan, lanes, work.queue, state, work.mesh)
    rounds, done, step, packed = 1, 0, _steps_a_round(plan, lanes), width
    while True:
        state = run(work.queue, state, np.int32(rounds))
        left, cursor = map(np.atleast_1d, fetched((state.left, state.cursor)))
        waiting = bool(np.any(cursor < counts))
        if not waiting and not left.any():
            break
        done += len(counts) * width * rounds * step
        while not waiting and widths and left.max() <= widths[0]:
            width, packed = widths.pop(0), int(left.max())
            state = _narrower(state, width, work.mesh)
            run = _compiled(plan, lanes, work.queue, state, work.mesh)
        if lanes.kernel and not waiting and left.max() < _PACK * packed:  # idle groups cost nothing
            state, packed = _narrower(state, width, work.mesh), int(left.max())
        length = done / max(int(cursor.sum()) - int(left.sum()), 1)  # of a path, about
        share = lanes.refills if waiting else 2  # with nobody waiting there is less to do
        rounds = int(np.clip(length / share / step, 1, 512))
    found = state.payoff, state.late, state.taken
    if state.payoff.shape[-1] - work.most > _NOT_WORTH_MOVING:
        found = _first(found, work.most)
    payoff, late, steps = (_in_order(array, counts) for array in fetched(found))
    return Ended(batch[0], payoff, late, steps, _visits(plan, work, state))


def _in_order(array: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """What the pieces of a batch have found, one after the other."""
    rows = array.reshape(len(counts), -1)
    return np.concatenate([row[:count] for row, count in zip(rows, counts, strict=True)])


@functools.partial(jax.jit, static_argnums=1)
def _first(arrays: tuple, count: int) -> tuple:
    return tuple(array[..., :count] for array in arrays)


def _visits(plan: Plan, work: _Work, state: "_State") -> Visits | None:
    if state.kept is None:
        return None
    kept = list(fetched(state.kept))
    if work.mesh is None:
        kept = [leaf[None] for leaf in kept]
    found = []
    for k, (first, count) in enumerate(work.pieces):
        number = np.arange(0, count, work.stride)
        own = [leaf[k, : len(number)] for leaf in kept]
        found.append(((first + number) // plan.n_paths, *own))
    return Visits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _stride(plan: Plan, count: int) -> int:
    """One path in so many hands back a place."""
    return -(-count // plan.visits) if plan.visits else 1


class _Queue(NamedTuple):
    points: Float[Array, "z n"]
    base: Any
    offset: Any
    total: Any
    n_paths: Any
    dt: Array
    near: Array
    noise: Array | None
    n_steps: Any
    seed: tuple
    stride: Any


_OWN = ("base", "offset", "total")  # what differs between the devices of a batch


def _queue_specs(queue: _Queue) -> _Queue:
    """Which parts of a queue are split over devices."""
    everywhere = jax.tree.map(lambda _: PartitionSpec(), queue)
    return everywhere._replace(**dict.fromkeys(_OWN, OVER_DEVICES))


def _places(mesh: Mesh, specs: Any) -> Any:
    """The same as places for arrays."""
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)


def _queue(plan: Plan, first: int, count: int, stride: int) -> _Queue:
    """The paths of a batch; all points travel, so that batches share compiled code."""
    point, offset = divmod(first, plan.n_paths)
    lacking = _room(len(plan.points), _POINTS) - len(plan.points)
    return _Queue(
        points=jnp.pad(plan.points.T, ((0, 0), (0, lacking))),
        base=np.uint32(point),
        offset=np.uint32(offset),
        total=np.uint32(count),
        n_paths=np.uint32(plan.n_paths),
        dt=jnp.asarray(plan.dt, plan.points.dtype),
        near=jnp.asarray(plan.near, plan.points.dtype),
        noise=jnp.asarray(plan.noise, plan.points.dtype) if plan.noise else None,
        n_steps=None if plan.n_steps is None else np.uint32(plan.n_steps),
        seed=tuple(map(jnp.asarray, seed_words(plan.seed))),
        stride=np.uint32(stride),
    )


class _Kept(NamedTuple):
    """Of some paths, by their number over the stride."""

    point: Float[Array, "k z"]
    time: Float[Array, " k"]
    exit: Float[Array, "k z"]
    discount: Float[Array, " k"]


class _State(NamedTuple):
    lanes: Lane
    slot: UInt32[Array, " w"]  # where the lane's payoff goes; past the end for an idle lane
    cursor: Array
    left: Array
    payoff: Float[Array, " k"]
    late: Array
    taken: Array  # steps of each path
    kept: _Kept | None


def _shapes(plan: Plan, queue: _Queue, width: int, room: int) -> _State:
    """The shapes of a state; to know them is enough for compiling."""
    like: Any = jax.ShapeDtypeStruct
    dtype, kept = plan.points.dtype, None
    if plan.visits:
        wide, one = (plan.visits, plan.problem.n_coords), (plan.visits,)
        kept = _Kept(*(like(shape, dtype) for shape in (wide, one, wide, one)))
    many = lambda leaf: like((width, *leaf.shape), leaf.dtype)
    return _State(
        lanes=jax.tree.map(many, _one_lane(plan, queue)),
        slot=like((width,), jnp.uint32),
        cursor=like((), jnp.uint32),
        left=like((), jnp.int32),
        payoff=like((room,), dtype),
        late=like((room,), jnp.bool_),
        taken=like((room,), jnp.uint32),
        kept=kept,
    )


def _begin(plan: Plan, queue: _Queue, width: int, room: int) -> _State:
    """All lanes idle."""
    shapes = _shapes(plan, queue, width, room)
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return state._replace(slot=jnp.full(width, queue.total, jnp.uint32))


def _one_lane(plan: Plan, queue: _Queue) -> Lane:
    """The shapes of a path; looking at a problem takes longer than starting a kernel."""
    like = lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))
    given = eqx.filter((plan.problem, plan.walk), eqx.is_array)
    rest = eqx.filter((plan.problem, plan.walk), eqx.is_array, inverse=True)
    leaves, tree = jax.tree.flatten((rest, jax.tree.map(like, (given, queue))))
    return _lane_shapes(tuple(leaves), tree, plan.visits > 0)


@functools.lru_cache(maxsize=64)
def _lane_shapes(leaves: tuple, tree: Any, visits: bool) -> Lane:
    rest, (given, queue) = jax.tree.unflatten(tree, leaves)

    def start(given, queue):
        problem, walk = eqx.combine(given, rest)
        return _start(problem, walk, queue, jnp.zeros((), jnp.uint32), visits=visits)

    return jax.eval_shape(start, given, queue)


def _room(count: int, least: int) -> int:
    """Room for so many things, in few sizes: runs then share compiled code."""
    return max(least, 1 << count.bit_length())


@functools.partial(jax.jit, static_argnums=1)
def _narrow(state: _State, width: int) -> _State:
    """Keep the lanes that still run, in fewer lanes."""
    rows = jnp.argsort(state.lanes.running == 0, stable=True)[:width]
    return state._replace(
        lanes=jax.tree.map(lambda leaf: leaf[rows], state.lanes), slot=state.slot[rows]
    )


def _narrower(state: _State, width: int, mesh: Mesh | None) -> _State:
    """The same on every device."""
    if mesh is None:
        return _narrow(state, width)
    return _narrow_on(mesh, width)(state)


@functools.lru_cache(maxsize=16)
def _narrow_on(mesh: Mesh, width: int) -> Callable[[_State], _State]:
    narrow = lambda state: _stacked(_narrow(_unstacked(state), width))
    return jax.jit(
        jax.shard_map(
            narrow, mesh=mesh, in_specs=OVER_DEVICES, out_specs=OVER_DEVICES, check_vma=False
        )
    )


def _stacked(tree: Any) -> Any:
    """What a device has, as its part of what all have."""
    return jax.tree.map(lambda leaf: leaf[None], tree)


def _unstacked(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


class _How(NamedTuple):
    """What is compiled in."""

    problem: Problem
    walk: AbstractWalk
    control: Callable[..., Any] | None
    antithetic: bool
    steps: int
    apart: bool  # an array for each coordinate, or rows of them
    unroll: int
    kernel: str


def _compiled(
    plan: Plan, lanes: Lanes, queue: _Queue, state: _State, mesh: Mesh | None = None
) -> Callable[..., _State]:
    """The loop for arrays of these shapes, in a kernel where that can be built.

    It is shared between plans that differ in numbers only.
    """
    problem, walk, control = plan.problem, plan.walk, plan.control
    apart = _are_apart(plan, lanes)
    unroll, kernel = (lanes.unroll, lanes.kernel) if apart else (0, "")
    steps = _steps_a_round(plan, lanes)
    how = _How(problem, walk, control, plan.antithetic, steps, apart, unroll, kernel)
    arrays, loop = _shared(how)
    if kernel and not loop.refused:
        try:
            return loop.compiled(arrays, queue, state, mesh)
        except _CannotExpress as error:
            loop.refused = str(error)
            warnings.warn(
                f"Paths run in plain loops, since no GPU kernel can be built for them: {error}",
                stacklevel=2,
            )
    if kernel:
        arrays, loop = _shared(how._replace(kernel="", unroll=0))
    return loop.compiled(arrays, queue, state, mesh)


def _shared(how: _How) -> "tuple[Any, _Loop]":
    """The numbers of a loop, and what is compiled of it for all such numbers."""
    arrays, rest = eqx.partition(how, eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    with _one_at_a_time:  # two threads would make a loop each, and compile it twice
        return arrays, _loop(tuple(leaves), tree)


_one_at_a_time = threading.Lock()


@functools.lru_cache(maxsize=64)  # with the functions of their problems, which it keeps alive
def _loop(leaves: tuple, tree: Any) -> "_Loop":
    return _Loop(jax.tree.unflatten(tree, leaves))


class _CannotExpress(Exception):
    """A kernel cannot be made of these steps; the message says why."""


class _Loop:
    """`_advance` compiled, for one kind of steps and arrays of several shapes."""

    def __init__(self, rest: _How):
        self.refused = ""  # why there is no kernel
        self._kernel = bool(rest.kernel)
        self._compiled: dict[Any, Callable[..., _State]] = {}
        self._lock, self._locks = threading.Lock(), {}  # of all shapes, of each
        # our threads run whole batches; a loop cut up among the compiler's would be rounded
        # otherwise
        on_cpu = {
            "xla_cpu_prefer_vector_width": 512,
            "xla_cpu_multi_thread_eigen": False,
            "xla_backend_optimization_level": 3,  # paths are worth it, whatever a process chose
        }
        # a search for the fastest products of a network on paths takes longer than these do
        options = on_cpu if current().on_cpu else {"xla_gpu_autotune_level": 0}

        def run(arrays, queue, state, rounds):
            return _advance(eqx.combine(arrays, rest), queue, state, rounds)

        self._run = run
        how = {"donate_argnums": 2, "compiler_options": options}
        self._jit = functools.partial(jax.jit, **how)

    def compiled(
        self, arrays: Any, queue: _Queue, state: _State, mesh: Mesh | None
    ) -> Callable[..., _State]:
        """Compiled before it runs, so that what fails is known before arrays are given away."""
        leaves = jax.tree.leaves((arrays, queue, state))
        key = mesh, *((leaf.shape, str(leaf.dtype)) for leaf in leaves)
        if mesh is not None:
            alike = NamedSharding(mesh, PartitionSpec())
            arrays = placed(arrays, jax.tree.map(lambda _: alike, arrays))
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if key not in self._compiled:
                rounds = jax.ShapeDtypeStruct((), jnp.int32)
                lowered = self._lowered(mesh, arrays, queue, state, rounds)
                self._compiled[key] = self._built(lowered)
            return functools.partial(self._compiled[key], arrays)

    def _on(self, mesh: Mesh | None, queue: _Queue) -> Any:
        """The loop, on one device or on each of several with its own paths."""
        if mesh is None:
            return self._jit(self._run)

        def on_each(arrays, queue, state, rounds):
            own = queue._replace(**{name: getattr(queue, name)[0] for name in _OWN})
            return _stacked(self._run(arrays, own, _unstacked(state), rounds))

        specs = (PartitionSpec(), _queue_specs(queue), OVER_DEVICES, PartitionSpec())
        return self._jit(
            jax.shard_map(
                on_each, mesh=mesh, in_specs=specs, out_specs=OVER_DEVICES, check_vma=False
            )
        )

    def _lowered(self, mesh: Mesh | None, *arguments: Any) -> Any:
        try:
            return self._on(mesh, arguments[1]).lower(*arguments)
        except Exception as error:
            if self._kernel and _is_lowering_error(error):
                raise _CannotExpress(f"{type(error).__name__}: {error}") from error
            raise

    def _built(self, lowered: Any) -> Callable[..., _State]:
        try:
            return lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            if self._kernel and "RESOURCE_EXHAUSTED" not in str(error):
                raise _CannotExpress(f"{type(error).__name__}: {error}") from error
            raise


def _is_lowering_error(error: Exception) -> bool:
    """Whether Pallas has no way to write an operation, or arrays of some shape, as a kernel.

    It raises these while it translates, before anything runs; an error of the problem's own comes
    up again in the plain loop.
    """
    kinds = (NotImplementedError, ValueError, TypeError)
    return isinstance(error, kinds) or "Lowering" in type(error).__name__


def _advance(how: _How, queue: _Queue, state: _State, rounds: Int[Array, ""]) -> _State:
    """Start new paths in idle lanes, run all for some rounds, and harvest those that end."""
    state = _refill(how, queue, state)
    lanes = _split(state.lanes) if how.apart else state.lanes
    if how.kernel and not _reads_between(how):
        lanes = _launch(how, queue.seed, lanes, rounds)
    else:
        _, lanes = jax.lax.while_loop(
            lambda now: (now[0] < rounds) & (jnp.max(now[1].running) > 0),
            lambda now: (now[0] + 1, _round(how, queue.seed, now[1])),
            (jnp.int32(0), lanes),
        )
    state = state._replace(lanes=_joined(lanes) if how.apart else lanes)
    return _harvest(how, queue, state)


def _launch(how: _How, seed: tuple, lanes: Lane, rounds: Int[Array, ""]) -> Lane:
    """All rounds in one kernel."""

    def run(words: list, lanes: Lane) -> Lane:
        _, done = jax.lax.while_loop(
            lambda now: (now[0] < words[2]) & (jnp.max(now[1].running) > 0),
            lambda now: (now[0] + 1, _round(how, (words[0], words[1]), now[1])),
            (jnp.int32(0), lanes),
        )
        return done

    return _in_kernel(how, run, [*seed, rounds.astype(jnp.int32)], lanes)


def _in_kernel(how: _How, function: Callable[..., Any], words: list, lanes: Lane) -> Any:
    """A function of some scalars and of lanes, a block of these to each group of threads."""
    from jax.experimental import pallas as pl

    given, tree = jax.tree.flatten(lanes)
    block = min(_THREADS[len(lanes.step) >= 1 << 16], len(lanes.step))
    out, result = jax.tree.flatten(jax.eval_shape(function, words, lanes))

    def kernel(*refs):
        scalars = [ref[0] for ref in refs[: len(words)]]
        values = [ref[...] for ref in refs[len(words) : len(words) + len(given)]]
        found = function(scalars, jax.tree.unflatten(tree, values))
        for ref, value in zip(refs[len(words) + len(given) :], jax.tree.leaves(found), strict=True):
            ref[...] = value

    one, own = pl.BlockSpec((1,), lambda i: (0,)), pl.BlockSpec((block,), lambda i: (i,))
    found = pl.pallas_call(
        kernel,
        grid=(len(lanes.step) // block,),
        in_specs=[one] * len(words) + [own] * len(given),
        out_specs=[own] * len(out),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in out],
        interpret=how.kernel == "interpret",
    )(*(word[None] for word in words), *given)
    return jax.tree.unflatten(result, found)


def _round(how: _How, seed: tuple, lanes: Lane) -> Lane:
    """Some steps in all lanes, and the running sums added to the payoffs."""
    lanes = (_steps_apart if how.apart else _steps_in_rows)(how, seed, lanes)
    return lanes._replace(
        payoff=lanes.payoff + lanes.partial, partial=jnp.zeros_like(lanes.partial)
    )


def _steps_in_rows(how: _How, seed: tuple, lanes: Lane) -> Lane:
    """Steps with coordinates in rows: little to compile, however many they are."""
    need, together, block = how.walk.need(how.problem), _together(how), _block(how)
    path, sign = _pairs(how, lanes)
    of, dtype = PathStream(seed, lanes.point[:, None], path[:, None]), lanes.dt.dtype
    lift = lambda function, *_: jax.vmap(function)
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), lanes)

    def some(_, lanes: Lane) -> Lane:
        n = normal_rows(of, lanes.step, need.normals, block, dtype)
        n = n if sign is None else sign[:, None, None] * n
        u = uniform_rows(of, lanes.step, need.uniforms, block, dtype)
        move = _mover(how, single, lambda k: Numbers(n[:, k], u[:, k]), lift)
        for k in range(block // together):
            lanes = move(k, lanes)
        return lanes

    return jax.lax.fori_loop(0, how.steps // block, some, lanes)


def _steps_apart(how: _How, seed: tuple, lanes: Lane) -> Lane:
    """Steps with an array for each coordinate: arithmetic alone, which moves no memory."""
    need, together, single = how.walk.need(how.problem), _together(how), _example(lanes)
    if how.kernel and _reads_between(how) and together % _unit(how) == 0:
        return _steps_between_readings(how, seed, lanes)
    draw_normals, draw_uniforms = _draws(how, seed, lanes)
    if not how.unroll:
        n = ahead(draw_normals, lanes.step, need.normals, how.steps)
        u = ahead(draw_uniforms, lanes.step, need.uniforms, how.steps)
        pick = lambda k: _numbers(tuple(a[k] for a in n), tuple(a[k] for a in u))
        move = _mover(how, single, pick, apart)
        return jax.lax.fori_loop(0, how.steps // together, move, lanes)

    piece, dtype = _piece(how), lanes.dt.dtype
    m, w = need.normals * together, need.uniforms * together
    advance = functools.partial(how.walk.advance, how.problem, how.control)
    advance = apart(advance, single, Numbers(_vector(m, dtype), _vector(w, dtype)))

    def one_piece(_, lanes: Lane) -> Lane:  # no array holds the numbers of many steps
        n = _one_each(draw_normals, lanes.step, need.normals, piece)
        u = _one_each(draw_uniforms, lanes.step, need.uniforms, piece)
        take = lambda lanes, n, u: advance(lanes, _numbers(n, u))
        return _each_in_turn(how, take, lanes, _Many(n, m), _Many(u, w), piece // together)

    return jax.lax.fori_loop(0, how.steps // piece, one_piece, lanes)


def _steps_between_readings(how: _How, seed: tuple, lanes: Lane) -> Lane:
    """Free steps in a kernel; what is read after some of them, a network say, outside."""
    need, together, parts = how.walk.need(how.problem), _together(how), _parts(how, _example(lanes))
    piece, m, w = _unit(how), need.normals, need.uniforms

    def free(words: list, lanes: Lane) -> Any:
        draw_normals, draw_uniforms = _draws(how, (words[0], words[1]), lanes)

        def some(_, reading):
            step = reading.lane.step
            n = _one_each(draw_normals, step, m, piece)
            u = _one_each(draw_uniforms, step, w, piece)
            return _each_in_turn(how, parts.take, reading, _Many(n, m), _Many(u, w), piece)

        first = _one_each(draw_uniforms, lanes.step, w, whole_blocks(w))[:w]
        start = parts.choose(lanes, first)
        return jax.lax.fori_loop(0, together // piece, some, start)

    one = lambda _, lanes: parts.add(_in_kernel(how, free, list(seed), lanes))
    return jax.lax.fori_loop(0, how.steps // together, one, lanes)


def _draws(how: _How, seed: tuple, lanes: Lane) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What draws normals and uniforms of whole units of steps."""
    need, dtype = how.walk.need(how.problem), lanes.dt.dtype
    path, sign = _pairs(how, lanes)
    of = PathStream(seed, lanes.point, path)

    def draw_normals(unit) -> list[Array]:
        drawn = normals(of, unit, need.normals, dtype)
        return drawn if sign is None else [jnp.broadcast_to(sign, n.shape) * n for n in drawn]

    return draw_normals, lambda unit: uniforms(of, unit, need.uniforms, dtype)


def _together(how: "Plan | _How") -> int:
    return how.walk.together(how.problem)


def _reads_between(how: _How) -> bool:
    """Whether one step in several reads what no kernel can, a network say."""
    return isinstance(how.walk, Scheme) and how.walk.read_every > 1


def _pairs(how: _How, lanes: Lane) -> tuple[Array, Array | None]:
    """Whose normals each path takes, and their sign if every other path takes them reversed."""
    path = lanes.path
    if not how.antithetic:
        return path, None
    sign = jnp.where(path % np.uint32(2) == 0, 1.0, -1.0).astype(lanes.dt.dtype)
    return path // np.uint32(2), sign


def _vector(n: int, dtype: Any) -> Any:
    return jax.ShapeDtypeStruct((n,), dtype)


def _example(lanes: Lane) -> Lane:
    """One path of those whose coordinates are apart, as shapes."""
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), leaf.dtype), lanes)
    x = _vector(len(lanes.x), lanes.dt.dtype)
    visit = None if single.visit is None else single.visit._replace(x=x)
    return single._replace(x=x, visit=visit)


class _Parts(NamedTuple):
    """What steps that belong together are made of, for all paths.

    One of them is read; or some paths wait, after them, until they jump.
    """

    choose: Callable[..., Any]
    take: Callable[..., Any]
    add: Callable[..., Lane]


def _parts(how: _How, single: Lane, lift: Callable[..., Any] = apart) -> _Parts:
    walk, problem, need, dtype = how.walk, how.problem, how.walk.need(how.problem), single.dt.dtype
    assert isinstance(walk, Scheme)
    noise, uniform = _vector(need.normals, dtype), _vector(need.uniforms, dtype)
    if walk.read_every > 1:
        choose = functools.partial(walk.choose_step_to_read, problem)
        take = functools.partial(walk.step_and_read, problem, how.control)
        add = functools.partial(walk.add_what_was_read, problem)
    else:
        choose = lambda lane, uniform: lane
        take = functools.partial(walk.step, problem, how.control)
        add = functools.partial(jumped, problem)
    reading = jax.eval_shape(choose, single, uniform)
    return _Parts(
        lift(choose, single, uniform), lift(take, reading, noise, uniform), lift(add, reading)
    )


def _mover(how: _How, single: Lane, pick: Callable[..., Numbers], lift: Callable[..., Any]):
    """What takes the `k`-th steps of all paths; `lift` makes a function of all of one of a path."""
    need, dtype, together = how.walk.need(how.problem), single.dt.dtype, _together(how)
    if together == 1:
        advance = functools.partial(how.walk.advance, how.problem, how.control)
        numbers = Numbers(_vector(need.normals, dtype), _vector(need.uniforms, dtype))
        advance = lift(advance, single, numbers)
        return lambda k, lanes: advance(lanes, pick(k))
    parts = _parts(how, single, lift)

    def move(k, lanes: Lane) -> Lane:  # in one piece compilers repeat their work
        first = k * together
        step = lambda j, reading: parts.take(reading, *pick(first + j))
        start = parts.choose(lanes, pick(first).uniforms)
        return parts.add(jax.lax.fori_loop(0, together, step, start))

    return move


def _split(lanes: Lane) -> Lane:
    """The same with an array for each coordinate."""
    visit = lanes.visit
    visit = None if visit is None else visit._replace(x=tuple(visit.x.T))  # pyright: ignore
    return lanes._replace(x=tuple(lanes.x.T), visit=visit)  # pyright: ignore


def _joined(lanes: Lane) -> Lane:
    """The same with points as rows."""
    visit = lanes.visit
    visit = None if visit is None else visit._replace(x=jnp.stack(visit.x, axis=1))
    return lanes._replace(x=jnp.stack(lanes.x, axis=1), visit=visit)


def _piece(how: _How) -> int:
    """Steps that are compiled together: about `unroll`, in whole blocks of numbers."""
    return min(how.steps, max(how.unroll, _block(how)))


class _Many(NamedTuple):
    """Numbers of some steps, `each` of them a step."""

    numbers: tuple
    each: int

    def of(self, k: int) -> tuple:
        """Those of the `k`-th step."""
        return self.numbers[k * self.each : (k + 1) * self.each]

    def chosen(self, k: Int[Array, ""], steps: int) -> tuple:
        """The same where `k` is known only when it runs."""
        pick = lambda *own: functools.reduce(
            lambda found, j: jnp.where(k == j, own[j], found), range(1, steps), own[0]
        )
        return tuple(map(pick, *map(self.of, range(steps))))


def _each_in_turn(
    how: _How, take: Callable[..., Any], now: Any, n: _Many, u: _Many, steps: int
) -> Any:
    """So many steps: written out if `unroll` allows, else a loop, which compiles sooner."""
    if steps <= how.unroll:
        for k in range(steps):
            now = take(now, n.of(k), u.of(k))
        return now
    one = lambda k, now: take(now, n.chosen(k, steps), u.chosen(k, steps))
    return jax.lax.fori_loop(0, steps, one, now)


def _one_each(draw: Callable[..., list[Array]], first: Array, each: int, steps: int) -> tuple:
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
    visits = state.kept is not None
    start = functools.partial(_start, how.problem, how.walk, queue, visits=visits)
    new = jax.vmap(start)(jnp.minimum(number, queue.total - np.uint32(1)))
    new = _one_by_one(how, how.walk.begin, new)
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
    # every lane writes to a place of its own: where many write to one, in double precision, a
    # graphics processor takes 20 times as long as the paths
    nowhere = np.uint32(len(state.payoff)) + jnp.arange(len(over), dtype=jnp.uint32)
    slot = jnp.where(over & (state.slot < queue.total), state.slot, nowhere)
    write = lambda kept, new: kept.at[slot].set(new, mode="drop", unique_indices=True)
    payoff = _one_by_one(how, how.walk.finish, lanes)
    late = jnp.zeros_like(over) if lanes.late is None else lanes.late > 0
    return state._replace(
        payoff=write(state.payoff, payoff),
        late=write(state.late, late),
        taken=write(state.taken, lanes.step),
        slot=jnp.where(over, queue.total, state.slot),
        left=jnp.sum(lanes.running, dtype=jnp.int32),
        kept=_keep(how, queue, state),
    )


def _keep(how: _How, queue: _Queue, state: _State) -> _Kept | None:
    """What some of the paths that have ended hand back."""
    if state.kept is None:
        return None
    lanes, stride = state.lanes, queue.stride
    chosen = (lanes.running == 0) & (state.slot < queue.total) & (state.slot % stride == 0)
    nowhere = np.uint32(len(state.kept.time)) + jnp.arange(len(chosen), dtype=jnp.uint32)
    slot = jnp.where(chosen, state.slot // stride, nowhere)

    def found(lane: Lane) -> _Kept:
        layout, visit = how.problem.layout, lane.visit
        assert visit is not None
        zero = jnp.zeros_like(lane.dt) if lane.log_discount is None else lane.log_discount
        return _Kept(
            lane._replace(step=visit.step).at(layout, visit.x),
            visit.total,
            lane.at(layout, how.walk.left(how.problem, lane)),
            jnp.exp(zero),
        )

    write = lambda kept, new: kept.at[slot].set(new, mode="drop", unique_indices=True)
    return jax.tree.map(write, state.kept, jax.vmap(found)(lanes))


def _start(
    problem: Problem, walk: AbstractWalk, queue: _Queue, number: Array, *, visits: bool = False
) -> Lane:
    """The path of that number, about to take its first step."""
    total = queue.offset + number
    row = queue.base + total // queue.n_paths
    z = queue.points[:, row]
    zero = jnp.zeros_like(queue.dt)
    dt, n_steps, start = queue.dt, queue.n_steps, None
    if queue.noise is not None:
        dt = dt * queue.noise / problem.mean_variance(z)
    if problem.timed:  # equal steps that end where time does
        left = problem.layout.time_left(z)
        whole = jnp.maximum(jnp.ceil(left / queue.dt - 1e-3), 1.0)
        dt, n_steps, start = left / whole, whole.astype(jnp.uint32), problem.layout.time(z)
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
        varying=Varying(queue.near, zero) if walk.varies(problem) else None,
        values=tuple(problem.layout.values(z)),
    )
    own = lambda use: words(PathStream(queue.seed, lane.point, lane.path), lane.step, use)[0]
    if problem.jumps is not None:
        lane = lane._replace(jumping=start_jumping(problem, own(_JUMPS), zero))
    if not visits:
        return lane
    word = own(_VISITS)
    return lane._replace(visit=Visit(lane.x, lane.step, zero, zero, word | np.uint32(1)))


def _one_by_one(how: _How, function: Callable[..., Any], lanes: Lane) -> Any:
    """A function of a problem and a path for all lanes, rounded alike however many they are."""
    function = functools.partial(function, how.problem)
    if not how.apart:
        return jax.vmap(function)(lanes)
    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), lanes)
    found = apart(function, single)(_split(lanes))
    return _joined(found) if isinstance(found, Lane) else found
