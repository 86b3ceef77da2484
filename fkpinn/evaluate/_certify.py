r"""The error of a candidate, measured without knowing the solution.

What the candidate $w$ lacks, $e = u - w$, solves the same equation with the residual of $w$ for a
source, so paths measure it. At random points $x_i$ the average $\bar e_i$ of $M$ payoffs has mean
$e(x_i)$ and standard error $s_i$, and $\bar e_i^2 - s_i^2$ (the product of two independent halves,
averaged over all ways to halve the paths) has mean $e(x_i)^2$: noise does not count as error.
"""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from .._interval import skewed_limits
from .._progress import AbstractProgress
from ..labels import Labels
from ..problem import Problem
from ..sampling import sample_interior
from ._defect_paths import DefectPaths

_POINTS = 512
_PILOT = 16  # paths a point of the run that tells how many are needed
_WIDTH = 0.1  # share of noise in the estimate that is aimed at, two standard errors
_SHARE = 0.25  # of the time, for the pilot
_MOST = 1 << 20  # paths a point
_SINGLE = 3e-5  # relative error below which single precision is not enough


class Certificate(NamedTuple):
    """Relative L2 error of a candidate with its confidence limits, and what it was made from.

    `step_effect` is what the time step may have done to `l2_rel`; it is part of the limits.
    `corrections` are labels for the solution minus the candidate at the points that were drawn.
    """

    l2_rel: float
    ci_low: float
    ci_high: float
    level: float
    l2_abs: float
    step_effect: float
    corrections: Labels
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As a plain record, without the corrections."""
        how = self.corrections.provenance
        return {
            "l2_rel": self.l2_rel,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "level": self.level,
            "l2_abs": self.l2_abs,
            "step_effect": self.step_effect,
            "n_points": len(self.corrections.points),
            "n_paths": self.corrections.n_paths,
            "scheme": how["scheme"],
            "dt": how["dt"],
            "path_steps": how["path_steps"],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        limits = f"{self.level:.0%} interval {self.ci_low:.2e} to {self.ci_high:.2e}"
        return f"relative L2 error {self.l2_rel:.2e} ({limits})"


def certify(
    problem: Problem,
    candidate: Callable[..., Any],
    *,
    n_points: int = _POINTS,
    n_paths: int | None = None,
    dt: float | None = None,
    scheme: str = "default",
    level: float = 0.95,
    seconds: float = 60.0,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Certificate:
    """Estimate the relative L2 error of a candidate by paths, with confidence limits.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point (`x`, or time followed by `x`): a
            network, or anything written in JAX.
        n_points: fresh random points.
        n_paths: paths a point; by default chosen from a short pilot run.
        dt: time step of the paths; by default from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        level: of confidence.
        seconds: most time the paths may take, about, apart from compilation.
        seed: fixes everything random; take another one than for the labels of the training.
        progress: told how many paths have ended.

    Returns:
        `Certificate`: estimate, limits, and a correction with its error bar at every point.
    """
    _check(n_points, n_paths, seconds)
    began = time.perf_counter()
    with jax.enable_x64(True):
        # not the points of the training, and others for seeds that differ in high bits only
        key = jr.fold_in(jr.key(seed % 2**32), (_POINTS + (seed >> 32)) % 2**32)
        points = np.asarray(sample_interior(problem, n_points, key=key))

    def measure(dtype: str) -> Certificate:
        paths = DefectPaths(
            problem, candidate, points,
            dtype=dtype, dt=dt, scheme=scheme, seed=seed, name="certificate", progress=progress,
        )  # fmt: skip
        return _measure(paths, n_paths, level, seconds)

    with warnings.catch_warnings():  # of rare, heavy paths; the spread over the points knows them
        warnings.simplefilter("ignore", UserWarning)
        found = measure("float32")
        if found.ci_high < _SINGLE:
            found = measure("float64")
    return found._replace(seconds=time.perf_counter() - began)


def _measure(paths: DefectPaths, n_paths: int | None, level: float, seconds: float) -> Certificate:
    n_paths = n_paths or _needed(paths, seconds)
    fine = paths.run(n_paths, stream=1)
    coarse = paths.run(max(4, n_paths // 2), coarse=True, stream=2) if paths.stepped else None
    square, limits, size, effect = _assess(paths.value, fine, coarse, level)
    l2_rel = math.sqrt(max(square, 0.0))
    low, high = (math.sqrt(max(limit, 0.0)) for limit in limits)
    middle = 2 * max(l2_rel, 0.5 * high)
    return Certificate(
        l2_rel=l2_rel,
        ci_low=low,
        ci_high=high,
        level=level,
        l2_abs=l2_rel * size,
        step_effect=effect / middle if middle else 0.0,
        corrections=fine,
        seconds=0.0,
    )


def _needed(paths: DefectPaths, seconds: float) -> int:
    """Paths a point for a small share of noise, or as many as there is time for.

    The variance of a squared mean of `M` payoffs with variance `s` is `4 e s / M + 2 s² / M²`
    for a true square `e`.
    """
    n_paths, n = _PILOT, len(paths.points)
    while True:
        pilot = paths.run(n_paths, stream=3 + n_paths)
        spent = pilot.provenance["seconds"]["run"]
        affordable = int(n_paths * seconds / max(spent, 1e-3) / 1.25)
        square = _squares(pilot)
        mean, chance = float(np.mean(square)), float(np.std(square)) / math.sqrt(n)
        if mean > 2 * chance or 4 * spent > _SHARE * seconds:
            break
        n_paths *= 4
    spread = np.asarray(pilot.stderr, np.float64) ** 2 * n_paths
    mean = max(mean, chance)
    wanted = (0.5 * _WIDTH * mean) ** 2 * n
    first = 4 * mean * float(np.mean(spread))
    second = 2 * float(np.mean(spread**2))
    # the larger root of `wanted M² = first M + second`
    needed = (first + math.sqrt(first**2 + 4 * wanted * second)) / (2 * wanted)
    return int(np.clip(min(needed, affordable), _PILOT, _MOST)) // 2 * 2


def _squares(defect: Labels) -> np.ndarray:
    """Unbiased squares of the error at every point."""
    value, stderr = (np.asarray(a, np.float64) for a in (defect.value, defect.stderr))
    return value**2 - stderr**2


def _assess(value: np.ndarray, fine: Labels, coarse: Labels | None, level: float):
    """Squared relative error, its limits, the size of the solution, and the step's effect."""
    correction = np.asarray(fine.value, np.float64)
    square = _squares(fine)
    whole = value**2 + 2 * value * correction + square  # of the solution, again unbiased
    size = float(np.mean(whole))
    if not size > 0:
        raise ValueError(
            "The solution cannot be told from zero by these paths, so a relative error has no "
            "meaning. Use more `n_paths` or `n_points`, or look at `corrections` of a solution "
            "that is not zero."
        )
    ratio = float(np.mean(square)) / size
    rest = (square - ratio * whole) / size
    n, spread = len(rest), float(np.std(rest, ddof=1))
    tilt = float(np.mean((rest / (spread or 1.0)) ** 3)) / math.sqrt(n)
    low, high = skewed_limits(ratio, spread / math.sqrt(n), tilt, level)
    effect = 0.0
    if coarse is not None:  # a halved step takes half of the effect, at least
        effect = abs(float(np.mean(_squares(coarse) - square))) / size
    low = ratio - math.hypot(ratio - float(low), effect)
    high = ratio + math.hypot(float(high) - ratio, effect)
    return ratio, (low, high), math.sqrt(size), effect


def _check(n_points: int, n_paths: int | None, seconds: float) -> None:
    if n_points < 8:
        raise ValueError(f"`n_points` must be at least 8; got {n_points}.")
    if n_paths is not None and n_paths < 4:
        raise ValueError(f"`n_paths` must be at least 4; got {n_paths}.")
    if not seconds > 0:
        raise ValueError(f"`seconds` must be positive; got {seconds}.")
