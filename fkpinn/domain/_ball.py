"""Balls in any dimension."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.special as jsp
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
    bare,
    finite_array,
    frozen,
    length,
    like,
    moving,
    name_parts,
    number,
    unit,
)

_MANY = 300  # dimensions from which on the gamma function overflows, or soon


class Ball(AbstractDomain):
    """The ball of the given center and radius; its boundary is one part.

    Args:
        center: the center, a sequence of `d` numbers.
        radius: the radius, positive.
        name: the name of the boundary.
    """

    center: Any = eqx.field(static=True)  # a tuple of floats, or `Moving`
    radius: Any = eqx.field(static=True)
    parts: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, center: Numbers, radius: Numbers, *, name: Names = "outer"):
        self.center = frozen(finite_array("Ball(center=...)", center, (None,), may_move=True))
        self.radius = frozen(finite_array("Ball(radius=...)", radius, (), may_move=True))
        if self.dim == 0:
            raise ValueError("`Ball(center=...)` must have at least one coordinate; got none.")
        if not moving(self.radius) and self.radius <= 0:
            raise ValueError(f"`Ball(radius=...)` must be positive; got {radius}.")
        self.parts, _ = name_parts("Ball", name, 1, "a ball has one part")

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return len(bare(self.center))

    @property
    def moves(self) -> bool:
        """Whether some of its numbers are those of a computation."""
        return moving(self.center, self.radius)

    def centers(self) -> tuple[tuple[float, ...], ...]:
        """Its own."""
        return (self.center,)

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return self.dim if self.dim <= 2 else self.dim + 1

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return 1 if self.dim <= 2 else self.dim

    def signed_distance(self, x: Point) -> Scalar:
        """Distance to the sphere, negative inside."""
        return length(x - like(x, self.center)) - number(x, self.radius)

    def normal(self, x: Point) -> Vector:
        """Radial direction; the first axis at the center."""
        return unit(x - like(x, self.center), like(x, np.eye(1, self.dim)[0]))

    def project(self, x: Point) -> Point:
        """Nearest point of the sphere."""
        return like(x, self.center) + number(x, self.radius) * self.normal(x)

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance to the sphere."""
        return jnp.abs(self.signed_distance(x))[None]

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """A parabola inside, the distance outside."""
        if outside:
            return self.signed_distance(x)
        radius = number(x, self.radius)
        return (radius - jnp.sum((x - like(x, self.center)) ** 2) / radius) / 2.0

    def bounding_box(self) -> Window:
        """The circumscribed cube."""
        center, radius = self._numbers()
        return center - radius, center + radius

    def enclosing_ball(self) -> tuple[Any, Size]:
        """The ball itself."""
        return self._numbers()

    def _numbers(self) -> tuple[Any, Any]:
        return self.arrays.asarray(bare(self.center)), bare(self.radius)

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """From the nearest and the farthest point of the box."""
        center = np.asarray(self.center)
        low, high = hull.lower - center, center - hull.upper
        near = float(np.linalg.norm(np.maximum(np.maximum(low, high), 0.0)))
        far = float(np.linalg.norm(np.minimum(low, high)))
        middle = float(np.linalg.norm(hull.center - center))
        bounds = hull.tighten(near, far, middle)
        return bounds[0] - self.radius, bounds[1] - self.radius

    def volume(self) -> Size:
        """Volume of the ball; in hundreds of dimensions it may be too small or large to tell."""
        d = self.dim
        if self.moves:
            size = jnp.log(math.sqrt(math.pi) * bare(self.radius))
            return jnp.exp(d * size - math.lgamma(d / 2 + 1))
        if d < _MANY:
            return math.pi ** (d / 2) / math.gamma(d / 2 + 1) * self.radius**d
        with np.errstate(over="ignore", under="ignore"):
            logarithm = d * math.log(math.sqrt(math.pi) * self.radius) - math.lgamma(d / 2 + 1)
            return float(np.exp(logarithm))

    def areas(self) -> dict[str, Size]:
        """Area of the sphere."""
        return {self.parts[0]: self.dim * self.volume() / bare(self.radius)}

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Radius from the last coordinate, direction from the others."""
        radius = number(u, self.radius)
        if self.dim == 1:  # an interval: one coordinate is both
            point = like(u, self.center) + radius * (2.0 * u - 1.0)
        else:
            r = radius * u[-1] ** (1.0 / self.dim)
            point = like(u, self.center) + r * self._direction(u[:-1])
        return InteriorDraw(point, jnp.array(True))

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """A uniform direction."""
        n = self._direction(u)
        point = like(u, self.center) + number(u, self.radius) * n
        return BoundaryDraw(point, n, jnp.array(0), jnp.array(True))

    def proposal_volume(self) -> Size:
        """Nothing is rejected: the volume."""
        return self.volume()

    def proposal_area(self, surface: int | None = None) -> Size:
        """Nothing is rejected: the area."""
        return self.areas()[self.parts[0]]

    def within(self, hull: Hull) -> "Ball":
        """A ball is bounded anyway."""
        return self

    def outline(self) -> tuple[Segment | Circle, ...]:
        """One circle."""
        return (Circle(np.asarray(self.center), self.radius, self.parts[0]),)

    def _direction(self, u: Float[Array, " q"]) -> Vector:
        if self.dim == 1:
            return jnp.where(u < 0.5, -jnp.ones_like(u), jnp.ones_like(u))
        if self.dim == 2:
            angle = 2.0 * math.pi * u[0]
            return jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        tiny = float(jnp.finfo(u.dtype).eps)
        normal = jsp.ndtri(jnp.clip(u, tiny, 1.0 - tiny))
        return unit(normal, jnp.zeros_like(normal).at[0].set(1.0))
