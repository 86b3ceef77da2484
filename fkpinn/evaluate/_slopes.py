r"""Gradients of the solution in space, corrected by paths, with confidence limits.

What a candidate $w$ lacks, $e = u - w$, is a mean over paths, and so are its differences. Paths
start at four places on each line of a random frame through a point, and the paths of a line take
the same random numbers: they stay close to each other until one of them ends, and what they do
alike is no noise. The derivative of the polynomial through the four means is the slope along the
line, and the slopes along a frame are a gradient. Where a line meets a wall with data, it ends
there and the value is known. So next to walls nothing is divided by the way to them, and lines are
as long as elsewhere. Where noise is larger in some directions than in others, lines are longer too.
"""

import copy
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._interval import skewed_limits
from .._progress import AbstractProgress
from .._streams import Stream
from ..labels import Labels, defect_problem
from ..loss import cast
from ..problem import Problem
from ..sde import AbstractWalk
from ._asked import asked
from ._defect_paths import DefectPaths, first_precision, residuals_at
from ._lack import lack_of_differences
from ._lines import NODES, lines_through
from ._outside import Outside, fitted, watched
from ._remainder import remainder

_PATHS = 4000  # a point
_FRAMES = 16, 512  # a point, at least and at most; then each start has more paths
_LINES = 120  # of all its frames, at least: next to walls a few tell most
_PILOT = 32  # frames of the run that tells how many are needed
_EACH = 2  # paths of each start, at least
_MOST = 1 << 24  # paths a point
_LOCAL = 0.1  # reach of lines over the size of the domain
_SOON = 0.5  # the same over what noise does until paths stop, at most
_WAVES = 1.5  # reach over the length in which the residual changes, at most
_LEAST = 0.1  # of what lines reach otherwise, whatever the residual does
_LOOKS = 16  # pairs of places of each point at which the residual is looked at
_APART = 0.1  # of each other, over the reach
_INSIDE = 0.9  # the same over the way to the wall, where nothing is known there
_FLAT = 0.01  # of the shortest lines over that of the longest, at least
_AT_WALL = 1e-6  # way to the wall over the size of the domain that counts as none
_SINGLE = 1e-2  # length of lines over that size below which single precision is not enough
_REST = 0.25  # of what one degree more has changed, for what more degrees might
_GAIN = 20.0  # what slopes make of an error in values, over the length: at walls 5.5 + 9 + 4.5 + 1


