"""Finite elements for nonlinear problems: Newton's iteration on the linear ones."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..problem import FirstGuess, Nonlinearity, Problem, Slopes
from ._assemble import Coefficients
from ._base import Batched
from ._field import FEMReference

_MOST = 20  # steps
_LEAST = 3
_LOOKS = 512
_SETTLED = 1e-9  # change over size; or a tenth of the error of the finite elements

Look = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # values and slopes at points


class NearCoefficients(Coefficients):
    """The data of the linear problem next to values and slopes that are known at points.

    Args:
        problem: a nonlinear problem that reads values and gradients.
        look: the candidate.
    """

    def __init__(self, problem: Problem, look: Look):
        super().__init__(problem)
        self.look: Look = look
        self.source: Any = lambda points: self._source_at(self._rows(points))
        self._source_at: Batched = Batched(self._near_source)
        self._inside_at: Batched = Batched(self._near_inside)
        self.inside: Any = lambda points: self._inside_at(self._rows(points))

    def _rows(self, points: np.ndarray) -> np.ndarray:
        """Points with the candidate's values and slopes."""
        value, slope = self.look(points)
        return np.concatenate([points, value[:, None], slope], axis=1)

    def _slopes(self, row: Float[Array, " r"]) -> tuple[Array, Array, Array, Slopes]:
        n = self.problem.n_coords
        z, u, p = jnp.split(row, [n, n + 1])
        given = self.problem.nonlinearity
        assert isinstance(given, Nonlinearity)
        return z, u[0], p, given.slopes(z, u[0], p, None)

    def _near_inside(self, row: Float[Array, " r"]) -> tuple[Array, ...]:
        z, _, _, found = self._slopes(row)
        half, advection, reaction = self._inside(z)
        return half, advection - found.by_p, reaction - found.by_u

    def _near_source(self, row: Float[Array, " r"]) -> Array:
        z, u, p, found = self._slopes(row)
        return self.problem.source(z) + found.value - found.by_u * u - jnp.dot(found.by_p, p)


def newton_reference(
    problem: Problem, solve_linear: Callable[[Coefficients], FEMReference]
) -> FEMReference:
    """The solution of a nonlinear problem, from those of the linear problems next to it.

    Args:
        problem: a nonlinear problem that reads values and gradients.
        solve_linear: finite elements for a linear one.
    """
    given = problem.nonlinearity
    assert given is not None
    if "Q" in given.reads:
        raise ValueError(
            "`nonlinearity` reads second derivatives, and those of finite elements are not "
            "continuous. Give the solution as `exact`."
        )
    look = _first_look(problem)
    for step in range(_MOST):
        found = solve_linear(NearCoefficients(problem, look))
        points = _some_nodes(problem, found)
        value, before = found.extended(points)[0], look(points)[0]
        size = float(np.sqrt(np.mean(value**2)))
        if not np.isfinite(size):
            break
        change = float(np.sqrt(np.mean((value - before) ** 2))) / max(size, 1e-300)
        if step >= _LEAST and change < max(_SETTLED, 0.1 * (found.error_estimate or 0.0)):
            found.provenance |= {"method": "P2 finite elements, Newton", "newton": step + 1}
            return found
        look = found.extended
    raise ValueError(
        f"Newton's iteration on finite elements did not settle in {_MOST} steps from the data at "
        f"the end of time, or zero. The problem may have no solution, or several."
    )


def _some_nodes(problem: Problem, found: FEMReference) -> np.ndarray:
    """Points of the problem that tell whether steps still change anything."""
    nodes = found.space.nodes[:: max(1, len(found.space.nodes) // _LOOKS)]
    times = np.linspace(0.0, problem.horizon or 0.0, len(nodes))
    return problem.layout.points(times, nodes)


def _first_look(problem: Problem) -> Look:
    guess = FirstGuess(problem)
    both = Batched(jax.value_and_grad(lambda z: guess(z)))

    def look(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = both(points)
        return value, problem.layout.space(slope)

    return look
