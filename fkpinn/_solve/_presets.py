"""How much work, by name."""

from .._compute import current
from ._settings import Settings, close_matches

PRESETS = {
    "quick": Settings(),
    "best": Settings().changed(
        {
            "network.widths": (72, 72, 72),
            "points.n_collocation": 4500,
            "points.n_boundary": 800,
            "labels.p_data": 0.1,
            "labels.n_paths": 300,
            "training.steps": 250,
            "training.polish_steps": 200,
            "training.adam_steps": 20_000,
            "training.lbfgs_steps": 5000,
            "training.nncg_steps": 500,
        }
    ),
    "paper": Settings().changed(
        {
            "network.widths": (128, 128, 128, 128),
            "network.scaled": False,
            "points.n_collocation": 10_000,
            "points.n_boundary": 400,
            "labels.p_data": 0.02,
            "labels.n_paths": 500,
            "labels.dt": 1e-3,
            "labels.scheme": "euler",
            "labels.bias": False,
            "labels.weight": 1.0,
            "training.boundary_weight": 1.0,
            "training.uncertainty": True,
            "training.steps": 0,
            "training.adam_steps": 30_000,
            "training.lbfgs_steps": 15_000,
            "training.nncg_steps": 2000,
        }
    ),
}

# what a graphics processor does in two minutes would take two cores two hours
_ON_CPU = {
    "best": PRESETS["best"].changed(
        {
            "network.widths": (48, 48, 48),
            "points.n_collocation": 2600,
            "points.n_boundary": 500,
            "labels.n_paths": 200,
            "training.steps": 200,
            "training.polish_steps": 40,
            "training.polish_times": 3,
        }
    )
}


def check_preset(preset: str) -> Settings:
    """The settings of a preset on this machine, or an error."""
    if preset not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {tuple(PRESETS)}; got {preset!r}."
            f"{close_matches(preset, PRESETS)}"
        )
    here = _ON_CPU if current().on_cpu else {}
    return here.get(preset, PRESETS[preset])
