"""Where the answer is wanted: the law of the points that errors are averaged over."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float

from .._streams import fold
from .._types import Numbers, Scalar, SpaceTimePoint
from .._words import Words
from ..domain import AbstractDomain, Hull, frozen
from ._dynamics import AbstractDynamics
from ._layout import Layout

_STEPS = 32  # of a path to its place, where coefficients vary
_LOOKS, _DEVIATIONS = 2048, 3.0  # points that tell the extent of a law, and how much of it counts
_KEY_COORDS = 4  # uniform coordinates that make a key: 23 random bits each in single precision


class Region(NamedTuple):
    """The points of a problem: a set in space, and the time where there is one."""

    domain: AbstractDomain
    layout: Layout

    def at(self, z: Array) -> AbstractDomain:
        """The set around a point, or around what stands before its place."""
        if not self.layout.parameters:
            return self.domain
        return self.domain.at(self.layout.values(z))

    def contains(self, z: SpaceTimePoint) -> Bool[Array, ""]:
        """Whether the place of a point lies in the set."""
        return self.at(z).contains(self.layout.space(z))

    def signed_distance(self, z: SpaceTimePoint) -> Scalar:
        """Of the place of a point from the boundary, negative inside."""
        return self.at(z).signed_distance(self.layout.space(z))

    def outward(self) -> "Region":
        """The same for points with more of their parameters next to the ends of ranges."""
        return self._replace(layout=dataclasses.replace(self.layout, outward=True))


class Draw(NamedTuple):
    """A candidate point; `keep` is False where it must be drawn again."""

    point: SpaceTimePoint
    keep: Bool[Array, ""]


class AbstractMeasure(eqx.Module):
    """A distribution of points, as a map from the unit cube that may reject points.

    Labels, errors, certificates and tests use it; the time of time-dependent problems is uniform,
    unless the measure specifies it.
    """

    @abc.abstractmethod
    def n_coords(self, region: Region) -> int:
        """Coordinates of the unit cube that `draw` takes."""

    @abc.abstractmethod
    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """A point from one of the unit cube; kept points follow the measure if `u` is uniform."""

    def checked(self, region: Region) -> "AbstractMeasure":
        """The same measure, or an error if it does not fit the region."""
        return self

    def bound(self, region: Region, dynamics: AbstractDynamics) -> "AbstractMeasure":
        """The same law, told how paths of the problem move."""
        return self

    def box(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Corners of a box with nearly all points, if it is smaller than the domain."""
        return None

    def single(self, region: Region) -> "AbstractMeasure":
        """The same law in one problem of a family."""
        return self

    def at_end(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """A point at the time at which data are given, where that is no matter of the domain."""
        drawn = self.draw(region, u)
        return drawn._replace(point=region.layout.at_end(region.layout.without_time(drawn.point)))

    def named_center(self) -> np.ndarray | None:
        """The place that it is about, if it names one."""
        return None

    def describe(self) -> str:
        """A few words for reports."""
        return type(self).__name__


class Uniform(AbstractMeasure):
    """Uniform on the domain."""

    def n_coords(self, region: Region) -> int:
        """Those of the domain, and one each for parameters and the time."""
        return region.domain.n_interior_coords + region.layout.n_ahead

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """The map of the domain, without points that rounding puts on its boundary."""
        ahead, rest = region.layout.from_cube(u)
        domain = region.at(ahead)
        x, keep = domain.interior_map(rest[: domain.n_interior_coords])
        return Draw(region.layout.placed(ahead, x), keep & (domain.level(x) < 0))


class Normal(AbstractMeasure):
    """A normal distribution with independent coordinates, truncated to the domain.

    Args:
        mean: its center, one number per axis.
        std: standard deviation, a positive number or one per axis.
    """

    mean: tuple[float, ...] = eqx.field(static=True, converter=lambda m: frozen(np.atleast_1d(m)))
    std: Any = eqx.field(static=True, converter=frozen)

    def n_coords(self, region: Region) -> int:
        """One an axis."""
        return region.layout.n_coords

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """By the inverse of the distribution function."""
        ahead, rest = region.layout.from_cube(u)
        tiny = jnp.finfo(u.dtype).tiny
        mean, std = (jnp.asarray(np.asarray(a), u.dtype) for a in (self.mean, self.std))
        x = mean + std * ndtri(jnp.maximum(rest, tiny))
        return Draw(region.layout.placed(ahead, x), region.at(ahead).contains(x))

    def checked(self, region: Region) -> "Normal":
        """Refuse sizes that do not fit."""
        d, std = region.layout.dim, np.asarray(self.std)
        if len(self.mean) != d or std.shape not in ((), (d,)):
            raise ValueError(
                f"`Normal(mean=..., std=...)` must have {d} numbers each, or one for `std`; got "
                f"{len(self.mean)} and shape {std.shape}."
            )
        if not (np.all(np.isfinite(self.mean)) and np.all(std > 0) and np.all(np.isfinite(std))):
            raise ValueError(
                f"`Normal` needs a finite `mean` and positive `std`; got {self.mean}, {self.std}."
            )
        return self


class InBox(AbstractMeasure):
    """Uniform on the part of the domain that lies in a box.

    Args:
        lower: smallest value on each axis.
        upper: largest value on each axis.
    """

    lower: tuple[float, ...] = eqx.field(static=True, converter=lambda m: frozen(np.atleast_1d(m)))
    upper: tuple[float, ...] = eqx.field(static=True, converter=lambda m: frozen(np.atleast_1d(m)))

    def n_coords(self, region: Region) -> int:
        """One an axis."""
        return region.layout.n_coords

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """Scaled to the box."""
        ahead, rest = region.layout.from_cube(u)
        lower, upper = (jnp.asarray(np.asarray(a), u.dtype) for a in (self.lower, self.upper))
        x = lower + (upper - lower) * rest
        return Draw(region.layout.placed(ahead, x), region.at(ahead).contains(x))

    def checked(self, region: Region) -> "InBox":
        """Refuse sizes that do not fit."""
        d = region.layout.dim
        if len(self.lower) != d or len(self.upper) != d:
            raise ValueError(
                f"`InBox(lower, upper)` must have {d} numbers each; got {len(self.lower)} and "
                f"{len(self.upper)}."
            )
        if not np.all(np.less(self.lower, self.upper)):
            raise ValueError(
                f"`InBox(lower, upper)` must have `lower` below `upper` on each axis; got "
                f"{self.lower}, {self.upper}."
            )
        return self


class Radial(AbstractMeasure):
    """Uniform in radius and direction, unlike uniform points of a ball in high dimension.

    Args:
        center: one number per axis.
        radius: the largest radius.
    """

    center: tuple[float, ...] = eqx.field(static=True, converter=lambda m: frozen(np.atleast_1d(m)))
    radius: float = eqx.field(static=True, converter=float)

    def n_coords(self, region: Region) -> int:
        """One an axis, and one for the radius."""
        return region.layout.n_coords + 1

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """A direction from normals."""
        ahead, rest = region.layout.from_cube(u)
        tiny = jnp.finfo(u.dtype).eps
        normal = ndtri(jnp.clip(rest[1:], tiny, 1.0 - tiny))
        length = jnp.sqrt(jnp.maximum(jnp.sum(normal**2), tiny))
        center = jnp.asarray(np.asarray(self.center), u.dtype)
        x = center + self.radius * rest[0] * normal / length
        return Draw(region.layout.placed(ahead, x), region.at(ahead).contains(x))

    def checked(self, region: Region) -> "Radial":
        """Refuse sizes that do not fit."""
        if len(self.center) != region.layout.dim or not np.all(np.isfinite(self.center)):
            raise ValueError(
                f"`Radial(center, radius)` must have a center of {region.layout.dim} finite "
                f"numbers; got {self.center}."
            )
        if not 0 < self.radius < np.inf:
            raise ValueError(
                f"`Radial(center, radius)` must have a positive radius; got {self.radius}."
            )
        return self


class At(AbstractMeasure):
    """Given points, all equally likely.

    Args:
        points: points inside the domain, one per row: positions, or with the time first if the
            problem has one; without a time, times are uniform.
    """

    points: Float[Array, "n c"]

    def __init__(self, points: Numbers):
        self.points = jnp.atleast_2d(jnp.asarray(np.asarray(points, float)))

    def n_coords(self, region: Region) -> int:
        """One for the choice, and one each for parameters and a time where points have none."""
        return 1 + (region.layout.n_ahead if self._only_places(region) else 0)

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """One of them."""
        n = len(self.points)
        row = self.points.astype(u.dtype)[jnp.minimum((u[-1] * n).astype(jnp.int32), n - 1)]
        if self._only_places(region):
            row = region.layout.placed(region.layout.from_cube(u)[0], row)
        return Draw(row, jnp.array(True))

    def checked(self, region: Region) -> "At":
        """Refuse points of another length, or outside."""
        layout, width = region.layout, self.points.shape[-1]
        if self.points.ndim != 2 or width not in (layout.dim, layout.n_coords):
            raise ValueError(
                f"`At(points)` must have shape (n, {layout.n_coords}); got {self.points.shape}."
            )
        if self._only_places(region):
            sets = region.domain.members()
            inside = np.all([jax.vmap(each.contains)(self.points) for each in sets], axis=0)
        else:
            inside = np.asarray(jax.vmap(region.contains)(self.points))
        if not np.all(inside):
            first = np.asarray(self.points)[int(np.argmin(inside))]
            raise ValueError(
                f"`At(points)` must lie inside the domain; {np.count_nonzero(~inside)} of "
                f"{len(inside)} do not, the first at {first}."
            )
        return self

    def single(self, region: Region) -> "At":
        """The same points without their parameters."""
        layout = region.layout
        return At(
            self.points if self._only_places(region) else self.points[:, layout.n_parameters :]
        )

    def _only_places(self, region: Region) -> bool:
        return region.layout.n_ahead > 0 and self.points.shape[-1] == region.layout.dim


class Sampler(AbstractMeasure):
    """Your own distribution: a function that draws one point from a random key.

    Args:
        function: takes a key of `jax.random` and returns a position of shape `(d,)`, or a point
            with the time first. Points outside the domain are drawn again.
    """

    function: Callable[..., Any]

    def n_coords(self, region: Region) -> int:
        """What makes a key, and a time."""
        return _KEY_COORDS + region.layout.n_ahead

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """From a key made of the coordinates."""
        ahead, rest = region.layout.from_cube(u)
        found = jnp.asarray(self.function(_key(rest)), u.dtype)
        if found.shape[-1] == region.layout.n_coords:
            z = found
        else:
            z = region.layout.placed(ahead, found)
        return Draw(z, region.contains(z))

    def checked(self, region: Region) -> "Sampler":
        """Refuse a function whose points have another shape."""
        layout = region.layout
        if not callable(self.function):
            raise TypeError(
                f"`Sampler(function)` must be a function of a random key; got {self.function!r}."
            )
        key = jax.eval_shape(lambda: jr.wrap_key_data(jnp.zeros(2, jnp.uint32)))
        shape = jnp.shape(jax.eval_shape(self.function, key))
        whole = () if layout.parameters else ((layout.n_coords,),)
        if shape not in ((layout.dim,), *whole):
            raise ValueError(
                f"`Sampler(function)` must return one point of shape ({layout.dim},); got shape "
                f"{shape}."
            )
        return self


class Along(AbstractMeasure):
    """The position of paths from a start at a uniform time: the distribution of the process.

    Args:
        start: starting point of the paths, one number per axis.
        spread: standard deviation of normally distributed starts around this one, if answers are
            wanted for many starts.
    """

    start: tuple[float, ...] = eqx.field(static=True, converter=lambda m: frozen(np.atleast_1d(m)))
    spread: float = eqx.field(static=True, default=0.0)
    dynamics: AbstractDynamics | None = None
    reach: tuple[Any, Any] | None = eqx.field(static=True, default=None)

    def n_coords(self, region: Region) -> int:
        """What makes a key, and a time."""
        return _KEY_COORDS + region.layout.n_ahead

    def draw(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """A path to a uniform time."""
        ahead, rest = region.layout.from_cube(u)
        return self._drawn(region, ahead, rest)

    def single(self, region: Region) -> "AbstractMeasure":
        """The same law in one problem of a family."""
        return self

    def at_end(self, region: Region, u: Float[Array, " q"]) -> Draw:
        """A path to its end."""
        layout = region.layout
        ahead, rest = layout.from_cube(u)
        end = jnp.full((1,), layout.end, u.dtype)
        return self._drawn(region, jnp.concatenate([layout.values(ahead), end]), rest)

    def bound(self, region: Region, dynamics: AbstractDynamics) -> "Along":
        """Paths of this process, unless it already has one."""
        if self.dynamics is not None:
            return self
        hull = extent(region, Along(self.start, self.spread, dynamics))
        reach = (frozen(hull.lower), frozen(hull.upper))
        return Along(self.start, self.spread, dynamics, reach)

    def box(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Where paths are, three deviations around their mean."""
        return (
            None if self.reach is None else (np.asarray(self.reach[0]), np.asarray(self.reach[1]))
        )

    def checked(self, region: Region) -> "Along":
        """Refuse a start of another length, or a problem without time."""
        d = region.layout.dim
        if len(self.start) != d or not np.all(np.isfinite(self.start)):
            raise ValueError(f"`Along(start)` must have {d} finite numbers; got {self.start}.")
        if not 0.0 <= self.spread < np.inf:
            raise ValueError(f"`spread` must be a number of at least 0; got {self.spread!r}.")
        if not region.layout.timed:
            raise ValueError("`Along(start)` is for problems with a `horizon`.")
        return self

    def named_center(self) -> np.ndarray:
        """The start."""
        return np.asarray(self.start)

    def describe(self) -> str:
        """A few words for reports."""
        return "along paths from a start"

    def _drawn(self, region: Region, ahead: Array, rest: Float[Array, " q"]) -> Draw:
        """Steps of Euler, one where coefficients are constant, from the start of time on."""
        layout, moves = region.layout, self.dynamics
        assert moves is not None
        constant = moves.drift.is_constant and moves.diffusion.is_constant
        values, time = layout.values(ahead), layout.time(ahead)
        n = 1 if constant else _STEPS
        if moves.jumps is not None and layout.horizon is not None:
            n = max(n, moves.jumps.pieces(layout.horizon))
        dt = layout.pace * (time - layout.start) / n
        word = jr.bits(fold(_key(rest), "jumps"), (), jnp.uint32)
        noise = jr.normal(_key(rest), (n, moves.noise_dim), rest.dtype)

        def step(k, x):
            z = layout.point(layout.start + layout.pace * k * dt, x, values)
            moved = x + moves.drift(z) * dt + moves.push(z, jnp.sqrt(dt) * noise[k])
            if moves.jumps is None:
                return moved
            own = Words(word + jnp.asarray(k, jnp.uint32) * np.uint32(0x85EBCA6B))
            return moved + moves.jumps.increment(own, z, dt, layout.dim)[1]

        x = jnp.asarray(np.asarray(self.start), rest.dtype)
        if self.spread:
            x = x + self.spread * jr.normal(fold(_key(rest), "start"), x.shape, rest.dtype)
        x = jax.lax.fori_loop(0, n, step, x)
        return Draw(layout.placed(ahead, x), region.at(ahead).contains(x))


def _key(words: Float[Array, " q"]) -> Any:
    """A random key from coordinates of the unit cube."""
    key = jr.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="threefry2x32")
    for word in (words * 2.0**23).astype(jnp.uint32):
        key = fold(key, "sampler", word)
    return key


def some_points(region: Region, measure: AbstractMeasure) -> Float[Array, "n z"]:
    """A few thousand points of a law, always the same."""
    rng, dtype = np.random.default_rng(0), jnp.result_type(float)
    u = jnp.asarray(rng.random((_LOOKS, measure.n_coords(region))), dtype)
    drawn = _drawn(measure, region, u)
    return drawn.point[np.asarray(drawn.keep)]


def extent(region: Region, measure: AbstractMeasure) -> Hull:
    """A box that holds nearly all points of a law: three deviations around its mean."""
    x = np.asarray(region.layout.space(some_points(region, measure)), np.float64)
    if not len(x) or not np.all(np.isfinite(x)):
        raise ValueError("`measure` must draw finite points; check it, and the drift.")
    mean, reach = x.mean(axis=0), _DEVIATIONS * np.maximum(x.std(axis=0), 1e-12)
    return Hull(mean - reach, mean + reach, mean, float(np.linalg.norm(reach)))


@eqx.filter_jit
def _drawn(measure: AbstractMeasure, region: Region, u: Float[Array, "n q"]) -> Draw:
    return jax.vmap(lambda row: measure.draw(region, row))(u)
