"""The terms of the loss, each a mean of squares divided by a natural scale."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar, ScalarField
from ..labels import Labels
from ..problem import Problem, boundary_residual, residual
from ..sampling import BoundaryPoints


class AbstractTerm(eqx.Module):
    """A part of the loss: what the network gets wrong at some points."""

    @abc.abstractmethod
    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Signed violations, in units of the term's scale."""

    def __call__(self, u: ScalarField) -> Scalar:
        """Mean square of the violations."""
        return jnp.mean(self.defects(u) ** 2)


class ResidualTerm(AbstractTerm):
    """Residual of the equation at interior points."""

    problem: Problem
    points: Float[Array, "n z"]
    scale: Float[Array, " n"]

    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Residuals."""
        return jax.vmap(lambda z: residual(self.problem, u, z))(self.points) / self.scale


class BoundaryTerm(AbstractTerm):
    """Violation of the boundary conditions at boundary points."""

    problem: Problem
    on: BoundaryPoints
    scale: float = eqx.field(static=True)

    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Violations of whichever condition holds at each point."""

        def at(z, normal, part):
            violations = [
                boundary_residual(self.problem, condition, u, z, normal)
                for condition in self.problem.conditions()
            ]
            return jnp.stack(violations)[part]

        return jax.vmap(at)(*self.on) / self.scale


class TerminalTerm(AbstractTerm):
    """Distance to the data at the final time of a parabolic problem."""

    problem: Problem
    points: Float[Array, "n z"]
    scale: float = eqx.field(static=True)

    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Differences at the final time."""
        data = self.problem.terminal
        assert data is not None
        return jax.vmap(lambda z: u(z) - data(z[1:]))(self.points) / self.scale


class LabelTerm(AbstractTerm):
    """Distance to the labels.

    Equation: [eq:fk-loss](../theory/equations.md).
    """

    labels: Labels
    scale: float = eqx.field(static=True)

    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Differences at the labeled points."""
        return (jax.vmap(u)(self.labels.points) - self.labels.value) / self.scale


class Loss(eqx.Module):
    """A weighted sum of named terms.

    Equation: [eq:fk-pinn-loss](../theory/equations.md).
    """

    terms: dict[str, AbstractTerm]
    weights: dict[str, float]

    def __call__(self, u: ScalarField) -> tuple[Scalar, dict[str, Scalar]]:
        """The sum, and the value of each term before weighting."""
        values = {name: term(u) for name, term in self.terms.items()}
        total = jnp.sum(jnp.stack([self.weights[name] * v for name, v in values.items()]))
        return total, values
