"""Train networks of different quality, certify each, and compare with the truth."""

import json
import statistics
from pathlib import Path
from typing import Any

import jax
import jax.random as jr

from fkpinn import Settings, Solution, load
from fkpinn._progress import SilentProgress
from fkpinn._records import write_json
from fkpinn._solve._phases import make_labels, train
from fkpinn.evaluate import errors
from fkpinn.problem import Problem, catalogue
from fkpinn.reference import AbstractReference, catalogue_reference
from fkpinn.sampling import sobol_interior

from .._common import say, surroundings

PROBLEMS = ("met", "poisson", "schrodinger", "committor", "variable-diffusion", "robin")
LEVELS = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3)  # relative errors at which networks are kept


def run(nets: Path | None = None, seconds: float = 60.0) -> dict[str, Any]:
    """Certificates of about forty networks, with the default budget.

    Args:
        nets: a folder of networks; those that are missing are trained and kept there, as is each
            certificate, so that the same call goes on where it was stopped.
        seconds: budget of a certificate's paths.
    """
    folder = Path("runs/certificates") if nets is None else Path(nets)
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for name in PROBLEMS:
        if not (folder / f"{name}-final.fkpinn").exists():
            say(f"certificates: training {name}")
            _train(name, folder)
        for path in sorted(folder.glob(f"{name}-*.fkpinn")):
            records.append(_one(path, name, seconds))
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
    problem, truth = catalogue(name).problem, catalogue_reference(name)
    left = list(LEVELS)
    label_key, train_key = jr.split(jr.key(7))

    def watch(network: Any) -> dict[str, float]:
        found = _true_error(problem, network, truth, 2048)
        while left and found < left[0]:
            _keep(name, network, folder / f"{name}-{left.pop(0):.0e}.fkpinn")
        return {"error": found}

    settings = Settings()
    labels = make_labels(
        problem, settings, "fk-pinn", folder=None, progress=SilentProgress(), seed=7, key=label_key
    )
    trained = train(
        problem, settings, "fk-pinn", labels, progress=SilentProgress(), watch=watch, key=train_key
    )
    _keep(name, trained.network, folder / f"{name}-final.fkpinn")


def _keep(name: str, network: Any, path: Path) -> None:
    Solution(catalogue(name).problem, network, name=name).save(path)


def _one(path: Path, name: str, seconds: float) -> dict[str, Any]:
    done = path.with_suffix(".json")
    if done.exists():  # of a run that was cut short
        return json.loads(done.read_text(encoding="utf-8"))
    solution = load(path)
    truth = catalogue_reference(name)
    true = _true_error(solution.problem, solution.network, truth, 1 << 13)
    certificate = solution.certify(seconds=seconds, seed=11)
    say(f"certificates: {path.stem}: {certificate}; true {true:.2e}; {certificate.seconds:.0f} s")
    record = {"network": path.stem, "true": true, **certificate.to_dict()}
    write_json(done, record)
    return record


def _true_error(problem: Problem, network: Any, truth: AbstractReference, n: int) -> float:
    with jax.enable_x64(True):
        return errors(problem, network, truth, sobol_interior(problem, n)).l2_rel
