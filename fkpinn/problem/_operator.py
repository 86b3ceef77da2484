"""The differential operator and the residual at one point."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._field import Taylor, taylor
from .._types import Scalar, ScalarField, SpaceTimePoint, Vector
from ._boundary import AbstractCondition
from ._problem import Problem


def generator(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$[\pm\partial_t u +]\ \tfrac12\mathrm{tr}(\sigma\sigma^\top D^2u) + b\cdot\nabla u$.

    Equation: [eq:diffusion-generator-appendix](../theory/equations.md).
    """
    return problem.dynamics.generator(u, z)


def residual(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$[\pm\partial_t u +]\ \mathcal{L}u - Vu + f\ [+ F]$ at one point; zero for the solution.

    Jumps are part of $\mathcal{L}$.

    Equations: [eq:elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:parabolic-diffusion-appendix](../theory/equations.md).

    Args:
        problem: the boundary value problem.
        u: a function of one point of the problem (`x`, or time followed by `x`).
        z: the point.
    """
    directions, weights = problem.dynamics.directions(z)
    at = taylor(u, z, directions, weights)
    total = _residual(problem, at, problem.dynamics.first_order(at, z), z)
    if problem.jumps is not None:
        total = total + problem.jumps.generator(u, problem.around, z)
    if problem.nonlinearity is None:
        return total
    slopes = at.slopes if problem.dynamics.along_axes else jax.grad(lambda y: u(y))(z)
    second = problem.nonlinearity.hessian(u, z) if problem.nonlinearity.second else None
    return total + problem.nonlinearity(z, at.value, problem.space(slopes), second)


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
    if problem.nonlinearity is not None and problem.nonlinearity.second:
        raise ValueError(
            "Random directions only estimate the trace of the second derivatives, but "
            "`nonlinearity` needs all of them. Set `points.directions` to 0."
        )
    if problem.jumps is not None:
        raise ValueError(
            "Random directions only estimate second derivatives and do not support `jumps`. Set "
            "`points.directions` to 0."
        )
    sigma = problem.sigma(z)
    signs = jr.rademacher(key, (n_directions, sigma.shape[1]), z.dtype)
    weights = np.full(n_directions, 1.0 / n_directions)
    at = taylor(u, z, *problem.dynamics.along(z, signs @ sigma.T, weights))
    total = _residual(problem, at, at.slopes[-1], z)
    if problem.nonlinearity is None:
        return total
    slope = problem.space(jax.grad(lambda y: u(y))(z))
    return total + problem.nonlinearity(z, at.value, slope, None)


def _residual(problem: Problem, at: Taylor, slope: Scalar, z: SpaceTimePoint) -> Scalar:
    """The sum of its terms; what is zero by declaration is left out, derivatives of it too."""
    total = jnp.zeros_like(at.value) if problem.diffusion.is_zero else 0.5 * at.curvature
    if problem.dynamics.has_first_order:
        total = total + slope
    if not problem.reaction.is_zero:
        total = total - problem.reaction(z) * at.value
    return total if problem.source.is_zero else total + problem.source(z)


def residual_by_hessian(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    """The same as `residual` from the full Hessian: slow, short, for checking."""
    layout, slope = problem.layout, jax.grad(u)(z)
    curvature = layout.space(layout.space(jax.hessian(u)(z)).T)
    rate = layout.pace * layout.time(slope) if layout.timed else 0.0
    second = 0.5 * jnp.trace(problem.covariance(z) @ curvature)
    first = problem.drift(z) @ layout.space(slope)
    total = rate + second + first - problem.reaction(z) * u(z) + problem.source(z)
    if problem.jumps is not None:
        total = total + problem.jumps.generator(u, problem.around, z)
    if problem.nonlinearity is None:
        return total
    return total + problem.nonlinearity(z, u(z), layout.space(slope), curvature)


def boundary_residual(
    problem: Problem,
    condition: AbstractCondition,
    u: ScalarField,
    z: SpaceTimePoint,
    normal: Vector,
) -> Scalar:
    """Violation of one boundary condition at one boundary point with outward normal `normal`."""
    direction = problem.layout.direction(normal)
    at = taylor(u, z, direction[None], jnp.zeros(1, z.dtype))
    return condition.residual(at.value, at.slopes[0], z)
