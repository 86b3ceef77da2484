r"""Gradients of the solution, in space or by parameters, with confidence limits from paths.

The error $e = u - w$ of a candidate $w$ is a mean over paths, and so are its differences. Paths
start at four places on each line of a random frame through a point, and the paths of a line take
the same random numbers: they stay close to each other until one of them ends, and what they do
alike is no noise. The derivative of the polynomial through the four means is the slope along the
line, and the slopes along a frame are a gradient. Where a line meets a wall with data, it ends
there and the value is known. So next to walls nothing is divided by the way to them, and lines are
as long as elsewhere. Where noise is larger in some directions than in others, lines are longer too.

Of a family of problems, lines go along its parameters too: paths from one place, each in a problem
of its own.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._progress import AbstractProgress
from .._streams import Stream
from ..domain import Shapes
from ..labels import defect_problem
from ..loss import cast
from ..problem import Problem
from ..sde import AbstractWalk
from ._asked import asked
from ._bundles import AbstractBundles, Axes, Frames, Sweeps
from ._defect_paths import DefectPaths, first_precision, residuals_at
from ._lack import lack_of_differences
from ._outside import Outside, fitted, watched
from ._remainder import remainder

_PATHS = 4000  # a point
_LOCAL = 0.1  # reach of lines over the size of the domain, or over the range of a parameter
_SOON = 0.5  # the same over what noise does until paths stop, at most
_WAVES = 1.5  # reach over the length in which the residual changes, at most
_HALVES = 20  # of lines that would leave the domain
_LEAST = 0.1  # of what lines reach otherwise, whatever the residual does
_LOOKS = 16  # pairs of places of each point at which the residual is looked at
_APART = 0.1  # of each other, over the reach
_INSIDE = 0.9  # the same over the way to the wall, where nothing is known there
_FLAT = 0.01  # of the shortest lines over that of the longest, at least
_AT_WALL = 1e-6  # way to the wall over the size of the domain that counts as none
_SINGLE = 1e-2  # length of lines over that size below which single precision is not enough
_GAIN = 20.0  # what slopes make of an error in values, over the length: at walls 5.5 + 9 + 4.5 + 1


class Gradients(NamedTuple):
    """Gradients at points, one per row, with confidence limits for each component.

    Components are those of space, or the parameters of a family in their order. `correction` was
    added to the candidate's gradient, and `std_error` is its noise. `length_effect` and
    `step_effect` are the estimated effects of the length of lines and of the time step; both are
    part of the limits. `reach` is the largest distance from a point at which paths start, in space
    or in each parameter, and `n_paths` their number.
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
    by: str = "space",
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
    """Gradients of the solution: those of a candidate, corrected by paths that measure its error.

    Limits include the noise of the paths, the effects of their time step and of the distance of
    their starts, the linearization error of a nonlinear equation, and the error of finite
    differences for a function from outside. They shrink with the candidate's error.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point, or the solution of another tool, see
            `outside`.
        points: inside the domain, one per row, with the time first where there is one, and
            parameters of a family before it.
        by: what to differentiate by: `space`, or the `parameters` of a family of problems.
        n_paths: approximate number of paths per point; 4,000 if no `half_width` is given, and at
            least 960 or 128 per dimension.
        half_width: half-width of the limits to reach for all components; paths are run until it is
            reached or `seconds` have passed.
        level: of confidence, for each component.
        dt: time step; by default derived from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        dtype: precision of the paths; by default the one that compiles fastest, and double if
            points are very close to a wall.
        seconds: approximate time limit for the paths, without compilation.
        seed: seed of all random numbers.
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
    candidate = fitted(problem, candidate)
    _check_by(problem, candidate, by)
    stream = Stream(seed) / "slopes"

    def paths(dtype: str) -> DefectPaths:
        return DefectPaths(
            problem, candidate, points, dtype=dtype, dt=dt, scheme=scheme, seed=seed,
            name="slopes", progress=progress,
        )  # fmt: skip

    with watched(candidate):
        lines = _in_space if by == "space" else _by_parameters
        work = lines(problem, candidate, points, dtype, paths, stream)
        if half_width is not None:
            n_paths = work.bundles.needed(half_width, level, seconds)
        found = work.bundles.with_paths(n_paths or _PATHS)
        margin = np.zeros_like(work.own)
        if not problem.linear:
            missed = remainder(problem, candidate, found.labels, seed=seed)
            margin += (work.gain * missed)[:, None]
        if isinstance(candidate, Outside):
            missed = work.gain * lack_of_differences(problem, candidate, points, seed=seed)
            margin += missed[:, None] + _difference_of_slopes(problem, candidate, points, work.own)
    low, high = found.limits(level)
    return Gradients(
        value=work.own + found.value, low=work.own + low - margin, high=work.own + high + margin,
        correction=found.value, std_error=found.stderr, length_effect=found.length_effect,
        step_effect=found.step_effect, reach=work.reach, n_paths=found.n_paths,
    )  # fmt: skip


class _Work(NamedTuple):
    """Paths to run, the candidate's own slopes, how far paths start, and what errors grow by."""

    bundles: AbstractBundles
    own: Float[np.ndarray, "n slopes"]
    reach: np.ndarray
    gain: Float[np.ndarray, " n"]


