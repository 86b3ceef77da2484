"""The terms of the loss, each a mean of squares divided by a natural scale."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._streams import Stream, fold
from .._types import Points, Scalar, ScalarField, SpaceTimePoint
from ..labels import Labels
from ..nn import Size
from ..problem import Problem, boundary_residual, residual, sampled_residual
from ..sampling import BoundaryPoints, sample_terminal
from ._rows import each, mean, mean_square
from ._sampler import AbstractSampler, Spread

_SHORTEST = 1e-6  # of the horizon


def times_as_many(times: float, points: Array) -> int:
    """So many times the number of points, but one at least."""
    return max(1, round(times * len(points)))


class AbstractTerm(eqx.Module):
    """A part of the loss: what the network gets wrong at some points."""

    @abc.abstractmethod
    def rows(self) -> Any:
        """Arrays whose leading axis counts the points of the term."""

    @abc.abstractmethod
    def at(self, u: ScalarField, row: Any) -> Scalar:
        """Signed violation at one point, in units of the term's scale."""

    def values_at(self) -> Points | None:
        """A point for each row, if all that it reads of the network is the value there."""
        return None

    @abc.abstractmethod
    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "AbstractTerm":
        """The same term at fresh points, that many times as many, but one at least."""

    def defects(self, u: ScalarField) -> Float[Array, " n"]:
        """Violations at all points."""
        return each(lambda v, row: self.at(v, row), u, self.rows())

    def __call__(self, u: ScalarField) -> Scalar:
        """Mean square of the violations."""
        return mean_square(lambda v, row: self.at(v, row), u, self.rows())


class ResidualTerm(AbstractTerm):
    """Residual of the equation at interior points.

    Equation: [eq:pinn-loss](../theory/equations.md).

    Args:
        problem: the boundary value problem.
        points: the points, one per row.
        size: typical size of the solution; residuals are divided by the corresponding size of the
            terms of the equation. Without it they are not scaled.
        sampler: chooses new points; spread evenly by default.
        time_power: squares are weighted by this power of the time left relative to the horizon: if
            terminal (or initial) data have kinks, residuals close to that time are large and matter
            little.
    """

    problem: Problem
    points: Points
    size: float | Size | None = eqx.field(static=True, default=None)
    sampler: AbstractSampler = Spread()
    time_power: float = eqx.field(static=True, default=0.0)

    def rows(self) -> Points:
        """The points."""
        return self.points

    def at(self, u: ScalarField, row: SpaceTimePoint) -> Scalar:
        """The residual."""
        return self.scaled(residual(self.problem, u, row), row)

    def scaled(self, found: Scalar, z: SpaceTimePoint) -> Scalar:
        """A residual at a point, in units of what the terms of the equation come to."""
        if self.size is not None:
            found = found / natural_scale(self.problem, z, size_at(self.size, z))
        horizon = self.problem.horizon
        if not self.time_power or horizon is None:
            return found
        share = self.problem.layout.time_left(z) / horizon
        return found * jnp.maximum(share, _SHORTEST) ** (0.5 * self.time_power)

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "ResidualTerm":
        """Fresh points, where the sampler wants them."""
        n, dtype = times_as_many(times, self.points), self.points.dtype
        points = self.sampler.draw(self.problem, u, self.at, n, dtype, key=key)
        return eqx.tree_at(lambda term: term.points, self, points)


