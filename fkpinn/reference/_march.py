"""Solve the discrete problem: at once, or in time from where data are given."""

import itertools
from typing import Any

import numpy as np

from ._assemble import Assembly
from ._base import evaluate
from ._newton import newton

INNER = 2.0 - 2.0**0.5  # inner time of a step over its length


def solve_elliptic(assembly: Assembly) -> np.ndarray:
    """Values at the nodes, `(1, N)`."""
    solution, free = assembly.boundary_values(), assembly.free
    if not assembly.problem.linear:
        system = lambda u: (assembly.stiffness(near=u), assembly.load(near=u))
        return assembly.at_nodes(newton(system, factorized, solution, free))[None]
    matrix, load = assembly.stiffness(), assembly.load()
    right = (load - matrix @ solution)[free]
    solution[free] = factorized(matrix[free][:, free]).solve(right)
    return assembly.at_nodes(solution)[None]


def solve_parabolic(assembly: Assembly, n_steps: int) -> np.ndarray:
    """Values at the nodes at `n_steps + 1` times from 0 to the horizon, `(n_steps + 1, N)`."""
    problem = assembly.problem
    assert problem.horizon is not None and problem.terminal is not None
    begin = problem.layout.end  # of paths, where the march begins
    times = np.linspace(begin, problem.horizon - begin, n_steps + 1)
    stepper = _Stepper(assembly)
    u = evaluate(problem.terminal, assembly.node_points())
    # boundary values from the start: otherwise data that do not match cost an order
    u[assembly.fixed] = assembly.boundary_values(begin)[assembly.fixed]
    snapshots = [u]
    for start, end in itertools.pairwise(times):
        u = stepper.advance(u, float(start), float(end))
        snapshots.append(u)
    return assembly.at_nodes(np.stack(snapshots if problem.layout.forward else snapshots[::-1]))


class _Stepper:
    """TR-BDF2: a trapezoidal step to an inner time, then a backward difference over both.

    Second order, also in its inner stage, so boundary data that change in time cost nothing,
    and it damps what the terminal data do not match at the boundary. The inner time is chosen
    so that both halves have the same matrix; its factors are kept while they serve.
    """

    def __init__(self, assembly: Assembly):
        self.assembly = assembly
        self._key: tuple[Any, float] = (None, 0.0)
        self._whole: Any = None
        self._factors: Any = None

    def advance(self, u: np.ndarray, start: float, end: float) -> np.ndarray:
        """From time `start` to time `end`, later or earlier."""
        assembly, step = self.assembly, abs(start - end)
        inner = start + INNER * (end - start)
        weight = 0.5 * INNER * step
        near = None if assembly.problem.linear else u
        rate = assembly.load(start, near) - assembly.stiffness(start, near) @ u
        middle = self._implicit(assembly.mass @ u + weight * rate, inner, weight, u)
        scale = 1.0 / (INNER * (2.0 - INNER))
        mixed = scale * middle - scale * (1.0 - INNER) ** 2 * u
        return self._implicit(assembly.mass @ mixed, end, weight, middle)

    def _implicit(
        self, right: np.ndarray, time: float, weight: float, guess: np.ndarray
    ) -> np.ndarray:
        """Solve `(mass + weight * stiffness) new = right + weight * load` with boundary values."""
        assembly, free = self.assembly, self.assembly.free
        if not assembly.problem.linear:
            first = assembly.boundary_values(time)
            first[free] = guess[free]

            def system(u):
                matrix = (assembly.mass + weight * assembly.stiffness(time, u)).tocsr()
                return matrix, right + weight * assembly.load(time, u)

            return newton(system, factorized, first, free)
        matrix = assembly.stiffness(time)
        known, at = self._key
        if matrix is not known or abs(weight - at) > 1e-9 * weight:
            self._whole = (assembly.mass + weight * matrix).tocsr()
            self._factors = factorized(self._whole[free][:, free])
            self._key = (matrix, weight)
        new = assembly.boundary_values(time)
        right = right + weight * assembly.load(time) - self._whole @ new
        new[free] = self._factors.solve(right[free])
        return new


def factorized(matrix: Any) -> Any:
    """Sparse LU factors; refuse a singular matrix with words instead of a number."""
    from scipy.sparse.linalg import splu

    try:
        return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ValueError(
            f"`problem` has no unique solution: the finite element matrix is singular ({error}). "
            f"Give a Dirichlet value somewhere, or a positive reaction."
        ) from error
