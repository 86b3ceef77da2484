"""Missing trainings, seeds of one kind at the same time, one record each."""

import contextlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._compute import current, precision
from .._lock import locked
from .._progress import AbstractProgress, SilentProgress
from .._records import clear_unfinished, installed_versions, plain, source_commit, write_json
from .._solve import Job, label, slice_through, train, train_together
from ..evaluate import errors
from ..labels import Labels
from ..problem import Problem, catalogue
from ..reference import AbstractReference, catalogue_reference
from ..sampling import sobol_interior
from ..train import Fit
from ._config import Cell

_POINTS = 1 << 13  # of the errors
_REPORTS = 160  # of a training, kept for its curves
_GRID = 64  # nodes a side of the pictures


def run_missing(
    runs: Sequence[tuple[Cell, int]],
    results: Path,
    *,
    seconds: float = float("inf"),
    at_once: int | None = None,
    jobs: int = 1,
    progress: AbstractProgress | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> int:
    """Train the runs that have no record yet; a record is written when its training has ended.

    Several processes may do this for the same runs: each takes runs that no other has taken.

    Args:
        runs: cells and seeds.
        results: the folder of records.
        seconds: no training is started after this time.
        at_once: seeds of one kind that are trained at the same time; by default all of them on an
            accelerator, if their weights allow it.
        jobs: number of processes that share the device, including this one; for the record.
        progress: told how far a training is.
        say: called with messages on what is done.

    Returns:
        The number of runs still missing.
    """
    if at_once is not None and at_once < 1:
        raise ValueError(f"`at_once` must be at least 1; got {at_once}.")
    began, progress = time.perf_counter(), progress or SilentProgress()
    runs = list(dict.fromkeys(runs))
    missing: dict[Cell, list[int]] = {}
    for cell, seed in runs:
        missing.setdefault(cell, []).append(seed)
    for cell, seeds in missing.items():
        size = _side_by_side(cell, len(seeds), at_once)
        for some in (seeds[k : k + size] for k in range(0, len(seeds), size)):
            if time.perf_counter() - began > seconds:
                return count_missing(runs, results)
            with contextlib.ExitStack() as stack:
                mine = [s for s in some if stack.enter_context(_taken(cell, s, results))]
                if not mine:
                    continue
                for seed, record in zip(mine, _train(cell, mine, jobs, progress), strict=True):
                    write_json(cell.record_path(results, seed), plain(record))
            left = count_missing(runs, results)
            say(f"{cell.name}, {cell.preset}: seeds {mine}; {left} runs left")
    return count_missing(runs, results)


def count_missing(runs: Sequence[tuple[Cell, int]], results: Path) -> int:
    """How many have no record."""
    return sum(not cell.record_path(results, seed).is_file() for cell, seed in set(runs))


def _side_by_side(cell: Cell, n: int, wanted: int | None) -> int:
    """Seeds to train as one computation: their weights must be alike, and it must gain by it."""
    if not cell.settings.training.uncertainty:
        return 1
    return wanted or (1 if current().on_cpu else n)


@contextlib.contextmanager
def _taken(cell: Cell, seed: int, results: Path) -> Iterator[bool]:
    """Whether the run is ours to do: without a record, and no other process is at it."""
    path = cell.record_path(results, seed)
    if path.is_file():
        yield False
        return
    with locked(path.with_suffix(".lock")) as ours:
        if ours:
            clear_unfinished(path.parent, path.name)
        yield ours and not path.is_file()  # or it was made while we looked


def _train(
    cell: Cell, seeds: list[int], jobs: int, progress: AbstractProgress
) -> list[dict[str, Any]]:
    """Records of one kind of training; the time of what is done at once is shared evenly."""
    problem, truth = catalogue(cell.problem).problem, catalogue_reference(cell.problem)
    jobs_of = [
        Job.of(problem, cell.settings, cell.method, seed=seed, progress=progress) for seed in seeds
    ]
    labels, label_seconds = [], []
    for job in jobs_of:
        clock = time.perf_counter()
        labels.append(label(job))
        label_seconds.append(time.perf_counter() - clock)
    clock = time.perf_counter()
    together = len(seeds) > 1
    if together:
        fits = train_together(jobs_of, labels)
    else:
        fits = [train(jobs_of[0], labels[0])]
    train_seconds = (time.perf_counter() - clock) / len(seeds)
    progress.finish()
    return [
        {
            **_result(cell, problem, truth, fit, own),
            "seed": seed,
            "seconds": {
                "labels": took,
                "train": train_seconds,
                "total": took + train_seconds,
            },
            "at_once": len(seeds) if together else 1,
            "jobs": jobs,
        }
        for seed, fit, own, took in zip(seeds, fits, labels, label_seconds, strict=True)
    ]


def _result(
    cell: Cell, problem: Problem, truth: AbstractReference, fit: Fit, labels: Labels | None
) -> dict[str, Any]:
    with precision("float64"):
        found = errors(problem, fit.network, truth, sobol_interior(problem, _POINTS))
    stride = max(1, len(fit.history) // _REPORTS)
    return {
        "problem": cell.problem,
        "method": cell.method,
        "preset": cell.preset,
        "changes": dict(cell.changes),
        "settings": cell.settings.flat(),
        "errors": found.to_dict(),
        "labels": _quality(truth, labels),
        "history": fit.history[::stride] + fit.history[-1:],
        "stopped": fit.stopped,
        "picture": _picture(problem, fit.network, truth),
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()})",
        "versions": installed_versions(),
        "commit": source_commit(),
    }


def _quality(truth: AbstractReference, labels: Labels | None) -> dict[str, Any] | None:
    """Errors of labels, over the size of the solution at their points."""
    if labels is None:
        return None
    with precision("float64"):
        exact = np.asarray(truth.values(np.asarray(labels.points, np.float64)))
    off, size = np.asarray(labels.value, np.float64) - exact, np.sqrt(np.mean(exact**2))
    return {
        "n": len(exact),
        "rel_err": float(np.sqrt(np.mean(off**2)) / size),
        "rel_bias": float(np.mean(off) / size),
        "rel_stderr": float(np.sqrt(np.mean(np.asarray(labels.stderr) ** 2)) / size),
    }


def _picture(problem: Problem, network: Any, truth: AbstractReference) -> dict[str, Any] | None:
    """The network on a coarse grid, four digits each."""
    if problem.dim != 2 or problem.timed:
        return None
    axes, values, exact = slice_through(problem, network, truth, _GRID)
    short = lambda field: [[_digits(v) for v in row] for row in field]
    return {
        "axes": [[_digits(v) for v in axis] for axis in axes],
        "values": short(values),
        "exact": short(exact),
    }


def _digits(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
