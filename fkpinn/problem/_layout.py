"""What the coordinates of a point mean; nothing else takes a point apart."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar, SpaceTimePoint, Vector

_MOST_CORNERS = 16  # of a box of parameters that are tried

_A = TypeVar("_A", np.ndarray, Array)


class Parameter(eqx.Module):
    """The range of a parameter of a family of problems, and its distribution.

    Args:
        lower: the smallest value.
        upper: the largest value.
        log: whether the logarithm is uniform instead of the value.
        quantile: another distribution, by its quantile function: an increasing JAX function from
            the unit interval to the range. It says where the answer is wanted.
    """

    lower: float = eqx.field(static=True, converter=float)
    upper: float = eqx.field(static=True, converter=float)
    log: bool = eqx.field(static=True, default=False)
    quantile: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if not (np.isfinite(self.lower) and np.isfinite(self.upper) and self.lower < self.upper):
            raise ValueError(
                f"`Parameter(lower, upper)` must be finite, `lower` below `upper`; got "
                f"{self.lower}, {self.upper}."
            )
        if self.log and self.lower <= 0:
            raise ValueError(f"`Parameter(log=True)` needs a positive `lower`; got {self.lower}.")
        if self.log and self.quantile is not None:
            raise ValueError("`Parameter` takes `log` or `quantile`; got both.")

    def draw(self, u: Array, outward: bool = False) -> Array:
        """The value at a point of the unit interval; more of them next to the ends if `outward`.

        The latter is the arcsine law; a law that was given by its quantiles stays as it is.
        """
        if outward and self.quantile is None:
            u = 0.5 * (1.0 - jnp.cos(np.pi * u))
        if self.quantile is not None:
            return jnp.clip(jnp.asarray(self.quantile(u), u.dtype), self.lower, self.upper)
        if self.log:
            found = jnp.exp(np.log(self.lower) + np.log(self.upper / self.lower) * u)
            return jnp.clip(found, self.lower, self.upper)
        return self.lower + (self.upper - self.lower) * u

    def width(self, value: np.ndarray) -> np.ndarray:
        """Of the whole range as seen from values: where logarithms count, in proportion to them."""
        if self.log:
            return value * np.log(self.upper / self.lower)
        return np.full_like(value, self.upper - self.lower)

    @property
    def middle(self) -> float:
        """The median."""
        with jax.ensure_compile_time_eval():
            return float(self.draw(jnp.asarray(0.5)))


class Layout(eqx.Module):
    r"""The coordinates of a point of a problem: parameters, then time, then position.

    Most problems have no parameters, and elliptic ones no time. Along paths, the position changes,
    the parameters are constant, and the time runs: towards `horizon`, where a backward equation
    ($\partial_t u + \mathcal{L}u + \dots = 0$) has its data, or back to zero, where a forward one
    ($\partial_t u = \mathcal{L}u + \dots$) has them. Methods take one point, or many with the
    coordinates on the last axis.

    Args:
        dim: dimension of space.
        horizon: length of the time interval; None for elliptic problems.
        forward: whether data are given at time zero.
        parameters: parameters of a family of problems, by name.
        outward: whether more of the points that are drawn have parameters next to the ends of
            their ranges. There networks have data on one side only, and errors are largest.
    """

    dim: int = eqx.field(static=True)
    horizon: float | None = eqx.field(static=True, default=None)
    forward: bool = eqx.field(static=True, default=False)
    parameters: tuple[tuple[str, Parameter], ...] = eqx.field(static=True, default=())
    outward: bool = eqx.field(static=True, default=False)

    @property
    def timed(self) -> bool:
        """Whether a point has a time."""
        return self.horizon is not None

    @property
    def n_parameters(self) -> int:
        """How many coordinates of a point are parameters."""
        return len(self.parameters)

    @property
    def n_ahead(self) -> int:
        """How many coordinates stand before the place: parameters, and the time."""
        return self.n_parameters + self.timed

    @property
    def n_coords(self) -> int:
        """Length of a point."""
        return self.n_ahead + self.dim

    @property
    def timeless(self) -> "Layout":
        """The same without the time."""
        return Layout(self.dim, parameters=self.parameters)

    @property
    def single(self) -> "Layout":
        """The same without parameters."""
        return Layout(self.dim, self.horizon, self.forward)

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
        return z[..., self.n_ahead :]

    def time(self, z: _A) -> _A:
        """The time."""
        assert self.timed
        return z[..., self.n_parameters]

    def values(self, z: _A) -> _A:
        """The parameters."""
        return z[..., : self.n_parameters]

    def ahead(self, z: _A) -> _A:
        """All that stands before the place: parameters, and the time."""
        return z[..., : self.n_ahead]

    def without_time(self, z: Array) -> Array:
        """Parameters and place."""
        if not self.timed:
            return z
        if not self.parameters:
            return self.space(z)
        return jnp.concatenate([self.values(z), self.space(z)], axis=-1)

    def arguments(self, z: SpaceTimePoint) -> tuple[Array, ...]:
        """What functions of the user are called with: `x`, or `t, x`."""
        return (self.time(z), self.space(z)) if self.timed else (self.space(z),)

    def named(self, z: SpaceTimePoint, names: tuple[str, ...]) -> dict[str, Array]:
        """Parameters by name, for functions of the user that ask for them."""
        order = [name for name, _ in self.parameters]
        return {name: z[..., order.index(name)] for name in names}

    def placed(self, ahead: Array, x: Array) -> Array:
        """The point of what stands before its place, and the place; of one, or one per row."""
        if self.n_ahead == 0:
            return x
        rows = jnp.broadcast_to(ahead, (*x.shape[:-1], self.n_ahead))
        return jnp.concatenate([rows, x], axis=-1)

    def point(self, time: Any, x: Array, values: Any = ()) -> Array:
        """The point of a time, a number or one per row, and a place; elliptic ones have no time.

        Args:
            time: where there is one.
            x: the place.
            values: values of the parameters, for all points or one row per point.
        """
        return self._point(jnp, time, x, values)

    def points(self, time: Any, x: np.ndarray, values: Any = ()) -> np.ndarray:
        """The same for arrays of NumPy."""
        return self._point(np, time, x, values)

    def _point(self, numbers: Any, time: Any, x: Any, values: Any) -> Any:
        """The same for either library of arrays."""
        found, rows = [x], x.shape[:-1]
        if self.timed:
            when = numbers.asarray(time, x.dtype)[..., None]
            found.insert(0, numbers.broadcast_to(when, (*rows, 1)))
        if self.parameters:
            given = numbers.asarray(values, x.dtype)
            found.insert(0, numbers.broadcast_to(given, (*rows, self.n_parameters)))
        return x if len(found) == 1 else numbers.concatenate(found, axis=-1)

    def joined(self, *arguments: Array) -> SpaceTimePoint:
        """The point from what functions of the user are called with, where these are all."""
        assert not self.parameters
        return self.point(*arguments) if self.timed else arguments[0]

    def later(self, z: SpaceTimePoint, dt: Scalar, x: Point) -> SpaceTimePoint:
        """Where a path is at `x`, a step after `z`."""
        if not self.timed:
            return self.placed(self.ahead(z), x)
        return self.point(self.time(z) + self.pace * dt, x, self.values(z))

    def time_left(self, z: SpaceTimePoint) -> Scalar:
        """Until a path stops."""
        return jnp.maximum(self.pace * (self.end - self.time(z)), 0.0)

    def direction(self, v: Vector, rate: float = 0.0) -> Float[Array, " z"]:
        """A direction in space as one of a point; in its own time a path goes at this rate."""
        return self.point(self.pace * rate, v, np.zeros(self.n_parameters))

    def direction_rows(self, dtype: Any) -> Float[Array, "d z"]:
        """The axes of space as directions of points, one per row."""
        return jnp.eye(self.n_coords, dtype=dtype)[self.n_ahead :]

    def at_end(self, y: Array) -> Array:
        """Places, after their parameters, at the time at which data are given."""
        still = self.timeless
        return self.point(self.end, still.space(y), still.values(y))

    def from_cube(self, u: Float[Array, " q"]) -> tuple[Float[Array, " a"], Float[Array, " r"]]:
        """What stands before the place, from the first coordinates of the unit cube; the others."""
        drawn = [law.draw(u[k], self.outward) for k, (_, law) in enumerate(self.parameters)]
        if self.horizon is not None:
            drawn.append(self.horizon * u[self.n_parameters])
        ahead = jnp.stack(drawn) if drawn else u[:0]
        return ahead, u[self.n_ahead :]

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each coordinate, from those in space."""
        least, most = self.ranges()
        return self.points(0.0, lower, least), self.points(self.horizon or 0.0, upper, most)

    def check_names(self, given: Mapping[str, Any]) -> None:
        """Refuse names that are not those of all parameters."""
        known = dict(self.parameters)
        if set(given) != set(known):
            has = f"has the parameters {', '.join(known)}" if known else "has no parameters"
            raise ValueError(
                f"Give values for exactly the parameters of the problem: it {has}; got "
                f"{', '.join(given) or 'none'}."
            )

    def checked_values(self, given: Mapping[str, Any]) -> np.ndarray:
        """Values of all parameters in their order, or an error that names what is wrong."""
        self.check_names(given)
        values = [float(given[name]) for name, _ in self.parameters]
        for (name, law), value in zip(self.parameters, values, strict=True):
            slack = 1e-9 * (law.upper - law.lower)
            if not law.lower - slack <= value <= law.upper + slack:
                raise ValueError(
                    f"`{name}` must lie between {law.lower:g} and {law.upper:g}; got {value:g}."
                )
        return np.asarray(values)

    def spelled(self, values: Any) -> str:
        """Names and values of the parameters, as one writes them."""
        pairs = zip(self.parameters, np.asarray(values, float), strict=True)
        return ", ".join(f"{name} = {value:.4g}" for (name, _), value in pairs)

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values of the parameters."""
        pairs = [(law.lower, law.upper) for _, law in self.parameters]
        least, most = np.array(pairs, float).reshape(-1, 2).T
        return least, most

    def middle(self) -> np.ndarray:
        """Medians of the parameters."""
        return np.array([law.middle for _, law in self.parameters])


def corners(layout: Layout) -> np.ndarray:
    """Where a family is tried: the ends of all ranges, few of them if these are many; medians."""
    least, most = layout.ranges()
    k = layout.n_parameters
    picks = itertools.islice(itertools.product((0, 1), repeat=k), _MOST_CORNERS)
    ends = [np.where(np.asarray(pick, bool), most, least) for pick in picks]
    return np.unique(np.stack([*ends, most, layout.middle()]), axis=0)
