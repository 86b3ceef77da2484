"""A start near the solution: the network of a problem that is much alike."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from .._compute import precision
from .._field import AbstractField
from ..labels import Labels, defect_problem
from ..loss import cast
from ..nn import AbstractHard
from ..problem import Problem
from ..sampling import sample_interior
from ._cuts import batched
from ._job import Job
from ._label import label, label_at
from ._network import harden
from ._presets import ALIKE
from ._solution import Solution

_FAR = 0.3  # of the solution, as an error from which on a start saves nothing
_STEPS = 4  # times fewer steps than from scratch
_PATHS = 4  # times fewer paths: what a near network lacks is small, and so is its noise
_FEWEST = 32  # paths that tell an error bar


def starting_network(start: Solution, problem: Problem) -> AbstractField:
    """The network of another solution, with the data of the problem built in if it has any.

    Args:
        start: of a problem with points of the same kind.
        problem: the one to be solved.
    """
    if not isinstance(start, Solution):
        raise TypeError(f"`start` must be a `Solution`; got {type(start).__name__}.")
    theirs, ours = start.layout, problem.layout
    same = theirs.dim == ours.dim and theirs.timed == ours.timed
    names = [tuple(name for name, _ in layout.parameters) for layout in (theirs, ours)]
    if not same or names[0] != names[1]:
        hint = " Choose one of its problems: `start.at(...)`." if names[0] else ""
        raise ValueError(
            f"`start` must have the same coordinates as the problem, {ours}; it has {theirs}.{hint}"
        )
    network = start.network
    return harden(problem, network.network) if isinstance(network, AbstractHard) else network


def begin_near(job: Job) -> tuple[Job, Labels | None, list[str]]:
    """Labels for the error of the starting network, and a job with fewer steps; or from scratch.

    Args:
        job: what is to be solved, with a network to start from.

    Returns:
        The job to continue with, labels, and notes.
    """
    network, settings = job.start, job.settings
    assert network is not None
    scratch = dataclasses.replace(job, start=None)
    n = settings.n_labels
    if n == 0 or not job.how.labelled:
        note = "start: without labels the error of the given network is unknown"
        return _near(job, network), None, [note]
    stream = job.stream / "labels"
    points = sample_interior(job.problem, n, dtype=jnp.float32, key=(stream / "points").key)
    usual = settings.labels.n_paths
    fewer = settings.changed({"labels.n_paths": max(usual // _PATHS, min(usual, _FEWEST))})
    with precision("float32"):
        of_lack = defect_problem(job.problem, cast(network, "float32"))
        lacks = label_at(
            dataclasses.replace(job, problem=of_lack, settings=fewer), points, stream / "start"
        )
    with precision("float64"):
        exact = jnp.asarray(np.asarray(points, np.float64))
        here = np.asarray(batched(cast(network, "float64"), exact))
    off, noise = np.asarray(lacks.value, np.float64), np.asarray(lacks.stderr, np.float64)
    size = float(np.sqrt(np.mean((here + off) ** 2)))
    wrong = float(np.sqrt(max(np.mean(off**2) - np.mean(noise**2), 0.0))) / max(size, 1e-300)
    if not wrong < _FAR:
        note = (
            f"start: the given network has a relative error of {wrong:.2g}, too large for a warm "
            f"start; training began from scratch"
        )
        return scratch, label(scratch), [note]
    value = jnp.asarray(here + off, lacks.value.dtype)
    note = f"start: the given network had a relative error of {wrong:.2g}"
    return _near(job, network), lacks._replace(value=value), [note]


def _near(job: Job, network: AbstractField) -> Job:
    """The same with that network and fewer steps, all of them alike."""
    training = job.settings.training
    fewer = {
        "training.steps": -(-training.steps // _STEPS),
        "training.adam_steps": -(-training.adam_steps // _STEPS),
        **ALIKE,
    }
    parts = dataclasses.replace(job.parts, network=network)
    return dataclasses.replace(job, settings=job.settings.changed(fewer), parts=parts, start=None)
