r"""Spectral truth for $-\tfrac12 s^2\Delta u + (V_1(x_1) + V_2(x_2))u = f$ on a rectangle."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..domain import Box
from ..problem import Problem
from ._base import AbstractReference, as_points, check_inside, evaluate, scattered
from ._basis import AbstractBasis, LegendreBasis

_SIZE = 192  # functions an axis: `schrodinger` is then known to about 1e-11
_CHUNK = 1 << 14
_SEPARABLE = 1e-10  # largest mixed difference of the reaction over its size


class GalerkinReference(AbstractReference):
    """A double sum over two one-dimensional bases."""

    def __init__(
        self,
        problem: Problem,
        bases: tuple[AbstractBasis, AbstractBasis],
        coefficients: np.ndarray,
        error_estimate: float | None,
    ):
        self.problem: Problem = problem
        self.bases: tuple[AbstractBasis, AbstractBasis] = bases
        self.coefficients: np.ndarray = coefficients
        self.error_estimate: float | None = error_estimate
        self.provenance: dict[str, Any] = {
            "method": "Galerkin",
            "problem": problem.name,
            "basis": type(bases[0]).__name__,
            "unknowns": int(coefficients.size),
        }

    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """By matrix products."""
        x = as_points(points, 2)
        check_inside(x, self.problem.region)
        values, slopes = np.empty(len(x)), np.empty((len(x), 2))
        for i in range(0, len(x), _CHUNK):
            here = slice(i, i + _CHUNK)
            p, dp = self.bases[0].evaluate(x[here, 0])
            q, dq = self.bases[1].evaluate(x[here, 1])
            inner = p @ self.coefficients
            values[here] = np.einsum("nk,nk->n", inner, q)
            slopes[here, 1] = np.einsum("nk,nk->n", inner, dq)
            slopes[here, 0] = np.einsum("nk,nk->n", dp @ self.coefficients, q)
        return values, slopes


def galerkin_reference(
    problem: Problem,
    size: int = _SIZE,
    basis: Callable[[float, float, int], AbstractBasis] = LegendreBasis,
) -> GalerkinReference:
    r"""Solve a separable Schrödinger-type problem on a rectangle to near machine precision.

    With mass matrices $B_i$ and one-dimensional operators $H_i$ the discrete system is $(H_1
    \otimes B_2 + B_1 \otimes H_2)c = F$, which the two generalized eigenproblems of $B_i$ and $H_i$
    diagonalize.

    Args:
        problem: on a two-dimensional `Box`, without drift, constant scalar diffusion, zero
            Dirichlet data, and a reaction that is a sum of functions of one coordinate.
        size: basis functions per axis.
        basis: kind of basis.

    Returns:
        The solution; its error estimate is the difference to that with three quarters of the
        functions.
    """
    reason = _not_separable(problem)
    if reason is not None:
        raise ValueError(
            f"`problem` must be a separable Schrödinger-type problem on a rectangle; {reason}. "
            f"Try `fem_reference(problem)`."
        )
    if size < 4:
        raise ValueError(f"`size` must be at least 4; got {size}.")
    fine = _solve(problem, size, basis)
    coarse = _solve(problem, (3 * size) // 4, basis)
    grid = _spread(4096, problem)
    u = fine.values(grid)
    gap = np.sqrt(np.mean((u - coarse.values(grid)) ** 2) / np.mean(u**2))
    return GalerkinReference(problem, fine.bases, fine.coefficients, float(gap))


def is_separable(problem: Problem) -> bool:
    """Whether `galerkin_reference` applies."""
    return _not_separable(problem) is None


def _not_separable(problem: Problem) -> str | None:
    if not problem.linear:
        return "its equation is not linear"
    if problem.jumps is not None:
        return "its paths jump"
    if not isinstance(problem.domain, Box) or problem.dim != 2:
        return "its domain is not a two-dimensional `Box`"
    if problem.timed:
        return "it is parabolic"
    if not problem.drift.is_zero:
        return "it has a drift"
    if problem.diffusion.function is not None or problem.diffusion.shape != ():
        return "its diffusion is not one constant number"
    zero = all(c.absorbs and c.data()["value"].is_zero for c in problem.boundary.values())
    if not zero:
        return "its boundary data are not `Dirichlet(0.0)`"
    x = _spread(256, problem)
    y = x[::-1]
    corners = [np.stack([a[:, 0], b[:, 1]], axis=1) for a, b in ((x, x), (y, y), (x, y), (y, x))]
    v = [evaluate(problem.reaction, c) for c in corners]
    mixed = np.max(np.abs(v[0] + v[1] - v[2] - v[3]))
    if mixed > _SEPARABLE * max(1.0, float(np.max(np.abs(v)))):
        return "its reaction is not a sum of functions of one coordinate"
    return None


def _solve(
    problem: Problem, size: int, kind: Callable[[float, float, int], AbstractBasis]
) -> GalerkinReference:
    from scipy.linalg import eigh
    from scipy.special import roots_legendre

    lower, upper = problem.domain.bounding_box()
    middle = 0.5 * (lower + upper)
    half_variance = 0.5 * float(np.asarray(problem.diffusion.constant)) ** 2
    # Gauss points: exact for products of polynomials, ample for the sines of the same size
    t, w = roots_legendre(2 * size + 40)
    nodes = [0.5 * (b - a) * t + 0.5 * (a + b) for a, b in zip(lower, upper, strict=True)]
    weights = [0.5 * (b - a) * w for a, b in zip(lower, upper, strict=True)]
    bases = tuple(kind(float(a), float(b), size) for a, b in zip(lower, upper, strict=True))
    shift = 0.5 * float(evaluate(problem.reaction, middle[None])[0])
    modes, masses, levels, values = [], [], [], []
    for axis, basis in enumerate(bases):
        line = np.tile(middle, (len(t), 1))
        line[:, axis] = nodes[axis]
        v = evaluate(problem.reaction, line) - shift
        p, dp = basis.evaluate(nodes[axis])
        mass = p.T @ (weights[axis][:, None] * p)
        operator = half_variance * dp.T @ (weights[axis][:, None] * dp)
        operator += p.T @ ((weights[axis] * v)[:, None] * p)
        # the mass matrix is badly conditioned, the (lifted) operator is not: factorize the latter
        lift = 1.0 + max(0.0, -float(np.min(v)))
        theta, mode = eigh(mass, operator + lift * mass)
        modes.append(mode)
        masses.append(theta)
        levels.append(1.0 - lift * theta)
        values.append(weights[axis][:, None] * p)
    grid = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    f = evaluate(problem.source, grid).reshape(len(t), len(t))
    load = modes[0].T @ (values[0].T @ f @ values[1]) @ modes[1]
    diagonal = np.outer(levels[0], masses[1]) + np.outer(masses[0], levels[1])
    coefficients = modes[0] @ (load / diagonal) @ modes[1].T
    return GalerkinReference(problem, (bases[0], bases[1]), coefficients, None)


def _spread(n: int, problem: Problem) -> np.ndarray:
    lower, upper = problem.domain.bounding_box()
    return lower + (upper - lower) * scattered(n, problem.dim)
