"""One network, trained on in two ways for the same time: with corrected labels, and without."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax.random as jr

from fkpinn import Settings
from fkpinn._progress import SilentProgress
from fkpinn._records import kept
from fkpinn._solve._phases import make_labels, solution_size, train_network
from fkpinn._solve._presets import check_preset
from fkpinn._solve._rounds import Rounds
from fkpinn.problem import catalogue

from .._common import say, surroundings, true_error

PROBLEMS = ("poisson", "schrodinger", "met", "committor")


def run(folder: Path | None = None, preset: str = "quick", seeds: int = 1) -> dict[str, Any]:
    """Errors before, after a round with corrected labels, and after the same time without.

    Args:
        folder: where each run is kept, so that the same call goes on where it was stopped.
        preset: of the training before.
        seeds: runs of each problem.
    """
    folder = Path("runs/refresh") if folder is None else Path(folder)
    records = [
        kept(
            folder / f"{preset}-{problem}-{seed}.json", lambda p=problem, s=seed: _one(p, preset, s)
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


def _one(name: str, preset: str, seed: int) -> dict[str, Any]:
    settings: Settings = dataclasses.replace(check_preset(preset), polish_times=2)
    problem, silent = catalogue(name).problem, SilentProgress()
    label_key, train_key, round_key = jr.split(jr.key(seed), 3)
    began = time.perf_counter()
    labels = make_labels(
        problem, settings, "fk-pinn", folder=None, progress=silent, seed=seed, key=label_key
    )
    network = train_network(
        problem, settings, "fk-pinn", labels, progress=silent, key=train_key
    ).network
    trained_in = time.perf_counter() - began
    size = solution_size(labels)
    rounds = Rounds(problem, settings, size, trained_in, seed, silent, None, None, round_key)
    seen = rounds.certify(network, 0)
    predicted = {kind: rounds.predict(kind, seen) for kind in ("polish", "refresh")}

    began = time.perf_counter()
    refreshed = rounds.train("refresh", network, seen, 1)
    allowed = time.perf_counter() - began
    began, polished, number = time.perf_counter(), network, 0
    while number == 0 or time.perf_counter() - began < allowed:
        number += 1
        polished = rounds.train("polish", polished, seen, 1 + number)
    record = {
        "problem": name,
        "preset": preset,
        "seed": seed,
        "before": true_error(name, network),
        "certificate": seen.to_dict(),
        "refreshed": true_error(name, refreshed),
        "polished": true_error(name, polished),
        "predicted_gain": predicted,
        "seconds": {
            "train": trained_in,
            "refresh": allowed,
            "polish": time.perf_counter() - began,
        },
        "settings": dataclasses.asdict(settings),
    }
    say(
        f"refresh: {name}, seed {seed}: {record['before']:.2e}, with corrected labels "
        f"{record['refreshed']:.2e}, without {record['polished']:.2e}, {allowed:.0f} s each"
    )
    return record
