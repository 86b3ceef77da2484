"""Second stage: a network, its loss, and the phases of its training."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._compute import precision, quickly_compiled
from .._field import AbstractField
from .._streams import Stream
from .._types import Scalar
from ..labels import Labels
from ..loss import AbstractSampler, AbstractTerm, Adaptive, Fixed, Loss, cast, make_loss
from ..nn import Size, fit_size
from ..problem import Problem
from ..train import Adam, Fit, NaturalGradient, Phase, fit, fit_many, working_in
from ._cuts import batched
from ._job import Job
from ._methods import Weighted, polish_weights, polisher
from ._network import make_network
from ._settings import Settings

_ROUND_STEPS = 40  # of a round, where the settings name none
_LIKELY_STEPS = 20  # between two looks at the residual that is left
_WHOLE = 16  # of these that are not cut
_SURE = 3.0  # standard errors
_REGRESSION = 1e-2  # damping of steps on labels alone, which would be learnt by heart
_PATH_STEPS = 20  # of whole paths, where the settings name none
_OWN_STEPS = 500  # of an optimizer of the user's, where the settings name none


def train(job: Job, labels: Labels | None) -> Fit:
    """Draw points, make the network, run the phases.

    Args:
        job: what is to be solved.
        labels: from the stage before, or the user's own; None for a plain PINN.
    """
    work = _Work.of(job, labels)
    own = job.parts.optimizer is not None or job.parts.weighting is not None
    natural = isinstance(work.phases[0].optimizer, NaturalGradient)
    if labels is not None and job.settings.labels.likely and natural and not own:
        return _by_likelihood(job, work.network, labels)
    return fit(
        work.network, work.loss, work.phases,
        progress=job.progress, watch=job.watch, folder=job.folder,
        interval=job.settings.training.checkpoint_seconds, key=work.key,
    )  # fmt: skip


def _by_likelihood(job: Job, network: AbstractField, labels: Labels) -> Fit:
    """Steps on labels that are weighed anew against the residual now and then.

    A step sees a share of the labels, whose chance the last steps average out. Some labels are
    kept back. If after some steps the network misses them by more than before, by more than
    chance, these steps are taken back and training ends. If in the end it misses them by more than
    their noise, it is compared with a network that is fitted to labels alone.
    """
    settings, size = job.settings, solution_size(job.problem, labels)
    kept, held = _held_out(labels, settings.labels.held_out, job.stream / "held out")
    found, missed, taken = None, None, 0
    for part, steps in enumerate(_parts(settings.training.steps)):
        few = settings.changed({"training.polish_steps": steps})
        folder = None if job.folder is None else job.folder / f"likely-{part}"
        more = polish(
            dataclasses.replace(job, settings=few),
            network if found is None else found.network, kept,
            size=size, name="likelihood", stream=job.stream / "likely" / part, folder=folder,
            whole=min(_WHOLE / steps, 1.0),
        )  # fmt: skip
        now = None if held is None else _misses(more.network, held)
        if found is not None and now is not None and _rose(missed, now):
            note = (
                f"likelihood: the misfit on held-out labels grew after step {taken}; the later "
                f"steps were undone"
            )
            both = joined(found, more)
            found = both._replace(network=found.network, stopped=[*both.stopped, note])
            break
        found, missed = more if found is None else joined(found, more), now
        taken += steps
    assert found is not None
    if held is None or missed is None or not _above_noise(missed, held):
        return found
    return _or_labels_alone(job, network, found, kept, held, size)


def _parts(steps: int) -> list[int]:
    """Steps of each part; the last is up to twice as long, so that more steps are cut."""
    n = max(round(steps / _LIKELY_STEPS) - 1, 1)
    return [_LIKELY_STEPS] * (n - 1) + [steps - _LIKELY_STEPS * (n - 1)]


def _or_labels_alone(
    job: Job, network: AbstractField, found: Fit, kept: Labels, held: Labels, size: Size
) -> Fit:
    """The result, or plain regression on labels if that fits held-out labels better."""
    few = job.settings.changed(
        {"training.polish_steps": _LIKELY_STEPS, "training.damping": _REGRESSION}
    )
    alone = polish(
        dataclasses.replace(job, settings=few), network, kept,
        size=size, name="labels alone", stream=job.stream / "labels alone",
        folder=None if job.folder is None else job.folder / "labels-alone", regress=True,
    )  # fmt: skip
    before, after = _misses(found.network, held), _misses(alone.network, held)
    better = _rose(after, before)
    note = "after training, the misfit on held-out labels exceeds their noise; plain regression on "
    note += (
        "the labels fits them better and is used instead" if better else "the labels is no better"
    )
    both = joined(found, alone)
    network = alone.network if better else found.network
    return both._replace(network=network, stopped=[*both.stopped, note])


def _above_noise(missed: np.ndarray, held: Labels) -> bool:
    """Whether squares are larger than those of the noise of labels, by more than chance."""
    excess = missed - np.asarray(held.error(), np.float64) ** 2
    return float(np.mean(excess)) > _SURE * float(np.std(excess)) / len(excess) ** 0.5


def _held_out(labels: Labels, share: float, stream: Stream) -> tuple[Labels, Labels | None]:
    """Labels to train on, and those kept back."""
    n = len(labels.value)
    count = round(share * n)
    if count == 0:
        return labels, None
    order = stream.generator.permutation(n)
    return labels.rows(np.sort(order[count:])), labels.rows(np.sort(order[:count]))


def _misses(network: AbstractField, labels: Labels) -> np.ndarray:
    """Squared distances to labels."""
    with precision("float64"):
        points = jnp.asarray(np.asarray(labels.points, np.float64))
        value = np.asarray(batched(network, points))
    return (value - np.asarray(labels.value, np.float64)) ** 2


def _rose(before: np.ndarray | None, after: np.ndarray) -> bool:
    """Whether squares have grown by more than chance."""
    assert before is not None
    change = after - before
    return float(np.mean(change)) > _SURE * float(np.std(change)) / len(change) ** 0.5


def joined(before: Fit, after: Fit) -> Fit:
    """One record of two trainings, one after the other."""
    taken = before.history[-1]["step"] if before.history else 0
    later = [record | {"step": record["step"] + taken} for record in after.history]
    return after._replace(
        history=before.history + later,
        stopped=before.stopped + after.stopped,
        compile_seconds=before.compile_seconds + after.compile_seconds,
    )


def train_together(jobs: Sequence[Job], labels: Sequence[Labels | None]) -> list[Fit]:
    """What `train` does for each of these jobs, which differ in their seeds, as one computation."""
    works = [_Work.of(job, own) for job, own in zip(jobs, labels, strict=True)]
    return fit_many(
        [work.network for work in works], [work.loss for work in works], works[0].phases,
        progress=jobs[0].progress, keys=[work.key for work in works],
    )  # fmt: skip


class _Work(NamedTuple):
    """What a training starts from."""

    network: AbstractField
    loss: Loss
    phases: list[Phase]
    key: PRNGKeyArray

    @classmethod
    def of(cls, job: Job, labels: Labels | None) -> "_Work":
        settings, stream = job.settings, job.stream
        size = output_size(job.problem, settings, labels)
        phases = _phases(job, labels, size)
        with working_in(phases):
            dtype = jnp.dtype(phases[0].optimizer.dtype or "float32")
            loss = make_loss(
                job.problem, settings.n_interior, settings.points.n_boundary, labels,
                size=None if settings.training.uncertainty else size,
                sampler=_sampler(job), n_directions=settings.points.directions,
                time_power=settings.points.time_power,
                path_steps=_path_steps(job), whole_paths=job.how.whole_paths,
                **_labels_count(settings), dtype=dtype, key=(stream / "points").key,
            )  # fmt: skip
            if job.parts.network is not None:
                network = cast(job.parts.network, dtype)
            else:
                key = (stream / "network").key
                network = make_network(job.problem, settings, size, dtype=dtype, key=key)
        return cls(network, loss, phases, (stream / "training").key)


def _phases(job: Job, labels: Labels | None, size: Size) -> list[Phase]:
    settings, own = job.settings, job.parts.optimizer
    noise = None if labels is None else relative_noise(labels, size)
    work = Weighted(job.problem, settings, noise, job.parts.weighting)
    if own is not None:
        steps = settings.training.steps or _OWN_STEPS
        name = type(own).__name__
        return [Phase(name, own, steps, work.fading(), settings.points.redraw)]
    phases = job.how.phases(work)
    others = [phase.name for phase in phases if not isinstance(phase.optimizer, Adam)]
    if settings.points.directions and others:
        raise ValueError(
            f"`points.directions` is for training by Adam with new directions in every step; got "
            f"{settings.points.directions} and the phases {others}. Use a method that ends with "
            f"`-adam`, or `pinn`, with `training.lbfgs_steps` of 0."
        )
    if not phases:
        raise ValueError(
            f"The settings leave no training steps for `{job.method}`: set `training.adam_steps` "
            f"or `training.lbfgs_steps`."
        )
    return phases


def _path_steps(job: Job) -> int:
    steps = job.settings.points.path_steps
    return steps or _PATH_STEPS if job.how.whole_paths else steps


def _labels_count(settings: Settings) -> dict[str, Any]:
    """How labels count in the loss."""
    weighed = not (settings.training.uncertainty or settings.labels.pooled)
    batch = settings.n_labels_at_once if settings.labels.times > 1 else None
    return {"by_error": weighed, "batch": batch}


def _sampler(job: Job) -> AbstractSampler | None:
    if job.parts.sampler is not None:
        return job.parts.sampler
    return Adaptive() if job.settings.points.adaptive else job.visited


def polish(
    job: Job,
    network: AbstractField,
    labels: Labels | None,
    *,
    size: Size,
    name: str,
    stream: Stream,
    share: float = 1.0,
    whole: float = 0.6,
    regress: bool = False,
    folder: Path | None = None,
) -> Fit:
    """Train a good network on, with many points; labels weigh what their noise allows.

    The residual that is left counts as the noise of its points, so that a label weighs as many of
    these as its own noise, squared, goes into it.

    Args:
        job: what is to be solved.
        network: where to start.
        labels: corrected ones; None for residual and boundary data alone.
        size: typical size of the solution.
        name: of the phase.
        stream: of the points.
        share: of the steps that the settings name.
        whole: share of the steps that are whole ones; later ones are cut, to average over points.
        regress: on labels and boundary data alone.
        folder: for checkpoints.
    """
    settings = job.settings
    times = settings.training.polish_times
    n_interior = times * settings.points.n_collocation
    with precision("float64"):
        network = cast(network, "float64")
        loss = make_loss(
            job.problem, n_interior, times * settings.points.n_boundary, labels,
            size=None if settings.training.uncertainty else size,
            sampler=_sampler(job), time_power=settings.points.time_power,
            path_steps=settings.points.path_steps,
            **_labels_count(settings), dtype=jnp.dtype("float64"),
            key=(stream / "points").key,
        )  # fmt: skip
        given = polish_weights(job.problem, settings)
        if labels is not None:
            left = float(_mean_square(loss.terms["residual"], network))
            given["labels"] = (
                left / relative_noise(labels, size) ** 2 * len(labels.value) / n_interior
            )
        if regress:
            given |= {"residual": 0.0, "labels": 1.0}
        steps = math.ceil(share * (settings.training.polish_steps or _ROUND_STEPS))
        redraw = settings.points.redraw
        phase = Phase(name, polisher(settings, steps, whole), steps, Fixed(given), redraw)
        return fit(
            network, loss, [phase],
            progress=job.progress, watch=job.watch, folder=folder,
            interval=settings.training.checkpoint_seconds, key=(stream / "training").key,
        )  # fmt: skip


@quickly_compiled
def _mean_square(term: AbstractTerm, network: AbstractField) -> Scalar:
    return term(network)


def solution_size(problem: Problem, labels: Labels | None) -> Size:
    """Typical size of the solution, in a family a function of its parameters; 1 if not known."""
    if labels is None:
        return Size(1.0)
    n = len(problem.layout.parameters)
    if n == 0:
        return Size(labels.size())
    lower, upper = (np.asarray(end, float)[:n] for end in problem.bounds())
    center, half = tuple((0.5 * (lower + upper)).tolist()), tuple((0.5 * (upper - lower)).tolist())
    return fit_size(np.asarray(labels.points), np.asarray(labels.value), center, half)


def output_size(problem: Problem, settings: Settings, labels: Labels | None) -> Size:
    """What the network's output is multiplied by."""
    return solution_size(problem, labels) if settings.network.scaled else Size(1.0)


def relative_noise(labels: Labels, size: Size) -> float:
    """Root mean square of the errors of labels relative to the size of the solution."""
    beside = np.asarray(labels.error(), np.float64) / size.at(np.asarray(labels.points))
    return float(np.sqrt(np.mean(beside**2)))


def with_doubled_points(job: Job) -> Job:
    """The same job with twice the points in its last steps."""
    times = 2 * job.settings.training.polish_times
    return dataclasses.replace(job, settings=job.settings.changed({"training.polish_times": times}))
