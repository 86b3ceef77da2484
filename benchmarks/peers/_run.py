"""Every problem with every tool and seed, each in a process of its own, pinned to one core."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from fkpinn._files import read_json
from fkpinn._lock import alone
from fkpinn._records import plain, source_commit, write_bytes, write_json

from .._common import ROOT, say, surroundings
from ._figure import draw
from ._lines import lines_of, script
from ._problems import N_POINTS, NAMES, write_points
from ._table import OURS, PEERS, TOOLS, page, summarize

WHAT = (
    "Relative L2 errors at 8,192 Sobol points of each problem, the same for every tool. Seconds "
    "are processor seconds of a process pinned to one core, with compiling and without imports "
    "and the evaluation of errors. A run of DeepXDE, jinns, PINA or jNO ends at the first look at "
    "the clock after its budget, and the last row of its curve is the state then; scikit-fem "
    "refines its mesh as long as the next one fits; fkpinn runs to its own end."
)
_OUT = Path("runs/peers.json")
_VARIABLE = "FKPINN_PEERS"
_MISSING = (
    f"{_VARIABLE} is not set: it names the Python of an environment with the peers; "
    "`python benchmarks/peers/environment.py FOLDER` makes one."
)
_LIMIT = 3600.0  # seconds after which a run is ended, whatever it does
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu", "FKPINN_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false",
}  # fmt: skip


def run(
    problems: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 3,
    tools: Sequence[str] | None = None,
    budget: float = 60.0,
    jobs: int | None = None,
    out: Path | str | None = None,
    *,
    certified: int = 1,
) -> dict[str, Any]:
    """Errors against time of the peers and of this package.

    Rows are written as they end; one that is there already is not made again.

    Args:
        problems: names; all eight by default.
        seeds: how many, from 0 on, or which.
        tools: names; by default all but `fkpinn-best`, which takes long.
        budget: processor seconds of a run of the iterative peers.
        jobs: runs side by side, each on a core of its own; as many as cores by default.
        out: the record, a JSON file; page and picture go beside it.
        certified: seeds whose network of `quick` or `best` gets a certificate.
    """
    names = _chosen("problems", problems, NAMES, NAMES)
    chosen = _chosen("tools", tools, TOOLS, [t for t in TOOLS if t != "fkpinn-best"])
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers or min(numbers) < 0:
        raise ValueError(f"`seeds` must be one or more numbers from 0 on; got {seeds!r}.")
    if not budget > 0:
        raise ValueError(f"`budget` must be positive seconds; got {budget!r}.")
    python = os.environ.get(_VARIABLE, "")
    if set(chosen) & set(PEERS) and not os.access(python, os.X_OK):
        raise ValueError(_MISSING if not python else f"{_VARIABLE}={python} is not a program.")
    cores = _cores()
    jobs = min(jobs or len(cores), len(cores))
    out = Path(out or _OUT)
    with alone(out.with_name(f"{out.name}.lock"), out), tempfile.TemporaryDirectory() as folder:
        record = _read(out)
        asked = [
            _key(tool, problem, seed, budget)
            for seed in numbers for tool in chosen for problem in names
        ]  # fmt: skip
        missing = [key for key in asked if not there(record["records"], key)]
        say(f"peers: {len(asked) - len(missing)} of {len(asked)} runs on record")
        if missing:
            record |= _about(python)
            points = _points(names, Path(folder), record)
            _all(missing, points, python, cores[:jobs], certified, record, out)
        return _write(out, record)


def _all(
    keys: list[dict[str, Any]],
    points: dict[str, Path],
    python: str,
    cores: list[int],
    certified: int,
    record: dict[str, Any],
    out: Path,
) -> None:
    """Run what is missing, some at a time, and write after each."""
    free: Queue[int] = Queue()
    for core in cores:
        free.put(core)
    lock, began, done = threading.Lock(), time.perf_counter(), 0

    def one(key: dict[str, Any]) -> None:
        nonlocal done
        core = free.get()
        try:
            row = _row(key, points[key["problem"]], python, core, key["seed"] < certified)
        finally:
            free.put(core)
        with lock:
            record["records"] = merged(record["records"], row)
            _write(out, record)
            done += 1
            spent = time.perf_counter() - began
            left = spent / done * (len(keys) - done)
            error = f"{row['curve'][-1]['error']:.1e}" if row["curve"] else row.get("note", "-")
            say(
                f"peers: {done}/{len(keys)} {key['tool']} {key['problem']} seed {key['seed']}: "
                f"{error} in {row['seconds']['processor']:.0f} s; {left / 60:.0f} min left"
            )

    with ThreadPoolExecutor(len(cores)) as pool:
        list(pool.map(one, keys))


def _row(
    key: dict[str, Any], points: Path, python: str, core: int, certify: bool
) -> dict[str, Any]:
    """One run; one that fails is on record with its last words."""
    tool, problem, seed = key["tool"], key["problem"], str(key["seed"])
    here, key = Path(__file__).with_name("_one.py"), key | {"commit": source_commit()}
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    own |= _ONE_THREAD
    if tool in OURS:
        preset, wanted = tool.removeprefix("fkpinn-"), "certify" if certify else "plain"
        words = [sys.executable, "-m", "benchmarks.peers._ours", preset, problem, seed, wanted]
        words, own = [*words, str(points)], own | {"PYTHONPATH": str(ROOT)}
    else:
        words = [python, str(here), tool, problem, seed, str(key["budget"]), str(points)]
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryDirectory() as place:
        own["JNO_LOG_DIR"] = place  # what they write besides
        cwd = str(ROOT) if tool in OURS else place
        process = subprocess.Popen(
            words, cwd=cwd, env=own, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {core})
        try:
            said, _ = process.communicate(timeout=_LIMIT)
        except BaseException as error:
            process.kill()
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            said = ""
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
    if process.returncode or not said.strip():
        nothing = {"curve": [], "seconds": {"processor": 0.0, "wall": 0.0}, "versions": {}}
        return key | nothing | {"finished": False, "note": f"failed: {last[:200]}"}
    return key | {"finished": True} | json.loads(said.splitlines()[-1])


def _key(tool: str, problem: str, seed: int, budget: float) -> dict[str, Any]:
    """What tells runs apart; only the iterative peers have a budget that counts."""
    return {
        "tool": tool, "problem": problem, "seed": seed,
        "budget": None if tool in OURS else float(budget),
    }  # fmt: skip


def there(rows: Sequence[dict[str, Any]], key: dict[str, Any]) -> bool:
    """Whether a finished run is on record."""
    return any(row["finished"] and all(row[k] == v for k, v in key.items()) for row in rows)


def merged(rows: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with one put in, in the order of problems, tools, budgets and seeds."""
    order = lambda row: (
        NAMES.index(row["problem"]), TOOLS.index(row["tool"]), row["budget"] or 0.0, row["seed"]
    )  # fmt: skip
    return sorted([*(row for row in rows if order(row) != order(new)), new], key=order)


