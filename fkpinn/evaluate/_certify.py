r"""The error of a candidate, measured without knowing the solution.

The error $e = u - w$ of the candidate $w$ solves the same equation with the residual of $w$ for a
source, so paths measure it. At random points $x_i$ the average $\bar e_i$ of $M$ payoffs has mean
$e(x_i)$ and standard error $s_i$, and $\bar e_i^2 - s_i^2$ (the product of two independent halves,
averaged over all ways to halve the paths) has mean $e(x_i)^2$: noise does not count as error.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._compute import FEW_DIMENSIONS, precision
from .._interval import skewed_limits
from .._progress import AbstractProgress
from .._streams import Stream
from .._together import clock
from ..labels import Labels
from ..loss import cast
from ..problem import Problem, Uniform
from ..report import certificate_html
from ..sampling import sample_interior
from ..sde import AbstractWalk
from ._defect_paths import DefectPaths, first_precision, residuals_at, values_at
from ._lack import lack_of_differences
from ._outside import Outside, fitted, watched
from ._remainder import remainder

_POINTS = 2048
_PILOT = 4  # paths a point of the run that tells how many are needed, or as many as run at a time
_SMALL = 0.5  # remainder over the error, at most
_WIDTH = 0.1  # share of noise in the estimate that is aimed at, two standard errors
_ENOUGH = 0.2  # half-width over the estimate at which no more paths are added
_MORE = 8  # times that paths are added, at most
_SHARE = 0.25  # of the time, for the pilot
_MOST = 1 << 20  # paths a point
_SINGLE = 1e-3  # relative error below which single precision is not enough: on `met`, rounding of
# residuals alone adds up to 1e-4 along the paths
_POOL = 32  # points whose residuals are looked at, for each that is taken; fewer where they cost
_LOOK = 256  # points of a first look, which tells the precision
_FEW = 256  # points that tell what differences may have done


class NoCertificate(ValueError):
    """Paths cannot measure the error of this problem; the message says why."""


class TooFar(NoCertificate):
    """A candidate is not near enough to the solution of a nonlinear problem; nearer ones may be.

    `found` is what the linear problem says of it, and `remainder` what that may leave out.
    """

    def __init__(self, found: "Certificate", remainder: float):
        super().__init__(
            f"the candidate is too far from the solution for the linearized problem: its relative "
            f"error is about {found.l2_rel:.1e}, and the linearization error may be "
            f"{remainder:.1e}. Train it further."
        )
        self.found: Certificate = found
        self.remainder: float = remainder

    @property
    def excess(self) -> float:
        """How many times smaller the remainder would have to be beside the error."""
        return self.remainder / max(_SMALL * self.found.typical, 1e-300)

    @property
    def most(self) -> float:
        """The largest relative error that is likely, linearization error included."""
        return self.found.wider(self.remainder).ci_high


class Certificate(NamedTuple):
    """Relative L2 error of a candidate with its confidence limits, and the data behind it.

    `step_effect` is the estimated effect of the time step on `l2_rel`, `remainder` the
    linearization error of a nonlinear equation, and `differences` the error of finite differences
    for a function from outside; all are part of the limits. `corrections` are labels for the
    solution minus the candidate at the random points.
    """

    l2_rel: float
    ci_low: float
    ci_high: float
    level: float
    l2_abs: float
    step_effect: float
    corrections: Labels
    seconds: float
    remainder: float = 0.0
    differences: float = 0.0

    @property
    def typical(self) -> float:
        """The estimate, or half of the upper limit where chance has made it smaller."""
        return max(self.l2_rel, 0.5 * self.ci_high)

    def wider(self, share: float) -> "Certificate":
        """The same with limits so much further apart on both sides."""
        return self._replace(ci_low=max(self.ci_low - share, 0.0), ci_high=self.ci_high + share)

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
            "remainder": self.remainder,
            "differences": self.differences,
            "n_points": len(self.corrections.points),
            "n_paths": self.corrections.n_paths,
            "scheme": how["scheme"],
            "dt": how["dt"],
            "path_steps": how["path_steps"],
            "seconds": self.seconds,
        }

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return certificate_html(self.to_dict())

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
    scheme: str | AbstractWalk = "default",
    level: float = 0.95,
    seconds: float = 60.0,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Certificate:
    """Estimate the relative L2 error of a candidate by paths, with confidence limits.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point (`x`, or time followed by `x`): a network,
            or anything written in JAX; or the solution of another tool, see `outside`. A PyTorch
            module can be passed directly.
        n_points: number of new random points.
        n_paths: paths per point; by default chosen from a short pilot run.
        dt: time step of the paths; by default derived from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        level: of confidence.
        seconds: approximate time limit for the paths, without compilation.
        seed: seed of all random numbers; use a different one than for the training.
        progress: told how many paths have ended.

    Returns:
        `Certificate`: estimate, limits, and a correction with its error bar at every point.
    """
    _check(n_points, n_paths, seconds)
    _check_measurable(problem)
    began = clock()
    stream = Stream(seed) / "certificate"
    candidate = fitted(problem, candidate)
    with watched(candidate):
        points, sample = _points(problem, candidate, n_points, stream)

        def measure(dtype: str) -> Certificate:
            paths = lambda at: DefectPaths(
                problem, candidate, at,
                dtype=dtype, dt=dt, scheme=scheme, seed=(stream / dtype).seed, name="certificate",
                progress=progress,
            )  # fmt: skip
            single = dtype == "float32"
            if single and n_paths is None:
                if _pilot(paths(points[:_LOOK]), seconds, sample.first(_LOOK)).rough < 2 * _SINGLE:
                    return measure("float64")
            found = _measure(paths(points), n_paths, level, seconds, dt is None, sample)
            return measure("float64") if single and found.ci_high < _SINGLE else found

        found = measure(first_precision(problem, candidate))
        if not problem.linear:
            seed = (stream / "remainder").seed
            found = _with_remainder(problem, candidate, found, sample.weights, seed)
        if isinstance(candidate, Outside):
            seed = (stream / "differences").seed
            found = _with_differences(problem, candidate, found, sample.weights, seed)
    return found._replace(seconds=clock() - began)


def _check_measurable(problem: Problem) -> None:
    """Refuse where paths cannot measure an error."""
    if not problem.paths_end():
        raise NoCertificate(
            "`problem` has only Neumann boundary parts, no reaction and no horizon, so paths never "
            "end and cannot measure an error."
        )


class _Sample(NamedTuple):
    """What each point counts, one on average, and of how many they were chosen."""

    weights: np.ndarray | float = 1.0
    pool: float = math.inf

    def first(self, n: int) -> "_Sample":
        """The same of the first ones."""
        return self._replace(weights=np.asarray(self.weights)[:n])


def _points(
    problem: Problem, candidate: Callable[..., Any], n: int, stream: Stream
) -> tuple[np.ndarray, _Sample]:
    """Points of the problem's measure, and what each counts.

    Where the measure is not uniform, a network is often worst at the edge of it, at one point in a
    hundred or a thousand: points with large residuals are taken more often, and count less. None
    counts more than two.
    """
    with precision("float64"):
        key = (stream / "points").key
        if isinstance(problem.measure, Uniform):
            return np.asarray(sample_interior(problem, n, key=key)), _Sample(np.ones(n))
        most = _POOL if problem.dim <= FEW_DIMENSIONS else _POOL // 4
        pool = sample_interior(problem, most * n, key=key)
        lack = np.abs(np.asarray(residuals_at(problem, cast(candidate, "float64"), pool)))
    # where it is not finite it counts as the worst: paths from there say what is wrong
    lack = np.where(np.isfinite(lack), lack, np.max(lack, initial=0.0, where=np.isfinite(lack)))
    chance = np.full(len(lack), 1.0 / len(lack))
    if lack.sum() > 0:
        chance = 0.5 * chance + 0.5 * lack / lack.sum()
    at = (np.arange(n) + (stream / "pick").generator.random()) / n
    chosen = np.minimum(np.searchsorted(np.cumsum(chance), at), len(lack) - 1)
    weights = 1.0 / (len(lack) * chance[chosen])
    return np.asarray(pool)[chosen], _Sample(weights, len(lack))


def _with_remainder(
    problem: Problem,
    candidate: Callable[..., Any],
    found: Certificate,
    weights: np.ndarray | float,
    seed: int,
) -> Certificate:
    """Limits that hold what the linear problem leaves out, or a refusal where that is not small."""
    missed = remainder(problem, candidate, found.corrections, seed=seed)
    share = _share(missed, weights, _size(candidate, found, weights))
    if share > _SMALL * found.typical:
        raise TooFar(found, share)
    return found.wider(share)._replace(remainder=share)


def _with_differences(
    problem: Problem,
    candidate: Callable[..., Any],
    found: Certificate,
    weights: np.ndarray | float,
    seed: int,
) -> Certificate:
    """Limits that hold what differences may have done, or a refusal where that is not small."""
    some = np.asarray(found.corrections.points)[:_FEW]
    missed = lack_of_differences(problem, candidate, some, seed=seed)
    weights = np.broadcast_to(weights, len(found.corrections.points))
    share = _share(missed, weights[: len(some)], _size(candidate, found, weights))
    if not share <= found.typical:
        raise NoCertificate(
            f"finite differences of `function` are not accurate enough: they may have changed the "
            f"error by {share:.1e}, and the error measured by paths is about {found.l2_rel:.1e}. "
            f"Return more digits (float64), or pass a PyTorch module or a function written in "
            f"JAX, whose derivatives are exact."
        )
    return found.wider(share)._replace(differences=share)


def _size(candidate: Callable[..., Any], found: Certificate, weights: np.ndarray | float) -> float:
    """Mean square of the solution, from the candidate and its corrections."""
    with precision("float64"):
        points = jnp.asarray(np.asarray(found.corrections.points, np.float64))
        value = np.asarray(values_at(candidate, points)) + np.asarray(found.corrections.value)
    return max(float(np.mean(weights * value**2)), 1e-300)


def _share(missed: np.ndarray, weights: np.ndarray | float, size: float) -> float:
    return float(np.sqrt(np.mean(weights * missed**2) / size))


def rehearse(problem: Problem, candidate: Callable[..., Any]) -> None:
    """Compile what `certify` needs for candidates that differ from this one in numbers only."""
    _check_measurable(problem)
    with precision("float64"):
        points = np.asarray(sample_interior(problem, 8, key=Stream(0).key))
    paths = DefectPaths(problem, candidate, points, dtype=first_precision(problem))
    paths.compile(_pilot_paths(paths) * _POINTS // len(points))


def _measure(
    paths: DefectPaths,
    n_paths: int | None,
    level: float,
    seconds: float,
    finer: bool,
    sample: _Sample | None = None,
) -> Certificate:
    """Run paths; unless their number is given, go on while the limits are wide and time is left.

    If the step's effect makes them wide and it may be `finer` it is halved, else paths are added.
    """
    more, done = n_paths is None, None
    if n_paths is None:
        pilot = _pilot(paths, seconds, sample)
        n_paths = pilot.n_paths
        done = pilot.labels if n_paths <= pilot.labels.n_paths else None
    found = _Pair.run(paths, n_paths, 0, done)
    for batch in range(1, _MORE):
        seen = _assess(paths.value, found, level, sample)
        if not more or seen.width <= _ENOUGH:
            break
        step = finer and paths.stepped and seen.effect_sure > 0.3 * seen.half
        count = found.next(seen.width, seconds, step)
        if count == 0:
            break
        found = found.refined(paths, count, batch) if step else found.more(paths, count, batch)
    seen = _assess(paths.value, found, level, sample)
    middle = 2 * max(seen.l2_rel, 0.5 * seen.high)
    return Certificate(
        l2_rel=seen.l2_rel,
        ci_low=seen.low,
        ci_high=seen.high,
        level=level,
        l2_abs=seen.l2_rel * seen.size,
        step_effect=seen.effect / middle if middle else 0.0,
        corrections=found.fine,
        seconds=0.0,
    )


class _Pair(NamedTuple):
    """Paths with the step that was chosen, others with twice the step, and what they took."""

    fine: Labels
    coarse: Labels | None
    seconds: float

    @classmethod
    def run(cls, paths: DefectPaths, count: int, batch: int, done: Labels | None = None) -> "_Pair":
        """So many paths per point, unless they are done, and half as many coarse ones."""
        fine, coarse = done or paths.run(count, stream=f"batches/{batch}"), None
        if paths.stepped:
            half = max(4, fine.n_paths // 2)
            coarse = paths.run(half, coarse=True, stream=f"coarse/{batch}")
        return cls(fine, coarse, _seconds(fine) + _seconds(coarse))

    def more(self, paths: DefectPaths, count: int, batch: int) -> "_Pair":
        """So many more paths per point."""
        new, coarse = _Pair.run(paths, count, batch), self.coarse
        if coarse is not None and new.coarse is not None:
            coarse = coarse.pooled(new.coarse)
        return _Pair(self.fine.pooled(new.fine), coarse, self.seconds + new.seconds)

    def refined(self, paths: DefectPaths, count: int, batch: int) -> "_Pair":
        """With half the step; the paths so far become the coarse ones."""
        paths.steps = paths.steps.times(0.5)
        fine = paths.run(count, stream=f"batches/{batch}")
        return _Pair(fine, self.fine, self.seconds + _seconds(fine))

    def next(self, width: float, seconds: float, halved: bool) -> int:
        """How many paths would bring the width down, as far as there is time; 0 for none."""
        now, left = self.fine.n_paths, seconds - self.seconds
        dear = 2.0 if halved else 1.3  # in units of a path run so far; coarse ones come with it
        affordable = int(left / (dear * max(_seconds(self.fine), 1e-3) / now))
        wanted = now if halved else int(now * min((width / _ENOUGH) ** 2, 3.0))
        count = min(wanted, affordable, _MOST - now) // 2 * 2
        return count if 4 * count >= now else 0


def _seconds(labels: Labels | None) -> float:
    return 0.0 if labels is None else labels.provenance["seconds"]["run"]


class _Pilot(NamedTuple):
    """A short run, how many paths per point are needed, and a rough relative error."""

    labels: Labels
    n_paths: int
    rough: float


def _pilot_paths(paths: DefectPaths) -> int:
    """Paths per point that fill the device."""
    return max(_PILOT, paths.lanes().widths[0] // _POINTS)


def _pilot(paths: DefectPaths, seconds: float, sample: _Sample | None = None) -> _Pilot:
    """Paths per point for a small share of noise, or as many as there is time for.

    The variance of a squared mean of `M` payoffs with variance `s` is `4 e s / M + 2 s² / M²`
    for a true square `e`.
    """
    n, weights = len(paths.points), (sample or _Sample()).weights
    n_paths = _pilot_paths(paths)
    while True:
        pilot = paths.run(n_paths, stream=f"pilot/{n_paths}", pilot=True)
        spent = pilot.provenance["seconds"]["run"]
        affordable = int(n_paths * seconds / max(spent, 1e-3) / 1.25)
        square = weights * _squares(pilot)
        mean, chance = float(np.mean(square)), float(np.std(square)) / math.sqrt(n)
        if mean > 2 * chance or 4 * spent > _SHARE * seconds:
            break
        n_paths *= 4
    spread = weights * np.asarray(pilot.stderr, np.float64) ** 2 * n_paths
    mean = max(mean, chance)
    wanted = (0.5 * _WIDTH * mean) ** 2 * n
    first = 4 * mean * float(np.mean(spread))
    second = 2 * float(np.mean(spread**2))
    # the larger root of `wanted M² = first M + second`
    needed = (first + math.sqrt(first**2 + 4 * wanted * second)) / (2 * wanted)
    count = int(np.clip(min(needed, affordable), _PILOT, _MOST)) // 2 * 2
    rough = math.sqrt(mean / max(float(np.mean(weights * paths.value**2)), 1e-300))
    return _Pilot(pilot, count, rough)


def _squares(defect: Labels) -> np.ndarray:
    """Unbiased squares of the error at every point."""
    value, stderr = (np.asarray(a, np.float64) for a in (defect.value, defect.stderr))
    return value**2 - stderr**2


def _noise(defect: Labels) -> np.ndarray:
    """Variances of those squares, about."""
    value, stderr = (np.asarray(a, np.float64) for a in (defect.value, defect.stderr))
    return 4 * np.maximum(value**2 - stderr**2, 0) * stderr**2 + 2 * stderr**4


class _Seen(NamedTuple):
    """What paths say: squares are relative to that of the solution, whose size is `size`."""

    square: float
    low: float
    high: float
    half: float  # of the interval of `square`
    effect: float  # of the step on `square`
    effect_sure: float  # beyond twice its own standard error
    size: float

    @property
    def l2_rel(self) -> float:
        return math.sqrt(max(self.square, 0.0))

    @property
    def width(self) -> float:
        """Half of the interval over the estimate."""
        return 0.5 * (self.high - self.low) / max(self.l2_rel, 0.5 * self.high, 1e-300)


def _assess(value: np.ndarray, found: _Pair, level: float, sample: _Sample | None = None) -> _Seen:
    sample = sample or _Sample()
    weights = sample.weights
    correction = np.asarray(found.fine.value, np.float64)
    square = weights * _squares(found.fine)
    # of the solution, again unbiased
    whole = weights * (value**2 + 2 * value * correction) + square
    size = float(np.mean(whole))
    if not size > 0:
        raise NoCertificate(
            "These paths cannot distinguish the solution from zero, so its relative error is "
            "undefined. Use more `n_paths` or `n_points`, or look at `corrections` of a solution "
            "that is not zero."
        )
    ratio = float(np.mean(square)) / size
    rest = (square - ratio * whole) / size
    n, spread = len(rest), float(np.std(rest, ddof=1))
    tilt = float(np.mean((rest / (spread or 1.0)) ** 3)) / math.sqrt(n)
    # points are some of a pool, which is a sample itself
    pooled = float(np.mean(rest**2 / weights)) / sample.pool
    stderr = math.sqrt(spread**2 / n + pooled)
    low, high = map(float, skewed_limits(ratio, stderr, tilt, level))
    effect = sure = 0.0
    if found.coarse is not None:  # a halved step takes half of the effect, at least
        change = (weights * _squares(found.coarse) - square) / size
        effect = abs(float(np.mean(change)))
        noise = float(np.mean(weights**2 * (_noise(found.fine) + _noise(found.coarse)))) / n
        sure = max(effect - 2 * math.sqrt(noise) / size, 0.0)
    low = ratio - math.hypot(ratio - low, effect)
    high = ratio + math.hypot(high - ratio, effect)
    root = lambda limit: math.sqrt(max(limit, 0.0))
    half = 0.5 * (high - low)
    return _Seen(ratio, root(low), root(high), half, effect, sure, math.sqrt(size))


def _check(n_points: int, n_paths: int | None, seconds: float) -> None:
    if n_points < 8:
        raise ValueError(f"`n_points` must be at least 8; got {n_points}.")
    if n_paths is not None and n_paths < 4:
        raise ValueError(f"`n_paths` must be at least 4; got {n_paths}.")
    if not seconds > 0:
        raise ValueError(f"`seconds` must be positive; got {seconds}.")
