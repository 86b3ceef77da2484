"""Places that paths visit and where they leave, for points of residual and boundary."""

import dataclasses
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import current, start_thread
from .._streams import Stream
from .._together import several
from .._types import Points
from ..labels import compile_visits, visited_places
from ..loss import PathPoints
from ..problem import Problem
from ..sampling import BoundaryPoints, sample_interior
from ..sde import Visits
from ._job import Job

_STARTS = 1024  # points of the measure at which paths start
_PATHS, _FEW_PATHS = 16, 4  # from each, on an accelerator and on processor cores
_STEPS = 1 << 13  # of a path; what rare, long ones add is seen by then
_NEAR = 0.01  # of the diameter: who is farther from the wall was cut, or ran out of time
_FEWEST = 64  # exits that say where paths leave


def visit(job: Job, stream: Stream | None = None) -> Job:
    """The job with residual and boundary points where paths go, if its settings want them.

    Args:
        job: what is to be solved.
        stream: of the paths; that of the first ones if not given.
    """
    if not _wanted(job):
        return job
    return dataclasses.replace(job, visited=_where_paths_go(job, stream or job.stream / "visits"))


def compile_ahead(job: Job) -> threading.Thread | None:
    """While label paths are compiled and run on an accelerator, compile those for points."""
    if not _wanted(job) or current().on_cpu or several():
        return None
    starts = _starts(job.problem, job.stream / "visits")
    work = lambda: compile_visits(job.linear_problem, starts, n_paths=_paths(), n_steps=_STEPS)
    return start_thread(work)


def _wanted(job: Job) -> bool:
    return job.settings.points.visited > 0 and job.parts.sampler is None


def _paths() -> int:
    return _FEW_PATHS if current().on_cpu else _PATHS


def _starts(problem: Problem, stream: Stream) -> Float[Array, "n z"]:
    return sample_interior(problem, _STARTS, dtype=jnp.float32, key=(stream / "starts").key)


def _where_paths_go(job: Job, stream: Stream) -> PathPoints:
    """Places that paths from points of the measure visit, by the time they spend there; exits."""
    starts = _starts(job.problem, stream)
    found = visited_places(
        job.linear_problem, starts, n_paths=_paths(), n_steps=_STEPS, seed=(stream / "paths").seed,
        progress=job.progress,
    )  # fmt: skip
    chance = found.time / np.sum(found.time)
    rows = (stream / "pick").generator.choice(len(chance), len(chance), p=chance)
    pool = jnp.asarray(found.point[rows], jnp.float32)
    return PathPoints(pool, job.settings.points.visited, _exits(job.problem, found, stream))


def _exits(problem: Problem, found: Visits, stream: Stream) -> BoundaryPoints | None:
    """Where paths left, by what is left of their discount; None if too few did in their time."""
    if not problem.domain.parts:
        return None
    ends = np.asarray(found.exit, np.float32)
    points, normals, parts, depth = (np.asarray(a) for a in _at_wall(problem, jnp.asarray(ends)))
    left = np.flatnonzero((depth < _NEAR * problem.domain.diameter()) & (found.discount > 0))
    if len(left) < _FEWEST:
        return None
    chance = found.discount[left] / np.sum(found.discount[left])
    rows = left[(stream / "exits").generator.choice(len(left), len(ends), p=chance)]
    return BoundaryPoints(*(jnp.asarray(a[rows]) for a in (points, normals, parts)))


@eqx.filter_jit
def _at_wall(problem: Problem, ends: Points) -> tuple[Array, ...]:
    """The nearest points of the boundary, their normals and parts, and how far they are."""
    layout = problem.layout

    def one(end):
        x, domain = layout.space(end), problem.domain_at(end)
        wall = domain.project(x)
        distance = jnp.abs(domain.signed_distance(x))
        at = layout.placed(layout.ahead(end), wall)
        return at, domain.normal(wall), domain.part_at(wall), distance

    return jax.vmap(one)(ends)
