"""Every problem with every seed, each in a process of its own."""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fkpinn._files import read_json
from fkpinn._lock import alone
from fkpinn._records import plain, source_commit, write_bytes, write_json

from .._common import ROOT, run_process, say
from ._table import BARS, PROBLEMS, bar_of, line, page, summarize

WHAT = (
    "Relative L2 errors at the end of a run, at 4,000 points of the problem's measure, beside "
    "those of the best constant and the best affine function. A run with a bar ends once its "
    "certificate says that the error is below (`certificate.target`). Every run is a process of "
    "its own, without compiled code of others: its seconds are those of the whole process, from "
    "the start of Python to the report. A certificate holds if the error at 32,768 other points "
    "is within its limits."
)
_OUT = Path("runs/dimensions.json")
_FRESH = {  # nothing that was compiled before, and this very code
    "FKPINN_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": None, "PYTHONPATH": str(ROOT),
}  # fmt: skip


def run(
    problems: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 3,
    preset: str = "best",
    out: Path | str | None = None,
    *,
    changes: dict[str, Any] | None = None,
    limit: float | None = None,
) -> dict[str, Any]:
    """Errors, certificates and seconds of problems in many dimensions, and of nonlinear ones.

    Rows are written as they end, and replace those of the same problem, seed, preset and device;
    others stay. A row of the same commit and settings that is there already is not made again.

    Args:
        problems: names; by default those that have a bar on this kind of device.
        seeds: how many, from 0 on, or which.
        preset: how much work.
        out: the record, a JSON file; the same as Markdown goes beside it.
        changes: of the settings of the preset, by their full names.
        limit: seconds after which a run is ended; its last error is kept.
    """
    device = _surroundings()["device"]
    names = _names(problems, device)
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers or min(numbers) < 0:
        raise ValueError(f"`seeds` must be one or more numbers from 0 on; got {seeds!r}.")
    if limit is not None and not limit > 0:
        raise ValueError(f"`limit` must be positive seconds; got {limit!r}.")
    out, changes = Path(out or _OUT), plain(changes or {})
    with alone(out.with_name(f"{out.name}.lock"), out):
        rows = _read(out)
        for name in names:
            for seed in numbers:
                how = _target(name, device) | changes
                asked = {"problem": name, "seed": seed, "preset": preset, "changes": how}
                if _there(rows, asked):
                    say(f"dimensions: {name}, seed {seed}: on record with this commit")
                    continue
                say(f"dimensions: {name}, seed {seed}, {preset}")
                rows = _with(rows, _row(asked, limit))
                _write(out, rows)
        record = _write(out, rows)
    for summary in record["summary"]:
        say(f"dimensions: {line(summary)}")
    return record


def _target(problem: str, device: str) -> dict[str, Any]:
    """A run need not be better than its bar."""
    bar = bar_of(problem, device)
    return {} if bar is None else {"certificate.target": bar.target}


def _names(problems: Sequence[str] | None, device: str) -> list[str]:
    if problems is None:
        return list(BARS["cpu" if device.startswith("cpu") else "H200"])
    names = [problems] if isinstance(problems, str) else list(problems)
    for name in names:
        if name not in PROBLEMS:
            raise ValueError(
                f"`problems` must be names from {', '.join(PROBLEMS)}; got {name!r:.80}."
            )
    return names


def _there(rows: list[dict[str, Any]], asked: dict[str, Any]) -> bool:
    """Whether a run of this very code is on record; code that differs from a commit is unknown."""
    commit = source_commit()
    if commit is None or commit.endswith("+"):
        return False
    wanted = asked | {"commit": commit, "finished": True}
    return any(all(row.get(key) == value for key, value in wanted.items()) for row in rows)


def _row(asked: dict[str, Any], limit: float | None) -> dict[str, Any]:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        how = json.dumps(asked | {"folder": str(folder)})
        words = [sys.executable, "-m", "benchmarks.dimensions._one", how]
        try:
            said, seconds, mib = run_process(
                words, ROOT, name="the run", limit=limit, environment=_FRESH
            )
        except (RuntimeError, TimeoutError) as error:
            say(f"dimensions: {error}")
            seconds = time.perf_counter() - began
            ended = {"finished": False, "why": str(error), "last": _last(folder, seconds)}
            return asked | ended | _surroundings()
    row = json.loads(said.splitlines()[-1])
    spent = row["seconds"]
    seconds -= spent.pop("checked")  # no part of a run
    row["seconds"] = spent | {"other": seconds - sum(spent.values()), "total": seconds}
    say(f"dimensions: relative error {row['errors']['l2_rel']:.2e} in {seconds:.0f} s")
    return asked | {"finished": True} | row | {"peak_mib": mib}


def _last(folder: Path, seconds: float) -> dict[str, float] | None:
    """The last error that a run saw which was ended after so many seconds."""
    files = sorted(folder.rglob("metrics.jsonl"), key=lambda path: path.stat().st_mtime)
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines(True)]
    # the last line may have been cut
    seen = [json.loads(line).get("error") for line in lines if line.endswith("}\n")]
    errors = [error for error in seen if error is not None]
    return {"error": errors[-1], "seconds": seconds} if errors else None


def _surroundings() -> dict[str, Any]:
    """In a process of its own: who asks takes the memory of an accelerator."""
    words = [sys.executable, "-m", "benchmarks._common"]
    return json.loads(run_process(words, ROOT, environment=_FRESH)[0])


def _with(rows: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with one put in, in the order of problems and seeds."""
    key = lambda row: (row["device"], row["preset"], PROBLEMS.index(row["problem"]), row["seed"])
    others = [row for row in rows if key(row) != key(new)]
    return sorted([*others, new], key=key)


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    record = read_json(path)
    if record.get("benchmark") != "dimensions":
        raise ValueError(f"`{path}` is no record of this benchmark. Choose another `out`.")
    return record["records"]


def _write(path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Record and page, each whole or not at all."""
    record = plain(
        {"benchmark": "dimensions", "what": WHAT, "summary": summarize(rows), "records": rows}
    )
    write_json(path, record)
    write_bytes(path.with_suffix(".md"), page(record).encode())
    return record
