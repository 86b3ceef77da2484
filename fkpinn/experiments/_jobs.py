"""Trainings spread over several processes, for a device that one of them does not fill."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._processes import Task, run_tasks
from .._progress import AbstractProgress, SilentProgress
from ._config import Cell
from ._run import count_missing, run_missing


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
    card they take turns, unless its multi-process service runs. One that is killed is started
    again.

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
    total, left = len(dict.fromkeys(runs)), -1
    progress.start("runs", total)

    def look(_: int) -> None:
        nonlocal left
        found = count_missing(runs, results)
        if found != left:
            left = found
            progress.update(total - left)

    words = ("python", "-m", "fkpinn.experiments._jobs")
    tasks = [
        Task(f"process {k}", words, _told(_from_cell(runs, k, jobs), results, seconds, jobs))
        for k in range(jobs)
    ]
    memory = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # it is for all of them
    failed = run_tasks(tasks, at_once=jobs, environment=memory, look=look, say=say)
    progress.finish()
    left = count_missing(runs, results)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {jobs} processes ended with an error (see above); {left} runs have "
            f"no record. Repeat the command to continue them."
        )
    say(f"{total - left} of {total} runs on record")
    return left


def _from_cell(runs: Sequence[tuple[Cell, int]], job: int, jobs: int) -> list[tuple[Cell, int]]:
    """The same runs, cell after cell, from this job's own first cell on."""
    cells = list(dict.fromkeys(cell for cell, _ in runs))
    first = job * len(cells) // jobs
    order = {cell: (k - first) % len(cells) for k, cell in enumerate(cells)}
    return sorted(runs, key=lambda run: order[run[0]])


def _told(runs: list[tuple[Cell, int]], results: Path, seconds: float, jobs: int) -> str:
    """What a process reads to know its work."""
    cells = [(c.problem, c.method, c.preset, dict(c.changes), seed) for c, seed in runs]
    return json.dumps([cells, str(results), seconds, jobs])


def _work(told: str) -> None:
    cells, results, seconds, jobs = json.loads(told)
    runs = [(_cell(*about), seed) for *about, seed in cells]
    run_missing(
        runs, Path(results), seconds=seconds, at_once=1, jobs=jobs,
        say=lambda text: sys.stderr.write(f"{text}\n"),
    )  # fmt: skip


def _cell(problem: str, method: str, preset: str, changes: dict[str, Any]) -> Cell:
    return Cell.of(problem, method, preset, changes)


if __name__ == "__main__":
    _work(sys.stdin.read())
