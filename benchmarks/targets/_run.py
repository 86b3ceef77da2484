"""Runs with a target for the error, against the truth."""

import time
from pathlib import Path
from typing import Any

from fkpinn import solve
from fkpinn._files import kept
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

PAIRS = (
    ("poisson", 1e-2),
    ("poisson", 2e-3),
    ("schrodinger", 1e-2),
    ("schrodinger", 3e-3),
    ("met", 5e-2),
    ("met", 1e-2),
    ("committor", 2e-2),
    ("robin", 1e-3),
    ("variable-diffusion", 1e-2),
    ("exit-ball-3d", 1e-4),
)
OUT_OF_REACH = ("met", 1e-9)


def run(folder: Path | None = None, preset: str = "quick") -> dict[str, Any]:
    """Ten targets that are in reach of the preset and its rounds, and one that is not.

    Args:
        folder: where each run is kept, so that the same call goes on where it was stopped.
        preset: where the runs start.
    """
    folder = Path("runs/targets") if folder is None else Path(folder)
    records = [
        kept(folder / f"{name}-{target:.0e}.json", lambda n=name, t=target: _one(n, t, preset))
        for name, target in (*PAIRS, OUT_OF_REACH)
    ]
    possible, impossible = records[:-1], records[-1]
    return {
        "benchmark": "targets",
        "pairs": len(possible),
        "said_reached": sum(r["reached"] for r in possible),
        "true_error_below_target": sum(r["true"] < r["target"] for r in possible),
        "out_of_reach": impossible["stopped"],
        "records": records,
        **surroundings(),
    }


def _one(name: str, target: float, preset: str) -> dict[str, Any]:
    began = time.perf_counter()
    solution = solve(catalogue(name).problem, preset=preset, target=target)
    seconds = time.perf_counter() - began
    true, note = true_error(name, solution.network), solution.stopped[-1]
    say(f"targets: {name}, {target:g}: true error {true:.2e} in {seconds:.0f} s; {note}")
    return {
        "problem": name,
        "target": target,
        "preset": preset,
        "true": true,
        "reached": note.startswith(f"target {target:g} reached"),
        "seconds": seconds,
        "stopped": solution.stopped,
        "certificate": solution.certificate,
    }