class Gradients(NamedTuple):
    """Gradients in space at points, one a row, with confidence limits for each component.

    `correction` was added to the candidate's, and `std_error` is its noise. `length_effect` and
    `step_effect` are what the length of lines and of time steps may have done; both are in the
    limits. `reach` is how far from each point paths started at most, `n_paths` their number.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    correction: np.ndarray
    std_error: np.ndarray
    length_effect: np.ndarray
    step_effect: np.ndarray
    reach: np.ndarray
    n_paths: int


def gradient_with_interval(
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
) -> Gradients:
    """Gradients of the solution in space: a candidate's, corrected by what paths say it lacks.

    Limits hold the noise of the paths, what their time step and the distance of their starts may
    cost and, of a nonlinear equation, what paths of the linearized one may miss; of a function from
    outside, what its differences may do. They shrink with the candidate's error.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point, or the solution of another tool, see
            `outside`.
        points: inside the domain, one a row, with the time first where there is one.
        n_paths: paths a point, about; 4,000 if no `half_width` is given, and no fewer than 960, or
            128 for each dimension.
        half_width: how narrow the limits of all components should be; as many paths as that takes
            are run, as far as `seconds` allow.
        level: of confidence, for each component.
        dt: time step; by default from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        dtype: precision of the paths; by default that in which they compile fastest, and double
            where points are very close to a wall.
        seconds: most time the paths may take, about, apart from compilation.
        seed: fixes everything random.
        progress: told how many paths have ended.

    Example:
        ```python
        import fkpinn as fk
        import jax.numpy as jnp

        problem, _ = fk.catalogue("exit-ball-3d")
        guess = lambda x: 0.33 * (1.0 - jnp.sum(x**2))
        fk.gradient_with_interval(problem, guess, [[0.5, 0.0, 0.0]], n_paths=400).value
        ```
    """
    points = _checked(problem, points, n_paths, half_width, level, seconds)
    way, size = _ways(problem, points)
    candidate = fitted(problem, candidate)
    with watched(candidate):
        stream = Stream(seed) / "slopes"
        axes, reach = _shapes(problem, candidate, points, way, size)
        reach = _shorter(problem, candidate, points, axes, reach, stream)
        dtype = dtype or first_precision(problem, candidate)
        if np.any(reach < _SINGLE * size):
            dtype = "float64"
        own = _slopes(problem, cast(candidate, dtype), points)
        paths = DefectPaths(
            problem, candidate, points, dtype=dtype, dt=dt, scheme=scheme, seed=seed,
            name="slopes", progress=progress,
        )  # fmt: skip
        with precision("float64"):
            lacks = defect_problem(problem, cast(cast(candidate, dtype), "float64"))
        work = _Frames(paths, lacks, points, way, axes, reach, stream)
        if half_width is not None:
            n_paths = _needed(work, half_width, level, seconds)
        found = work.run(*_shared_out(n_paths or _PATHS, problem.dim), "slopes", bias=True)
        margin = np.zeros_like(own)
        gain = _GAIN * math.sqrt(problem.dim) / (2.0 * reach * np.min(axes.scale, axis=1))
        if not problem.linear:
            margin += (gain * remainder(problem, candidate, found.labels, seed=seed))[:, None]
        if isinstance(candidate, Outside):
            missed = gain * lack_of_differences(problem, candidate, points, seed=seed)
            margin += missed[:, None] + _difference_of_slopes(problem, candidate, points, own)
    low, high = found.limits(level)
    return Gradients(
        value=own + found.value, low=own + low - margin, high=own + high + margin,
        correction=found.value, std_error=found.stderr, length_effect=found.length_effect,
        step_effect=found.step_effect, reach=reach, n_paths=found.n_paths,
    )  # fmt: skip


class _Axes(NamedTuple):
    """Of ellipsoids: lengths, one at most, and directions as columns."""

    scale: Float[np.ndarray, "n d"]
    turn: Float[np.ndarray, "n d d"]

    def stretched(self, v: np.ndarray) -> np.ndarray:
        """Vectors of the unit ball, the last axis of `v`, as those of the ellipsoids."""
        return self._each(v, self.scale)

    def slopes(self, v: np.ndarray) -> np.ndarray:
        """Gradients of functions of the unit ball as those of space."""
        return self._each(v, 1.0 / self.scale)

    def _each(self, v: np.ndarray, scale: np.ndarray) -> np.ndarray:
        along = np.einsum("nab,n...a->n...b", self.turn, v)
        between = (slice(None), *[None] * (v.ndim - 2))
        return np.einsum("nab,n...b->n...a", self.turn, along * scale[between])


class _Found(NamedTuple):
    """What frames tell: means, their noise, and what lengths of lines and steps may have done."""

    value: np.ndarray
    stderr: np.ndarray
    tilt: np.ndarray
    length_effect: np.ndarray
    step_effect: np.ndarray
    frames: int
    n_paths: int
    seconds: float
    labels: Labels

    def limits(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Confidence limits, of few frames by Student's law; effects add as squares."""
        z = NormalDist().inv_cdf(0.5 + level / 2)
        wide = self.stderr * _student(z, self.frames - 1) / z
        low, high = skewed_limits(self.value, wide, self.tilt, level)
        effect = np.hypot(self.length_effect, self.step_effect)
        below, above = np.hypot(self.value - low, effect), np.hypot(high - self.value, effect)
        return self.value - below, self.value + above


