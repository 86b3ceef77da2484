"""One label set in a process of its own, so that memory and compilation are its own too."""

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fkpinn import Ball, Problem, Radial, mean_exit_time, sobol_interior
from fkpinn.labels import Labels

from .._common import met, ready_labels

_LONG = 10.0  # seconds; a call that takes longer is not repeated
_REPEATS = 5


def measure(
    n_points: int, n_paths: int, dt: float, scheme: str, dim: int | None = None
) -> dict[str, Any]:
    """Labels of the `met` problem: once to compile, then until it has taken a while.

    `run` is the median time of a whole call of the public function; where one takes long, the
    first call counts, without what it spent on compiling. With `dim` they are exit times of an
    Ornstein-Uhlenbeck process in so many dimensions.
    """
    problem = met() if dim is None else ornstein_uhlenbeck(dim)
    points = np.asarray(sobol_interior(problem, n_points), np.float32)

    def call() -> tuple[float, Labels]:
        began = time.perf_counter()
        how = {"n_paths": n_paths, "dt": dt, "scheme": scheme, "seed": 0}
        labels = ready_labels(problem, points, **how)
        return time.perf_counter() - began, labels

    seconds, labels = call()
    compilation = labels.provenance["seconds"]["compile"]
    times = [seconds - compilation]
    if times[0] < _LONG:
        times = [call()[0] for _ in range(_REPEATS)]
    run, path_steps = statistics.median(times), int(labels.provenance["path_steps"])
    return {
        "n_points": n_points,
        "n_paths": n_paths,
        "paths": n_points * n_paths,
        "dt": dt,
        "scheme": scheme,
        "seconds": {"compile": compilation, "run": run, "runs": times},
        "path_steps": path_steps,
        "path_steps_per_s": path_steps / run,
        "ns_per_path_step": 1e9 * run / path_steps,
        "coordinate_steps_per_s": path_steps * problem.dim / run,
        "first_call": seconds,
        "peak_memory_mib": _peak_memory_mib(),
    }


def ornstein_uhlenbeck(dim: int) -> Problem:
    """Exit from a ball that paths leave after a time of about one, in any dimension."""
    ball = Ball([0.0] * dim, 1.5)
    exits = mean_exit_time(ball, lambda x: 0.5 * jnp.sum(x**2), beta=0.5 * dim)
    return exits.with_measure(Radial([0.0] * dim, 1.5))


def _peak_memory_mib() -> float:
    """Largest resident size so far.

    Linux lets a child inherit the peak of its parent in `getrusage`; `VmHWM` is its own.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
