"""The differential operator and the residual at one point."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._types import Scalar, ScalarField, SpaceTimePoint, Vector
from ._boundary import AbstractCondition
from ._problem import Problem


class Jet(NamedTuple):
    r"""Value, gradient in space, time derivative and $\mathrm{tr}(\sigma\sigma^\top D^2u)$."""

    value: Scalar
    gradient: Vector
    rate: Scalar
    curvature: Scalar


def jet(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Jet:
    """What the operator needs to know of `u` at one point."""
    slope, hessian_times = jax.linearize(jax.grad(u), z)
    columns = problem.sigma(z).T
    if problem.timed:
        columns = jnp.pad(columns, ((0, 0), (1, 0)))
    curvature = jnp.sum(jax.vmap(lambda c: jnp.dot(c, hessian_times(c)))(columns))
    rate = slope[0] if problem.timed else jnp.zeros_like(curvature)
    return Jet(u(z), problem.space(slope), rate, curvature)


def generator(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$\mathcal{L}u = \tfrac12\mathrm{tr}(\sigma\sigma^\top D^2u) + b\cdot\nabla u$ at one point.

    Equation: [eq:diffusion-generator-appendix](../theory/equations.md).
    """
    return generator_of_jet(problem, jet(problem, u, z), z)


def generator_of_jet(problem: Problem, at: Jet, z: SpaceTimePoint) -> Scalar:
    """The generator, from derivatives that are already known."""
    return 0.5 * at.curvature + jnp.dot(problem.drift(z), at.gradient)


def residual_of_jet(problem: Problem, at: Jet, z: SpaceTimePoint) -> Scalar:
    """The residual, from derivatives that are already known."""
    return (
        at.rate
        + generator_of_jet(problem, at, z)
        - problem.reaction(z) * at.value
        + problem.source(z)
    )


def residual(problem: Problem, u: ScalarField, z: SpaceTimePoint) -> Scalar:
    r"""$[\partial_t u +]\ \mathcal{L}u - Vu + f$ at one point; zero for the solution.

    Equations: [eq:elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:parabolic-diffusion-appendix](../theory/equations.md).

    Args:
        problem: the boundary value problem.
        u: a function of one point of the problem (`x`, or time followed by `x`).
        z: the point.
    """
    return residual_of_jet(problem, jet(problem, u, z), z)


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
    value, slope = jax.value_and_grad(u)(z)
    return condition.residual(value, jnp.dot(normal, problem.space(slope)), z)
