"""Conditions on a boundary part: what they mean for paths, residuals and references."""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._types import Scalar, SpaceTimePoint
from ._coefficient import Coefficient, bind
from ._layout import Layout

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractCondition(eqx.Module):
    """A boundary condition: what the solution satisfies, and what happens to paths.

    Paths end on a part that `absorbs`, with the payoff `payoff`; on other parts they are reflected,
    and per unit of local time they receive `income` and are discounted at the rate `rate`, which is
    zero unless the condition `discounts`. All data are fields of the class: numbers or functions of
    one point, wrapped by `bound`.
    """

    absorbs: AbstractClassVar[bool]
    discounts: AbstractClassVar[bool]

    @abc.abstractmethod
    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """Violation, given the value and the outward normal derivative at `z`.

        It is affine, and the datum that `with_datum` replaces enters with a minus sign.
        """

    @abc.abstractmethod
    def with_datum(self, datum: Any) -> "AbstractCondition":
        """The same condition with another right-hand side, a number or a function of one point."""

    @abc.abstractmethod
    def payoff(self, z: SpaceTimePoint) -> Scalar:
        """Payoff of a path that ends here."""

    @abc.abstractmethod
    def income(self, z: SpaceTimePoint) -> Scalar:
        """Income of a reflected path per unit of local time."""

    @abc.abstractmethod
    def rate(self, z: SpaceTimePoint) -> Scalar:
        """Decrease of the logarithm of the discount per unit of local time."""

    @abc.abstractmethod
    def pays(self) -> bool:
        """Whether `income` can be nonzero."""

    @abc.abstractmethod
    def holds(self, data: dict[str, np.ndarray]) -> bool:
        """Whether the condition excludes adding a constant to the solution, from its data."""

    def check(self, part: str, data: dict[str, np.ndarray]) -> None:
        """Raise an error if data, given at sample points, make the problem ill-posed."""

    def is_zero(self) -> bool:
        """Whether the condition is homogeneous: all its data are zero."""
        return all(_is_zero(datum) for name, datum in self.data().items() if name != "coefficient")

    def data(self) -> dict[str, Any]:
        """The data by the names of their arguments."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def bound(self, part: str, layout: Layout) -> "AbstractCondition":
        """The same condition, its data checked and wrapped."""
        kind = type(self).__name__
        wrapped = {
            name: bind(f"boundary[{part!r}]: {kind}({name}=...)", given, ((),), layout)
            for name, given in self.data().items()
        }
        return type(self)(**wrapped)


class Dirichlet(AbstractCondition):
    """The value is given: `u = value`. Paths end here.

    Args:
        value: a number or a function of one point (`x`, or `t, x`).
    """

    absorbs = True
    discounts = False

    value: Any = 0.0

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`u - value`."""
        return value - self.value(z)

    def with_datum(self, datum: Any) -> "Dirichlet":
        """With another value."""
        return Dirichlet(datum)

    def payoff(self, z: SpaceTimePoint) -> Scalar:
        """The value."""
        return self.value(z)

    def income(self, z: SpaceTimePoint) -> Scalar:
        """None."""
        return _zero(z)

    def rate(self, z: SpaceTimePoint) -> Scalar:
        """None."""
        return _zero(z)

    def pays(self) -> bool:
        """Only when paths end."""
        return False

    def holds(self, data: dict[str, np.ndarray]) -> bool:
        """Always."""
        return True


class Neumann(AbstractCondition):
    """The outward normal derivative is given: `du/dn = flux`. Paths are reflected here.

    Args:
        flux: a number or a function of one point (`x`, or `t, x`).
    """

    absorbs = False
    discounts = False

    flux: Any = 0.0

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`du/dn - flux`."""
        return slope - self.flux(z)

    def with_datum(self, datum: Any) -> "Neumann":
        """With another flux."""
        return Neumann(datum)

    def payoff(self, z: SpaceTimePoint) -> Scalar:
        """None."""
        return _zero(z)

    def income(self, z: SpaceTimePoint) -> Scalar:
        """The flux."""
        return self.flux(z)

    def rate(self, z: SpaceTimePoint) -> Scalar:
        """None."""
        return _zero(z)

    def pays(self) -> bool:
        """Unless the flux is zero."""
        return not _is_zero(self.flux)

    def holds(self, data: dict[str, np.ndarray]) -> bool:
        """Never: any constant can be added."""
        return False


class Robin(AbstractCondition):
    """The Robin condition `du/dn + coefficient * u = flux`. Paths are reflected and discounted.

    Args:
        coefficient: a number or a function of one point, not negative.
        flux: a number or a function of one point.
    """

    absorbs = False
    discounts = True

    coefficient: Any
    flux: Any = 0.0

    def residual(self, value: Scalar, slope: Scalar, z: SpaceTimePoint) -> Scalar:
        """`du/dn + coefficient * u - flux`."""
        return slope + self.coefficient(z) * value - self.flux(z)

    def with_datum(self, datum: Any) -> "Robin":
        """With another flux."""
        return Robin(self.coefficient, datum)

    def payoff(self, z: SpaceTimePoint) -> Scalar:
        """None."""
        return _zero(z)

    def income(self, z: SpaceTimePoint) -> Scalar:
        """The flux."""
        return self.flux(z)

    def rate(self, z: SpaceTimePoint) -> Scalar:
        """The coefficient."""
        return self.coefficient(z)

    def pays(self) -> bool:
        """Unless the flux is zero."""
        return not _is_zero(self.flux)

    def holds(self, data: dict[str, np.ndarray]) -> bool:
        """Where the coefficient is not zero everywhere."""
        return bool(np.any(data["coefficient"]))

    def check(self, part: str, data: dict[str, np.ndarray]) -> None:
        """A negative coefficient feeds the solution."""
        lowest = float(np.min(data["coefficient"]))
        if lowest < 0:
            raise ValueError(
                f"`boundary[{part!r}]: Robin(coefficient=...)` must not be negative (the boundary "
                f"would feed the solution, and the path average may be infinite); got {lowest:g}."
            )


def matching(
    condition: AbstractCondition, layout: Layout, violation: Callable[..., Scalar]
) -> AbstractCondition:
    """The condition whose datum is a given function of a point of the problem.

    Args:
        condition: of the kind that is wanted.
        layout: of points of the problem.
        violation: the datum at one point.
    """
    return condition.with_datum(lambda *at: violation(layout.joined(*at)))


def _zero(z: SpaceTimePoint) -> Scalar:
    return jnp.zeros((), z.dtype)


def _is_zero(datum: Any) -> bool:
    return isinstance(datum, Coefficient) and datum.is_zero
