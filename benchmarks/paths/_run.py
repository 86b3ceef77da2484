"""All of them in one run, and the record of it."""

import functools
import importlib.metadata
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from fkpinn.reference import load_reference

from .._common import met_points, say, surroundings
from ._c import FLAGS, Kernel
from ._fkpinn import time_fkpinn
from ._numpy import time_numpy
from ._timed import Timed

_DT = 1e-2
_SEED = 0
_FEW = 10  # the slow ones run this many times fewer paths
_NO_DIFFRAX = "diffrax is not installed; pip install 'fkpinn[bench]', or pip install diffrax."

# one path after the other on each core; and tuned with vector intrinsics, the machine's limit
_KERNELS = {"c": "exit_steps_plain", "c_tuned": "exit_steps"}
_RIVALS = ("c", "c_tuned", "diffrax", "numpy")

Run = Callable[[np.ndarray, int, float, int], Timed]


def run(n_points: int = 100, n_paths: int = 1000, repeats: int = 5) -> dict[str, Any]:
    """Path-steps a second of fkpinn, C, diffrax and NumPy on the `met` problem.

    Args:
        n_points: starting points.
        n_paths: paths a point; diffrax and NumPy run a tenth of them.
        repeats: of fkpinn and C, which take turns; the slow ones run at most 3 times.
    """
    if n_points < 1 or n_paths < 2 or repeats < 1:
        raise ValueError(
            f"`--points` and `--repeats` must be at least 1 and `--paths` at least 2; "
            f"got {n_points}, {repeats} and {n_paths}."
        )
    points = met_points(n_points)
    truth = load_reference("met").values(points)
    few, fewer = max(2, n_paths // _FEW), min(repeats, 3)
    measured: dict[str, dict[str, Any]] = {}
    fast: dict[str, Run] = {"fkpinn": time_fkpinn}
    kernels: dict[str, Kernel] = {}
    for name, entry in _KERNELS.items():
        try:
            kernels[name] = Kernel(entry)
            fast[name] = kernels[name].time
        except OSError as error:
            measured[name] = {"path_steps_per_s": None, "note": str(error)}
    measure = functools.partial(_measure, points=points, truth=truth)
    measured |= measure(fast, n_paths=n_paths, repeats=repeats)
    for name, kernel in kernels.items():
        measured[name]["seconds"]["compile"] = kernel.compile_seconds
        measured[name] |= {"compiler": kernel.compiler, "flags": " ".join(FLAGS)}
    try:
        from ._diffrax import time_diffrax

        measured |= measure({"diffrax": time_diffrax}, n_paths=few, repeats=fewer)
        measured["diffrax"]["version"] = importlib.metadata.version("diffrax")
        measured["diffrax"]["how"] = (
            "diffeqsolve, Heun, UnsafeBrownianPath, Event, vmap; in rounds of 500 steps, paths "
            "that have left taken out in between"
        )
    except ImportError:
        measured["diffrax"] = {"path_steps_per_s": None, "note": _NO_DIFFRAX}
    measured |= measure({"numpy": time_numpy}, n_paths=few, repeats=fewer)
    speed = {name: entry["path_steps_per_s"] for name, entry in measured.items()}
    ratios = {
        f"vs_{name}": speed["fkpinn"] / speed[name] if speed[name] else None for name in _RIVALS
    }
    return {
        "benchmark": "paths",
        "problem": "met",
        "walk": "stochastic Heun, shifted exit, run to exit",
        "dt": _DT,
        "precision": "float32",
        "n_points": n_points,
        "n_paths": n_paths,
        "repeats": repeats,
        "path_steps_per_s": {name: speed[name] for name in ("fkpinn", *_RIVALS)},
        **ratios,
        "measured": measured,
        **surroundings(),
    }


def _measure(
    runs: dict[str, Run], points: np.ndarray, truth: np.ndarray, n_paths: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Warm each up at full size, then let them take turns."""
    done: dict[str, list[Timed]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, time_one in runs.items():
            done[name].append(time_one(points, n_paths, _DT, _SEED))
            latest = done[name][-1]
            speed = latest.path_steps / latest.seconds / 1e6
            say(f"{name}: {'warm-up' if turn == 0 else f'run {turn}'}: {speed:.1f} M path-steps/s")
    return {name: _entry(timings, truth, n_paths) for name, timings in done.items()}


def _entry(timings: list[Timed], truth: np.ndarray, n_paths: int) -> dict[str, Any]:
    first, *rest = timings
    speeds = [t.path_steps / t.seconds for t in rest]
    run_seconds = statistics.median(t.seconds for t in rest)
    return {
        "path_steps_per_s": statistics.median(speeds),
        "path_steps_per_s_range": [min(speeds), max(speeds)],
        "seconds": {"compile": max(0.0, first.seconds - run_seconds), "run": run_seconds},
        "path_steps": first.path_steps,
        "n_paths": n_paths,
        "exit_time": _check(first, truth),
    }


def _check(result: Timed, truth: np.ndarray) -> dict[str, float]:
    """Mean exit time over all points beside that of the reference."""
    mean, expected = float(np.mean(result.mean)), float(np.mean(truth))
    stderr = float(np.sqrt(np.sum(result.stderr.astype(np.float64) ** 2))) / len(truth)
    return {
        "mean": mean,
        "stderr": stderr,
        "reference": expected,
        "rel_err": mean / expected - 1.0,
        "z": (mean - expected) / stderr,
    }
