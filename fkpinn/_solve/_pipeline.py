"""All stages, one after the other: label, train, certify, improve."""

from typing import Any, NamedTuple

from .._together import clock
from ..evaluate import Certificate, NoCertificate
from ..labels import Labels
from ..train import Fit
from ._certify import compile_ahead
from ._improve import Improved, improve
from ._job import Job
from ._label import approach, approaches, label
from ._start import begin_near
from ._train import joined, solution_size, train
from ._visit import compile_ahead as compile_visits_ahead
from ._visit import visit

_MANY = 0.02  # share of points with rough error bars that is worth a note


class Outcome(NamedTuple):
    """What the stages have made, and the seconds each took.

    `trained` holds the network of the last round that was kept. `certificate` is None where none
    was asked for, or where paths cannot measure the error; `trained.stopped` says so then.
    """

    labels: Labels | None
    trained: Fit
    certificate: Certificate | None
    rounds: list[dict[str, Any]]
    seconds: dict[str, float]


def run_stages(job: Job, labels: Labels | None = None, *, certify: bool) -> Outcome:
    """Label, train, and measure and improve if so asked.

    Args:
        job: what is to be solved.
        labels: labels of the user's own; none are made then.
        certify: whether the error is measured, and rounds of training follow as the settings say.
    """
    check_labels(job, labels)
    times = [clock()]
    visits = compile_visits_ahead(job)
    own = labels is not None
    told: list[str] = []
    if job.start is not None and labels is None:
        job, labels, told = begin_near(job)
    elif labels is None:
        labels = label(job)
    if visits is not None:
        visits.join()
    job = visit(job)
    times.append(clock())
    ahead = compile_ahead(job, labels) if certify else None
    first = None
    if labels is not None and not own and approaches(job):
        job, labels, first = approach(job, labels)
    trained = train(job, labels)
    trained = trained if first is None else joined(first, trained)
    trained = trained._replace(stopped=[*told, *_notes(labels), *trained.stopped])
    times.append(clock())
    certificate, rounds = None, []
    if ahead is not None:
        ahead.join()
    if certify:
        try:
            size = solution_size(job.problem, labels)
            improved = improve(job, trained.network, size=size, trained_in=times[2] - times[0])
            trained, certificate = _with_rounds(trained, improved), improved.certificate
            rounds = improved.rounds
        except NoCertificate as error:  # the network is worth keeping
            trained = trained._replace(stopped=[*trained.stopped, f"no certificate: {error}"])
    times.append(clock())
    seconds = {
        "labels": times[1] - times[0],
        "compile": trained.compile_seconds,
        "train": times[2] - times[1] - trained.compile_seconds,
        "certify": times[3] - times[2],
    }
    return Outcome(labels, trained, certificate, rounds, seconds)


def check_labels(job: Job, labels: Labels | None) -> None:
    """Refuse labels that would not be used, or that are of another problem."""
    if labels is None:
        return
    if not job.how.labelled:
        raise ValueError(
            f"`labels` were given and `method` is {job.method!r}, which does not use them. Leave "
            f"out `labels`, or choose a method with labels such as 'fk-pinn'."
        )
    if job.settings.labels.p_data == 0:
        raise ValueError(
            "`labels` were given and the setting `labels.p_data` is 0, so they would not be used. "
            "Change the setting, or leave out `labels`."
        )
    if labels.points.shape[1] != job.problem.n_coords:
        raise ValueError(
            f"`labels` must have points of length {job.problem.n_coords}; got points of shape "
            f"{labels.points.shape}."
        )


def _notes(labels: Labels | None) -> list[str]:
    """What is worth knowing of labels that were made here."""
    heavy = {} if labels is None else labels.provenance.get("heavy", {})
    if labels is None or heavy.get("points", 0) <= _MANY * len(labels.value):
        return []
    return [
        f"labels: at {heavy['points']} of {len(labels.value)} points a single path dominates the "
        f"average, so their error bars are unreliable; increase `labels.n_paths`"
    ]


def _with_rounds(trained: Fit, improved: Improved) -> Fit:
    """One record of the training and of the rounds after it."""
    rounds = trained._replace(
        network=improved.network, history=improved.history, stopped=improved.notes,
        compile_seconds=0.0,
    )  # fmt: skip
    return joined(trained, rounds)