def _in_space(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    dtype: str | None,
    paths: Callable[[str], DefectPaths],
    stream: Stream,
) -> _Work:
    """Lines of random frames, as long as noise, walls and the residual allow."""
    way, size = _ways(problem, points)
    axes, reach = _shapes(problem, candidate, points, way, size)
    reach = _shorter(problem, candidate, points, axes, reach, stream)
    dtype = dtype or first_precision(problem, candidate)
    if np.any(reach < _SINGLE * size):
        dtype = "float64"
    own = problem.layout.space(_slopes(cast(candidate, dtype), points))
    with precision("float64"):
        lacks = defect_problem(problem, cast(cast(candidate, dtype), "float64"))
    frames = Frames(paths(dtype), lacks, points, way, axes, reach, stream)
    gain = _GAIN * math.sqrt(problem.dim) / (2.0 * reach * np.min(axes.scale, axis=1))
    return _Work(frames, own, reach, gain)


def _by_parameters(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    dtype: str | None,
    paths: Callable[[str], DefectPaths],
    stream: Stream,
) -> _Work:
    """Lines along the parameters, of a share of their ranges."""
    _ways(problem, points)  # refuses points outside
    layout = problem.layout
    values, (lower, upper) = layout.values(points), layout.ranges()
    outside = np.any((values < lower) | (values > upper), axis=1)
    if outside.any():
        first = values[int(np.argmax(outside))]
        raise ValueError(
            f"`points` must have parameters in their ranges, {layout.spelled(lower)} to "
            f"{layout.spelled(upper)}; {np.count_nonzero(outside)} of {len(points)} have not, the "
            f"first {layout.spelled(first)}."
        )
    pairs = zip(layout.parameters, values.T, strict=True)
    reach = _LOCAL * np.stack([law.width(each) for (_, law), each in pairs], axis=1)
    if isinstance(problem.domain, Shapes):
        reach = _around_walls(problem, points, reach)
    dtype = dtype or first_precision(problem, candidate)
    own = layout.values(_slopes(cast(candidate, dtype), points))
    sweeps = Sweeps(paths(dtype), problem, points, reach, stream)
    return _Work(sweeps, own, reach, np.zeros(len(points)))


def _around_walls(
    problem: Problem, points: Float[np.ndarray, "n z"], reach: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    """Lines along parameters of a shape: at most half as long as the place is in the domain."""
    lower, upper = problem.layout.ranges()
    reach = reach.copy()
    for k in range(reach.shape[1]):
        for _ in range(_HALVES):
            sweep = np.linspace(-2.0, 2.0, _LOOKS)[:, None] * reach[:, k]
            tried = np.repeat(points[None], _LOOKS, axis=0)
            tried[..., k] = np.clip(tried[..., k] + sweep, lower[k], upper[k])
            with precision("float64"):
                flat = jnp.asarray(tried.reshape(-1, points.shape[1]))
                depth = -np.asarray(_distances(problem, flat)).reshape(_LOOKS, -1)
            reach[:, k] = np.where(np.all(depth > 0, axis=0), reach[:, k], 0.5 * reach[:, k])
    return reach


def _check_by(problem: Problem, candidate: Callable[..., Any], by: str) -> None:
    if by not in ("space", "parameters"):
        raise ValueError(f"`by` must be 'space' or 'parameters'; got {by!r}.")
    if by == "parameters" and not problem.parameters:
        raise ValueError(
            "`by='parameters'` needs a family of problems; `problem` has no parameters."
        )
    if by == "parameters" and isinstance(candidate, Outside):
        raise ValueError(
            "`by='parameters'` needs a candidate written in JAX, whose derivatives are exact; got "
            "a function from outside."
        )


def _shapes(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    way: Float[np.ndarray, " n"],
    size: float,
) -> tuple[Axes, Float[np.ndarray, " n"]]:
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
    return Axes(np.where(moves[:, None], scale, 1.0), turn), reach


def _shorter(
    problem: Problem,
    candidate: Callable[..., Any],
    points: Float[np.ndarray, "n z"],
    axes: Axes,
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
                f"`points` must have times strictly before paths end, which is at t = "
                f"{layout.end:g}, where data are given; {np.count_nonzero(past)} of {len(points)} "
                f"have not, the first at {points[int(np.argmax(past))]}."
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
    candidate: Callable[..., Any], points: Float[np.ndarray, "n z"]
) -> Float[np.ndarray, "n z"]:
    """The candidate's own gradients, in double precision."""
    with precision("float64"):
        found = np.asarray(_gradients(cast(candidate, "float64"), jnp.asarray(points)), np.float64)
    if not np.all(np.isfinite(found)):
        bad = points[int(np.argmin(np.all(np.isfinite(found), axis=1)))]
        raise ValueError(f"the gradient of `candidate` is not finite at {bad}.")
    return found


def _difference_of_slopes(
    problem: Problem, candidate: Outside, points: Float[np.ndarray, "n z"], own: np.ndarray
) -> Float[np.ndarray, "n d"] | float:
    """How far gradients of a function from outside may be wrong, by steps twice as long."""
    other = candidate.coarser()
    return 0.0 if other is None else np.abs(problem.layout.space(_slopes(other, points)) - own)


@quickly_compiled
def _distances(problem: Problem, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.vmap(problem.region.signed_distance)(points)


@quickly_compiled
def _covariances(problem: Problem, points: Float[Array, "n z"]) -> Float[Array, "n d d"]:
    return jax.vmap(problem.covariance)(points)


@quickly_compiled
def _gradients(candidate: Callable[..., Any], points: Float[Array, "n z"]) -> Float[Array, "n z"]:
    return jax.vmap(jax.grad(lambda z: candidate(z)))(points)
