"""One problem with many seeds: a run folder for each, here or on a cluster, and one table."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._compute import usable_cores
from .._files import read_json
from .._processes import Task, run_tasks
from .._progress import AbstractProgress, SilentProgress
from .._records import write_bytes, write_json
from .._solve import read_result

_COLUMNS = ("seed", "relative L2", "by paths", "limits", "value at the center", "seconds")


@dataclasses.dataclass(frozen=True)
class Batch:
    """Runs that differ only in their seeds.

    Args:
        problem: the problem argument of `fkpinn solve`.
        seeds: of the runs.
        options: further arguments of `fkpinn solve`, the same for all.
        out: the folder that contains their run folders.
    """

    problem: str
    seeds: tuple[int, ...]
    options: tuple[str, ...]
    out: Path

    def claim(self) -> None:
        """Record the runs of the folder, or raise an error if it contains different ones."""
        path, about = self.out / "batch.json", {"problem": self.problem, "options": self.options}
        about = {key: list(v) if isinstance(v, tuple) else v for key, v in about.items()}
        there = read_json(path) if path.is_file() else about
        if there != about:
            differ = [f"`{key}`" for key in about if there.get(key) != about[key]]
            raise ValueError(
                f"`{self.out}` contains different runs: {', '.join(differ)} differ. Use another "
                f"`--out`, or delete the folder."
            )
        self.out.mkdir(parents=True, exist_ok=True)
        write_json(path, about)

    def folder(self, seed: int) -> Path:
        """Of one run."""
        return self.out / f"seed-{seed}"

    def words(self, seed: int) -> list[str]:
        """The command of one run; repeated, it continues an interrupted run."""
        own = ["--seed", str(seed), "--out", str(self.folder(seed)), "--json"]
        return ["python", "-m", "fkpinn", "solve", self.problem, *own, *self.options]

    def missing(self) -> list[int]:
        """Seeds whose run has not ended."""
        return [s for s in self.seeds if not (self.folder(s) / "result.json").is_file()]


def run_here(
    batch: Batch,
    *,
    at_once: int = 1,
    tries: int = 3,
    progress: AbstractProgress | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> dict[int, str]:
    """Run missing runs in processes on this machine; a process that dies is restarted.

    Args:
        batch: the runs.
        at_once: processes at the same time; they share the cores.
        tries: maximum number of times a run is started.
        progress: told how many have ended.
        say: told of those that died.

    Returns:
        Seeds that failed, and the last line of output of each.
    """
    batch.claim()
    progress, missing = progress or SilentProgress(), batch.missing()
    logs = {seed: batch.out / "logs" / f"seed-{seed}.txt" for seed in missing}
    tasks = [Task(f"seed {seed}", batch.words(seed), log=logs[seed]) for seed in missing]
    already = len(batch.seeds) - len(missing)
    progress.start("runs", len(batch.seeds))
    try:
        failed = run_tasks(
            tasks, at_once=at_once, tries=tries, environment=_shares(at_once),
            look=lambda ended: progress.update(already + ended), say=say,
        )  # fmt: skip
    finally:
        progress.finish()
    return {seed: _last_line(logs[seed]) for seed in missing if f"seed {seed}" in failed}


def submit(batch: Batch, parameters: dict[str, Any], *, cluster: str = "slurm") -> list[str]:
    """Submit missing runs to the queue of a cluster.

    A run that is preempted, or reaches its time limit, is queued again and continues.

    Args:
        batch: the runs; their folder must be visible to the nodes.
        parameters: of `submitit.AutoExecutor`: `timeout_min`, `gpus_per_node`, `slurm_partition`...
        cluster: kind of queue; `local` runs them on this machine, for tests.

    Returns:
        Numbers of the jobs.
    """
    try:
        import submitit
    except ImportError:
        raise ImportError(
            'Queues need submitit: pip install "fkpinn[slurm]". `--local` runs without.'
        ) from None
    batch.claim()
    try:
        executor = submitit.AutoExecutor(folder=batch.out / "queue", cluster=cluster)
        executor.update_parameters(**{"name": f"fkpinn-{Path(batch.problem).stem}"} | parameters)
    except (NameError, TypeError) as error:
        raise ValueError(f"`--slurm`: {error}") from None
    with executor.batch():
        queued = [executor.submit(_Queued(batch.words(seed))) for seed in batch.missing()]
    return [job.job_id for job in queued]


class _Queued:
    """One run on a node."""

    def __init__(self, words: list[str]):
        self.words = words

    def __call__(self) -> None:
        subprocess.run([sys.executable if w == "python" else w for w in self.words], check=True)

    def checkpoint(self) -> Any:
        """What takes the place of a run that is cut off: the same, which goes on."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def table(batch: Batch) -> dict[str, Any]:
    """All runs that have ended, with the median and the worst of them; also written to `table.md`.

    Args:
        batch: the runs.
    """
    left = set(batch.missing())
    results = {seed: read_result(batch.folder(seed)) for seed in batch.seeds if seed not in left}
    rows = [_row(seed, result) for seed, result in results.items()]
    found = {
        "problem": batch.problem,
        "out": str(batch.out),
        "columns": list(_COLUMNS),
        "rows": rows,
        "missing": sorted(left),
        "summary": _summary(list(results.values())),
    }
    if batch.out.is_dir():
        write_bytes(batch.out / "table.md", _page(found).encode())
    return found


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-99`, `3`, or `0-4,7,9-10`: each once, in order."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+))?\s*", part)
        if match is None or len(match[0]) > 40:
            raise ValueError(
                f"`--seeds` must be numbers and ranges such as `0-99` or `0-4,7`; got {text!r:.80}."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= 100_000:
            raise ValueError(
                f"`--seeds`: a range goes up and has at most 100,000 seeds; got {part!r}."
            )
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def _shares(at_once: int) -> dict[str, str]:
    """Processes at the same time share the cores, and the memory of a card."""
    cores = str(max(1, usable_cores() // at_once))
    alone = {"NPROC": cores, "OMP_NUM_THREADS": cores}
    return {} if at_once == 1 else alone | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def _last_line(log: Path) -> str:
    told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    useful = [line for line in told.strip().splitlines() if not line.startswith("(FKPINN_DEBUG")]
    return useful[-1] if useful else "it wrote nothing"


def _row(seed: int, result: dict[str, Any]) -> list[str]:
    errors, certificate, value = (result.get(k) for k in ("errors", "certificate", "value"))
    return [
        str(seed),
        f"{errors['l2_rel']:.2e}" if errors else "–",
        f"{certificate['l2_rel']:.2e}" if certificate else "–",
        f"{certificate['ci_low']:.2e} to {certificate['ci_high']:.2e}" if certificate else "–",
        f"{value['value']:.6g} ({value['ci_low']:.6g} to {value['ci_high']:.6g})" if value else "–",
        f"{result['seconds']['total']:.0f}",
    ]


def _summary(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median and worst of what the runs have."""
    picked = {
        "relative L2": [r["errors"]["l2_rel"] for r in results if r.get("errors")],
        "by paths": [r["certificate"]["l2_rel"] for r in results if r.get("certificate")],
        "seconds": [r["seconds"]["total"] for r in results],
    }
    return {
        name: {"median": float(np.median(numbers)), "worst": float(np.max(numbers))}
        for name, numbers in picked.items()
        if numbers
    }


def _page(found: dict[str, Any]) -> str:
    line = lambda cells: f"| {' | '.join(cells)} |"
    lines = [
        f"# {found['problem']}: {len(found['rows'])} runs",
        "",
        line(found["columns"]),
        line(["---:"] * len(found["columns"])),
        *map(line, found["rows"]),
        "",
        *(
            f"- {name}: median {of['median']:.3g}, worst {of['worst']:.3g}"
            for name, of in found["summary"].items()
        ),
    ]
    if found["missing"]:
        lines.append(f"- not ended: {', '.join(map(str, found['missing']))}")
    return "\n".join(lines) + "\n"
