"""Conditions on a boundary part."""

import abc
from typing import Any

import equinox as eqx

from .._types import Scalar, SpaceTimePoint
from ._coefficient import Coefficient, bind


class AbstractCondition(eqx.Module):
    """What the solution must satisfy on a boundary part."""

    @abc.abstractmethod
    def bound(self, part: str, dim: int, timed: bool) -> "AbstractCondition":
        """The same condition, its data checked and wrapped."""

    @abc.abstractmethod
    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """Violation, given the value and the outward normal derivative at `z`."""


class Dirichlet(AbstractCondition):
    """The value is given: `u = value`. Paths end here.

    Args:
        value: a number or a function of one point (`x`, or `t, x`).
    """

    value: Any = 0.0

    def bound(self, part: str, dim: int, timed: bool) -> "Dirichlet":
        """Check and wrap the data."""
        return Dirichlet(_data(part, "Dirichlet(value=...)", self.value, dim, timed))

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`u - value`."""
        return value - self.value(z)


class Neumann(AbstractCondition):
    """The outward normal derivative is given: `du/dn = flux`. Paths are reflected here.

    Args:
        flux: a number or a function of one point (`x`, or `t, x`).
    """

    flux: Any = 0.0

    def bound(self, part: str, dim: int, timed: bool) -> "Neumann":
        """Check and wrap the data."""
        return Neumann(_data(part, "Neumann(flux=...)", self.flux, dim, timed))

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`du/dn - flux`."""
        return slope - self.flux(z)


class Robin(AbstractCondition):
    """A mix of both: `du/dn + coefficient * u = flux`. Paths are reflected and discounted.

    Args:
        coefficient: a number or a function of one point, not negative.
        flux: a number or a function of one point.
    """

    coefficient: Any
    flux: Any = 0.0

    def bound(self, part: str, dim: int, timed: bool) -> "Robin":
        """Check and wrap the data."""
        return Robin(
            _data(part, "Robin(coefficient=...)", self.coefficient, dim, timed),
            _data(part, "Robin(flux=...)", self.flux, dim, timed),
        )

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`du/dn + coefficient * u - flux`."""
        return slope + self.coefficient(z) * value - self.flux(z)


def _data(part: str, label: str, given: Any, dim: int, timed: bool) -> Coefficient:
    return bind(f"boundary[{part!r}]: {label}", given, ((),), dim, timed)