class SampledResidualTerm(AbstractTerm):
    """The residual with second derivatives along few random directions, for very high dimension.

    The loss is the mean of products of two independent estimates, which is unbiased, while a square
    would be too large by the variance. Directions are redrawn with the points; if they were kept
    for many steps, the training would overfit them, and a product of two estimates has no lower
    bound. So this term is for first-order optimizers with new points in every step.

    Args:
        exact: the term that it estimates.
        n_directions: number of directions of each of the two estimates.
        draw: index of this draw of points and directions.
    """

    exact: ResidualTerm
    n_directions: int = eqx.field(static=True, default=16)
    draw: Array = eqx.field(default_factory=lambda: jnp.zeros((), jnp.uint32))

    def rows(self) -> tuple[Points, Array]:
        """The points, each with a number."""
        points = self.exact.points
        return points, jnp.arange(len(points), dtype=jnp.uint32)

    def at(self, u: ScalarField, row: tuple[SpaceTimePoint, Array]) -> Scalar:
        """One estimate."""
        return self._estimate(u, row, 0)

    def __call__(self, u: ScalarField) -> Scalar:
        """Mean of products of two estimates; it may be negative."""
        product = lambda v, row: self._estimate(v, row, 0) * self._estimate(v, row, 1)
        return mean(product, u, self.rows())

    def redrawn(
        self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0
    ) -> "SampledResidualTerm":
        """Fresh points and directions."""
        draw = jr.bits(fold(key, "directions"), (), jnp.uint32)
        fresh = self.exact.redrawn(u, key, times), draw
        return eqx.tree_at(lambda term: (term.exact, term.draw), self, fresh)

    def _estimate(self, u: ScalarField, row: tuple[SpaceTimePoint, Array], which: int) -> Scalar:
        z, number = row
        key = fold(fold(Stream(0).key, "directions", self.draw), "row", 2 * number + which)
        found = sampled_residual(self.exact.problem, u, z, self.n_directions, key=key)
        return self.exact.scaled(found, z)


def size_at(size: float | Size, z: SpaceTimePoint) -> float | Scalar:
    """The typical size of the solution at a point, which only parameters change."""
    return size(z) if isinstance(size, Size) else size


def natural_scale(problem: Problem, z: SpaceTimePoint, size: float | Scalar) -> Scalar:
    """What the terms of the equation come to at a point, for a solution of the given size."""
    lower, upper = problem.box()
    reach = 0.5 * float((upper - lower).min())
    second = 0.5 * jnp.sum(problem.dynamics.variances(z)) / reach**2
    first = jnp.sqrt(jnp.sum(problem.drift(z) ** 2)) / reach
    zeroth = jnp.abs(problem.reaction(z))
    if problem.jumps is not None:
        zeroth = zeroth + problem.jumps.strength(z)
    return jnp.abs(problem.source(z)) + size * (second + first + zeroth)


class BoundaryTerm(AbstractTerm):
    """Violation of the boundary conditions at boundary points.

    Args:
        problem: the boundary value problem.
        on: the boundary points.
        size: typical size of the solution.
        sampler: chooses new points; on the whole boundary by default.
    """

    problem: Problem
    on: BoundaryPoints
    size: float | Size = eqx.field(static=True, default=1.0)
    sampler: AbstractSampler = Spread()

    def rows(self) -> BoundaryPoints:
        """Points, normals, parts."""
        return self.on

    def values_at(self) -> Points | None:
        """The points, if no condition is about slopes."""
        return self.on.points if all(self.problem.absorbing()) else None

    def at(self, u: ScalarField, row: BoundaryPoints) -> Scalar:
        """Violation of whichever condition holds there."""
        violations = [
            boundary_residual(self.problem, condition, u, row.points, row.normals)
            for condition in self.problem.conditions()
        ]
        return jnp.stack(violations)[row.parts] / size_at(self.size, row.points)

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "BoundaryTerm":
        """Fresh points on the boundary."""
        del u
        n, dtype = times_as_many(times, self.on.points), self.on.points.dtype
        on = self.sampler.draw_boundary(self.problem, n, dtype, key=key)
        return eqx.tree_at(lambda term: term.on, self, on)


