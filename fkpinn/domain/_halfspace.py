"""Half-spaces: unbounded alone, useful for cutting."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Names, Numbers, Point, Scalar, Vector
from ._ball import Ball
from ._base import (
    AbstractDomain,
    BoundaryDraw,
    Circle,
    Hull,
    InteriorDraw,
    Segment,
    Size,
    Window,
    finite_array,
    frozen,
    like,
    name_parts,
)
from ._box import Box


class HalfSpace(AbstractDomain):
    r"""The set $\{x : n \cdot (x - p) < 0\}$.

    Args:
        normal: outward normal `n`, of any nonzero length.
        point: a point `p` of the bounding plane.
        name: the name of the plane.
    """

    direction: tuple[float, ...] = eqx.field(static=True)
    point: tuple[float, ...] = eqx.field(static=True)
    parts: tuple[str, ...] = eqx.field(static=True)
    reach: tuple[Any, ...] | None = eqx.field(static=True)  # what was told to `within`

    def __init__(
        self,
        normal: Numbers,
        point: Numbers,
        *,
        name: Names = "outer",
        hull: Hull | None = None,
    ):
        direction = finite_array("HalfSpace(normal=...)", normal, (None,))
        self.point = frozen(finite_array("HalfSpace(point=...)", point, direction.shape))
        size = np.linalg.norm(direction)
        if size == 0:
            raise ValueError(f"`HalfSpace(normal=...)` must not be zero; got {normal!r}.")
        self.direction = frozen(direction / size)
        self.parts, _ = name_parts("HalfSpace", name, 1, "a half-space has one part")
        self.reach = None if hull is None else tuple(frozen(corner) for corner in hull)

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return len(self.direction)

    @property
    def n_interior_coords(self) -> int:
        """An unbounded set has no uniform points; kept for the interface."""
        return self.dim

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return self._patch()[0].n_interior_coords if self.dim > 1 else 1

    def signed_distance(self, x: Point) -> Scalar:
        """Distance to the plane, negative inside."""
        return jnp.dot(like(x, self.direction), x - like(x, self.point))

    def normal(self, x: Point) -> Vector:
        """The same everywhere."""
        return like(x, self.direction)

    def project(self, x: Point) -> Point:
        """Foot of the perpendicular."""
        return x - self.signed_distance(x) * like(x, self.direction)

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance to the plane."""
        return jnp.abs(self.signed_distance(x))[None]

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """The distance to the plane."""
        return self.signed_distance(x) if outside else -self.signed_distance(x)

    def bounding_box(self) -> Window:
        """Infinite, except across the plane when that is aligned with an axis."""
        lower, upper = np.full(self.dim, -np.inf), np.full(self.dim, np.inf)
        axis = int(np.argmax(np.abs(self.direction)))
        if abs(self.direction[axis]) == 1.0:
            (upper if self.direction[axis] > 0 else lower)[axis] = self.point[axis]
        return lower, upper

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Of infinite radius."""
        return np.asarray(self.point), math.inf

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """From the corners of the box."""
        if not np.isfinite(hull.radius):
            return -math.inf, math.inf
        n, p = np.asarray(self.direction), np.asarray(self.point)
        ends = n * (hull.lower - p), n * (hull.upper - p)
        low, high = np.sum(np.minimum(*ends)), np.sum(np.maximum(*ends))
        return hull.tighten(float(low), float(high), float(np.dot(n, hull.center - p)))

    def volume(self) -> Size:
        """Infinite."""
        return math.inf

    def areas(self) -> dict[str, Size]:
        """Infinite (one point in 1-D)."""
        return {self.parts[0]: 1.0 if self.dim == 1 else math.inf}

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Refused: the set is unbounded."""
        raise ValueError(
            "`HalfSpace` is unbounded and has no uniform points; intersect it with a box first, "
            "for example `Box(lower, upper) & half_space`."
        )

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """A disc or a box of the plane that covers what is looked at."""
        n = like(u, self.direction)
        if self.dim == 1:
            return BoundaryDraw(like(u, self.point), n, jnp.array(0), jnp.array(True))
        flat, origin, tangents = self._patch()
        along = flat.interior_map(u[: flat.n_interior_coords]).point
        point = like(u, origin) + like(u, tangents) @ along
        return BoundaryDraw(point, n, jnp.array(0), jnp.array(True))

    def proposal_volume(self) -> Size:
        """Infinite."""
        return math.inf

    def proposal_area(self, surface: int | None = None) -> Size:
        """Area of the disc or box that covers what is looked at."""
        return 1.0 if self.dim == 1 else self._patch()[0].volume()

    def within(self, hull: Hull) -> "HalfSpace":
        """Remember how much of the plane matters."""
        told = HalfSpace(self.direction, self.point, name=self.parts[0], hull=hull)
        return self if told.reach == self.reach else told

    def outline(self) -> tuple[Segment | Circle, ...]:
        """The chord of the plane that covers what is looked at."""
        disc, center, tangents = self._disc()
        chord = tangents[:, 0] * disc.radius
        return (Segment(center - chord, center + chord, self.parts[0]),)

    def _patch(self) -> tuple[AbstractDomain, np.ndarray, np.ndarray]:
        """A flat set that covers the plane where it matters, its origin, and its axes as columns.

        The smaller of two: the cut through the ball of `within` and, for a plane across an axis,
        the cut through the box.
        """
        disc, face = self._disc(), self._face()
        return disc if face is None or disc[0].volume() <= face[0].volume() else face

    def _hull(self) -> Hull:
        if self.reach is None:
            raise ValueError(
                "`HalfSpace` is unbounded and has no uniform boundary points; intersect it with a "
                "box first, for example `Box(lower, upper) & half_space`."
            )
        *places, radius = self.reach
        lower, upper, center = (np.asarray(place) for place in places)
        return Hull(lower, upper, center, radius)

    def _disc(self) -> tuple[Ball, np.ndarray, np.ndarray]:
        hull, n = self._hull(), np.asarray(self.direction)
        away = float(np.dot(n, hull.center - np.asarray(self.point)))
        room = max(1.0 - (away / hull.radius) ** 2, 1e-12)  # of a plane that misses the ball, none
        tangents = np.linalg.svd(n[None, :])[2][1:].T
        disc = Ball(np.zeros(self.dim - 1), hull.radius * math.sqrt(room))
        return disc, hull.center - n * away, tangents

    def _face(self) -> tuple[Box, np.ndarray, np.ndarray] | None:
        """The cut through the box, of a plane across an axis."""
        hull, across = self._hull(), np.abs(self.direction) == 1.0
        if not np.any(across):
            return None
        box = Box(hull.lower[~across], hull.upper[~across])
        return box, np.where(across, self.point, 0.0), np.eye(self.dim)[:, ~across]
