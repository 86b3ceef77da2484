"""Sets that depend on parameters: one shape for each value."""

from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import has_tracers
from .._types import Point, Scalar, Vector
from ._base import (
    AbstractDomain,
    BoundaryDraw,
    Circle,
    Hull,
    InteriorDraw,
    Mixture,
    Remains,
    Segment,
    Size,
    Surface,
    Window,
    ball_around,
)


class Shapes(AbstractDomain):
    """A set whose shape depends on parameters of the problem.

    It answers what is asked of the whole family: the box around all of its sets, their parts, the
    smallest detail. What is asked of a point is answered by the set of that point: `at(values)`.

    Args:
        shape: the user's function, called with parameters by name.
        reads: names of the parameters it asks for.
        order: names of all parameters of the problem.
        values: of all parameters, one row for each set that stands for the family; the first row is
            that of a typical one.
    """

    shape: Callable[..., Any] = eqx.field(static=True)
    reads: tuple[str, ...] = eqx.field(static=True)
    order: tuple[str, ...] = eqx.field(static=True)
    some: tuple[AbstractDomain, ...]

    def __init__(
        self,
        shape: Callable[..., Any],
        reads: tuple[str, ...],
        order: tuple[str, ...],
        values: Float[np.ndarray, "n k"],
    ):
        self.shape, self.reads, self.order = shape, reads, order
        self.some = tuple(self._known(row) for row in values)
        first = self.some[0]
        for row, other in zip(values, self.some, strict=True):
            if (kind := _kind(other)) != _kind(first):
                raise ValueError(
                    f"`domain` must return shapes built in the same way for all parameters: of "
                    f"{_kind(first)} with {self._spelled(values[0])}; got {kind} with "
                    f"{self._spelled(row)}."
                )
        point = jax.ShapeDtypeStruct((len(order),), jnp.result_type(float))
        jax.eval_shape(lambda v: jnp.asarray(self.at(v).dim), point)  # refuses now

    def at(self, values: Array | np.ndarray) -> AbstractDomain:
        """The set for given values of all parameters of the problem."""
        if not has_tracers(values):
            return self._known(np.asarray(values, np.float64))
        return self._called(values)

    def members(self) -> tuple[AbstractDomain, ...]:
        """Some of the sets."""
        return self.some

    def _known(self, values: np.ndarray) -> AbstractDomain:
        try:
            found = self._called([float(value) for value in values])
        except (TypeError, ValueError) as error:
            raise type(error)(f"With {self._spelled(values)}: {error}") from error
        if not isinstance(found, AbstractDomain):
            raise TypeError(
                f"`domain` must be a domain such as `Box` or `Ball`, or a function of parameters "
                f"that returns one; it returned {type(found).__name__}."
            )
        return found

    def _called(self, values: Any) -> Any:
        return self.shape(**{name: values[self.order.index(name)] for name in self.reads})

    def _spelled(self, values: np.ndarray) -> str:
        pairs = [(name, values[self.order.index(name)]) for name in self.reads]
        return ", ".join(f"{name} = {value:.4g}" for name, value in pairs)

    @property
    def typical(self) -> AbstractDomain:
        """One of the sets."""
        return self.some[0]

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.typical.dim

    @property
    def parts(self) -> tuple[str, ...]:
        """The same for all."""
        return self.typical.parts

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return max(one.n_interior_coords for one in self.some)

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return max(one.n_boundary_coords for one in self.some)

    def bounding_box(self) -> Window:
        """Around all."""
        lower, upper = zip(*(one.bounding_box() for one in self.some), strict=True)
        return np.min(lower, axis=0), np.max(upper, axis=0)

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Around the bounding box."""
        return ball_around(self.bounding_box())

    def centers(self) -> tuple[tuple[float, ...], ...]:
        """Those of balls that do not move."""
        here = [set(one.centers()) for one in self.some]
        return tuple(c for c in self.typical.centers() if all(c in found for found in here))

    def detail(self) -> float:
        """The smallest of all."""
        return min(one.detail() for one in self.some)

    def volume(self) -> Size:
        """Of a typical set."""
        return self.typical.volume()

    def areas(self) -> dict[str, Size]:
        """Of a typical set."""
        return self.typical.areas()

    def proposal_volume(self) -> Size:
        """Of a typical set."""
        return self.typical.proposal_volume()

    def proposal_area(self, surface: int | None = None) -> Size:
        """Of a typical set."""
        return self.typical.proposal_area(surface)

    def surfaces(self) -> tuple[Surface, ...]:
        """Of a typical set."""
        return self.typical.surfaces()

    def remains(self) -> tuple[Remains, ...]:
        """Of a typical set."""
        return self.typical.remains()

    def part_mixture(self, part: str) -> Mixture:
        """Of a typical set."""
        return self.typical.part_mixture(part)

    def outline(self) -> tuple[Segment | Circle, ...]:
        """Of a typical set."""
        return self.typical.outline()

    def within(self, hull: Hull) -> "Shapes":
        """The sets are bounded anyway."""
        return self

    def signed_distance(self, x: Point) -> Scalar:
        """Refused."""
        self._refuse()

    def normal(self, x: Point) -> Vector:
        """Refused."""
        self._refuse()

    def project(self, x: Point) -> Point:
        """Refused."""
        self._refuse()

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Refused."""
        self._refuse()

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """Refused."""
        self._refuse()

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Refused."""
        self._refuse()

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"the domain depends on parameters ({', '.join(self.reads)}), so what is asked of its "
            f"points needs their values. Try `problem.at({self.reads[0]}=...)`, or "
            f"`problem.domain_at(z)` with a point that begins with the parameters."
        )


def _kind(domain: AbstractDomain) -> str:
    """How a set was built, in words."""
    if domain.dim < 1:
        return "nothing"
    shapes = " and ".join(f"{type(shape).__name__} {part!r}" for shape, part in domain.surfaces())
    return f"{type(domain).__name__} in dimension {domain.dim} ({shapes})"
