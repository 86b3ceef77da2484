"""The differential operator and the residual at one point."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._field import Directions, Taylor, Weights, taylor
from .._types import Scalar, ScalarField, SpaceTimePoint, Vector
from ._boundary import AbstractCondition
from ._problem import Problem


def directions_of(problem: Problem, z: SpaceTimePoint) -> tuple[Directions, Weights]:
    """Directions and weights whose derivatives make the generator at `z`.

    Where the diffusion is a number or a diagonal these are the axes. Otherwise they are the
    columns of the diffusion, and last the drift (with time, where there is any).
    """
    sigma = problem.diffusion(z)
    if sigma.ndim < 2:
        weights = jnp.broadcast_to(sigma**2, (problem.dim,))
        if problem.timed:
            weights = jnp.pad(weights, (1, 0))
        return jnp.eye(problem.n_coords, dtype=z.dtype), weights
    weights = _then_zero(np.ones(sigma.shape[1]))
    return _with_drift(problem, sigma.T, z), jnp.asarray(weights, z.dtype)


def first_order(problem: Problem, at: Taylor, z: SpaceTimePoint) -> Scalar:
    r"""$[\partial_t u +]\ b\cdot\nabla u$, from derivatives along `directions_of`."""
    if problem.diffusion(z).ndim == 2:
        return at.slopes[-1]
    slope = jnp.dot(problem.drift(z), problem.space(at.slopes))
    return slope + at.slopes[0] if problem.timed else slope


def generator(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$[\partial_t u +]\ \tfrac12\mathrm{tr}(\sigma\sigma^\top D^2u) + b\cdot\nabla u$ at a point.

    Equation: [eq:diffusion-generator-appendix](../theory/equations.md).
    """
    at = taylor(u, z, *directions_of(problem, z))
    return 0.5 * at.curvature + first_order(problem, at, z)


def residual(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$[\partial_t u +]\ \mathcal{L}u - Vu + f$ at one point; zero for the solution.

    Equations: [eq:elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:parabolic-diffusion-appendix](../theory/equations.md).

    Args:
        problem: the boundary value problem.
        u: a function of one point of the problem (`x`, or time followed by `x`).
        z: the point.
    """
    at = taylor(u, z, *directions_of(problem, z))
    return _residual(problem, at, first_order(problem, at, z), z)


def sampled_residual(
    problem: Problem, u: ScalarField, z: SpaceTimePoint, n_directions: int, *, key: PRNGKeyArray
) -> Scalar:
    r"""The residual with the trace estimated along random directions; right on average.

    With signs $v$ of mean zero and variance one, $\mathbb{E}[(\sigma v)^\top D^2u\,(\sigma v)]$ is
    the trace (Hutchinson). Two independent estimates multiply to an unbiased square.

    Args:
        problem: the boundary value problem.
        u: a function of one point of the problem.
        z: the point.
        n_directions: how many directions; the work grows with them and not with the dimension.
        key: random key.
    """
    sigma = problem.sigma(z)
    signs = jr.rademacher(key, (n_directions, sigma.shape[1]), z.dtype)
    weights = jnp.asarray(_then_zero(np.full(n_directions, 1.0 / n_directions)), z.dtype)
    at = taylor(u, z, _with_drift(problem, signs @ sigma.T, z), weights)
    return _residual(problem, at, at.slopes[-1], z)


def _residual(problem: Problem, at: Taylor, slope: Scalar, z: SpaceTimePoint) -> Scalar:
    """The sum of its terms; what is zero by declaration is left out, derivatives of it too."""
    total = 0.5 * at.curvature
    if problem.timed or not problem.drift.is_zero:
        total = total + slope
    if not problem.reaction.is_zero:
        total = total - problem.reaction(z) * at.value
    return total if problem.source.is_zero else total + problem.source(z)


def _with_drift(problem: Problem, rows: Float[Array, "m d"], z: SpaceTimePoint) -> Directions:
    """Directions in space, and the drift, as directions of a point of the problem."""
    rows = jnp.concatenate([rows, problem.drift(z)[None]])
    if not problem.timed:
        return rows
    time = jnp.asarray(1.0 - _then_zero(np.ones(len(rows) - 1)), z.dtype)
    return jnp.concatenate([time[:, None], rows], axis=1)


def _then_zero(weights: np.ndarray) -> np.ndarray:
    """The drift comes last and has no second derivatives."""
    return np.append(weights, 0.0)


def residual_by_hessian(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    """The same as `residual` from the full Hessian: slow, short, for checking."""
    slope, hessian = jax.grad(u)(z), jax.hessian(u)(z)
    rate = slope[0] if problem.timed else 0.0
    if problem.timed:
        slope, hessian = slope[1:], hessian[1:, 1:]
    second = 0.5 * jnp.trace(problem.covariance(z) @ hessian)
    return rate + second + problem.drift(z) @ slope - problem.reaction(z) * u(z) + problem.source(z)


def boundary_residual(
    problem: Problem,
    condition: AbstractCondition,
    u: ScalarField,
    z: SpaceTimePoint,
    normal: Vector,
) -> Scalar:
    """Violation of one boundary condition at one boundary point with outward normal `normal`."""
    direction = jnp.pad(normal, (1, 0)) if problem.timed else normal
    at = taylor(u, z, direction[None], jnp.zeros(1, z.dtype))
    return condition.residual(at.value, at.slopes[0], z)
