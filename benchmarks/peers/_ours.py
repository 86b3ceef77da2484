"""One run of this package, for the same clock as the peers'.

Called as `python -m benchmarks.peers._ours PRESET PROBLEM SEED CERTIFY POINTS`.
"""

import dataclasses
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fkpinn._compute import precision
from fkpinn._progress import SilentProgress
from fkpinn._records import installed_versions, plain
from fkpinn._solve import Job, measure, run_stages, settings_for

from ._clock import Clock
from .users import fkpinn_user


class _Loss(SilentProgress):
    """What training says of itself: the last loss."""

    loss: float | None = None

    def update(self, completed: int, **shown: float) -> None:
        self.loss = shown.get("loss", self.loss)


def main(preset: str, name: str, seed: int, certify: bool, path: Path) -> dict[str, Any]:
    """Train with a look at the error at every report, then certify."""
    with np.load(path) as file:
        points, truth = file["points"], file["truth"]
    clock = Clock(float("inf"), points, truth)
    began = time.perf_counter()
    problem = getattr(fkpinn_user, name.replace("-", "_"))()
    settings = settings_for(preset, problem)
    told = _Loss()
    job = Job.of(problem, settings, "fk-pinn", seed=seed, progress=told)

    def watch(network: Any) -> dict[str, float]:
        if clock.due():
            clock.note(lambda x: _values(network, x), told.loss)
        return {}

    job = dataclasses.replace(job, watch=watch)
    found = run_stages(job, None, certify=False)
    clock.note(lambda x: _values(found.trained.network, x), told.loss)
    trained, certificate = clock.seconds(), None
    error = clock.curve[-1]["error"]
    if certify:
        measured = measure(job, found.trained.network)
        limits = {"l2_rel": measured.l2_rel, "ci_low": measured.ci_low, "ci_high": measured.ci_high}
        certificate = limits | {"holds": measured.ci_low <= error <= measured.ci_high}
    return {
        "curve": clock.curve,
        "seconds": {
            "processor": clock.seconds(), "trained": trained, "wall": time.perf_counter() - began
        },
        "certificate": certificate,
        "versions": installed_versions() | {"python": platform.python_version()},
    }  # fmt: skip


def _values(network: Any, x: np.ndarray) -> np.ndarray:
    with precision("float64"):
        return np.asarray(jax.jit(jax.vmap(network))(x), np.float64)


if __name__ == "__main__":
    preset, name, seed, certify, path = sys.argv[1:]
    told = main(preset, name, int(seed), certify == "certify", Path(path))
    print("\n" + json.dumps(plain(told)), flush=True)