class _Told(NamedTuple):
    """What each frame tells of the gradient, what one degree less changes, and the work."""

    slopes: Float[np.ndarray, "n f d"]
    change: Float[np.ndarray, "n f d"]
    labels: Labels  # of the paths at one node of all lines
    seconds: float

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Over frames, with its standard error."""
        root = math.sqrt(self.slopes.shape[1])
        return np.mean(self.slopes, axis=1), np.std(self.slopes, axis=1, ddof=1) / root

    def tilt(self) -> np.ndarray:
        """Skewness over the root of the number of frames."""
        off = self.slopes - np.mean(self.slopes, axis=1, keepdims=True)
        square = np.maximum(np.mean(off**2, axis=1), 1e-300)
        return np.mean(off**3, axis=1) / square**1.5 / math.sqrt(self.slopes.shape[1])


class _Frames:
    """Paths that start on the lines of random frames.

    Args:
        paths: those of the points themselves.
        lacks: the problem of the defect, in double precision.
        points: one a row.
        way: of each to the nearest wall.
        axes: the shape of what frames are made from.
        reach: of their lines.
        stream: of random frames.
    """

    def __init__(
        self,
        paths: DefectPaths,
        lacks: Problem,
        points: Float[np.ndarray, "n z"],
        way: Float[np.ndarray, " n"],
        axes: _Axes,
        reach: Float[np.ndarray, " n"],
        stream: Stream,
    ):
        self.paths: DefectPaths = paths
        self.lacks: Problem = lacks
        self.points: np.ndarray = points
        self.way: np.ndarray = way
        self.axes: _Axes = axes
        self.reach: np.ndarray = reach
        self.stream: Stream = stream

    def run(
        self, frames: int, each: int, name: str, *, bias: bool = False, pilot: bool = False
    ) -> _Found:
        """So many frames of each point, with so many paths from each start."""
        told = self._told(frames, each, name, pilot=pilot)
        (value, stderr), seconds = told.mean(), told.seconds
        step_effect = np.zeros_like(value)
        if bias and self.paths.stepped:
            half = max(_FRAMES[0], frames // 2)
            coarse = self._told(half, each, f"{name}/coarse", coarse=True)
            seconds += coarse.seconds
            step_effect = _share((value, stderr), coarse.mean()) * np.abs(value)
        return _Found(
            value=value,
            stderr=stderr,
            tilt=told.tilt(),
            length_effect=_REST * np.abs(np.mean(told.change, axis=1)),
            step_effect=step_effect,
            frames=frames,
            n_paths=NODES * self.lacks.dim * frames * each,
            seconds=seconds,
            labels=self._pooled(told.labels),
        )

    def _told(self, frames: int, each: int, name: str, **how: bool) -> _Told:
        """Paths from all nodes of the lines; at each they take the same random numbers."""
        n, d, layout = len(self.points), self.lacks.dim, self.lacks.layout
        rng = (self.stream / "frames" / name).generator
        # directions are rows, and with both signs they are uniform on the sphere
        frame = np.swapaxes(np.linalg.qr(rng.standard_normal((n, frames, d, d)))[0], 2, 3)
        jumps, diffusion = self.lacks.jumps, self.lacks.diffusion
        lines = lines_through(
            self.lacks, self.points, self.axes.stretched(frame), self.reach, self.way,
            walls=jumps is None or not diffusion.is_zero,
        )  # fmt: skip
        ends: list[Labels] = []
        for k in range(NODES):
            paths = copy.copy(self.paths)
            with precision("float64"):
                at, ahead = jnp.asarray(self.points), layout.ahead
                x = layout.space(at)[:, None, None] + lines.starts[..., k, None] * lines.directions
                start = layout.placed(ahead(at)[:, None, None], x).reshape(-1, layout.n_coords)
                start = np.asarray(start)
            with precision(paths.dtype):
                paths.points = jnp.asarray(start, paths.dtype)
            ends.append(paths.run(each, stream=name, **how))
        values = [np.asarray(e.value, np.float64).reshape(frame.shape[:3]) for e in ends]
        found = lines.slopes(np.stack(values, axis=-1))
        both = (self.axes.slopes(np.einsum("nfk,nfka->nfa", along, frame)) for along in found)
        seconds = sum(e.provenance["seconds"]["run"] for e in ends)
        return _Told(*both, labels=ends[1], seconds=seconds)

    def _pooled(self, labels: Labels) -> Labels:
        """All paths from around a point as labels of the point."""
        rows = lambda a: np.asarray(a, np.float64).reshape(len(self.points), -1)
        count = labels.n_paths * rows(labels.value).shape[1]
        spread = np.mean(rows(labels.stderr) ** 2, axis=1) * labels.n_paths
        with precision(self.paths.dtype):
            array = lambda a: jnp.asarray(a, self.paths.dtype)
            return labels._replace(
                points=self.paths.points, value=array(np.mean(rows(labels.value), axis=1)),
                stderr=array(np.sqrt(spread / count)), n_paths=count,
            )  # fmt: skip


def _share(fine: tuple[np.ndarray, np.ndarray], coarse: tuple[np.ndarray, np.ndarray]) -> float:
    """What the step does, as one share of all gradients: a single difference drowns in noise."""
    noise = np.maximum(fine[1] ** 2 + coarse[1] ** 2, np.finfo(np.float32).tiny)
    norm = max(float(np.sum(fine[0] ** 2 / noise)), np.finfo(float).tiny)
    share = float(np.sum(fine[0] * (coarse[0] - fine[0]) / noise)) / norm
    return max(abs(share), norm**-0.5)


def _student(z: float, freedom: int) -> float:
    """The quantile of Student's law where the normal one has `z` (Cornish and Fisher)."""
    first, second = (z**3 + z) / 4.0, (5 * z**5 + 16 * z**3 + 3 * z) / 96.0
    return z + first / freedom + second / freedom**2


