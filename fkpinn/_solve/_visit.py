"""Places that paths visit, for the points of the residual."""

import dataclasses
import threading

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import current, start_thread
from .._streams import Stream
from ..labels import compile_visits, visited_places
from ..loss import PathPoints
from ..problem import Problem
from ..sampling import sample_interior
from ._job import Job

_STARTS = 1024  # points of the measure at which paths start
_PATHS = 16  # from each
_STEPS = 1 << 13  # of a path; what rare, long ones add is seen by then


def visit(job: Job) -> Job:
    """The job with residual points where paths go, if its settings want them."""
    if not _wanted(job):
        return job
    share = job.settings.points.visited
    places = _occupied(job, job.stream / "visits")
    sampler = PathPoints(jnp.asarray(places, jnp.float32), share)
    return dataclasses.replace(job, parts=dataclasses.replace(job.parts, sampler=sampler))


def compile_ahead(job: Job) -> threading.Thread | None:
    """While label paths are compiled and run on an accelerator, compile those for points."""
    if not _wanted(job) or current().on_cpu:
        return None
    starts = _starts(job.problem, job.stream / "visits")
    work = lambda: compile_visits(job.problem, starts, n_paths=_PATHS, n_steps=_STEPS)
    return start_thread(work)


def _wanted(job: Job) -> bool:
    return job.settings.points.visited > 0 and job.parts.sampler is None


def _starts(problem: Problem, stream: Stream) -> Float[Array, "n z"]:
    return sample_interior(problem, _STARTS, dtype=jnp.float32, key=(stream / "starts").key)


def _occupied(job: Job, stream: Stream) -> np.ndarray:
    """Places that paths from points of the measure visit, by the time they spend there."""
    starts = _starts(job.problem, stream)
    found = visited_places(
        job.problem, starts, n_paths=_PATHS, n_steps=_STEPS, seed=(stream / "paths").seed,
        progress=job.progress,
    )  # fmt: skip
    chance = found.time / np.sum(found.time)
    rows = (stream / "pick").generator.choice(len(chance), len(chance), p=chance)
    return found.point[rows]
