"""Train networks of different quality, certify each, and compare with the truth."""

import statistics
from pathlib import Path
from typing import Any

from fkpinn import Settings, Solution, load
from fkpinn._files import kept
from fkpinn._solve import Job, label, train
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

PROBLEMS = ("met", "poisson", "schrodinger", "committor", "variable-diffusion", "robin")
LEVELS = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3)  # relative errors at which networks are kept


def run(folder: Path | None = None, seconds: float = 60.0) -> dict[str, Any]:
    """Certificates of about forty networks, with the default budget.

    Args:
        folder: of networks; those that are missing are trained and kept there, as is each
            certificate, so that the same call goes on where it was stopped.
        seconds: budget of a certificate's paths.
    """
    folder = Path("runs/certificates") if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for name in PROBLEMS:
        if not (folder / f"{name}-final.fkpinn").exists():
            say(f"certificates: training {name}")
            _train(name, folder)
        for path in sorted(folder.glob(f"{name}-*.fkpinn")):
            one = lambda p=path, n=name: _one(p, n, seconds)
            records.append(kept(path.with_suffix(".json"), one))
    inside = [r["ci_low"] <= r["true"] <= r["ci_high"] for r in records]
    widths = [0.5 * (r["ci_high"] - r["ci_low"]) / max(r["l2_rel"], 1e-300) for r in records]
    return {
        "benchmark": "certificates",
        "networks": len(records),
        "inside": sum(inside),
        "median_relative_half_width": statistics.median(widths),
        "longest_seconds": max(r["seconds"] for r in records),
        "records": records,
        **surroundings(),
    }


def _train(name: str, folder: Path) -> None:
    """One training; the network is kept where its error first falls below each of the levels."""
    problem = catalogue(name).problem
    left = list(LEVELS)

    def watch(network: Any) -> dict[str, float]:
        found = true_error(name, network, 2048)
        while left and found < left[0]:
            _keep(name, network, folder / f"{name}-{left.pop(0):.0e}.fkpinn")
        return {"error": found}

    job = Job.of(problem, Settings(), "fk-pinn", seed=7, watch=watch)
    trained = train(job, label(job))
    _keep(name, trained.network, folder / f"{name}-final.fkpinn")


def _keep(name: str, network: Any, path: Path) -> None:
    Solution(catalogue(name).problem, network, name=name).save(path)


def _one(path: Path, name: str, seconds: float) -> dict[str, Any]:
    solution = load(path)
    true = true_error(name, solution.network)
    certificate = solution.certify(seconds=seconds, seed=11)
    say(f"certificates: {path.stem}: {certificate}; true {true:.2e}; {certificate.seconds:.0f} s")
    return {"network": path.stem, "true": true, **certificate.to_dict()}
