"""The training loop."""

import contextlib
import functools
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from .._compute import current, start_thread, using
from .._compute import precision as working_precision
from .._files import reading
from .._progress import AbstractProgress, SilentProgress
from .._records import write_bytes, writing
from .._streams import fold
from .._together import clock, localized, replicated, several
from ..loss import AbstractWeighting, Fixed, Loss, cast
from ._checkpoint import check_history, load_about, load_state, save_state
from ._identity import difference, identity
from ._objective import AbstractOptimizer, Objective, Parameters, Report, not_stopped, split

_REPORT = 0.5  # seconds between two reports, about
_MOST = 1000  # steps in a block


class Phase(NamedTuple):
    """A phase of the training with one optimizer.

    Without a weighting, the one of the phase before is continued, with its trained values. `redraw`
    is the number of steps between two draws of points; with 0 the points are kept. The number of
    points is `times` that of the given loss, which may be below one. A phase that `continues` keeps
    the count of steps of the phase before, on which weights may depend, and the state of its
    optimizer if both optimizers are equal.
    """

    name: str
    optimizer: AbstractOptimizer
    steps: int
    weighting: AbstractWeighting | None = None
    redraw: int = 0
    times: float = 1.0
    continues: bool = False


class Fit(NamedTuple):
    """A trained network with its weighting, the record of every report, and why phases ended."""

    network: Any
    weighting: AbstractWeighting
    history: list[dict[str, Any]]
    stopped: list[str]
    compile_seconds: float


class State(NamedTuple):
    """Where a run stands within a phase."""

    parameters: Parameters
    memory: Any
    loss: Loss
    step: Int[Array, ""]


class _Left(NamedTuple):
    """What a phase leaves to the next one."""

    network: Any
    weighting: AbstractWeighting
    loss: Loss
    memory: Any = None


class _Begun(NamedTuple):
    """A phase before its first step, its functions compiled."""

    first: Objective
    state: State
    block: Callable
    redraw: Callable


def fit(
    network: Any,
    loss: Loss,
    phases: Sequence[Phase],
    *,
    progress: AbstractProgress | None = None,
    watch: Callable[[Any], dict[str, float]] | None = None,
    folder: Path | None = None,
    interval: float = 20.0,
    key: PRNGKeyArray,
) -> Fit:
    """Minimize the loss, phase by phase.

    A phase ends after its steps, or when its optimizer cannot continue and reports why. If the loss
    becomes NaN or infinite, the last finite parameters are restored and the next phase continues
    from there.

    Args:
        network: an equinox module, called with one point.
        loss: the terms.
        phases: the phases, in order.
        progress: told about losses during the run.
        watch: a function of the network that returns numbers to report, such as its error.
        folder: folder for checkpoints and `metrics.jsonl`. If it contains a checkpoint of the same
            run, training continues from it, to the same parameters bit for bit. A checkpoint of
            another problem, network, loss, weighting or key raises an error.
        interval: seconds between two checkpoints.
        key: random key for new points.
    """
    check_phases(phases)
    with working_in(phases), using(current().with_everyone()):
        run = _Run(phases, progress or SilentProgress(), watch, folder, interval, key)
        return run.all(network, loss)


def working_in(phases: Sequence[Phase]) -> contextlib.AbstractContextManager[None]:
    """Double precision if one of the phases insists on it, else as it is."""
    double = any(phase.optimizer.dtype == "float64" for phase in phases)
    return working_precision("float64") if double else contextlib.nullcontext()


def check_phases(phases: Sequence[Phase]) -> None:
    """Refuse phases that cannot be run."""
    if not phases:
        raise ValueError("`phases` must not be empty.")
    for phase in phases:
        if phase.steps < 1 or phase.redraw < 0:
            raise ValueError(
                f"Phase `{phase.name}` must have `steps` of at least 1 and `redraw` of at least 0; "
                f"got {phase.steps}, {phase.redraw}."
            )
        if not phase.times > 0:
            raise ValueError(f"Phase `{phase.name}` must have `times` above 0; got {phase.times}.")
    if phases[0].continues:
        raise ValueError(
            f"Phase `{phases[0].name}` cannot continue: it is the first; set `continues` to false."
        )


