"""What the coordinates of a point mean; nothing else takes a point apart."""

from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar, SpaceTimePoint, Vector

_A = TypeVar("_A", np.ndarray, Array)


class Layout(eqx.Module):
    r"""A point of a problem: its place in space, after the time where the problem has one.

    Paths move in space and carry the time along: towards `horizon`, where a backward equation
    ($\partial_t u + \mathcal{L}u + \dots = 0$) has its data, or back to zero, where a forward one
    ($\partial_t u = \mathcal{L}u + \dots$) has them. Methods take one point, or many with the
    coordinates on the last axis.

    Args:
        dim: dimension of space.
        horizon: length of the time interval; None for elliptic problems.
        forward: whether data are given at time zero.
    """

    dim: int = eqx.field(static=True)
    horizon: float | None = eqx.field(static=True, default=None)
    forward: bool = eqx.field(static=True, default=False)

    @property
    def timed(self) -> bool:
        """Whether a point has a time."""
        return self.horizon is not None

    @property
    def n_coords(self) -> int:
        """Length of a point."""
        return self.dim + self.timed

    @property
    def pace(self) -> float:
        """What the time of a path gains in a unit of its own time: 1, or -1 if it runs back."""
        return -1.0 if self.forward else 1.0

    @property
    def end(self) -> float:
        """The time at which paths stop, and data are given."""
        assert self.horizon is not None
        return 0.0 if self.forward else self.horizon

    @property
    def start(self) -> float:
        """The time that is farthest from that of the data; zero where there is none."""
        return self.horizon if self.forward and self.horizon is not None else 0.0

    def space(self, z: _A) -> _A:
        """The place in space; of gradients, their part in space."""
        return z[..., self.n_coords - self.dim :]

    def time(self, z: _A) -> _A:
        """The time."""
        assert self.timed
        return z[..., 0]

    def arguments(self, z: SpaceTimePoint) -> tuple[Array, ...]:
        """What functions of the user are called with: `x`, or `t, x`."""
        return (self.time(z), self.space(z)) if self.timed else (z,)

    def point(self, time: Any, x: Array) -> Array:
        """The point of a time, a number or one a row, and a place; elliptic ones have no time."""
        if not self.timed:
            return x
        shape = (*x.shape[:-1], 1)
        column = jnp.broadcast_to(jnp.asarray(time, x.dtype)[..., None], shape)
        return jnp.concatenate([column, x], axis=-1)

    def points(self, time: Any, x: np.ndarray) -> np.ndarray:
        """The same for arrays of NumPy."""
        if not self.timed:
            return x
        shape = (*x.shape[:-1], 1)
        column = np.broadcast_to(np.asarray(time, x.dtype)[..., None], shape)
        return np.concatenate([column, x], axis=-1)

    def joined(self, *arguments: Array) -> SpaceTimePoint:
        """The point from what functions of the user are called with."""
        return self.point(*arguments) if self.timed else arguments[0]

    def later(self, z: SpaceTimePoint, dt: Scalar, x: Point) -> SpaceTimePoint:
        """Where a path is at `x`, a step after `z`."""
        return self.point(self.time(z) + self.pace * dt, x) if self.timed else x

    def time_left(self, z: SpaceTimePoint) -> Scalar:
        """Until a path stops."""
        return jnp.maximum(self.pace * (self.end - self.time(z)), 0.0)

    def direction(self, v: Vector, rate: float = 0.0) -> Float[Array, " z"]:
        """A direction in space as one of a point; in its own time a path goes at this rate."""
        return self.point(self.pace * rate, v)

    def direction_rows(self, dtype: Any) -> Float[Array, "d z"]:
        """The axes of space as directions of points, one a row."""
        return jnp.eye(self.n_coords, dtype=dtype)[self.n_coords - self.dim :]

    def at_end(self, x: Array) -> Array:
        """Places at the time at which data are given."""
        return self.point(self.end, x)

    def from_cube(self, u: Float[Array, " q"]) -> tuple[Scalar, Float[Array, " r"]]:
        """A time from the first coordinate of the unit cube, if there is any; and the others."""
        if self.horizon is None:
            return jnp.zeros((), u.dtype), u
        return self.horizon * u[0], u[1:]

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each coordinate, from those in space."""
        return self.points(0.0, lower), self.points(self.horizon or 0.0, upper)
