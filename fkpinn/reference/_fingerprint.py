"""Numbers that tell one problem from another: its data at fixed points."""

import numpy as np

from ..problem import Problem
from ._base import evaluate

_N_POINTS = 16


def fingerprint(problem: Problem) -> np.ndarray:
    """Shape, coefficients and boundary data at fixed points of the bounding box."""
    from scipy.stats import qmc

    lower, upper = problem.domain.bounding_box()
    u = qmc.Halton(problem.n_coords, scramble=False).random(_N_POINTS + 1)[1:]
    x = lower + (upper - lower) * u[:, -problem.dim :]
    z = np.concatenate([u[:, :1] * problem.horizon, x], axis=1) if problem.timed else x
    numbers = [lower, upper, evaluate(problem.domain.signed_distance, x)]
    numbers += [evaluate(c, z) for c in (problem.drift, problem.covariance)]
    numbers += [evaluate(c, z) for c in (problem.reaction, problem.source)]
    if problem.terminal is not None:
        numbers.append(evaluate(problem.terminal, x))
    for condition in problem.conditions():
        kind = sum(type(condition).__name__.encode())
        numbers.append(np.array([float(kind)]))
        numbers += [evaluate(data, z) for data in vars(condition).values()]
    return np.concatenate([np.ravel(n) for n in numbers])


def same_problem(problem: Problem, stored: np.ndarray) -> bool:
    """Whether a stored fingerprint belongs to the problem."""
    here = fingerprint(problem)
    return here.shape == stored.shape and np.allclose(here, stored, rtol=1e-6, equal_nan=True)
