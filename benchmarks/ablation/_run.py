"""The same training with one part changed at a time, against the reference."""

import statistics
import time
from pathlib import Path
from typing import Any

from fkpinn import solve
from fkpinn._files import kept
from fkpinn._solve import check_preset
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

PROBLEMS = ("poisson", "schrodinger", "met", "committor")
# name: method, changed settings
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "as shipped": ("fk-pinn", {}),
    "without labels": ("pinn-engd", {}),
    "constant label weight": ("fk-pinn", {"labels.rate": 1.0}),
    "without shift": ("fk-pinn", {"labels.scheme": "euler"}),
    "with rounds": ("fk-pinn", {"certificate.rounds": 2}),
    "without second order": ("fk-pinn-adam", {}),
    "with hard factor": ("fk-pinn", {"network.hard": True}),
}


def run(folder: Path | None = None, preset: str = "quick", seeds: int = 3) -> dict[str, Any]:
    """Relative L2 errors of all variants on the paper's problems.

    Args:
        folder: where each run is kept, so that the same call goes on where it was stopped.
        preset: how much work.
        seeds: runs of each.
    """
    folder = Path("runs/ablation") if folder is None else Path(folder)
    records = [
        kept(
            folder / f"{preset}-{problem}-{variant.replace(' ', '-')}-{seed}.json",
            lambda p=problem, v=variant, s=seed: _one(p, v, preset, s),
        )
        for problem in PROBLEMS
        for variant in VARIANTS
        for seed in range(seeds)
    ]
    table = {variant: {p: _middle(records, p, variant) for p in PROBLEMS} for variant in VARIANTS}
    return {
        "benchmark": "ablation",
        "preset": preset,
        "seeds": seeds,
        "median_l2_rel": table,
        "records": records,
        **surroundings(),
    }


def _middle(records: list[dict[str, Any]], problem: str, variant: str) -> float:
    found = [r["l2_rel"] for r in records if (r["problem"], r["variant"]) == (problem, variant)]
    return statistics.median(found)


def _one(name: str, variant: str, preset: str, seed: int) -> dict[str, Any]:
    method, changes = VARIANTS[variant]
    settings = check_preset(preset).changed(changes)
    problem = catalogue(name).problem
    began = time.perf_counter()
    solution = solve(problem, settings=settings, method=method, seed=seed)
    seconds = time.perf_counter() - began
    found = true_error(name, solution.network)
    say(f"ablation: {name}, {variant}, seed {seed}: {found:.2e} in {seconds:.0f} s")
    return {
        "problem": name,
        "variant": variant,
        "method": method,
        "preset": preset,
        "seed": seed,
        "l2_rel": found,
        "seconds": seconds,
        "stopped": solution.stopped,
        "settings": settings.flat(),
    }