def _chosen(
    what: str, given: Sequence[str] | None, known: Sequence[str], usual: Sequence[str]
) -> list[str]:
    names = list(usual) if given is None else [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in known:
            raise ValueError(f"`{what}` must be names from {', '.join(known)}; got {name!r:.80}.")
    return names


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _points(names: Sequence[str], folder: Path, record: dict[str, Any]) -> dict[str, Path]:
    """Points and truth of each problem, in files that every tool reads."""
    found = {}
    for name in names:
        found[name] = folder / f"{name}.npz"
        record["constant"][name] = write_points(name, found[name])
    return found


def _about(python: str) -> dict[str, Any]:
    return surroundings() | {"points": N_POINTS, "python of the peers": Path(python).name}


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"benchmark": "peers", "what": WHAT, "constant": {}, "records": []}
    record = read_json(path)
    if record.get("benchmark") != "peers":
        raise ValueError(f"`{path}` is no record of this benchmark. Choose another `out`.")
    return record


def _write(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Record, page and picture, each whole or not at all."""
    tools = {row["tool"] for row in record["records"]}
    lines = {
        tool: {name: lines_of(_family(tool), name) for name in NAMES}
        for tool in TOOLS if tool in tools and script(_family(tool)).exists()
    }  # fmt: skip
    rows = record["records"]
    others = {k: v for k, v in record.items() if k != "records"}
    record = plain(others | {"lines": lines, "summary": summarize(rows), "records": rows})
    write_json(path, record)
    write_bytes(path.with_suffix(".md"), page(record).encode())
    draw(record, path.with_suffix(".png"))
    return record


def _family(tool: str) -> str:
    return "fkpinn" if tool in OURS else tool
