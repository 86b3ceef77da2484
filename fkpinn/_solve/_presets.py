"""How much work, by name."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._compute import FEW_DIMENSIONS, current, precision
from .._streams import Stream
from .._types import Points
from ..domain import Ball, Box
from ..problem import Coefficient, Problem, Stable, Uniform, smoothing
from ..sampling import sample_interior
from ._end import half_waves_at_end, kinks_at_end, smoothed_end
from ._network import exit_times, input_functions
from ._settings import Settings, close_matches

ALIKE = {"training.early_points": 1.0, "training.late_momentum": 0.0}  # steps, early and late

PRESETS = {
    "quick": Settings().changed({"training.early_points": 0.5, "training.late_momentum": 0.9}),
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

# where nothing keeps residuals large, momentum and a mean over late steps replace steps with many
# points: less than half the time, and half the error
_LATE_MOMENTUM = {
    "training.steps": 450,
    "training.late_momentum": 0.9,
    "training.polish_steps": 0,
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


# where drift keeps paths inside for long, labels tell most and are never left; many with few paths
# tell more than few with many; the residual counts where paths go
_DRIVEN = {
    "points.visited": 0.5,
    "labels.p_data": 0.2,
    "labels.times": 8,
    "labels.n_paths": 16,
    "labels.pooled": True,
    "labels.held_out": 0.1,
    "labels.likely": True,
    "labels.bias": False,
    **ALIKE,
    "training.steps": 100,
    "training.polish_steps": 0,
    "training.polish_times": 1,
}
_DRIVEN_HOW = {
    "quick": {"points.n_collocation": 2000, "certificate.rounds": 2},
    "best": {"network.widths": (64, 64, 64), "certificate.rounds": 3},
}
_DRIVEN_ON_CPU = {
    "quick": {
        "network.widths": (24, 24, 24),
        "points.n_collocation": 2400,
        "training.steps": 240,
    },
    "best": {
        "network.widths": (32, 32, 32),
        "points.n_collocation": 4000,
        "certificate.rounds": 3,
        "certificate.seconds": 60.0,
    },
}
_POINTS_A_PARAMETER = 1.6  # fewer can be pleased without a word about what lies between them
_MOST_POINTS = 32_000
_MOST_DERIVATIVES = 1 << 31  # of all points by all parameters: 16 GiB
_TENS = 20  # dimensions in which labels of many paths pay; in 50, training lags behind them
_NARROW = 64  # a first layer of fewer units than dimensions is blind along some direction
_DIRECTIONS = 128

# where paths leave by diffusion alone the residual tells most: wide networks, few points a step,
# many steps, of which momentum makes a mean
_DIFFUSIVE = {
    "labels.p_data": 0.1,
    "labels.n_paths": 64,
    "labels.bias": False,
    **ALIKE,
    "training.momentum": 0.9,
    "training.damping": 1e-6,
    "training.polish_times": 1,
}
_DIFFUSIVE_HOW = {
    "quick": {"network.widths": (64, 64, 64), "training.steps": 150, "training.polish_steps": 50},
    "best": {
        "network.widths": (128, 128, 128),
        "training.steps": 150,
        "training.polish_steps": 400,
        "certificate.rounds": 6,
    },
}
_DIFFUSIVE_ON_CPU = {
    "quick": {"network.widths": (32, 32, 32), "training.steps": 120, "training.polish_steps": 40},
    "best": {"network.widths": (48, 48, 48), "training.steps": 150, "training.polish_steps": 100},
}
_HALF_WAVES = 8.0  # of initial data across the domain, which a network of coordinates cannot learn
_PECLET = 8.0  # above which drift counts
_DETAIL = 0.05  # of the half-width of a domain, below which a part is small
_MET = 1e-3  # of the paths that start anywhere, below which it does not matter
# points of a step, of which half are on the boundary unless data are built in, and the most there
_ROWS = {"quick": (3000, 6000), "best": (4500, 10_000)}
_ROWS_ON_CPU = {"quick": (1200, 1200), "best": (1500, 2500)}


def settings_for(preset: str, problem: Problem) -> Settings:
    """The settings of a preset for a problem on this machine, or an error."""
    found = check_preset(preset)
    smoothed = smoothed_end(problem) is not None
    smooth = smoothed or not kinks_at_end(problem)
    if preset != "paper" and smoothed:
        found = found.changed({"network.hard": True})
    elif not smooth:
        found = found.changed({"points.time_power": 1.0})
    rough = found.points.time_power or smoothing(problem) is not None
    if rough:  # their late steps are all averaged
        found = found.changed({"training.late_momentum": 0.0})
    fast = not smoothed and half_waves_at_end(problem) > _HALF_WAVES
    if (problem.dim > FEW_DIMENSIONS or fast) and preset != "paper" and smooth:
        found = found.changed({"network.data_inputs": bool(input_functions(problem))})
    if preset in _DRIVEN_HOW and problem.jumps is not None:
        return _jumping(found, problem)
    if problem.dim <= FEW_DIMENSIONS or preset not in _DRIVEN_HOW:
        late = preset == "best" and not rough and not current().on_cpu
        return found.changed(_LATE_MOMENTUM) if late else found
    hard = smooth if _free(problem) else smoothed or _fits_hard(problem)
    hard = hard and not exit_times(problem)  # residuals of a factor are large next to edges
    # with all data built in there is nothing left to ask where they are given
    whole = hard and all(problem.absorbing()) and (problem.terminal is None or _free(problem))
    if peclet_number(problem) > _PECLET or _has_small_parts(problem):
        found = _driven(preset, found, problem)
    else:
        found = _diffusive(preset, found, problem, soft=not whole)
    found = found.changed({"network.hard": hard})
    return found.changed({"points.n_boundary": 8}) if whole else found


def _jumping(found: Settings, problem: Problem) -> Settings:
    """With jumps a residual takes many values of the network: few points, of which many get labels.

    Labels of stable processes are exact, and with data built in the rest of the solution is smooth.
    """
    share = min(3.0 * found.labels.p_data, 0.4)
    n = found.points.n_collocation // 3
    found = found.changed({"points.n_collocation": n, "labels.p_data": share, **ALIKE})
    if isinstance(problem.jumps, Stable):
        last = min(found.training.polish_steps, 20)
        short = {"training.steps": 60, "training.polish_steps": last, "labels.rate": 0.8}
        found = found.changed(short)
    if not (_fits_hard(problem) and isinstance(problem.jumps, Stable)):
        return found
    return found.changed({"network.hard": True, "points.n_boundary": 8})


def _driven(preset: str, found: Settings, problem: Problem) -> Settings:
    """Where drift counts: labels at their likelihood, and more points than parameters."""
    found = found.changed(_DRIVEN | _DRIVEN_HOW[preset])
    if current().on_cpu:
        return found.changed(_DRIVEN_ON_CPU.get(preset, {}))
    if preset == "best" and problem.dim <= _TENS:
        found = found.changed({"labels.n_paths": 128})
    first = _DIRECTIONS if problem.dim > _NARROW else found.network.widths[0]
    found = found.changed({"network.widths": (first, *found.network.widths[1:])})
    most = min(_MOST_POINTS, _MOST_DERIVATIVES // _parameters(found, problem))
    n = min(max(6000, round(_POINTS_A_PARAMETER * _parameters(found, problem))), most)
    return found.changed({"points.n_collocation": n, "points.n_boundary": n // 8})


def _diffusive(preset: str, found: Settings, problem: Problem, *, soft: bool) -> Settings:
    """Where it does not: the residual, with fewer points a step than parameters.

    Args:
        preset: its name.
        found: settings so far.
        problem: the boundary value problem.
        soft: whether some boundary data are not built in.
    """
    found = found.changed(_DIFFUSIVE | _DIFFUSIVE_HOW[preset])
    rows, most = _ROWS[preset]
    if current().on_cpu:
        found = found.changed(_DIFFUSIVE_ON_CPU[preset])
        rows, most = _ROWS_ON_CPU[preset]
    room = _MOST_DERIVATIVES // _parameters(found, problem)
    rows, most = min(rows, room), min(most, room)
    if not soft:
        return found.changed({"points.n_collocation": rows})
    # values on the boundary must tell the products of all pairs of coordinates apart
    on = max(rows // 2, min(problem.dim**2, most))
    return found.changed({"points.n_collocation": rows // 2, "points.n_boundary": on})


def _has_small_parts(problem: Problem) -> bool:
    """Whether solutions change next to a part over lengths that are small beside the domain.

    Residuals are large there and nowhere else, so that a network that misses the part pleases them.
    A part that hardly a path meets counts only if the answer is wanted elsewhere than everywhere:
    of the paths that start anywhere, about that power of its relative size meet it. Details are so
    much shorter in many dimensions.
    """
    share = problem.domain.detail() / _reach(problem)
    everywhere = isinstance(problem.measure, Uniform)
    meet = (0.5 * problem.dim * share) ** (problem.dim - 2)
    return share < _DETAIL and not (everywhere and meet < _MET)


def peclet_number(problem: Problem) -> float:
    """Drift over diffusion, for a way from the middle to the wall: means over the domain.

    Below a few, paths leave as those of a pure diffusion do; far above, drift holds them back, or
    drives them.
    """
    with precision("float64"):
        points = sample_interior(problem, 256, measure=Uniform(), key=(Stream(0) / "peclet").key)
        drift, spread = (np.asarray(a) for a in _strengths(problem, points))
    return float(np.mean(drift) * _reach(problem) / max(np.mean(spread), 1e-300))


def _reach(problem: Problem) -> float:
    """Half the smallest width of the domain."""
    lower, upper = problem.domain.bounding_box()
    return 0.5 * float(np.min(np.asarray(upper) - np.asarray(lower)))


@eqx.filter_jit
def _strengths(problem: Problem, points: Points) -> tuple[Array, Array]:
    """Sizes of the drift, and half the mean variances of an axis."""
    drift = jax.vmap(lambda z: jnp.sqrt(jnp.sum(problem.drift(z) ** 2)))(points)
    spread = jax.vmap(lambda z: 0.5 * jnp.mean(problem.dynamics.variances(z)))(points)
    return drift, spread


def _parameters(settings: Settings, problem: Problem) -> int:
    """Of the network."""
    sizes = (problem.n_coords, *settings.network.widths, 1)
    return sum((a + 1) * b for a, b in itertools.pairwise(sizes))


def _free(problem: Problem) -> bool:
    """Whether the only data are those at the end of time."""
    return problem.terminal is not None and not problem.boundary


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
