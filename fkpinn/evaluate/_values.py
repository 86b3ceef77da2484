"""Values of a candidate, corrected by paths, with confidence limits."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from .._progress import AbstractProgress
from ..labels import Labels
from ..problem import Problem
from ..sde import AbstractWalk
from ._asked import asked
from ._defect_paths import DefectPaths, first_precision
from ._lack import lack_of_differences
from ._outside import Outside, fitted, watched
from ._remainder import remainder

_PILOT = 256
_MOST = 1 << 24  # paths a point


class Values(NamedTuple):
    """Values at points with confidence limits; `corrections` were added to the candidate's."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    corrections: Labels


def value_with_interval(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Any,
    *,
    n_paths: int | None = None,
    half_width: float | None = None,
    level: float = 0.95,
    dt: float | None = None,
    scheme: str | AbstractWalk = "default",
    dtype: str | None = None,
    seconds: float = 60.0,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Values:
    """Values of the solution: those of a candidate, corrected by paths that measure its error.

    Limits include the noise of the paths, the effect of their time step, the linearization error of
    a nonlinear equation, and the error of finite differences for a function from outside. They
    shrink with the candidate's error, so that accurate values are cheap for good networks.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point, or the solution of another tool, see
            `outside`.
        points: inside the domain, one per row.
        n_paths: paths per point; 1,000 if no `half_width` is given.
        half_width: half-width of the limits to reach; paths are run until it is reached or
            `seconds` have passed.
        level: of confidence.
        dt: time step; by default derived from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        dtype: precision of the paths; by default the one that compiles fastest.
        seconds: approximate time limit for the paths, without compilation.
        seed: seed of all random numbers.
        progress: told how many paths have ended.
    """
    points = asked(problem, points, n_paths, half_width)
    candidate = fitted(problem, candidate)
    with watched(candidate):
        paths = DefectPaths(
            problem, candidate, points, dtype=dtype or first_precision(problem, candidate), dt=dt,
            scheme=scheme, seed=seed, progress=progress,
        )  # fmt: skip
        if half_width is not None:
            n_paths = _needed(paths, half_width, level, seconds)
        found = paths.run(n_paths or 1000, stream="values", bias=True)
        low, high = found.interval(level)
        margin = np.nan_to_num(np.asarray(found.bias, np.float64))
        if not problem.linear:
            margin = margin + remainder(problem, candidate, found, seed=seed)
        if isinstance(candidate, Outside):
            margin = margin + lack_of_differences(problem, candidate, points, seed=seed)
    value = paths.value + np.asarray(found.value, np.float64)
    return Values(value, paths.value + low - margin, paths.value + high + margin, found)


def _needed(paths: DefectPaths, half_width: float, level: float, seconds: float) -> int:
    """Paths for limits that narrow at every point; half of the width is left to the step."""
    pilot = paths.run(_PILOT, stream="pilot", pilot=True)
    spread = float(np.max(np.asarray(pilot.stderr))) * math.sqrt(_PILOT)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    affordable = _PILOT * seconds / max(pilot.provenance["seconds"]["run"], 1e-3) / 1.25
    needed = (z * spread / (0.7 * half_width)) ** 2
    return int(np.clip(min(needed, affordable), _PILOT, _MOST))
