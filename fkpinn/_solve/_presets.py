"""How much work, by name."""

import itertools

from .._compute import FEW_DIMENSIONS, current
from ..domain import Ball, Box
from ..problem import Coefficient, Problem
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


# in many dimensions labels tell most, and are never left; many with few paths tell more than few
# with many; the residual counts where paths go
_MANY_DIMENSIONS = {
    "points.visited": 0.5,
    "labels.p_data": 0.2,
    "labels.times": 8,
    "labels.n_paths": 16,
    "labels.pooled": True,
    "labels.held_out": 0.1,
    "labels.likely": True,
    "labels.bias": False,
    "training.steps": 100,
    "training.polish_steps": 0,
    "training.polish_times": 1,
}
_HIGH = {
    "quick": {"points.n_collocation": 2000, "certificate.rounds": 2},
    "best": {"network.widths": (64, 64, 64), "certificate.rounds": 3},
}
_HIGH_ON_CPU = {
    "quick": {"labels.times": 4, "labels.n_paths": 8},
    "best": {
        "network.widths": (32, 32, 32),
        "points.n_collocation": 2000,
        "certificate.rounds": 3,
        "certificate.seconds": 30.0,
    },
}
_POINTS_A_PARAMETER = 1.6  # fewer can be pleased without a word about what lies between them
_MOST_POINTS = 32_000
_MOST_DERIVATIVES = 1 << 31  # of all points by all parameters: 16 GiB
_NARROW = 64  # a first layer of fewer units than dimensions is blind along some direction
_DIRECTIONS = 128


def settings_for(preset: str, problem: Problem) -> Settings:
    """The settings of a preset for a problem on this machine, or an error."""
    found = check_preset(preset)
    if problem.dim <= FEW_DIMENSIONS or preset not in _HIGH:
        return found
    found = found.changed(_MANY_DIMENSIONS | _HIGH[preset])
    if current().on_cpu:
        found = found.changed(_HIGH_ON_CPU.get(preset, {}))
    else:
        first = _DIRECTIONS if problem.dim > _NARROW else found.network.widths[0]
        found = found.changed({"network.widths": (first, *found.network.widths[1:])})
        n = _enough_points(found, problem)
        found = found.changed({"points.n_collocation": n, "points.n_boundary": n // 8})
    if not _fits_hard(problem):
        return found
    found = found.changed({"network.hard": True})
    # with all data built in there is nothing left to ask on the boundary
    return found.changed({"points.n_boundary": 8}) if all(problem.absorbing()) else found


def _enough_points(settings: Settings, problem: Problem) -> int:
    """Points that outnumber the parameters of the network, if memory allows."""
    sizes = (problem.n_coords, *settings.network.widths, 1)
    parameters = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    most = min(_MOST_POINTS, _MOST_DERIVATIVES // parameters)
    return min(max(6000, round(_POINTS_A_PARAMETER * parameters)), most)


def _fits_hard(problem: Problem) -> bool:
    """Whether Dirichlet data are better built in: numbers, on a shape with a smooth factor.

    Data that are functions are known on the boundary only; what they are inside is an accident
    of how they were written.
    """
    ends = [condition for condition in problem.conditions() if condition.absorbs]
    constant = all(
        isinstance(datum, Coefficient) and datum.function is None
        for condition in ends
        for datum in condition.data().values()
    )
    return bool(ends) and constant and isinstance(problem.domain, (Ball, Box))


def check_preset(preset: str) -> Settings:
    """The settings of a preset on this machine, or an error."""
    if preset not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {tuple(PRESETS)}; got {preset!r}."
            f"{close_matches(preset, PRESETS)}"
        )
    here = _ON_CPU if current().on_cpu else {}
    return here.get(preset, PRESETS[preset])