def _shared_out(n_paths: int, dim: int) -> tuple[int, int]:
    """Frames, and paths of each start, that make about so many paths."""
    least = max(_FRAMES[0], math.ceil(_LINES / dim))
    frames = int(np.clip(round(n_paths / (NODES * dim * _EACH)), least, _FRAMES[1]))
    return frames, max(_EACH, round(n_paths / (NODES * dim * frames)))


def _needed(work: _Frames, half_width: float, level: float, seconds: float) -> int:
    """Paths for limits that narrow for every component; a part of the width is left to effects."""
    frames = max(_PILOT, math.ceil(_LINES / work.lacks.dim))
    pilot = work.run(frames, _EACH, "pilot", pilot=True)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    affordable = pilot.n_paths * seconds / max(pilot.seconds, 1e-3) / 1.5
    needed = pilot.n_paths * (z * float(np.max(pilot.stderr)) / (0.9 * half_width)) ** 2
    return int(np.clip(min(needed, affordable), pilot.n_paths, _MOST))


def _shapes(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    way: Float[np.ndarray, " n"],
    size: float,
) -> tuple[_Axes, Float[np.ndarray, " n"]]:
    """Around each point: the shape of the noise, and how far lines go."""
    with precision("float64"):
        at, linear = jnp.asarray(points), problem.linearized(cast(candidate, "float64"))
        variance = np.asarray(_covariances(linear, at))
        left = np.asarray(jax.vmap(problem.layout.time_left)(at)) if problem.timed else None
    values, turn = np.linalg.eigh(variance)
    noise = np.sqrt(np.maximum(values, 0.0))
    most = noise[:, -1]
    moves = most > 0
    scale = np.maximum(noise / np.where(moves, most, 1.0)[:, None], _FLAT)
    reach = np.full(len(points), _LOCAL * size)
    if left is not None:
        reach = np.minimum(reach, np.where(moves, _SOON * most * np.sqrt(left), np.inf))
    if problem.jumps is not None and problem.diffusion.is_zero:
        reach = np.minimum(reach, _INSIDE * way)
    return _Axes(np.where(moves[:, None], scale, 1.0), turn), reach


