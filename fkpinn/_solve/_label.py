"""First stage: Monte Carlo labels."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._field import AbstractField
from .._streams import Stream
from ..labels import Labels, branching_labels, estimate_labels
from ..loss import Adaptive, ResidualTerm
from ..sampling import sample_interior
from ..train import Fit
from ..train import precision as precision_of
from ._cuts import batched
from ._job import Job
from ._methods import paper_or_natural_phases
from ._train import train

_FEWEST = 3  # steps that can be divided
_FIRST = 20  # steps of a nonlinear problem before its labels are made anew
_FEW = 16  # paths whose coefficients look at a network take long: a quarter of others, or so many
_PILOT = 30  # steps of the training whose residual tells where more labels go


def label(job: Job) -> Labels | None:
    """Labels at points of the problem's measure, and maybe where they are needed most.

    Args:
        job: what is to be solved; its settings say how many. With a folder they are kept there, and
            the same call goes on after a crash.

    Returns:
        Labels; None for a method, or settings, without any.
    """
    settings, n = job.settings, job.settings.n_labels
    if n == 0 or not job.how.labelled:
        return None
    stream = job.stream / "labels"
    n_second = int(settings.labels.second_pass * n)
    key = (stream / "points").key
    points = sample_interior(job.problem, n - n_second, dtype=jnp.float32, key=key)
    own = "" if job.near is None else "-near"
    first = label_at(job, points, stream / "first", f"labels{own}.npz")
    if n_second == 0:
        return first
    where = _where_needed(job, first, n_second)
    return first.joined(label_at(job, where, stream / "second", f"labels-second{own}.npz"))


def label_at(job: Job, points: Float[Array, "n z"], stream: Stream, name: str = "") -> Labels:
    """Labels at given points, as the settings want them.

    Args:
        job: what is to be solved.
        points: where, one point per row.
        stream: of the paths.
        name: of the file in the folder of the job.
    """
    how = job.settings.labels
    if how.scheme == "branching":  # as quick to make again as to keep
        return branching_labels(
            job.problem, points, n_paths=how.n_paths, seed=stream.seed, progress=job.progress
        )
    return estimate_labels(
        job.linear_problem,
        points,
        n_paths=how.n_paths if job.near is None else max(how.n_paths // 4, min(how.n_paths, _FEW)),
        dt=how.dt,
        scheme=job.parts.scheme or how.scheme,
        bias=how.bias,
        seed=stream.seed,
        warn=False,  # the pipeline says so at its end
        store=None if job.folder is None or not name else job.folder / name,
        progress=job.progress,
    )


def approach(job: Job, labels: Labels) -> tuple[Job, Labels, Fit]:
    """A first step of Newton's: a short training, and labels of the linear problem next to it.

    Labels next to a first guess may be far from the solution of a nonlinear problem. Those next to
    a network that was trained on them and on the equation are right up to the square of its error.
    Where they are farther from the network than it is large, only a part of the way is gone.

    Args:
        job: what is to be solved, a nonlinear problem.
        labels: next to a first guess.

    Returns:
        A job that starts from the network and has the other steps left, the new labels, and the
        record of the training.
    """
    steps, adam = job.settings.training.steps, job.settings.training.adam_steps
    short = {"training.steps": min(steps // 3, _FIRST), "training.adam_steps": adam // 3}
    later_phases = ("training.polish_steps", "training.lbfgs_steps", "training.nncg_steps")
    pause = short | dict.fromkeys(later_phases, 0)
    folder = None if job.folder is None else job.folder / "first"
    first = train(
        dataclasses.replace(job, settings=job.settings.changed(pause), folder=folder), labels
    )
    left = {"training.steps": steps - short["training.steps"]}
    left |= {"training.adam_steps": adam - short["training.adam_steps"]}
    parts = dataclasses.replace(job.parts, network=first.network)
    settings = job.settings.changed(left)
    later = dataclasses.replace(job, near=first.network, parts=parts, settings=settings)
    found = label(later)
    assert found is not None
    found, note = _damped(first.network, found)
    return later, found, first._replace(stopped=[*first.stopped, *note])


def approaches(job: Job) -> bool:
    """Whether labels are first those of another linear problem, and there are steps to mend that.

    With fewer than three steps of the first phase none would be left before or after.
    """
    training, parts = job.settings.training, job.parts
    if job.problem.linear or job.settings.labels.scheme == "branching":
        return False
    if parts.network is not None or parts.optimizer is not None:
        return False
    natural = training.steps > 0 and job.how.phases is paper_or_natural_phases
    return (training.steps if natural else training.adam_steps) >= _FEWEST


def _damped(network: AbstractField, labels: Labels) -> tuple[Labels, list[str]]:
    """Labels not farther from a network than it is large."""
    with precision("float64"):
        here = np.asarray(batched(network, jnp.asarray(np.asarray(labels.points, np.float64))))
    step = np.asarray(labels.value, np.float64) - here
    far, size = (float(np.sqrt(np.mean(a**2))) for a in (step, here))
    if far <= size:
        return labels, []
    share = size / far if np.isfinite(far) else 0.0
    dtype = labels.value.dtype
    value = np.where(np.isfinite(step), here + share * step, here)
    note = f"labels: a Newton step was shortened to {share:.2g} of its length"
    return labels._replace(value=jnp.asarray(value, dtype)), [note]


def _where_needed(job: Job, first: Labels, n: int) -> Float[Array, "n z"]:
    """Points where the residual of a short training is large."""
    training = job.settings.training
    short = {
        "training.steps": min(training.steps, _PILOT),
        "training.polish_steps": 0,
        "training.adam_steps": min(training.adam_steps, 50 * _PILOT),
        "training.lbfgs_steps": 0,
    }
    stream = job.stream / "labels/pilot"
    pilot_job = dataclasses.replace(
        job, settings=job.settings.changed(short), seed=stream.seed, folder=None, watch=None
    )
    pilot = train(pilot_job, first)
    dtype = jnp.dtype(precision_of(pilot.network))
    with precision(dtype):
        term = ResidualTerm(job.problem, first.points.astype(dtype), first.size())
        draw = Adaptive(floor=0.2).draw
        key = (stream / "points").key
        where = draw(job.problem, pilot.network, term.at, n, dtype, key=key)
    return jnp.asarray(np.asarray(where), jnp.float32)