def first_step(phases: Sequence[Phase], index: int) -> int:
    """The number of a phase's first step; those of a phase that is continued count on."""
    if not phases[index].continues:
        return 0
    return first_step(phases, index - 1) + phases[index - 1].steps


def remembers(phases: Sequence[Phase], index: int) -> bool:
    """Whether a phase begins with what the optimizer of the phase before has learned."""
    return phases[index].continues and phases[index].optimizer == phases[index - 1].optimizer


def is_resized(phases: Sequence[Phase], index: int) -> bool:
    """Whether a phase begins with other points than the phase before, or the caller, left it."""
    return phases[index].times != 1 or (index > 0 and phases[index - 1].times != 1)


class _Run:
    """One call of `fit`."""

    def __init__(self, phases, progress, watch, folder, interval, key):
        self.phases, self.progress, self.watch = phases, progress, watch
        self.checkpoint = None if folder is None else Path(folder) / "checkpoints" / "last.npz"
        self.metrics = None if folder is None else Path(folder) / "metrics.jsonl"
        self.interval, self.key = interval, key
        self.history: list[dict[str, Any]] = []
        self.stopped: list[str] = []
        self.began = self.saved = clock()
        self.compile_seconds, self.done = 0.0, 0
        self.ahead: threading.Thread | None = None
        self.identity: dict[str, Any] = {}
        self.given: Any = None  # the loss, with as many points as the caller chose

    def all(self, network: Any, loss: Loss) -> Fit:
        if self.checkpoint is not None:
            self.identity = identity(network, loss, self.phases, self.key)
        resumed, self.given = self._resumed(), loss
        now = _Left(network, Fixed(), loss)
        for index, phase in enumerate(self.phases):
            now = _for_phase(phase, now)
            if resumed is not None and index < resumed["phase"]:
                self.done += phase.steps
                continue
            now = self._phase(index, now, resumed)
            resumed = None
        network, weighting = now.network, now.weighting
        return Fit(network, weighting, self.history, self.stopped, self.compile_seconds)

    def _resumed(self) -> dict[str, Any] | None:
        """What the checkpoint says, if there is one of the same run."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return None
        about = load_about(self.checkpoint)
        if (part := difference(about.get("identity"), self.identity)) is not None:
            there = (about.get("identity") or {}).get(part)
            raise ValueError(
                f"`{self.checkpoint}` belongs to another training: its `{part}` differs (there "
                f"{there!r:.300}, here {self.identity[part]!r:.300}). Use another folder, or "
                f"delete it."
            )
        with reading(self.checkpoint):
            check_history(about.get("history"), about.get("stopped"))
            if about["phase"] not in range(len(self.phases)):
                raise ValueError(f"`phase` is {about['phase']!r}")
        self.history, self.stopped = about["history"], about["stopped"]
        return about

    def _restored(self, like: State, phase: Phase) -> State:
        """The state in the checkpoint."""
        assert self.checkpoint is not None
        state = load_state(self.checkpoint, like)
        with reading(self.checkpoint):
            if not 0 <= (step := int(state.step) - int(like.step)) <= phase.steps:
                raise ValueError(f"`step` is {step} of {phase.steps}")
            if not np.all(np.isfinite(state.parameters)):
                raise ValueError("a parameter is not a finite number")
        return state

    def _begin(self, index: int, now: _Left) -> _Begun:
        phase, optimizer = self.phases[index], self.phases[index].optimizer
        network, loss = now.network, now.loss
        if is_resized(self.phases, index):
            given, key = cast(self.given, precision(network)), fold(self.key, "more points", index)
            loss = given.redrawn(network, key, float(phase.times))
        parameters, static, unravel = split(network, now.weighting)
        start = jnp.asarray(first_step(self.phases, index), jnp.int32)
        first = Objective(loss, start, static, unravel)
        memory = now.memory if remembers(self.phases, index) else None
        memory = optimizer.init(first, parameters) if memory is None else memory
        state = State(parameters, memory, loss, first.step)
        block, redraw = compiled(optimizer, static, unravel)
        beside = None
        state = replicated(state, current().mesh)
        # an accelerator leaves cores to compile; several processes do all in the same order
        if phase.redraw and not current().on_cpu and not several():
            beside = start_thread(lambda: _tried(redraw, state, self.key))
        jax.block_until_ready(block(state, _count(0)))  # no step is taken
        if beside is not None:
            beside.join()
        return _Begun(first, state, block, redraw)

    def _compile_ahead(self, index: int, now: _Left) -> None:
        """Another thread compiles a phase while the one before it runs."""
        if index == len(self.phases) or several():
            return
        phase = self.phases[index]
        work = lambda: self._begin(index, _for_phase(phase, now))
        self.ahead = start_thread(lambda: _tried(work))

    def _phase(self, index: int, now: _Left, resumed) -> _Left:
        phase, optimizer = self.phases[index], self.phases[index].optimizer
        start = first_step(self.phases, index)
        end = start + phase.steps
        self.progress.start(f"compiling, {phase.name}", None)
        begin, on_cpu = clock(), current().on_cpu
        if self.ahead is not None:
            self.ahead.join()
        if not on_cpu:  # an accelerator leaves cores to compile both at once
            self._compile_ahead(index + 1, now)
        first, state, block, redraw = self._begin(index, now)
        if on_cpu:
            self._compile_ahead(index + 1, now)
        self.compile_seconds += clock() - begin
        self.progress.start(f"training, {phase.name}", phase.steps)
        if resumed is not None:
            state = replicated(self._restored(state, phase), current().mesh)
        self._rewrite_metrics()
        good, count, step = state, 1, int(state.step)
        while step < end:
            if phase.redraw and step > start and step % phase.redraw == 0:
                fresh = replicated(fold(self.key, "fresh points", index, step), current().mesh)
                memory = optimizer.redrawn(state.memory)
                state = state._replace(loss=redraw(state, fresh), memory=memory)
            upto = next_stop(phase.redraw, step, count, end)
            begin = clock()
            state, report = block(state, _count(upto - step))
            value = float(report.loss)
            spent = (clock() - begin) / (upto - step)
            step = int(state.step)
            if not np.isfinite(value):
                self.stopped.append(_not_a_number(phase, step, good))
                break
            # the loss belongs to the parameters before the last step, so they were good
            good = state if bool(jnp.all(jnp.isfinite(state.parameters))) else good
            network_now = lambda s=state: first.network(localized(s.parameters))
            self._report(phase, step - start, report, network_now)
            if int(report.stopped):
                why = optimizer.reasons[int(report.stopped)]
                self.stopped.append(f"{phase.name} stopped after {step - start} steps: {why}.")
                break
            count = next_count(count, spent)
            if good is state:
                self._save(index, state)
        self.done += phase.steps
        good = localized(good)
        network, weighting = eqx.combine(first.unravel(good.parameters), first.static)
        return _Left(network, weighting, good.loss, good.memory)

    def _report(self, phase: Phase, step: int, report: Report, network: Callable[[], Any]) -> None:
        loss = float(report.loss)
        terms = {name: float(value) for name, value in report.terms.items()}
        record: dict[str, Any] = {"phase": phase.name, "step": self.done + step, "loss": loss}
        record |= terms
        seen = {} if self.watch is None else self.watch(network())
        record |= seen | {"seconds": round(clock() - self.began, 3)}
        self.history.append(record)
        if self.metrics is not None:
            with writing(self.metrics), open(self.metrics, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        self.progress.update(step, loss=loss, **terms, **seen)

    def _rewrite_metrics(self) -> None:
        if self.metrics is not None:
            lines = "".join(json.dumps(record) + "\n" for record in self.history)
            write_bytes(self.metrics, lines.encode())

    def _save(self, index: int, state: State) -> None:
        if self.checkpoint is None or clock() - self.saved < self.interval:
            return
        about: dict[str, Any] = {"identity": self.identity, "phase": index}
        about |= {"history": self.history, "stopped": self.stopped}
        save_state(self.checkpoint, state, about)
        self.saved = clock()


def _count(steps: int) -> Int[Array, ""]:
    return replicated(jnp.asarray(steps, jnp.int32), current().mesh)


def _tried(work: Callable[..., Any], *arguments: Any) -> None:
    """Something that will be done again in its turn, and raises then what there is to raise."""
    with contextlib.suppress(Exception):
        work(*arguments)


def _for_phase(phase: Phase, now: _Left) -> _Left:
    """What a phase begins with: its own weighting if it has one, all in its precision."""
    weighting = now.weighting if phase.weighting is None else phase.weighting
    dtype = phase.optimizer.dtype or precision(now.network)
    network, weighting, loss = cast((now.network, weighting, now.loss), dtype)
    return _Left(network, weighting, loss, now.memory)


def next_stop(redraw: int, step: int, count: int, end: int) -> int:
    """Where a block of steps ends: at its count, at a draw of points, or with the phase."""
    upto = min(step + count, end)
    return min(upto, (step // redraw + 1) * redraw) if redraw else upto


def next_count(count: int, spent: float) -> int:
    """Steps until the next report, from those until this one and what a step took."""
    return int(np.clip(_REPORT / max(spent, 1e-9), 1, min(2 * count, _MOST)))


def compiled(optimizer: AbstractOptimizer, static: Any, unravel: Callable):
    """Some steps, and fresh points, as compiled functions of the state.

    Trainings that differ in numbers only share them, weights of terms included: seeds, or rounds of
    one training.
    """
    network, weighting = static
    weights, tree = jax.tree.flatten(weighting)
    leaves, whole = jax.tree.flatten((optimizer, network))
    others = tuple(None if isinstance(w, float) else w for w in weights)
    key = tuple(leaves), whole, others, tree, unravel
    try:
        hash(key)
    except TypeError:  # a network of one's own with constants that cannot be compared
        block, redraw = _compiled.__wrapped__(*key)
    else:
        block, redraw = _compiled(*key)
    numbers = tuple(jnp.asarray(w) for w in weights if isinstance(w, float))
    numbers = replicated(numbers, current().mesh)
    return functools.partial(block, numbers), functools.partial(redraw, numbers)


@functools.lru_cache(maxsize=16)
def _compiled(leaves: tuple, whole: Any, others: tuple, tree: Any, unravel: Callable):
    optimizer, network = jax.tree.unflatten(whole, leaves)

    def told(numbers: tuple) -> tuple[Any, Any]:
        given = iter(numbers)
        weights = [next(given) if other is None else other for other in others]
        return network, jax.tree.unflatten(tree, weights)

    @eqx.filter_jit
    def block(numbers: tuple, state: State, count: Int[Array, ""]) -> tuple[State, Report]:
        static = told(numbers)

        def go_on(carry):
            _, taken, report = carry
            return (taken < count) & (report.stopped == 0) & jnp.isfinite(report.loss)

        def one(carry):
            state, taken, _ = carry
            objective = Objective(state.loss, state.step, static, unravel)
            parameters, memory, report = optimizer.step(objective, state.parameters, state.memory)
            state = State(parameters, memory, state.loss, state.step + 1)
            return state, taken + 1, report

        arrays, rest = eqx.partition(state, eqx.is_array)
        whole = lambda part: eqx.combine(part, rest)
        outline = jax.eval_shape(
            lambda part: Objective(whole(part).loss, part.step, static, unravel).terms(
                part.parameters
            ),
            arrays,
        )
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), outline)
        start = arrays, jnp.zeros_like(count), Report(zero[0], zero[1], not_stopped())

        def one_of_arrays(carry):
            state, taken, report = one((whole(carry[0]), *carry[1:]))
            return eqx.filter(state, eqx.is_array), taken, report

        arrays, _, report = jax.lax.while_loop(go_on, one_of_arrays, start)
        return whole(arrays), report

    @eqx.filter_jit
    def redraw(numbers: tuple, state: State, key: PRNGKeyArray) -> Loss:
        objective = Objective(state.loss, state.step, told(numbers), unravel)
        return state.loss.redrawn(objective.network(state.parameters), key)

    return block, redraw


def precision(network: Any) -> str:
    """Of the network's parameters."""
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return str(leaves[0].dtype)


def _not_a_number(phase: Phase, step: int, good: State) -> str:
    return (
        f"{phase.name}: the loss became NaN or infinite at step {step}; the parameters of step "
        f"{int(good.step)} were restored. Try a smaller learning rate or more damping, float64, "
        f"or look for points where a coefficient is infinite."
    )
