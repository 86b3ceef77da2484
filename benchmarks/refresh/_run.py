"""One network, trained on in two ways for the same time: with corrected labels, and without."""

import json
import time
from pathlib import Path
from typing import Any

from fkpinn import load
from fkpinn._files import kept
from fkpinn._solve import Job, Rounds, check_preset
from fkpinn._solve import run as solve_run
from fkpinn.labels import Labels
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

_ROUNDS = 2  # the first removes what the second certificate then measures
PROBLEMS = ("poisson", "schrodinger", "met", "committor")


def run(folder: Path | None = None, preset: str = "quick", seeds: int = 1) -> dict[str, Any]:
    """Errors before, after rounds with corrected labels, and after the same time without.

    Args:
        folder: where each run is kept, so that the same call goes on where it was stopped. Runs
            of `fkpinn solve` in folders `PRESET-PROBLEM-SEED` of it are where rounds start.
        preset: of the training before.
        seeds: runs of each problem.
    """
    folder = Path("runs/refresh") if folder is None else Path(folder)
    records = [
        kept(
            folder / f"{preset}-{problem}-{seed}.json",
            lambda p=problem, s=seed: _one(p, preset, s, folder / f"{preset}-{p}-{s}"),
        )
        for problem in PROBLEMS
        for seed in range(seeds)
    ]
    pays = [r["problem"] for r in records if r["refreshed"] <= 0.2 * r["polished"]]
    return {
        "benchmark": "refresh",
        "preset": preset,
        "pays_five_times_on": pays,
        "records": records,
        **surroundings(),
    }


def _one(name: str, preset: str, seed: int, home: Path) -> dict[str, Any]:
    problem = catalogue(name).problem
    if not (home / "result.json").is_file():
        solve_run(name, preset=preset, seed=seed, out=home)
    spent = json.loads((home / "result.json").read_text(encoding="utf-8"))["seconds"]
    trained_in = spent["labels"] + spent["compile"] + spent["train"]
    size = Labels.load(home / "labels.npz").size()
    network = load(home / "solution.fkpinn").network
    # rounds double the number of points; here they have as many as the last steps before
    settings = check_preset(preset)
    times = max(1, settings.training.polish_times // 2)
    settings = settings.changed({"training.polish_times": times})
    rounds = Rounds(Job.of(problem, settings, "fk-pinn", seed=seed), size, trained_in)
    seen = rounds.certify(network, 0)
    predicted = {kind: rounds.predict(kind, seen) for kind in ("polish", "refresh")}

    began, refreshed, found = time.perf_counter(), network, seen
    for number in range(_ROUNDS):
        if number:
            found = rounds.certify(refreshed, number)
        refreshed = rounds.train("refresh", refreshed, found, 1 + number)
    allowed = time.perf_counter() - began
    rounds.measured_in = 0.0  # nothing is measured in between, so it may stop at any time
    began, polished, number = time.perf_counter(), network, 0
    while number == 0 or time.perf_counter() - began < allowed:
        number += 1
        polished = rounds.train("polish", polished, seen, _ROUNDS + number)
    record = {
        "problem": name,
        "preset": preset,
        "seed": seed,
        "before": true_error(name, network),
        "certificate": seen.to_dict(),
        "refreshed": true_error(name, refreshed),
        "polished": true_error(name, polished),
        "predicted_gain": predicted,
        "rounds": _ROUNDS,
        "polish_rounds": number,
        "seconds": {
            "train": trained_in,
            "refresh": allowed,
            "polish": time.perf_counter() - began,
        },
        "settings": settings.flat(),
    }
    say(
        f"refresh: {name}, seed {seed}: {record['before']:.2e}, with corrected labels "
        f"{record['refreshed']:.2e}, without {record['polished']:.2e}, {allowed:.0f} s each"
    )
    return record
