"""Newton's iteration for the discrete equations of nonlinear problems, damped where it must be."""

from collections.abc import Callable
from typing import Any

import numpy as np

_MOST = 40  # steps
_SHORTEST = 2.0**-7  # part of a step that leads nowhere
_SETTLED = 1e-7  # change over size; the error that is left is of the order of its square

System = Callable[[np.ndarray], tuple[Any, np.ndarray]]


def newton(
    system: System, factorize: Callable[[Any], Any], u: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Solve `matrix(u) u = right(u)` for the unknowns that are free.

    Args:
        system: matrix and right-hand side of the linear problem next to a vector.
        factorize: makes of a matrix what can `solve`.
        u: where to start; what is not free stays.
        free: numbers of the unknowns.
    """
    (matrix, lack), move, size = _at(system, u, free), np.inf, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # iterates that diverge are refused below
        for _ in range(_MOST):
            step = factorize(matrix[free][:, free]).solve(lack)
            u, matrix, lack, share = _damped(system, u, free, step, lack)
            move, size = share * float(np.max(np.abs(step), initial=0.0)), float(np.max(np.abs(u)))
            if not (np.isfinite(move) and np.all(np.isfinite(lack))):
                break
            if move <= _SETTLED * size:
                return u
    raise ValueError(
        f"Newton's method for finite elements did not converge in {_MOST} steps (its last change "
        f"is {move / max(size, 1e-300):.1e} of the solution). The problem may have no solution, "
        f"or several."
    )


def _at(system: System, u: np.ndarray, free: np.ndarray) -> tuple[Any, np.ndarray]:
    matrix, right = system(u)
    return matrix, (right - matrix @ u)[free]


def _damped(
    system: System, u: np.ndarray, free: np.ndarray, step: np.ndarray, lack: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray, float]:
    """The longest of a step and its halves that makes less of what is lacking."""
    before, share = float(np.linalg.norm(lack)), 1.0
    while True:
        tried = u.copy()
        tried[free] += share * step
        matrix, left = _at(system, tried, free)
        less = float(np.linalg.norm(left)) <= (1.0 - 0.25 * share) * before
        # of tiny steps rounding is all that is left
        tiny = share * np.max(np.abs(step), initial=0.0) <= _SETTLED * np.max(np.abs(tried))
        if less or tiny or share <= _SHORTEST:
            return tried, matrix, left, share
        share *= 0.5
