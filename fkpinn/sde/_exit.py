"""When a path has reached an absorbing boundary part, seen only at grid times."""

import abc
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._types import Point, Scalar, SpaceTimePoint
from ..domain import AbstractDomain
from ..problem import Problem

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

# -zeta(1/2) / sqrt(2 pi): mean overshoot of a Gaussian random walk over a far barrier
OVERSHOOT = 0.5825971579390107


class AbstractExit(eqx.Module):
    """A rule for the end of a path on absorbing parts."""

    uses_uniform: AbstractClassVar[bool]

    @abc.abstractmethod
    def reached(
        self, problem: Problem, before: Scalar, after: Scalar, spread: Scalar, uniform: Scalar
    ) -> Bool[Array, ""]:
        """Whether the path ended in this step.

        Args:
            problem: the boundary value problem.
            before: depth below the absorbing boundary at the start of the step (positive inside).
            after: depth at its end, negative outside.
            spread: standard deviation of the step across the boundary.
            uniform: a uniform random number, if the rule uses one.
        """

    @abc.abstractmethod
    def settle(self, domain: AbstractDomain, x: Point) -> Point:
        """The point at which boundary data are evaluated, given the end of the path."""


class PlainExit(AbstractExit):
    """The path is outside at a grid time, as in Algorithm alg:fk-mc; bias of order one half.

    Equation: [eq:fk-discrete-exit-time](../theory/equations.md).
    """

    uses_uniform = False

    def reached(
        self, problem: Problem, before: Scalar, after: Scalar, spread: Scalar, uniform: Scalar
    ) -> Bool[Array, ""]:
        """Outside at the end of the step."""
        return ~(after > 0)  # NaN is out too

    def settle(self, domain: AbstractDomain, x: Point) -> Point:
        """The point outside itself."""
        return x


class ShiftedExit(AbstractExit):
    """The path is within the mean overshoot of the boundary (Gobet and Menozzi): order one."""

    uses_uniform = False

    def reached(
        self, problem: Problem, before: Scalar, after: Scalar, spread: Scalar, uniform: Scalar
    ) -> Bool[Array, ""]:
        """Closer than the overshoot that the grid would miss."""
        return ~(after > OVERSHOOT * spread)

    def settle(self, domain: AbstractDomain, x: Point) -> Point:
        """Nearest boundary point."""
        return domain.project(x)


class BridgeExit(AbstractExit):
    """Exits between grid times, by the crossing probability of a Brownian bridge: order one."""

    uses_uniform = True

    def reached(
        self, problem: Problem, before: Scalar, after: Scalar, spread: Scalar, uniform: Scalar
    ) -> Bool[Array, ""]:
        """Outside at the end, or crossed on the way."""
        crossed = jnp.exp(-2.0 * jnp.maximum(before, 0.0) * after / spread**2)
        return ~(after > 0) | (uniform < crossed)

    def settle(self, domain: AbstractDomain, x: Point) -> Point:
        """Nearest boundary point."""
        return domain.project(x)


def spread_across(problem: Problem, z: SpaceTimePoint, dt: Scalar) -> Scalar:
    r"""$|n^\top\sigma|\sqrt{dt}$: how far a step reaches across the nearest boundary."""
    normal = lambda: problem.domain_at(z).normal(problem.space(z))
    return problem.dynamics.spread(z, normal, dt)
