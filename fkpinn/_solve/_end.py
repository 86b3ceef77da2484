"""Terminal data: whether they have kinks, and how the diffusion smooths them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from .._compute import precision, quickly_compiled
from .._streams import Stream
from .._types import Points
from ..problem import Problem, Softened, chooses, smoothing
from ..sampling import sample_interior

_LOOKS = 8192  # points that tell whether data have kinks
_FEW_LOOKS = 1024  # points that tell how fast they vary
_NEAR = 0.01  # distance of differences, over that which paths go in all
_ROUGH = 2.0  # of mean squares at a distance, over those at four times that; of kinks 4


def smoothed_end(problem: Problem) -> Callable[..., Any] | None:
    """What a short time adds to data with kinks, a function of one point; None if it is not known.

    On a line kinks are found whatever makes them; in several dimensions by the choices that the
    data make.
    """
    if problem.dim == 1 and not problem.parameters:
        return smoothing(problem)
    return Softened(problem) if kinks_at_end(problem) and chooses(problem) else None


def kinks_at_end(problem: Problem) -> bool:
    """Whether the terminal data have kinks: their second differences grow."""
    if problem.terminal is None:
        return False
    with precision("float64"):
        stream = Stream(0) / "kinks"
        where = sample_interior(problem, _LOOKS, key=stream.key)
        signs = jr.rademacher((stream / "signs").key, (_LOOKS, problem.dim), where.dtype)
        wide, narrow = (float(a) for a in _second_differences(problem, where, signs))
    return narrow > _ROUGH * wide + 1e-12


def half_waves_at_end(problem: Problem) -> float:
    """How often the terminal data rise or fall from one side of the domain to the other."""
    if problem.terminal is None or problem.terminal.function is None:
        return 0.0
    with precision("float64"):
        where = sample_interior(problem, _FEW_LOOKS, key=(Stream(0) / "half waves").key)
        values, slopes = (np.asarray(a) for a in _values_and_slopes(problem, where))
    lower, upper = (np.asarray(a) for a in problem.domain.bounding_box())
    rise = np.sqrt(np.mean(np.sum((slopes * (upper - lower)) ** 2, axis=1)))
    return float(rise / max(np.pi * np.std(values), 1e-300))


@quickly_compiled
def _values_and_slopes(problem: Problem, points: Points) -> tuple[Array, Array]:
    data, layout = problem.terminal, problem.layout
    assert data is not None
    value, slope = jax.vmap(lambda z: jax.value_and_grad(data)(layout.without_time(z)))(points)
    return value, layout.timeless.space(slope)


@quickly_compiled
def _second_differences(problem: Problem, points: Points, signs: Array) -> tuple[Array, Array]:
    """Mean squares at two distances, one and a quarter, along random diagonals."""
    data, layout = problem.terminal, problem.layout
    assert data is not None and layout.horizon is not None
    horizon = layout.horizon

    def one(z, sign):
        x = layout.without_time(z)
        variances = problem.dynamics.variances(layout.at_end(x[None])[0])
        step = layout.timeless.direction(_NEAR * sign * jnp.sqrt(horizon * variances))
        bend = lambda h: data(x + h * step) - 2.0 * data(x) + data(x - h * step)
        return jnp.stack([bend(1.0), 16.0 * bend(0.25)]) ** 2

    wide, narrow = jnp.mean(jax.vmap(one)(points, signs), axis=0)
    return wide, narrow
