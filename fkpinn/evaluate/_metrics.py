"""Errors against a reference."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .._compute import quickly_compiled
from .._records import Errors
from ..problem import Problem
from ..reference import AbstractReference

_CHUNK = 16384
_POINTS_A_COORDINATE = 3  # of fewer points an affine function learns chance


def errors(
    problem: Problem,
    u: Callable[[Array], Any],
    reference: AbstractReference,
    points: Float[Array, "n z"],
) -> Errors:
    """Compare a one-point function with a reference at the given points.

    Equations: [eq:l2_abs](../theory/equations.md), [eq:l2_rel](../theory/equations.md),
    [eq:h1_abs](../theory/equations.md), [eq:h1_rel](../theory/equations.md).

    Args:
        problem: the problem both belong to.
        u: a function of one point, for example a network.
        reference: the reference solution.
        points: where to compare, one point per row; uniform points give the norms of the paper.
    """
    value, gradient = value_and_gradient(problem, u, points)
    true_value, true_gradient = reference.values_and_gradients(points)
    if not np.all(np.isfinite(value)):
        bad = int(np.argmin(np.isfinite(value)))
        raise ValueError(f"`u` is not finite at {np.asarray(points[bad])}; got {value[bad]}.")
    truth = np.asarray(true_value), np.asarray(true_gradient)
    return compare(np.asarray(points), value, gradient, *truth)


def compare(
    points: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    true_value: np.ndarray,
    true_gradient: np.ndarray,
) -> Errors:
    """All error measures from values and gradients at the same points."""
    square = np.mean((value - true_value) ** 2)
    slope = np.mean(np.sum((gradient - true_gradient) ** 2, axis=1))
    size = np.mean(true_value**2)
    true_slope = np.mean(np.sum(true_gradient**2, axis=1))
    constant = float(np.std(true_value) / np.sqrt(size))
    linear = _affine(points, true_value) / float(np.sqrt(size))
    least = float(np.nanmin([constant, linear]))
    relative = float(np.sqrt(square / size))
    return Errors(
        l2_abs=float(np.sqrt(square)),
        l2_rel=relative,
        h1_abs=float(np.sqrt(square + slope)),
        h1_rel=float(np.sqrt((square + slope) / (size + true_slope))),
        linf=float(np.max(np.abs(value - true_value))),
        constant=constant,
        linear=linear,
        skill=relative / least if least > 0 else math.inf,
    )


def _affine(points: np.ndarray, true_value: np.ndarray) -> float:
    """Root mean square of what the best affine function of the point leaves."""
    n, d = points.shape
    if n < _POINTS_A_COORDINATE * (d + 1):
        return math.nan
    rows = np.column_stack([np.ones(n), points]).astype(np.float64)
    fitted = rows @ np.linalg.lstsq(rows, true_value, rcond=None)[0]
    return float(np.sqrt(np.mean((fitted - true_value) ** 2)))


def value_and_gradient(
    problem: Problem, u: Callable[[Array], Any], points: Float[Array, "n z"]
) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients in space of a one-point function, in double precision."""
    parts = [_both(u, points[i : i + _CHUNK]) for i in range(0, len(points), _CHUNK)]
    value = np.concatenate([np.asarray(v, np.float64) for v, _ in parts])
    slope = np.concatenate([np.asarray(g, np.float64) for _, g in parts])
    return value, problem.layout.space(slope)


@quickly_compiled
def _both(u: Callable[[Array], Any], points: Float[Array, "n z"]) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda z: u(z)))(points)