def _shorter(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    axes: _Axes,
    reach: Float[np.ndarray, " n"],
    stream: Stream,
) -> Float[np.ndarray, " n"]:
    """Lines no longer than polynomials of few degrees can follow what is lacking.

    Its waves are no shorter than those of the residual, of which differences around the points
    tell.
    """
    rng, layout, d = (stream / "waves").generator, problem.layout, problem.dim
    unit = lambda v: v / np.linalg.norm(v, axis=-1, keepdims=True)
    shape = (len(points), _LOOKS, d)
    far = unit(rng.standard_normal(shape)) * rng.random((*shape[:2], 1))
    both = np.stack([far, far + _APART * unit(rng.standard_normal(shape))], axis=1)
    with precision("float64"):
        at, exact = jnp.asarray(points), cast(candidate, "float64")
        x = layout.space(at)[:, None, None] + reach[:, None, None, None] * axes.stretched(both)
        z = layout.placed(layout.ahead(at)[:, None, None], x).reshape(-1, layout.n_coords)
        inside = np.asarray(_distances(problem, z)) < 0
        lack = np.asarray(residuals_at(problem, exact, z))
    lack, inside = (a.reshape(len(points), 2, _LOOKS) for a in (lack, inside))
    used = np.all(inside & np.isfinite(lack), axis=1, keepdims=True)
    lack = np.where(used, lack, 0.0)
    square = 0.5 * np.sum(lack**2, axis=(1, 2))
    change = np.sum((lack[:, 1] - lack[:, 0]) ** 2, axis=1)
    # with waves of number k differences over r / 10 in a random direction are k r / 10, over d
    turns = np.sqrt(d * change / np.maximum(square, 1e-300)) / _APART
    return reach * np.clip(_WAVES / np.maximum(turns, 1e-300), _LEAST, 1.0)


def _ways(
    problem: Problem, points: Float[np.ndarray, "n z"]
) -> tuple[Float[np.ndarray, " n"], float]:
    """From each point to the nearest wall, and the size of the domain; others are refused."""
    with precision("float64"):
        way = -np.asarray(_distances(problem, jnp.asarray(points)))
    size = problem.domain.diameter() / max(problem.dim / 2, 1.0) ** 0.5
    if not math.isfinite(size):  # walls on some sides only
        size = float(np.max(way))
    bad = ~(way > (_AT_WALL * size if math.isfinite(size) else 0.0))
    if bad.any():
        raise ValueError(
            f"`points` must lie inside the domain and not at its wall, since paths start on both "
            f"sides of them; {np.count_nonzero(bad)} of {len(points)} do not, the first at "
            f"{points[int(np.argmax(bad))]}. Move them inside."
        )
    layout = problem.layout
    if layout.timed:
        past = ~(layout.pace * (layout.end - layout.time(points)) > 0)
        if past.any():
            raise ValueError(
                f"`points` must have a time before paths stop, which they do at {layout.end:g}, "
                f"where data are given; {np.count_nonzero(past)} of {len(points)} have not, the "
                f"first at {points[int(np.argmax(past))]}."
            )
    return way, size


def _checked(
    problem: Problem, points: Any, n_paths: Any, half_width: Any, level: float, seconds: float
) -> np.ndarray:
    points = asked(problem, points, n_paths, half_width)
    if n_paths is not None and n_paths < 1:
        raise ValueError(f"`n_paths` must be positive; got {n_paths}.")
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level!r}.")
    if not seconds > 0:
        raise ValueError(f"`seconds` must be positive; got {seconds}.")
    return points


def _slopes(
    problem: Problem, candidate: Callable[..., Any], points: Float[np.ndarray, "n z"]
) -> Float[np.ndarray, "n d"]:
    """The candidate's own gradients in space, in double precision."""
    with precision("float64"):
        found = np.asarray(_gradients(cast(candidate, "float64"), jnp.asarray(points)), np.float64)
    if not np.all(np.isfinite(found)):
        bad = points[int(np.argmin(np.all(np.isfinite(found), axis=1)))]
        raise ValueError(f"the gradient of `candidate` is not finite at {bad}.")
    return problem.layout.space(found)


def _difference_of_slopes(
    problem: Problem, candidate: Outside, points: Float[np.ndarray, "n z"], own: np.ndarray
) -> Float[np.ndarray, "n d"] | float:
    """How far gradients of a function from outside may be wrong, by steps twice as long."""
    other = candidate.coarser()
    return 0.0 if other is None else np.abs(_slopes(problem, other, points) - own)


@quickly_compiled
def _distances(problem: Problem, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.vmap(problem.domain.signed_distance)(problem.layout.space(points))


@quickly_compiled
def _covariances(problem: Problem, points: Float[Array, "n z"]) -> Float[Array, "n d d"]:
    return jax.vmap(problem.covariance)(points)


@quickly_compiled
def _gradients(candidate: Callable[..., Any], points: Float[Array, "n z"]) -> Float[Array, "n z"]:
    return jax.vmap(jax.grad(lambda z: candidate(z)))(points)
