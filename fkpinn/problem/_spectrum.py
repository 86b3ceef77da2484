r"""First eigenvalue of $-\mathcal{L} + V$: it decides whether path averages are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from ._problem import Problem

_N_CELLS = 72  # grid cells along the longest side: eigenvalues to a few percent


def first_eigenvalue(problem: Problem) -> float:
    r"""Eigenvalue of $-\tfrac12\mathrm{tr}(aD^2\cdot) - b\cdot\nabla + V$ with smallest real part.

    Finite differences on a grid over the bounding box, for elliptic problems in one or two
    dimensions; good to a few percent, enough to tell a finite expectation from an infinite one.
    """
    from scipy.sparse.linalg import eigs

    matrix, reaction = _operator(problem)
    n = len(reaction)
    # the shift makes every eigenvalue's real part positive, the one sought the smallest
    shift = max(0.0, -float(reaction.min()))
    shifted = matrix + shift * _identity(n)
    start = np.ones(n)  # a fixed start: the same answer each time
    value = eigs(shifted.tocsc(), k=1, sigma=0.0, v0=start, return_eigenvectors=False)
    return float(np.real(value[0])) - shift


def box_eigenvalue(problem: Problem, lowest: float) -> float | None:
    """Lower bound from the bounding box, where one is known: constant isotropic diffusion."""
    simple = problem.dynamics.is_isotropic_constant
    if not (simple and all(problem.absorbing()) and problem.drift.is_zero):
        return None
    lower, upper = problem.domain.bounding_box()
    half_variance = 0.5 * float(np.asarray(problem.diffusion.constant)) ** 2
    bound = half_variance * float(np.sum((np.pi / (upper - lower)) ** 2)) + lowest
    return bound if bound > 0 else None


def _identity(n: int):
    from scipy.sparse import identity

    return identity(n, format="csr")


def _operator(problem: Problem):
    """The operator on the grid points inside the domain, and the reaction there."""
    from scipy.sparse import coo_matrix

    lower, upper = problem.domain.bounding_box()
    h = float(np.max(upper - lower)) / _N_CELLS
    axes = [np.arange(a + 0.5 * h, b, h) for a, b in zip(lower, upper, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    shape, d = grid.shape[:-1], problem.dim
    points = jnp.asarray(grid.reshape(-1, d))
    inside = np.asarray(jax.jit(jax.vmap(problem.domain.contains))(points)).reshape(shape)
    number = np.where(inside, np.cumsum(inside).reshape(shape) - 1, -1)
    here = points[inside.reshape(-1)]
    at_one_point = lambda x: (problem.covariance(x), problem.drift(x), problem.reaction(x))
    a, b, reaction = jax.tree.map(np.asarray, jax.jit(jax.vmap(at_one_point))(here))
    a = 0.5 * a
    padded = np.pad(number, 1, constant_values=-1)
    index = np.argwhere(inside) + 1
    n = len(here)
    rows, columns, entries = [np.arange(n)], [np.arange(n)], [reaction]

    def link(offset, weight):
        """Add `weight * (u(x) - u(x + offset h))`, the neighbor set by the boundary data."""
        neighbor = padded[tuple((index + np.asarray(offset)).T)]
        known = neighbor >= 0
        rows.append(np.flatnonzero(known))
        columns.append(neighbor[known])
        entries.append(-weight[known])
        factor = np.ones(n)
        beyond = here[~known] + h * jnp.asarray(offset, here.dtype)[None]
        factor[~known] -= _outside_value(problem, beyond, h)
        rows.append(np.arange(n))
        columns.append(np.arange(n))
        entries.append(weight * np.where(known, 1.0, factor))

    for axis in range(d):
        unit = np.eye(d, dtype=int)[axis]
        diffusive = a[:, axis, axis] / h**2
        link(unit, diffusive + np.maximum(b[:, axis], 0.0) / h)
        link(-unit, diffusive + np.maximum(-b[:, axis], 0.0) / h)
    if d == 2 and np.any(a[:, 0, 1]):
        mixed = 2.0 * a[:, 0, 1] / (4.0 * h**2)
        for offset, sign in (((1, 1), 1), ((-1, -1), 1), ((1, -1), -1), ((-1, 1), -1)):
            link(offset, sign * mixed)
    flat = [np.concatenate(part) for part in (entries, rows, columns)]
    return coo_matrix((flat[0], (flat[1], flat[2])), shape=(n, n)).tocsr(), reaction


def _outside_value(problem: Problem, points, h: float) -> np.ndarray:
    """Value half a cell outside as a multiple of the value half a cell inside."""
    if len(points) == 0:
        return np.zeros(0)
    part = np.asarray(jax.jit(jax.vmap(problem.domain.part_at))(points))
    value = -np.ones(len(points))  # absorbed: zero on the boundary between the two
    for i, condition in enumerate(problem.conditions()):
        if not condition.absorbs:
            at = part == i
            alpha = np.asarray(jax.vmap(condition.rate)(points[at]))
            value[at] = (1.0 - 0.5 * alpha * h) / (1.0 + 0.5 * alpha * h)
    return value
