"""The paper's largest label set, then sizes up to the largest asked for."""

import json
import os
import subprocess
import sys
from typing import Any

from .._common import ROOT, say, surroundings

_DT = 1e-3  # the paper's
_SWEEP_DT = 1e-2  # cost a path-step does not depend on it, and the sweep is ten times shorter
_SWEEP_POINTS = 1000
_SMALLEST = 10_000
_DIMENSIONS = (2, 10, 20, 50, 100)
_MANY = {"cpu": 20_000}  # paths in many dimensions, where a million take too long


def run(n_points: int = 2000, n_paths: int = 500, max_paths: int = 1_000_000) -> dict[str, Any]:
    """Time and memory of labels on the `met` problem, plain Euler paths run to exit.

    And what a step of a coordinate takes in 2 to 100 dimensions: exit times of an
    Ornstein-Uhlenbeck process by Heun steps.

    Args:
        n_points: points of the main set; the paper has 2,000.
        n_paths: paths a point of the main set; the paper has 500.
        max_paths: the sweep goes from 10,000 paths in all up to this, by tens.
    """
    if n_points < 1 or n_paths < 2:
        raise ValueError(
            f"`--points` must be at least 1 and `--paths` at least 2; got {n_points}, {n_paths}."
        )
    sizes = []
    while (size := _SMALLEST * 10 ** len(sizes)) <= max_paths:
        sizes.append(size)
    main = _measure(n_points=n_points, n_paths=n_paths, dt=_DT)
    sweep = [
        _measure(n_points=_SWEEP_POINTS, n_paths=size // _SWEEP_POINTS, dt=_SWEEP_DT)
        for size in sizes
    ]
    around = surroundings()
    many = min(max_paths, _MANY.get(around["device"].partition(":")[0], 1_000_000))
    points = min(_SWEEP_POINTS, many // 2)
    dimensions = [
        {"dim": dim}
        | _measure(n_points=points, n_paths=many // points, dt=_DT, dim=dim, scheme="heun")
        for dim in _DIMENSIONS
    ]
    return {
        "benchmark": "labels", "problem": "met", **main, "sweep": sweep, "dimensions": dimensions,
        **around,
    }  # fmt: skip


def _measure(**sizes: Any) -> dict[str, Any]:
    """In a fresh process."""
    where = f", {sizes['dim']} dimensions" if "dim" in sizes else ""
    say(f"labels: {sizes['n_points']} points x {sizes['n_paths']} paths, dt={sizes['dt']:g}{where}")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.labels._one", json.dumps({"scheme": "euler"} | sizes)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    if done.returncode:
        raise RuntimeError(f"The run of {sizes} ended with exit code {done.returncode}; see above.")
    result = json.loads(done.stdout.splitlines()[-1])
    speed, each = result["path_steps_per_s"] / 1e6, result["coordinate_steps_per_s"] / 1e6
    say(f"labels: {speed:.1f} M path-steps/s, {each:.1f} M coordinate-steps/s")
    return result