class TerminalTerm(AbstractTerm):
    """Distance to the data at the final time of a parabolic problem."""

    problem: Problem
    points: Points
    size: float | Size = eqx.field(static=True, default=1.0)

    def rows(self) -> Points:
        """The points."""
        return self.points

    def values_at(self) -> Points:
        """The points."""
        return self.points

    def at(self, u: ScalarField, row: SpaceTimePoint) -> Scalar:
        """Difference at the final time."""
        data = self.problem.terminal
        assert data is not None
        lack = u(row) - data(self.problem.layout.without_time(row))
        return lack / size_at(self.size, row)

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "TerminalTerm":
        """Fresh points at the final time."""
        del u
        n, dtype = times_as_many(times, self.points), self.points.dtype
        points = sample_terminal(self.problem, n, dtype=dtype, key=key)
        return eqx.tree_at(lambda term: term.points, self, points)


class LabelTerm(AbstractTerm):
    r"""Distance to the labels.

    Equation: [eq:fk-loss](../theory/equations.md).

    Args:
        points: where the labels are.
        value: the labels.
        weight: one per label, of mean one.
        size: typical size of the solution.
        batch: number of labels used at a time, new ones at every redraw; all of them by default.
    """

    points: Points
    value: Float[Array, " n"]
    weight: Float[Array, " n"]
    chosen: Array | None = None
    size: float | Size = eqx.field(static=True, default=1.0)
    batch: int | None = eqx.field(static=True, default=None)

    @classmethod
    def of(
        cls,
        labels: Labels,
        *,
        size: float | Size = 1.0,
        by_error: bool = False,
        batch: int | None = None,
        dtype: Any = None,
    ) -> "LabelTerm":
        r"""The term of labels; with `by_error` the weights are $1/(\text{stderr}^2+\text{bias}^2)$.

        Errors are at least a hundredth of the typical error, so that labels next to the boundary,
        whose noise vanishes, do not dominate.
        """
        if batch is not None and not 1 <= batch <= len(labels.value):
            raise ValueError(
                f"`batch` must be between 1 and the number of labels, {len(labels.value)}; got "
                f"{batch}."
            )
        dtype = jnp.dtype(dtype or labels.value.dtype)
        weight = jnp.ones(len(labels.value), dtype)
        if by_error:
            error = labels.error().astype(dtype)
            if isinstance(size, Size):
                error = error / jnp.asarray(size.at(np.asarray(labels.points)), dtype)
            typical = jnp.sqrt(jnp.mean(error**2))
            if float(typical) > 0:
                weight = 1.0 / jnp.maximum(error, 0.1 * typical) ** 2
                weight = weight / jnp.mean(weight)
        points, value = labels.points.astype(dtype), labels.value.astype(dtype)
        chosen = None if batch is None else jnp.arange(batch)
        return cls(points, value, weight, chosen, size, batch)

    def rows(self) -> tuple[Array, Array, Array]:
        """Points, labels, weights."""
        rows = self.points, self.value, self.weight
        return rows if self.chosen is None else tuple(a[self.chosen] for a in rows)  # pyright: ignore[reportReturnType]

    def values_at(self) -> Points:
        """Where the labels are."""
        return self.rows()[0]

    def at(self, u: ScalarField, row: tuple[Array, Array, Array]) -> Scalar:
        """Difference to the label."""
        z, value, weight = row
        return jnp.sqrt(weight) * (u(z) - value) / size_at(self.size, z)

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "LabelTerm":
        """Another batch of the labels, of the same size."""
        del u, times
        if self.batch is None:
            return self
        chosen = jr.choice(key, len(self.value), (self.batch,), replace=False)
        return eqx.tree_at(lambda term: term.chosen, self, chosen)


class Loss(eqx.Module):
    """Named terms."""

    terms: dict[str, AbstractTerm]

    def values(self, u: ScalarField) -> dict[str, Scalar]:
        """Mean square of each term."""
        return {name: term(u) for name, term in self.terms.items()}

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "Loss":
        """The same terms at fresh points, that many times as many."""
        own = lambda name: fold(key, name)
        return Loss({name: term.redrawn(u, own(name), times) for name, term in self.terms.items()})
