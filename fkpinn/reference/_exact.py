"""Closed-form truth."""

from typing import Any

import jax
import numpy as np

from ..problem import Problem
from ._base import AbstractReference, Batched, as_points, check_inside, check_times


class ExactReference(AbstractReference):
    """A solution known in closed form.

    Args:
        problem: the problem it solves; points outside its domain raise an error.
        function: the solution at one point of the problem (`x`, or time followed by `x`).
    """

    def __init__(self, problem: Problem, function: Any):
        if not callable(function):
            raise TypeError(
                f"`function` must be a function of one point of the problem; got {function!r}."
            )
        self.problem: Problem = problem
        self.function: Any = function
        self.error_estimate: float | None = 0.0
        self.provenance: dict[str, Any] = {"method": "exact", "problem": problem.name}
        self._both = Batched(jax.value_and_grad(function))

    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """By automatic differentiation."""
        z = as_points(points, self.problem.n_coords)
        layout = self.problem.layout
        if layout.horizon is not None:
            check_times(z, layout.time(z), layout.horizon)
        check_inside(z, self.problem.region)
        value, slope = self._both(z)
        return value, layout.space(slope)
