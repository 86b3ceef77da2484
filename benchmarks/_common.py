"""What the benchmarks share: the call that is timed, and where and with what it was."""

import functools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fkpinn._compute import precision
from fkpinn._records import installed_versions, source_commit
from fkpinn.evaluate import errors
from fkpinn.labels import Labels, estimate_labels
from fkpinn.problem import Problem, catalogue
from fkpinn.reference import AbstractReference, catalogue_reference
from fkpinn.sampling import sobol_interior

ROOT = Path(__file__).parents[1]


@functools.cache
def met() -> Problem:
    """The problem, once: a new one would be compiled anew."""
    return catalogue("met").problem


def met_points(n: int) -> np.ndarray:
    """The first `n` Sobol points of the `met` problem, in float32."""
    return np.asarray(sobol_interior(met(), n), np.float32)


def met_labels(points: np.ndarray, *, n_paths: int, dt: float, scheme: str, seed: int) -> Labels:
    """Labels of the `met` problem through fkpinn's public function, ready when this returns."""
    how = {"n_paths": n_paths, "dt": dt, "scheme": scheme, "seed": seed}
    return ready_labels(met(), points, **how)


def ready_labels(problem: Problem, points: np.ndarray, **how: Any) -> Labels:
    """Labels of a problem through fkpinn's public function, ready when this returns."""
    labels = estimate_labels(problem, jnp.asarray(points), **how)
    jax.block_until_ready(labels.value)
    return labels


def surroundings() -> dict[str, Any]:
    """Machine, versions and commit."""
    device = jax.devices()[0]
    return {
        "device": f"{device.platform}: {device.device_kind}",
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "versions": installed_versions() | {"python": platform.python_version()},
        "commit": source_commit(),
    }


def true_error(name: str, network: Any, n: int = 1 << 13) -> float:
    """Relative L2 error against the reference of a catalogue problem, at Sobol points."""
    problem = catalogue(name).problem
    with precision("float64"):
        truth, points = _truth(name, n)
        return errors(problem, network, truth, points).l2_rel


@functools.cache  # trainings ask at every step
def _truth(name: str, n: int) -> tuple[AbstractReference, Any]:
    return catalogue_reference(name), sobol_interior(catalogue(name).problem, n)


def run_process(
    words: Sequence[str],
    place: Path,
    *,
    name: str | None = None,
    limit: float | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> tuple[str, float, float]:
    """A command in a folder: what it prints, its seconds, and the most memory it held, in MiB.

    Args:
        words: the command.
        place: the folder.
        name: what errors call it; the command itself if not given.
        limit: seconds after which it is ended, which is a `TimeoutError`.
        environment: variables to set, or to unset where None.
    """
    changed = os.environ | (environment or {})
    began, name = time.perf_counter(), name or f"`{' '.join(words)}`"
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            words, cwd=place, stdout=out, env={k: v for k, v in changed.items() if v is not None}
        )
        late = threading.Timer(limit, process.kill) if limit is not None else None
        if late is not None:
            late.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:  # nobody waits for it any more
            process.kill()
            raise
        finally:
            if late is not None:
                late.cancel()
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGKILL and limit is not None and seconds >= limit:
            raise TimeoutError(f"{name} was ended after {seconds:.0f} s.")
        if process.returncode:
            raise RuntimeError(f"{name} ended with code {process.returncode}.")
        out.seek(0)
        said = out.read()
    unit = 1 << (20 if sys.platform == "darwin" else 10)  # what a MiB is in `ru_maxrss`
    return said, seconds, used.ru_maxrss / unit


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":  # for who must not take the device himself
    print(json.dumps(surroundings()))
