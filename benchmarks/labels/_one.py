"""One label set in a process of its own, so that memory and compilation are its own too."""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import jax.monitoring

from .._common import met_labels, met_points

_COMPILATION = "/jax/core/compile/backend_compile_duration"


def measure(n_points: int, n_paths: int, dt: float, scheme: str) -> dict[str, Any]:
    """Labels of the `met` problem, once; compilation is what XLA says it spent on it."""
    compilations: list[float] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event == _COMPILATION:
            compilations.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    points = met_points(n_points)
    compilations.clear()
    began = time.perf_counter()
    labels = met_labels(points, n_paths=n_paths, dt=dt, scheme=scheme, seed=0)
    seconds, compilation = time.perf_counter() - began, sum(compilations)
    run, path_steps = seconds - compilation, int(labels.provenance["path_steps"])
    return {
        "n_points": n_points,
        "n_paths": n_paths,
        "paths": n_points * n_paths,
        "dt": dt,
        "scheme": scheme,
        "seconds": {"compile": compilation, "run": run},
        "path_steps": path_steps,
        "path_steps_per_s": path_steps / run,
        "ns_per_path_step": 1e9 * run / path_steps,
        "peak_memory_mib": _peak_memory_mib(),
    }


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
