r"""A bound of the error by residuals where paths go.

With $\mu$ for the occupation measure of paths from points of the problem's measure $\nu$ and $h$
for the law of their exits, the error $e$ of a candidate with residual $R$ and boundary defect $b$
satisfies $\|e\|_{L^2(\nu)} \le \sqrt{m^* \int R^2\,d\mu} + \sqrt{\int b^2\,dh}$, where
$m^* = \sup_x \mathbb{E}_x\int D_s\,ds$ is the longest mean time.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._streams import Stream
from ..labels import defect_problem, visited_places
from ..loss import cast
from ..problem import Problem
from ..sampling import sample_interior
from ..sde import absorbed_value


class OccupationBound(NamedTuple):
    """Bound of the L2 error of a candidate over the problem's measure, and its parts.

    `residual` is the root of the integral of the squared residual over the occupation measure,
    `boundary` that of the squared defect of the data over the law of exits, and `longest` the
    largest mean time of paths from the points that were drawn.
    """

    l2_abs: float
    residual: float
    boundary: float
    longest: float


def occupation_bound(
    problem: Problem,
    candidate: Callable[..., Any],
    *,
    n_points: int = 512,
    n_paths: int = 64,
    dt: float | None = None,
    scheme: str = "default",
    seed: int = 0,
) -> OccupationBound:
    """Bound the L2 error of a candidate by its residual along paths; cruder than `certify`.

    Equation: [design: occupation](../theory/occupation.md).

    Args:
        problem: an elliptic problem with Dirichlet data on all of its boundary.
        candidate: a differentiable function of one point.
        n_points: points of the measure at which paths start.
        n_paths: from each.
        dt: time step of the paths; by default from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        seed: fixes everything random.

    Returns:
        `OccupationBound`. Sums and the longest time are estimates; no interval comes with them.
    """
    if problem.timed or not all(problem.absorbing()):
        kind = "a horizon" if problem.timed else "reflecting boundary parts"
        raise ValueError(
            f"`problem` must be elliptic with Dirichlet data on all of its boundary; got one with "
            f"{kind}. Use `certify`."
        )
    stream = Stream(seed) / "occupation"
    with precision("float64"):
        starts = sample_interior(problem, n_points, key=(stream / "starts").key)
        found = visited_places(
            problem, starts, n_paths=n_paths, dt=dt, scheme=scheme, seed=(stream / "paths").seed,
            most=n_points * n_paths,
        )  # fmt: skip
        lacks = defect_problem(problem, cast(candidate, "float64"))
        residual = np.asarray(_sources(lacks, jnp.asarray(found.point, jnp.float64)))
        defect = np.asarray(_data(lacks, jnp.asarray(found.exit, jnp.float64)))
    counts = np.bincount(found.start, minlength=n_points)
    times = np.bincount(found.start, found.time, minlength=n_points) / np.maximum(counts, 1)
    longest = float(np.max(times))
    inside = math.sqrt(float(np.mean(found.time * residual**2)))
    outside = math.sqrt(float(np.mean((found.discount * defect) ** 2)))
    return OccupationBound(math.sqrt(longest) * inside + outside, inside, outside, longest)


@eqx.filter_jit
def _sources(lacks: Problem, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.lax.map(lacks.source, points, batch_size=4096)


@eqx.filter_jit
def _data(lacks: Problem, points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.lax.map(lambda z: absorbed_value(lacks, z), points, batch_size=4096)
