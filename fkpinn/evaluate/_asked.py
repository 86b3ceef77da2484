"""What values and gradients with limits are asked for."""

import math
from typing import Any

import numpy as np

from ..problem import Problem


def asked(
    problem: Problem, points: Any, n_paths: int | None, half_width: float | None
) -> np.ndarray:
    """Points, one per row; refuses those of another problem, and paths that are told twice.

    Args:
        problem: the boundary value problem.
        points: where.
        n_paths: paths per point.
        half_width: how narrow limits should be, instead.
    """
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != problem.n_coords or len(points) == 0:
        raise ValueError(
            f"`points` must have shape (n, {problem.n_coords}), n >= 1; got shape {points.shape}."
        )
    if half_width is not None and not 0 < half_width < math.inf:
        raise ValueError(f"`half_width` must be positive; got {half_width}.")
    if half_width is not None and n_paths is not None:
        raise ValueError("Give `n_paths` or `half_width`, not both.")
    return points
