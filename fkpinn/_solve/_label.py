"""First stage: Monte Carlo labels."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._streams import Stream
from ..labels import Labels, branching_labels, estimate_labels
from ..loss import Adaptive, ResidualTerm
from ..sampling import sample_interior
from ..train import precision as precision_of
from ._job import Job
from ._train import train

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
    first = label_at(job, points, stream / "first", "labels.npz")
    if n_second == 0:
        return first
    where = _where_needed(job, first, n_second)
    return first.joined(label_at(job, where, stream / "second", "labels-second.npz"))


def label_at(job: Job, points: Float[Array, "n z"], stream: Stream, name: str = "") -> Labels:
    """Labels at given points, as the settings want them.

    Args:
        job: what is to be solved.
        points: where, one point a row.
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
        n_paths=how.n_paths,
        dt=how.dt,
        scheme=job.parts.scheme or how.scheme,
        bias=how.bias,
        seed=stream.seed,
        warn=False,  # the pipeline says so at its end
        store=None if job.folder is None or not name else job.folder / name,
        progress=job.progress,
    )


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
