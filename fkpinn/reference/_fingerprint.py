"""Numbers that tell one problem from another: its data at fixed points."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import SpaceTimePoint
from ..problem import Problem
from ._base import evaluate, scattered

_N_POINTS = 16


def fingerprint(problem: Problem) -> np.ndarray:
    """Shape, coefficients and boundary data at fixed points of the bounding box."""
    lower, upper = problem.domain.bounding_box()
    u = scattered(_N_POINTS, problem.n_coords)
    layout = problem.layout
    times = layout.time(u) * layout.horizon if layout.horizon is not None else 0.0
    least, most = layout.ranges()
    values = least + (most - least) * layout.values(u)
    z = layout.points(times, lower + (upper - lower) * layout.space(u), values)
    kinds = [float(sum(type(c).__name__.encode())) for c in problem.conditions()]
    kinds += [-1.0] if layout.forward else []
    numbers = [lower, upper, np.array(kinds), *evaluate(eqx.Partial(_data, problem), z)]
    return np.concatenate([np.ravel(n) for n in numbers])


def _data(problem: Problem, z: SpaceTimePoint) -> list[Array]:
    numbers = [problem.region.signed_distance(z), problem.drift(z), problem.covariance(z)]
    numbers += [problem.reaction(z), problem.source(z)]
    if problem.nonlinearity is not None:
        d = problem.dim
        some = jnp.sin(1.0 + jnp.arange(d + 1, dtype=z.dtype))
        square = jnp.outer(problem.space(z), problem.space(z)) + jnp.diag(some[1:])
        numbers.append(problem.nonlinearity(z, some[0], some[1:], square))
    if problem.jumps is not None:
        numbers.append(problem.jumps.fingerprint(z))
    if problem.exterior is not None:
        numbers.append(problem.exterior(z))
    if problem.terminal is not None:
        numbers.append(problem.terminal(problem.layout.without_time(z)))
    for condition in problem.conditions():
        numbers += [datum(z) for datum in condition.data().values()]
    return numbers


def same_problem(problem: Problem, stored: np.ndarray) -> bool:
    """Whether a stored fingerprint belongs to the problem."""
    here = fingerprint(problem)
    return here.shape == stored.shape and np.allclose(here, stored, rtol=1e-6, equal_nan=True)
