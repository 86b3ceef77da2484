"""Run folders as `fkpinn solve` leaves them, made of a few numbers; settings of small runs."""

import json

import numpy as np

from fkpinn._files import pack
from fkpinn._records import write_bytes, write_json
from fkpinn._solve import Settings
from fkpinn.problem import catalogue, describe

SECTIONS = (
    "problem", "solution", "certificate", "labels", "training", "errors", "time", "reproduce",
    "settings",
)  # fmt: skip

# where tests of one problem share them, they share what is compiled
SMALL = Settings().changed(
    {
        "network.widths": (8, 8),
        "points.n_collocation": 60,
        "points.n_boundary": 20,
        "points.n_test": 100,
        "labels.p_data": 0.25,
        "labels.n_paths": 20,
        "training.steps": 6,
        "training.adam_steps": 20,
        "training.lbfgs_steps": 4,
        "training.nncg_steps": 1,
        "certificate.seconds": 0.0,
    }
)

# settings of the gallery's scripts and notebooks when they are only tried
OF_EXAMPLES = {
    "network.widths": (8, 8),
    "points.n_collocation": 80,
    "points.n_boundary": 40,
    "points.n_test": 50,
    "labels.p_data": 0.2,
    "labels.n_paths": 20,
    "training.steps": 5,
    "certificate.seconds": 1.0,
}


def finished_run(folder, name="met", *, fields=(), **changes):
    """A run folder as `fkpinn solve` leaves it, made of a few numbers."""
    about = describe(catalogue("met").problem) | {"middle": [0.0, 0.0]}
    result = {
        "problem": name, "method": "fk-pinn", "preset": "quick", "seed": 0,
        "errors": {"l2_rel": 0.0116, "l2_abs": 0.2, "h1_rel": 0.03, "h1_abs": 1.2, "linf": 0.9},
        "certificate": {
            "l2_rel": 0.012, "ci_low": 0.010, "ci_high": 0.013, "level": 0.95, "n_paths": 40,
            "n_points": 3,
        },
        "rounds": [], "stopped": [], "device": "cpu", "versions": {"fkpinn": "0"},
        "seconds": {"labels": 1.0, "train": 2.0, "total": 4.0},
        "settings": {"labels.n_paths": 100, "labels.dt": None}, "out": str(folder), "figures": [],
        "source": name, "catalogued": True, "changed": ["labels.n_paths=7"], "about": about,
    } | changes  # fmt: skip
    grid = np.linspace(-1.0, 1.0, 5)
    values = np.full((5, 5), 1.5)
    values[0, 0] = np.nan  # outside the domain
    arrays = {
        "axis_0": grid, "axis_1": grid, "values": values, "exact": values + 0.25,
        "label_points": np.zeros((2, 2)), "label_value": np.array([2.0, 1.0]),
        "label_stderr": np.array([0.1, 0.2]), "label_network": np.array([2.1, 1.1]),
        "found_points": np.zeros((3, 2)), "found_value": np.ones(3), "found_low": np.zeros(3),
        "found_high": np.full(3, 2.0),
    }  # fmt: skip
    arrays = {key: a for key, a in arrays.items() if not key.startswith(tuple(fields) or "-")}
    write_json(folder / "result.json", result)
    write_bytes(folder / "config.toml", b"")
    write_bytes(folder / "fields.npz", pack(arrays))
    lines = [{"step": k, "phase": "a", "loss": 1.0 / k, "seconds": float(k)} for k in (1, 2)]
    text = "\n".join(map(json.dumps, lines))
    write_bytes(folder / "metrics.jsonl", text.encode())
    return result
