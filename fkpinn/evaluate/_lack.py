r"""What differences do to the values that paths measure.

If the residual of a candidate is wrong by $\delta$, corrections are wrong by
$\mathbb{E}_x\int D_s\,\delta(X_s)\,ds$, and slopes at reflecting walls count with the local time
there. Steps twice as long tell how large $\delta$ may be: with them the part that comes from the
length of the steps is up to sixteen times as large, and rounding is another.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._streams import Stream
from ..labels import Steps, choose_scheme, estimate_labels, steps_for, visited_places
from ..problem import Problem, boundary_residual, residual
from ..sampling import sample_boundary
from ._outside import Outside

_PATHS = 32  # from a point; each tells of one place that it visited
_WALL = 256  # points of each reflecting part
_REACH = 0.02  # of a step, over the size of the domain
_ENDLESS = 1 << 30  # steps
_AT_A_TIME = 1024


def lack_of_differences(
    problem: Problem, candidate: Callable[..., Any], points: Any, *, seed: int = 0
) -> Float[np.ndarray, " n"]:
    """How far corrections may be wrong since derivatives are differences, at each point.

    Args:
        problem: the boundary value problem.
        candidate: fitted to it.
        points: some points inside, one per row.
        seed: seed of all random numbers.
    """
    if not isinstance(candidate, Outside) or (other := candidate.coarser()) is None:
        return np.zeros(len(points))
    stream = Stream(seed) / "differences"
    linear = problem.linearized(candidate)
    with precision("float32"):
        starts = jnp.asarray(points, jnp.float32)
        steps = steps_for(linear, starts, choose_scheme(linear, "default").walk, _REACH)
        seen = visited_places(
            linear, starts, n_paths=_PATHS, dt=steps, seed=(stream / "paths").seed,
            n_steps=_ENDLESS, most=max(len(points) * _PATHS, 1 << 14),
        )  # fmt: skip
    with precision("float64"):
        places = jnp.asarray(np.asarray(seen.point, np.float64))
        change = np.abs(np.asarray(_residual_change(problem, candidate, other, places)))
    counts = np.maximum(np.bincount(seen.start, minlength=len(points)), 1)
    inside = np.bincount(seen.start, seen.time * change, minlength=len(points)) / counts
    return inside + _at_walls(problem, linear, (candidate, other), starts, steps, stream)


def _at_walls(
    problem: Problem,
    linear: Problem,
    both: tuple[Outside, Outside],
    starts: Array,
    steps: Steps,
    stream: Stream,
) -> Float[np.ndarray, " n"] | float:
    """The same for slopes at reflecting parts: the largest, times the mean local time."""
    largest = 0.0
    for part, condition in problem.boundary.items():
        if condition.absorbs:
            continue
        with precision("float64"):
            at = sample_boundary(problem, _WALL, part=part, key=(stream / "walls" / part).key)
            change = jax.vmap(
                lambda z, n, c=condition: jnp.subtract(
                    *(boundary_residual(problem, c, w, z, n) for w in both)
                )
            )(at.points, at.normals)
            largest = max(largest, float(jnp.max(jnp.abs(change))))
    if largest == 0.0:
        return 0.0
    walls = {
        part: condition.with_datum(0.0 if condition.absorbs else 1.0)
        for part, condition in linear.boundary.items()
    }
    outside = None if linear.exterior is None else 0.0
    unit = linear.with_data("local time", source=0.0, boundary=walls, exterior=outside, end=0.0)
    with precision("float32"):
        seed = (stream / "local").seed
        found = estimate_labels(unit, starts, n_paths=_PATHS, dt=steps, seed=seed, warn=False)
    return largest * np.abs(np.asarray(found.value, np.float64))


@quickly_compiled
def _residual_change(
    problem: Problem, one: Outside, other: Outside, points: Float[Array, "n z"]
) -> Float[Array, " n"]:
    change = lambda z: residual(problem, one, z) - residual(problem, other, z)
    return jax.lax.map(change, points, batch_size=_AT_A_TIME)
