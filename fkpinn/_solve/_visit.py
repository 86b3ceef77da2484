"""Places that paths visit, for the points of the residual."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from .._streams import Stream
from ..labels import visited_places
from ..loss import PathPoints
from ..sampling import sample_interior
from ._job import Job

_STARTS = 1024  # points of the measure at which paths start
_PATHS = 16  # from each
_STEPS = 1 << 13  # of a path; what rare, long ones add is seen by then


def visit(job: Job) -> Job:
    """The job with residual points where paths go, if its settings want them."""
    share = job.settings.points.visited
    if share == 0 or job.parts.sampler is not None:
        return job
    places = _occupied(job, job.stream / "visits")
    sampler = PathPoints(jnp.asarray(places, jnp.float32), share)
    return dataclasses.replace(job, parts=dataclasses.replace(job.parts, sampler=sampler))


def _occupied(job: Job, stream: Stream) -> np.ndarray:
    """Places that paths from points of the measure visit, by the time they spend there."""
    key = (stream / "starts").key
    starts = sample_interior(job.problem, _STARTS, dtype=jnp.float32, key=key)
    found = visited_places(
        job.problem, starts, n_paths=_PATHS, n_steps=_STEPS, seed=(stream / "paths").seed,
        progress=job.progress,
    )  # fmt: skip
    chance = found.time / np.sum(found.time)
    rows = (stream / "pick").generator.choice(len(chance), len(chance), p=chance)
    return found.point[rows]
