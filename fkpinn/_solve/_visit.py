"""Places that paths visit, for the points of the residual."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from .._streams import Stream
from ..labels import visited_places
from ..loss import PathPoints
from ..problem import Problem
from ..sampling import sample_interior
from ..sde import Visits
from ._job import Job

_STARTS = 1024  # points of the measure at which paths start
_PATHS = 16  # from each
_STEPS = 1 << 13  # of a path; what rare, long ones add is seen by then


def visit(job: Job) -> Job:
    """The job with residual points where paths go, if its settings want them."""
    share = job.settings.points.visited
    if share == 0 or job.parts.sampler is not None:
        return job
    places = occupied(job.problem, job.stream / "visits")
    sampler = PathPoints(jnp.asarray(places, jnp.float32), share)
    return dataclasses.replace(job, parts=dataclasses.replace(job.parts, sampler=sampler))


def occupied(problem: Problem, stream: Stream) -> np.ndarray:
    """Places that paths from points of the measure visit, by the time they spend there."""
    found = paths_from_measure(problem, stream)
    chance = found.time / np.sum(found.time)
    rows = (stream / "pick").generator.choice(len(chance), len(chance), p=chance)
    return found.point[rows]


def paths_from_measure(problem: Problem, stream: Stream) -> Visits:
    """What paths from points of the measure hand back."""
    key = (stream / "starts").key
    starts = sample_interior(problem, _STARTS, dtype=jnp.float32, key=key)
    seed = (stream / "paths").seed
    return visited_places(problem, starts, n_paths=_PATHS, n_steps=_STEPS, seed=seed)
