"""Several runs at once, as one computation."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._progress import AbstractProgress, SilentProgress
from .._streams import fold
from .._together import clock
from ..loss import AbstractWeighting, Fixed, Loss, cast
from ._fit import (
    Fit,
    Phase,
    State,
    check_phases,
    compiled,
    first_step,
    is_resized,
    next_count,
    next_stop,
    precision,
    remembers,
    working_in,
)
from ._objective import Objective, split


def fit_many(
    networks: Sequence[Any],
    losses: Sequence[Loss],
    phases: Sequence[Phase],
    *,
    progress: AbstractProgress | None = None,
    watch: Callable[[Any], dict[str, float]] | None = None,
    keys: Sequence[PRNGKeyArray],
) -> list[Fit]:
    """Train networks that differ only in array values, such as several seeds, at the same time.

    An accelerator that is not fully used by one small network trains several in about the same
    time. Each is trained as by `fit`, up to rounding; there are no checkpoints. A run whose loss
    becomes NaN or infinite keeps its last finite parameters.

    Args:
        networks: equinox modules with arrays of the same shapes.
        losses: the loss of each, with arrays of the same shapes.
        phases: the phases, in order.
        progress: told about the mean loss.
        watch: a function of the network that returns numbers to report.
        keys: random keys for new points, one per run.
    """
    check_phases(phases)
    if not len(networks) == len(losses) == len(keys) or not networks:
        raise ValueError(
            f"`networks`, `losses` and `keys` must have the same length, at least one; got "
            f"{len(networks)}, {len(losses)} and {len(keys)}."
        )
    with working_in(phases):
        nets, loss = _stacked("networks", networks), _stacked("losses", losses)
        run = _Runs(phases, loss, progress or SilentProgress(), watch, jnp.stack(list(keys)))
        weighting: AbstractWeighting = Fixed()
        for index, phase in enumerate(phases):
            if phase.weighting is not None:
                weighting = _stacked("weightings", [phase.weighting] * len(networks))
            dtype = phase.optimizer.dtype or precision(nets)
            nets, weighting, loss = cast((nets, weighting, loss), dtype)
            nets, weighting, loss = run.phase(index, nets, weighting, loss)
        return [
            Fit(_one(nets, i), _one(weighting, i), run.history[i], run.stopped[i], run.compiled)
            for i in range(len(networks))
        ]


class _Runs:
    """One call of `fit_many`."""

    def __init__(self, phases: Sequence[Phase], loss, progress: AbstractProgress, watch, keys):
        self.phases, self.given = phases, loss
        self.progress, self.watch, self.keys = progress, watch, keys
        self.history: list[list[dict[str, Any]]] = [[] for _ in keys]
        self.stopped: list[list[str]] = [[] for _ in keys]
        self.compiled, self.done, self.began, self.memory = 0.0, 0, clock(), None

    def phase(self, index: int, networks, weighting, loss):
        phase = self.phases[index]
        optimizer, runs = phase.optimizer, eqx.if_array(0)  # the first axis of each array
        self.progress.start(f"compiling, {phase.name}", None)
        if is_resized(self.phases, index):
            keys = jax.vmap(lambda key: fold(key, "more points", index))(self.keys)
            more = lambda u, terms, key: terms.redrawn(u, key, float(phase.times))
            given = cast(self.given, phase.optimizer.dtype or precision(networks))
            loss = eqx.filter_vmap(more, in_axes=(runs, runs, 0))(networks, given, keys)
        _, static, unravel = split(_one(networks, 0), _one(weighting, 0))
        parameters = eqx.filter_vmap(lambda u, w: split(u, w)[0], in_axes=(runs, runs))(
            networks, weighting
        )
        first = first_step(self.phases, index)
        end, start = first + phase.steps, jnp.asarray(first, jnp.int32)

        def begin(p, terms):
            return State(
                p, optimizer.init(Objective(terms, start, static, unravel), p), terms, start
            )

        state = eqx.filter_vmap(begin, in_axes=(0, runs))(parameters, loss)
        if remembers(self.phases, index):
            state = state._replace(memory=self.memory)
        one_block, one_redraw = compiled(optimizer, static, unravel)
        block = eqx.filter_jit(eqx.filter_vmap(one_block, in_axes=(runs, None)))
        redraw = eqx.filter_jit(eqx.filter_vmap(one_redraw, in_axes=(runs, 0)))
        since = clock()
        jax.block_until_ready(block(state, jnp.zeros_like(start)))
        self.compiled += clock() - since
        self.progress.start(f"training, {phase.name}", phase.steps)
        step, count, alive = first, 1, np.ones(len(self.history), bool)
        good = state.parameters
        while step < end and alive.any():
            if phase.redraw and step > first and step % phase.redraw == 0:
                own = lambda key, s=step: fold(key, "fresh points", index, s)
                fresh = jax.vmap(own)(self.keys)
                memory = optimizer.redrawn(state.memory)
                state = state._replace(loss=redraw(state, fresh), memory=memory)
            upto = next_stop(phase.redraw, step, count, end)
            since = clock()
            state, report = block(state, jnp.asarray(upto - step, jnp.int32))
            values, whys = np.asarray(report.loss), np.asarray(report.stopped)
            spent, step = (clock() - since) / (upto - step), upto
            fine = np.isfinite(values) & np.asarray(jnp.all(jnp.isfinite(state.parameters), axis=1))
            moved = alive & fine  # a run that has ended stays where it was
            good = jnp.where(jnp.asarray(moved)[:, None], state.parameters, good)
            state = state._replace(parameters=good)
            network = lambda i, p=good: eqx.combine(unravel(p[i]), static)[0]
            self._report(phase, step - first, report, moved, network)
            alive &= self._end(phase, step - first, fine, whys, alive)
            count = next_count(count, spent)
        self.done, self.memory = self.done + phase.steps, state.memory
        trained = [eqx.combine(unravel(p), static) for p in good]
        nets, weights = zip(*trained, strict=True)
        return _stacked("networks", nets), _stacked("weightings", weights), state.loss

    def _end(self, phase: Phase, step: int, fine, whys, alive) -> np.ndarray:
        """Which go on; says of the others why they do not."""
        for i in np.flatnonzero(alive):
            if not fine[i]:
                self.stopped[i].append(
                    f"{phase.name}: the loss became NaN or infinite at step {step}; the last "
                    f"finite parameters were restored."
                )
            elif whys[i]:
                why = phase.optimizer.reasons[int(whys[i])]
                self.stopped[i].append(f"{phase.name} stopped after {step} steps: {why}.")
        return fine & (whys == 0)

    def _report(self, phase: Phase, step: int, report, alive, network) -> None:
        seconds = round(clock() - self.began, 3)
        for i in np.flatnonzero(alive):
            record: dict[str, Any] = {"phase": phase.name, "step": self.done + step}
            record["loss"] = float(report.loss[i])
            record |= {name: float(value[i]) for name, value in report.terms.items()}
            record |= {} if self.watch is None else self.watch(network(i))
            record["seconds"] = seconds
            self.history[i].append(record)
        if alive.any():
            mean = float(np.mean(np.asarray(report.loss)[alive]))
            self.progress.update(step, loss=mean)


def _stacked(argument: str, trees: Sequence[Any]) -> Any:
    """Modules of one shape as one with a leading axis."""
    arrays, rest = zip(*(eqx.partition(tree, eqx.is_array) for tree in trees), strict=True)
    alike = all(bool(eqx.tree_equal(rest[0], other)) for other in rest[1:])
    shapes = [[leaf.shape for leaf in jax.tree.leaves(a)] for a in arrays]
    if not alike or any(other != shapes[0] for other in shapes[1:]):
        raise ValueError(
            f"`{argument}` must differ only in the values of their arrays; they differ in shape "
            f"or in constants, such as `output_scale`."
        )
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])


def _one(tree: Any, i: int) -> Any:
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda leaf: leaf[i], arrays), rest)
