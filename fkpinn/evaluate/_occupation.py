r"""A bound of the error by residuals where paths go.

With $\mu$ for the occupation measure of paths from points of the problem's measure $\nu$ and $h$
for the law of their exits, the error $e$ of a candidate with residual $R$ and boundary defect $b$
satisfies $\|e\|_{L^2(\nu)} \le \sqrt{m^* \int R^2\,d\mu} + \sqrt{\int b^2\,dh}$, where
$m^* = \sup_x \mathbb{E}_x\int D_s\,ds$ is the longest mean time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._progress import AbstractProgress, Renamed, SilentProgress
from .._streams import Stream
from ..labels import (
    Steps,
    choose_scheme,
    compile_visits,
    defect_problem,
    steps_for,
    visited_places,
)
from ..loss import cast
from ..problem import Problem
from ..sampling import sample_interior
from ..sde import absorbed_value
from ._outside import fitted

_REACH = 0.01  # of a step, over the diameter; the bound is far cruder than its bias
_DRAWN = 1024  # points, at least, that starts are taken from
_CHUNK = 1024  # places at which the residual is computed at a time
_ENDLESS = 1 << 30  # steps: no path is cut, and compiled code is shared with paths that are


class OccupationBound(NamedTuple):
    """Bound of the L2 error of a candidate over the problem's measure, and its parts.

    `l2_rel` is relative to the candidate's own root mean square. `residual` is the square root of
    the integral of the squared residual over the occupation measure, `boundary` that of the squared
    boundary error over the distribution of exit points, and `longest` the largest mean duration of
    paths over the sampled points.
    """

    l2_rel: float
    l2_abs: float
    residual: float
    boundary: float
    longest: float
    n_points: int
    n_paths: int


def why_no_bound(problem: Problem) -> str:
    """What keeps `occupation_bound` from a problem, in words; empty where it applies."""
    if problem.timed:
        return "the problem has a horizon"
    if not problem.linear:
        return "the equation is not linear"
    return "" if all(problem.absorbing()) else "the problem has reflecting boundary parts"


def occupation_bound(
    problem: Problem,
    candidate: Callable[..., Any],
    *,
    n_points: int = 1024,
    n_paths: int = 16,
    dt: float | None = None,
    scheme: str = "default",
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> OccupationBound:
    """Bound the L2 error of a candidate by its residual along paths; cruder than `certify`.

    Equation: [design: occupation](../theory/occupation.md).

    Args:
        problem: an elliptic problem with Dirichlet data on all of its boundary.
        candidate: a differentiable function of one point.
        n_points: number of points of the measure at which paths start.
        n_paths: number of paths from each point.
        dt: time step of the paths; by default from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        seed: seed of all random numbers.
        progress: told how many paths have ended.

    Returns:
        `OccupationBound`. Sums and the longest time are estimates; no interval comes with them.
    """
    if why := why_no_bound(problem):
        raise ValueError(
            f"`problem` must be elliptic with Dirichlet data on all of its boundary; {why}. Use "
            f"`certify`."
        )
    candidate = fitted(problem, candidate)
    stream = Stream(seed) / "occupation"
    drawn = _drawn(problem, n_points, stream)
    starts = jnp.asarray(np.asarray(drawn)[:n_points])
    found = visited_places(
        problem, starts, n_paths=n_paths, dt=dt or _steps(problem, drawn, scheme), scheme=scheme,
        seed=(stream / "paths").seed, n_steps=_ENDLESS, most=max(n_points * n_paths, 1 << 16),
        progress=Renamed(progress or SilentProgress(), "second bound"),
    )  # fmt: skip
    with precision("float64"):
        candidate = cast(candidate, "float64")
        lacks = defect_problem(problem, candidate)
        parts = candidate, lacks.source, eqx.Partial(absorbed_value, lacks)
        where = [jnp.asarray(np.asarray(a, np.float64)) for a in (starts, found.point, found.exit)]
        value, residual, defect = map(np.asarray, _each(parts, where))
    counts = np.bincount(found.start, minlength=n_points)
    times = np.bincount(found.start, found.time, minlength=n_points) / np.maximum(counts, 1)
    longest, size = float(np.max(times)), float(np.sqrt(np.mean(value**2)))
    inside = math.sqrt(float(np.mean(found.time * residual**2)))
    outside = math.sqrt(float(np.mean((found.discount * defect) ** 2)))
    bound = math.sqrt(longest) * inside + outside
    relative = bound / size if size > 0 else math.inf
    return OccupationBound(relative, bound, inside, outside, longest, n_points, n_paths)


def rehearse_bound(problem: Problem, n_paths: int = 16) -> None:
    """Compile the paths of `occupation_bound`, if it applies."""
    if not why_no_bound(problem):
        drawn = _drawn(problem, _DRAWN, Stream(0))
        steps = _steps(problem, drawn, "default")
        compile_visits(problem, drawn, n_paths=n_paths, dt=steps, n_steps=_ENDLESS)


def _steps(problem: Problem, points: Float[Array, "n z"], scheme: str) -> Steps:
    return steps_for(problem, points, choose_scheme(problem, scheme).walk, _REACH)


def _drawn(problem: Problem, n_points: int, stream: Stream) -> Float[Array, "n z"]:
    """So many points or more: draws of few share what is compiled."""
    n, key = max(n_points, _DRAWN), (stream / "starts").key
    return sample_interior(problem, n, dtype=jnp.float32, key=key)


@quickly_compiled
def _each(
    functions: Sequence[Callable[..., Any]], places: Sequence[Float[Array, "_ z"]]
) -> list[Float[Array, " _"]]:
    """Every function of one point at its own places, few at a time."""
    return [
        jax.lax.map(lambda z, f=function: f(z), points, batch_size=_CHUNK)
        for function, points in zip(functions, places, strict=True)
    ]
