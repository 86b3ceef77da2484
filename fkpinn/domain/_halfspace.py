"""Half-spaces: unbounded alone, useful for cutting."""

import math

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
    InteriorDraw,
    Segment,
    Window,
    finite_array,
    frozen,
    like,
    name_parts,
)


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
    window: tuple[tuple[float, ...], tuple[float, ...]] | None = eqx.field(static=True)

    def __init__(
        self,
        normal: Numbers,
        point: Numbers,
        *,
        name: Names = "outer",
        window: Window | None = None,
    ):
        direction = finite_array("HalfSpace(normal=...)", normal, (None,))
        self.point = frozen(finite_array("HalfSpace(point=...)", point, direction.shape))
        size = np.linalg.norm(direction)
        if size == 0:
            raise ValueError(f"`HalfSpace(normal=...)` must not be zero; got {normal!r}.")
        self.direction = frozen(direction / size)
        self.parts, _ = name_parts("HalfSpace", name, 1, "a half-space has one part")
        self.window = None if window is None else frozen(np.stack(window))

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
        return max(self._disc().n_interior_coords, 1) if self.dim > 1 else 1

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

    def enclosing_ball(self) -> tuple[np.ndarray, float]:
        """Of infinite radius."""
        return np.asarray(self.point), math.inf

    def volume(self) -> float:
        """Infinite."""
        return math.inf

    def areas(self) -> dict[str, float]:
        """Infinite (one point in 1-D)."""
        return {self.parts[0]: 1.0 if self.dim == 1 else math.inf}

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Refused: the set is unbounded."""
        raise ValueError(
            "`HalfSpace` is unbounded and has no uniform points; cut it to size first, "
            "for example `Box(lower, upper) & half_space`."
        )

    def boundary_map(self, u: Float[Array, " q"]) -> BoundaryDraw:
        """A disc of the plane that covers the window."""
        n = like(u, self.direction)
        if self.dim == 1:
            return BoundaryDraw(like(u, self.point), n, jnp.array(0), jnp.array(True))
        flat = self._disc().interior_map(u).point
        point = like(u, self._disc_center()) + like(u, self._tangents()) @ flat
        return BoundaryDraw(point, n, jnp.array(0), jnp.array(True))

    def proposal_volume(self) -> float:
        """Infinite."""
        return math.inf

    def proposal_area(self) -> float:
        """Area of the disc that covers the window."""
        return 1.0 if self.dim == 1 else self._disc().volume()

    def within(self, window: Window) -> "HalfSpace":
        """Remember how much of the plane matters."""
        return HalfSpace(self.direction, self.point, name=self.parts[0], window=window)

    def outline(self) -> tuple[Segment | Circle, ...]:
        """The chord of the plane that covers the window."""
        reach = self._tangents()[:, 0] * self._disc().radius
        center = self._disc_center()
        return (Segment(center - reach, center + reach, self.parts[0]),)

    def _disc(self) -> Ball:
        if self.window is None:
            raise ValueError(
                "`HalfSpace` is unbounded and has no uniform boundary points; cut it to size "
                "first, for example `Box(lower, upper) & half_space`."
            )
        return Ball(np.zeros(self.dim - 1), 0.5 * float(np.linalg.norm(np.subtract(*self.window))))

    def _disc_center(self) -> np.ndarray:
        middle = np.mean(np.asarray(self.window), axis=0)
        n = np.asarray(self.direction)
        return middle - n * np.dot(n, middle - np.asarray(self.point))

    def _tangents(self) -> np.ndarray:
        """An orthonormal basis of the plane, as columns."""
        full = np.linalg.svd(np.asarray(self.direction)[None, :])[2]
        return full[1:].T
