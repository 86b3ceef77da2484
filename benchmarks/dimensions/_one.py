"""One run in a process of its own, so that compilation is part of its time."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fkpinn import Solution, load
from fkpinn._compute import precision
from fkpinn._solve import run as solve_run
from fkpinn._solve import settings_for
from fkpinn._streams import Stream
from fkpinn.problem import catalogue
from fkpinn.reference import catalogue_reference
from fkpinn.sampling import sample_interior

from .._common import surroundings

_MANY, _CHUNK = 1 << 15, 1 << 12  # points that tell the error better than those of the run


def measure(
    problem: str, seed: int, preset: str, changes: dict[str, Any], folder: str
) -> dict[str, Any]:
    """Solve a problem of the catalogue, and what is worth keeping of the result.

    Args:
        problem: its name.
        seed: fixes everything random.
        preset: how much work.
        changes: of the settings of the preset, by their full names.
        folder: of the run.
    """
    settings = settings_for(preset, catalogue(problem).problem).changed(changes)
    result = solve_run(problem, preset=preset, seed=seed, settings=settings, out=Path(folder))
    began = time.perf_counter()
    solution = load(Path(folder) / "solution.fkpinn")
    true = _true_error(problem, solution)
    value = result["value"] and _beside_truth(problem, solution, result["value"])
    checked = time.perf_counter() - began
    certificate = result["certificate"]
    if certificate is not None:
        holds = certificate["ci_low"] <= true <= certificate["ci_high"]
        certificate = certificate | {"holds": holds}
    return {
        "errors": result["errors"],
        "true": true,
        "certificate": certificate,
        "value": value,
        "seconds": _by_stage(result) | {"checked": checked},
        "rounds": result["rounds"],
        "stopped": result["stopped"],
        "settings": result["settings"],
        **surroundings(),
    }


def _beside_truth(name: str, solution: Solution, value: dict[str, Any]) -> dict[str, Any]:
    """The value at the center of the measure, beside the network's own and the true one."""
    point = np.asarray([value["point"]])
    with precision("float64"):
        true = catalogue_reference(name).values(jnp.asarray(point))
        return value | {"network": float(solution(point)[0]), "true": float(true[0])}


def _true_error(name: str, solution: Solution) -> float:
    """Relative L2 error at many more points than a run has, which a certificate is judged by."""
    problem, reference = catalogue(name).problem, catalogue_reference(name)
    stream = Stream(0) / "benchmark"
    square = size = 0.0
    with precision("float64"):
        for part in range(_MANY // _CHUNK):
            points = sample_interior(problem, _CHUNK, dtype=jnp.float64, key=(stream / part).key)
            truth = np.asarray(reference.values(points), np.float64)
            square += float(np.sum((np.asarray(solution(points)) - truth) ** 2))
            size += float(np.sum(truth**2))
    return (square / size) ** 0.5


def _by_stage(result: dict[str, Any]) -> dict[str, float]:
    """Seconds of each stage; what the process needs besides is known to who started it."""
    seconds = result["seconds"]
    rounds = sum(r["seconds"] for r in result["rounds"])
    return {
        "labels": seconds["labels"],
        "compile": seconds["compile"],
        "train": seconds["train"],
        "certificate": seconds["certify"] - rounds,
        "rounds": rounds,
    }


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
