"""How much work, by name, and which methods there are."""

import dataclasses

import jax

from ._settings import Settings, close_matches

PRESETS = {
    "quick": Settings(),
    "best": Settings(
        widths=(72, 72, 72),
        n_collocation=4500,
        p_data=0.1,
        n_boundary=800,
        n_paths=300,
        natural_steps=250,
        polish_steps=200,
        adam_steps=20_000,
        lbfgs_steps=5000,
        nncg_steps=500,
    ),
    "paper": Settings(
        widths=(128, 128, 128, 128),
        n_collocation=10_000,
        p_data=0.02,
        n_boundary=400,
        n_paths=500,
        dt=1e-3,
        scheme="euler",
        boundary_weight=1.0,
        label_weight=1.0,
        uncertainty=True,
        scaled=False,
        natural_steps=0,
        adam_steps=30_000,
        lbfgs_steps=15_000,
        nncg_steps=2000,
    ),
}

# what a graphics processor does in two minutes would take two cores two hours
_ON_CPU = {
    "best": dataclasses.replace(
        PRESETS["best"],
        widths=(48, 48, 48),
        n_collocation=2600,
        n_boundary=500,
        n_paths=200,
        natural_steps=200,
        polish_steps=40,
        polish_times=3,
    )
}

METHODS = ("fk-pinn", "pinn", "fk-pinn-adam", "fk-pinn-nncg", "pinn-engd", "pinn-nncg")


def check_method(method: str) -> None:
    """Refuse a method that is not there."""
    if method not in METHODS:
        raise ValueError(
            f"`method` must be one of {METHODS}; got {method!r}.{close_matches(method, METHODS)}"
        )


def check_preset(preset: str) -> Settings:
    """The settings of a preset on this machine, or an error."""
    if preset not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {tuple(PRESETS)}; got {preset!r}."
            f"{close_matches(preset, PRESETS)}"
        )
    here = _ON_CPU if jax.default_backend() == "cpu" else {}
    return here.get(preset, PRESETS[preset])
