"""Train networks of different quality, certify each, and compare with the truth."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fkpinn import NoCertificate, Solution, load
from fkpinn._files import kept
from fkpinn._solve import Job, run_stages, settings_for
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

PROBLEMS = ("met", "poisson", "schrodinger", "committor", "variable-diffusion", "robin")
LEVELS = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3)  # relative errors at which networks are kept
_KEPT = (*(f"{level:.0e}" for level in LEVELS), "final")
_SEED = 7


def run(
    folder: Path | None = None,
    problems: Sequence[str] | None = None,
    seeds: int = 1,
    paths_seconds: float = 60.0,
) -> dict[str, Any]:
    """Certificates of networks of all qualities: about seven of each training.

    Args:
        folder: of networks; those that are missing are trained and kept there, as is each
            certificate, so that the same call goes on where it was stopped.
        problems: names of the catalogue; by default six linear ones.
        seeds: trainings of each.
        paths_seconds: budget of a certificate's paths.
    """
    folder = Path("runs/certificates") if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for name in PROBLEMS if problems is None else problems:
        for seed in range(_SEED, _SEED + seeds):
            own = name if seed == _SEED else f"{name}-seed{seed}"
            if not (folder / f"{own}-final.fkpinn").exists():
                say(f"certificates: training {own}")
                _train(name, seed, folder, own)
            for path in [folder / f"{own}-{level}.fkpinn" for level in _KEPT]:
                if path.exists():
                    one = lambda p=path, n=name: _one(p, n, paths_seconds)
                    records.append(kept(path.with_suffix(".json"), one))
    given = [r for r in records if "refused" not in r]
    inside = [r["ci_low"] <= r["true"] <= r["ci_high"] for r in given]
    widths = [0.5 * (r["ci_high"] - r["ci_low"]) / max(r["l2_rel"], 1e-300) for r in given]
    return {
        "benchmark": "certificates",
        "paths_seconds": paths_seconds,
        "networks": len(records),
        "refused": len(records) - len(given),
        "inside": sum(inside),
        "median_relative_half_width": statistics.median(widths) if widths else None,
        "longest_seconds": max((r["seconds"] for r in given), default=None),
        "records": records,
        **surroundings(),
    }


def _train(name: str, seed: int, folder: Path, own: str) -> None:
    """One training; the network is kept where its error first falls below each of the levels."""
    problem = catalogue(name).problem
    left = list(LEVELS)

    def watch(network: Any) -> dict[str, float]:
        found = true_error(name, network, 2048)
        while left and found < left[0]:
            _keep(name, network, folder / f"{own}-{left.pop(0):.0e}.fkpinn")
        return {"error": found}

    settings = settings_for("quick", problem)
    job = Job.of(problem, settings, "fk-pinn", seed=seed, watch=watch)
    outcome = run_stages(job, certify=False)
    _keep(name, outcome.trained.network, folder / f"{own}-final.fkpinn")


def _keep(name: str, network: Any, path: Path) -> None:
    Solution(catalogue(name).problem, network, name=name).save(path)


def _one(path: Path, name: str, seconds: float) -> dict[str, Any]:
    solution = load(path)
    true = true_error(name, solution.network)
    try:
        certificate = solution.certify(seconds=seconds, seed=11)
    except NoCertificate as why:
        say(f"certificates: {path.stem}: refused; true {true:.2e}")
        return {"network": path.stem, "true": true, "refused": str(why)}
    say(f"certificates: {path.stem}: {certificate}; true {true:.2e}; {certificate.seconds:.0f} s")
    return {"network": path.stem, "true": true, **certificate.to_dict()}
