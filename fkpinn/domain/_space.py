"""All of space: no boundary, so that paths end with time."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar, Vector
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
    frozen,
    like,
)


class Space(AbstractDomain):
    r"""$\mathbb{R}^d$, for equations with a horizon.

    It has no boundary parts. The measure of the problem (`Along(start)`, `Normal(mean, std)`) says
    where the answer is wanted; its extent is used as the size of the domain.

    Args:
        dim: dimension.
    """

    dim: int = eqx.field(static=True)
    reach: tuple[Any, ...] | None = eqx.field(static=True)  # what was told to `within`

    def __init__(self, dim: int, *, hull: Hull | None = None):
        if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool) or dim < 1:
            raise ValueError(f"`Space(dim)` must be a dimension of at least 1; got {dim!r}.")
        self.dim = int(dim)
        self.reach = None if hull is None else (frozen(hull.lower), frozen(hull.upper))

    @property
    def parts(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return self.dim

    @property
    def n_boundary_coords(self) -> int:
        """There is no boundary; kept for the interface."""
        return 1

    def signed_distance(self, x: Point) -> Scalar:
        """Infinitely far inside; NaN for what is no point."""
        return jnp.where(jnp.all(jnp.isfinite(x)), -jnp.inf, jnp.nan).astype(x.dtype)

    def normal(self, x: Point) -> Vector:
        """Any direction."""
        return jnp.zeros_like(x).at[0].set(1.0)

    def project(self, x: Point) -> Point:
        """The point itself: there is no boundary to go to."""
        return x

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Of no parts."""
        return jnp.zeros(0, x.dtype)

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """Nothing to vanish on."""
        return jnp.ones((), x.dtype)

    def bounding_box(self) -> Window:
        """What is looked at, or infinite."""
        if self.reach is None:
            return np.full(self.dim, -np.inf), np.full(self.dim, np.inf)
        return np.asarray(self.reach[0]), np.asarray(self.reach[1])

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Around what is looked at."""
        return ball_around(self.bounding_box())

    def volume(self) -> Size:
        """Infinite."""
        return math.inf

    def areas(self) -> dict[str, Size]:
        """Of no parts."""
        return {}

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Uniform in what is looked at."""
        if self.reach is None:
            raise ValueError("`Space` has no uniform points; draw points from a measure.")
        lower, upper = (like(u, corner) for corner in self.reach)
        return InteriorDraw(lower + (upper - lower) * u, jnp.array(True))

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """Refused."""
        raise ValueError("`Space` has no boundary.")

    def proposal_volume(self) -> Size:
        """Of what is looked at."""
        lower, upper = self.bounding_box()
        return float(np.prod(upper - lower))

    def proposal_area(self, surface: int | None = None) -> Size:
        """There is no boundary."""
        return 0.0

    def within(self, hull: Hull) -> "Space":
        """The same, looked at there."""
        return Space(self.dim, hull=hull)

    def outline(self) -> tuple[Segment | Circle, ...]:
        """No curves."""
        return ()
