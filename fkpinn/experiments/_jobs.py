"""Trainings spread over several processes, for a device that one of them does not fill."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .._progress import AbstractProgress, SilentProgress
from ._config import Cell
from ._run import count_missing, run_missing

_LOOK = 0.5  # seconds between looks at the records


def run_in_jobs(
    runs: Sequence[tuple[Cell, int]],
    results: Path,
    *,
    jobs: int,
    seconds: float = float("inf"),
    progress: AbstractProgress | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> int:
    """As `run_missing`, in several processes.

    Each begins with another kind of training, so that none compiles what another compiles. On a
    card they take turns, unless its multi-process service runs.

    Args:
        runs: cells and seeds.
        results: the folder of records.
        jobs: how many processes.
        seconds: no training is begun after these.
        progress: told how many are done.
        say: told what is done.

    Returns:
        How many are still missing.
    """
    if jobs < 1:
        raise ValueError(f"`jobs` must be at least 1; got {jobs}.")
    progress = progress or SilentProgress()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # memory is for all of them
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(
            target=_job, args=(_from_cell(runs, k, jobs), results, seconds, jobs), daemon=True
        )
        for k in range(jobs)
    ]
    for worker in workers:
        worker.start()
    total, left = len(dict.fromkeys(runs)), -1
    progress.start("runs", total)
    try:
        while any(worker.is_alive() for worker in workers):
            found = count_missing(runs, results)
            if found != left:
                left = found
                progress.update(total - left)
            time.sleep(_LOOK)
    finally:
        for worker in workers:
            worker.terminate()  # does nothing to one that has ended
    progress.finish()
    left = count_missing(runs, results)
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {jobs} processes ended with an error (see above); {left} runs have "
            f"no record. The same command goes on with them."
        )
    say(f"{total - left} of {total} runs on record")
    return left


def _from_cell(runs: Sequence[tuple[Cell, int]], job: int, jobs: int) -> list[tuple[Cell, int]]:
    """The same runs, cell after cell, from this job's own first cell on."""
    cells = list(dict.fromkeys(cell for cell, _ in runs))
    first = job * len(cells) // jobs
    order = {cell: (k - first) % len(cells) for k, cell in enumerate(cells)}
    return sorted(runs, key=lambda run: order[run[0]])


def _job(runs: list[tuple[Cell, int]], results: Path, seconds: float, jobs: int) -> None:
    run_missing(
        runs, results, seconds=seconds, at_once=1, jobs=jobs,
        say=lambda text: sys.stderr.write(f"{text}\n"),
    )  # fmt: skip
