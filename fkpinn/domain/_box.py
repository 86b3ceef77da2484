"""Boxes in any dimension; an interval is a box in one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Names, Numbers, Point, Scalar, Vector
from ._base import (
    AbstractDomain,
    BoundaryDraw,
    Circle,
    Hull,
    InteriorDraw,
    Segment,
    Size,
    Window,
    ball_around,
    bare,
    finite_array,
    frozen,
    grouped_min,
    length,
    like,
    moving,
    name_parts,
    pick,
    safe_sqrt,
    unit,
)
from ._factor import both, either, require_all


class Box(AbstractDomain):
    """An axis-aligned box.

    Args:
        lower: the corner with the smallest coordinates.
        upper: the corner with the largest coordinates.
        name: one name for the whole boundary, or one per face in the order first axis low, first
            axis high, second axis low, …
    """

    lower: Any = eqx.field(static=True)  # a tuple of floats, or `Moving`
    upper: Any = eqx.field(static=True)
    parts: tuple[str, ...] = eqx.field(static=True)
    face_parts: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, lower: Numbers, upper: Numbers, *, name: Names = "outer"):
        low = finite_array("Box(lower=...)", lower, (None,), may_move=True)
        high = finite_array("Box(upper=...)", upper, low.shape, may_move=True)
        if low.size == 0:
            raise ValueError("`Box(lower=...)` must have at least one coordinate; got none.")
        self.lower, self.upper = frozen(low), frozen(high)
        if not self.moves and not np.all(low < high):
            raise ValueError(
                f"`Box(lower=..., upper=...)` must have lower < upper on each axis, or the box "
                f"is empty; got {low.tolist()} and {high.tolist()}."
            )
        self.parts, self.face_parts = name_parts(
            "Box", name, 2 * self.dim, "axis by axis, low face before high face"
        )

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return len(bare(self.lower))

    @property
    def moves(self) -> bool:
        """Whether some of its numbers are those of a computation."""
        return moving(self.lower, self.upper)

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return self.dim

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return self.dim

    def _beyond(self, x: Point) -> Vector:
        """How far `x` lies beyond the nearer face of each axis; negative inside."""
        return jnp.maximum(like(x, self.lower) - x, x - like(x, self.upper))

    def signed_distance(self, x: Point) -> Scalar:
        """Distance to the boundary, negative inside."""
        beyond = self._beyond(x)
        return jnp.where(jnp.all(beyond <= 0), jnp.max(beyond), length(jnp.maximum(beyond, 0.0)))

    def level(self, x: Point) -> Scalar:
        """The nearest face decides."""
        low, high = like(x, self.lower), like(x, self.upper)
        return jnp.max(jnp.maximum(low - x, x - high))

    def normal(self, x: Point) -> Vector:
        """Normal of the nearest face; outside, next to edges, the direction away from them."""
        beyond = self._beyond(x)
        sign = jnp.where(x - like(x, self.lower) < like(x, self.upper) - x, -1.0, 1.0)
        face = jnp.where(_is_largest(beyond), sign, 0.0)
        return unit(jnp.maximum(beyond, 0.0) * sign, face)

    def project(self, x: Point) -> Point:
        """Nearest boundary point."""
        beyond = self._beyond(x)
        lower, upper = like(x, self.lower), like(x, self.upper)
        nearer = jnp.where(x - lower < upper - x, lower, upper)
        inside = jnp.where(_is_largest(beyond), nearer, x)
        return jnp.where(jnp.all(beyond < 0), inside, jnp.clip(x, lower, upper))

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance to the faces of each part."""
        beyond = jnp.maximum(self._beyond(x), 0.0) ** 2
        across = jnp.sum(beyond) - beyond
        low = safe_sqrt((x - like(x, self.lower)) ** 2 + across)
        high = safe_sqrt((x - like(x, self.upper)) ** 2 + across)
        return grouped_min(jnp.stack([low, high], axis=1).reshape(-1), self.face_parts)

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """Distances to the planes of the named faces, combined."""
        faces = jnp.stack([x - like(x, self.lower), like(x, self.upper) - x], axis=1).reshape(-1)
        if outside:
            require_all(self.parts, parts)
            return either(-faces)
        named = [k for k, part in enumerate(self.face_parts) if self.parts[part] in parts]
        return both(faces[np.array(named)])

    def boxes(self) -> "tuple[Box, ...]":
        """Itself."""
        return () if self.moves else (self,)

    def bounding_box(self) -> Window:
        """The box itself."""
        return self.arrays.asarray(bare(self.lower)), self.arrays.asarray(bare(self.upper))

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Through the corners."""
        return ball_around(self.bounding_box())

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """Axis by axis."""
        lower, upper = self.bounding_box()
        low = np.maximum(lower - hull.upper, hull.lower - upper)
        low = np.max(np.maximum(low, -0.5 * self._sides()))
        high = np.max(np.maximum(lower - hull.lower, hull.upper - upper))
        beyond = np.maximum(lower - hull.center, hull.center - upper)
        outside = float(np.linalg.norm(np.maximum(beyond, 0.0)))
        return hull.tighten(float(low), float(high), outside or float(np.max(beyond)))

    def volume(self) -> Size:
        """Product of the sides."""
        found = self.arrays.prod(self._sides())
        return found if self.moves else float(found)

    def _sides(self) -> Any:
        lower, upper = self.bounding_box()
        return upper - lower

    def _face_areas(self) -> Any:
        return self.arrays.repeat(self.volume() / self._sides(), 2)

    def areas(self) -> dict[str, Size]:
        """Area of the faces of each part."""
        totals = np.bincount(self.face_parts, weights=self._face_areas())  # of a set that is known
        return dict(zip(self.parts, totals.tolist(), strict=True))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """A stretched unit cube."""
        lower, upper = like(u, self.lower), like(u, self.upper)
        return InteriorDraw(lower + (upper - lower) * u, jnp.array(True))

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """A face chosen by the first coordinate, a point of it by the others."""
        faces = self._faces(surface)
        areas = self._face_areas()[faces]
        chosen, _ = pick(u[0], like(u, self.arrays.cumsum(areas) / areas.sum()))
        face = chosen if surface is None else jnp.asarray(faces)[chosen]
        axis, high = face // 2, face % 2 == 1
        across = jnp.insert(u[1:], jnp.minimum(axis, self.dim - 1), 0.0)
        lower, upper = like(u, self.lower), like(u, self.upper)
        on_axis = jnp.arange(self.dim, dtype=axis.dtype) == axis
        point = jnp.where(on_axis, jnp.where(high, upper, lower), lower + (upper - lower) * across)
        normal = jnp.where(on_axis, jnp.where(high, 1.0, -1.0), jnp.zeros_like(point))
        return BoundaryDraw(point, normal, jnp.asarray(self.face_parts)[face], jnp.array(True))

    def proposal_volume(self) -> Size:
        """Nothing is rejected: the volume."""
        return self.volume()

    def _faces(self, surface: int | None) -> np.ndarray:
        """Faces of one part, or of all."""
        of = np.asarray(self.face_parts)
        return np.flatnonzero((of == surface) | (surface is None))

    def proposal_area(self, surface: int | None = None) -> Size:
        """Nothing is rejected: the area."""
        total = self._face_areas()[self._faces(surface)].sum()
        return total if self.moves else float(total)

    def within(self, hull: Hull) -> "Box":
        """A box is bounded anyway."""
        return self

    def outline(self) -> tuple[Segment | Circle, ...]:
        """Four segments."""
        (x0, y0), (x1, y1) = self.lower, self.upper
        ends = [
            ((x0, y1), (x0, y0)),
            ((x1, y0), (x1, y1)),
            ((x0, y0), (x1, y0)),
            ((x1, y1), (x0, y1)),
        ]
        return tuple(
            Segment(np.array(start), np.array(end), self.parts[part])
            for (start, end), part in zip(ends, self.face_parts, strict=True)
        )


def _is_largest(values: Vector) -> Array:
    """True at the largest entry, the first of them if there are several."""
    return jnp.arange(values.shape[0]) == jnp.argmax(values)


def Interval(  # noqa: N802 (reads as a shape)
    lower: Numbers, upper: Numbers, *, name: Names = "outer"
) -> Box:
    """The interval from `lower` to `upper`: a box in one dimension.

    Args:
        lower: left end.
        upper: right end.
        name: one name for both ends, or two names, left then right.
    """
    a, b = (
        finite_array("Interval(lower=...)", lower, (), may_move=True),
        finite_array("Interval(upper=...)", upper, (), may_move=True),
    )
    if not any(isinstance(end, jax.Array) for end in (a, b)) and not a < b:
        raise ValueError(
            f"`Interval(lower=..., upper=...)` must have lower < upper; got {a} and {b}."
        )
    return Box([a], [b], name=name)
