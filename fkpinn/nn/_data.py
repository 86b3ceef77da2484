"""What a problem gives as functions of one point, for networks that read it or meet it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._types import Scalar, SpaceTimePoint
from ..problem import Layout, box_exit_time


class EndData:
    """The terminal (or initial) data, as a function of a point at any time.

    Equal to another one with the same function in it, so that code compiled for one network serves
    the next.

    Args:
        data: a function of position.
        layout: of the points, with a time.
        smoothing: of one point, added to the data.
    """

    data: Callable[..., Any]
    layout: Layout
    smoothing: Callable[..., Any] | None

    def __init__(
        self,
        data: Callable[..., Any],
        layout: Layout,
        smoothing: Callable[..., Any] | None = None,
    ):
        self.data, self.layout, self.smoothing = data, layout, smoothing
        self._own = getattr(data, "function", None) or data

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        value = self.data(self.layout.without_time(z))
        return value if self.smoothing is None else value + self.smoothing(z)

    def __hash__(self) -> int:
        """That of the function's identity."""
        return id(self._own)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same function, smoothed alike."""
        return (
            isinstance(other, EndData)
            and self._own is other._own
            and self.layout == other.layout
            and self.smoothing == other.smoothing
        )


class SquaredDistance(NamedTuple):
    """The squared distance to a point, a sum of squares of all coordinates.

    Args:
        center: the point.
        layout: of the points.
    """

    center: tuple[float, ...]
    layout: Layout

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        x = self.layout.space(z)
        return jnp.sum((x - jnp.asarray(np.asarray(self.center), x.dtype)) ** 2)


class ExitTime(NamedTuple):
    """The mean time in which a Brownian motion leaves a box, up to a few percent.

    Solutions in boxes of many dimensions vanish on all faces, which no sum of functions of few
    coordinates does; a network would take long to make such a function of the coordinates.

    Args:
        axes: those whose walls end paths.
        center: middle between these walls.
        half_width: half of their distance.
        layout: of the points.
    """

    axes: tuple[int, ...]
    center: tuple[float, ...]
    half_width: tuple[float, ...]
    layout: Layout

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        x = self.layout.space(z)[np.asarray(self.axes)]
        return box_exit_time(x, np.asarray(self.center), np.asarray(self.half_width))
