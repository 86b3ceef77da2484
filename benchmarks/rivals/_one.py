"""One method in a process of its own, within some seconds."""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fkpinn import load
from fkpinn._compute import precision
from fkpinn._solve import run as solve_run
from fkpinn._solve import settings_for
from fkpinn._solve._cuts import center
from fkpinn.evaluate import picard_value
from fkpinn.problem import Problem, catalogue
from fkpinn.reference import catalogue_reference

from .._common import say, surroundings

_TRIAL = 200  # steps of Adam that tell how long one takes
_MOST_LEVELS = 12


def middle(problem: Problem) -> np.ndarray:
    """The point at which values are compared: the center of the measure, at the start."""
    layout = problem.layout
    return np.asarray(layout.points(layout.start, center(problem), layout.middle()), np.float64)


def truth(problem: str) -> float:
    """The true value there."""
    with precision("float64"):
        at = jnp.asarray(middle(catalogue(problem).problem)[None])
        return float(catalogue_reference(problem).values(at)[0])


def affordable_steps(seconds: float, total: float, training: float, steps: int) -> int:
    """How many steps fit into some seconds, if so many took `training` of `total`."""
    return max(1, int((seconds - (total - training)) / (training / steps)))


def bsde(problem: str, seed: int, preset: str, seconds: float) -> dict[str, Any]:
    """Deep BSDE: as many steps of Adam as fit, and the network's value."""
    n = _TRIAL
    for last in (False, True):
        changes = {"training.adam_steps": n, "certificate.seconds": 0.0, "certificate.rounds": 0}
        settings = settings_for(preset, catalogue(problem).problem).changed(changes)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "run"
            result = solve_run(
                problem, preset=preset, method="bsde", seed=seed, settings=settings, out=folder
            )
            solution = load(folder / "solution.fkpinn")
        spent = result["seconds"]
        if not last:  # what is compiled for it serves the run that counts, so that is added
            overhead = spent["total"] - spent["train"]
            n = affordable_steps(seconds, spent["total"], spent["train"], n)
            say(f"rivals: {problem}, bsde, {n} steps")
    value = float(solution(middle(catalogue(problem).problem)[None])[0])
    return {
        "value": value, "limits": None, "errors": result["errors"], "steps": n,
        "seconds": spent["train"] + overhead,
    }  # fmt: skip


def picard(problem: str, seed: int, preset: str, seconds: float) -> dict[str, Any]:
    """Multilevel Picard: levels are added as long as the next one is likely to end in time.

    Of these the one with the smallest error bar counts: where the nonlinearity grows faster than
    its argument, more levels make the variance larger.
    """
    del preset
    began, case, found, taken = time.perf_counter(), catalogue(problem).problem, None, [1e-3]
    for levels in range(1, _MOST_LEVELS):
        growth = max(taken[-1] / taken[-2], 2.0) if len(taken) > 2 else 2.0
        ends = time.perf_counter() - began + taken[-1] * growth * (levels + 1) / max(levels, 1)
        if found is not None and ends > seconds:
            break
        tried = picard_value(case, middle(case), levels=levels, seed=seed)
        taken.append(max(tried.seconds, 1e-3))
        say(f"rivals: {problem}, picard, {levels} levels: {tried.value:.6g}")
        if found is None or tried.stderr < found.stderr:
            found = tried
    assert found is not None
    reach = 1.96 * found.stderr
    return {
        "value": found.value, "limits": [found.value - reach, found.value + reach],
        "errors": None, "levels": found.levels, "seconds": time.perf_counter() - began,
    }  # fmt: skip


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    made = {"bsde": bsde, "picard": picard}[asked.pop("tool")](**asked)
    print(json.dumps(made | surroundings()))
