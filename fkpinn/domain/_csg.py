"""Union, intersection and difference of two domains."""

import abc
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar, Vector
from ._base import (
    AbstractDomain,
    BoundaryDraw,
    Circle,
    InteriorDraw,
    Segment,
    Window,
    ball_around,
    length,
    like,
    pick,
)
from ._factor import both, either, require_all

_LOG2_POINTS = 20  # low-discrepancy points behind a volume that has no formula
_NEWTON_STEPS = 8  # to the corner where two boundaries meet; convergence is quadratic


class _AbstractPair(AbstractDomain):
    """What the three set operations share.

    Subclasses say how the two signed distances combine; the rest follows. A set operation
    is written as an intersection of two sets, each possibly turned inside out:
    `A - B` is `A & ~B`, and `A | B` is `~(~A & ~B)`.
    """

    first: eqx.AbstractVar[AbstractDomain]
    second: eqx.AbstractVar[AbstractDomain]

    @abc.abstractmethod
    def _flips(self) -> tuple[float, float, float]:
        """Sign for the distance of `first`, of `second`, and of the result."""

    @abc.abstractmethod
    def bounding_box(self) -> Window:
        """Lower and upper corner of an axis-aligned box that contains the set."""

    @abc.abstractmethod
    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        """The result as a signed sum, where one set surely contains or misses the other."""

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.first.dim

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of both, equal names once."""
        return tuple(dict.fromkeys(self.first.parts + self.second.parts))

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return max(self.first.n_boundary_coords, self.second.n_boundary_coords)

    def signed_distance(self, x: Point) -> Scalar:
        """Right in sign, and never more than the true distance."""
        a, b, sign = self._flips()
        return sign * jnp.maximum(
            a * self.first.signed_distance(x), b * self.second.signed_distance(x)
        )

    def level(self, x: Point) -> Scalar:
        """What is cut off counts by its distance, the rest by its level."""
        a, b, sign = self._flips()
        if sign < 0:
            return self.signed_distance(x)
        of = lambda flip, child: child.level(x) if flip > 0 else -child.signed_distance(x)
        return jnp.maximum(of(a, self.first), of(b, self.second))

    def normal(self, x: Point) -> Vector:
        """Normal of whichever of the two bounds the set near `x`."""
        a, b, sign = self._flips()
        of_first = a * self.first.signed_distance(x) >= b * self.second.signed_distance(x)
        return sign * jnp.where(of_first, a * self.first.normal(x), b * self.second.normal(x))

    def project(self, x: Point) -> Point:
        """Nearest of: projection to either boundary, and the corner where they meet."""

        def to_corner(_, p):
            n, m = self.first.normal(p), self.second.normal(p)
            s, t = self.first.signed_distance(p), self.second.signed_distance(p)
            cosine = jnp.dot(n, m)
            scale = jnp.maximum(1.0 - cosine**2, 1e-6)
            return p - ((s - cosine * t) * n + (t - cosine * s) * m) / scale

        corner = jax.lax.fori_loop(0, _NEWTON_STEPS, to_corner, x)
        candidates = jnp.stack([self.first.project(x), self.second.project(x), corner])
        off = jnp.abs(jax.vmap(self.signed_distance)(candidates))
        off = jnp.where(jnp.isfinite(off), off, jnp.inf)
        valid = off <= jnp.maximum(2.0 * jnp.min(off), self._tolerance(x))
        distance = jax.vmap(lambda c: length(c - x))(candidates)
        return candidates[jnp.argmin(jnp.where(valid, distance, jnp.inf))]

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance to the whole surface each part was cut from."""
        distances = {name: [] for name in self.parts}
        for child in (self.first, self.second):
            for name, distance in zip(child.parts, child.part_distance(x), strict=True):
                distances[name].append(distance)
        return jnp.stack([jnp.min(jnp.stack(d)) for d in distances.values()])

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """Those of the two sets combined; a set without a named part is left out."""
        a, b, sign = self._flips()
        is_union = (sign < 0) != outside
        if is_union:
            require_all(self.parts, parts)
        factors = [
            child.side_factor(x, parts, (flip > 0) == is_union)
            for child, flip in ((self.first, a), (self.second, b))
            if parts.intersection(child.parts)
        ]
        return (either if is_union else both)(jnp.stack(factors))

    def boundary_map(self, u: Float[Array, " q"]) -> BoundaryDraw:
        """A point of either boundary, kept where it bounds the combination."""
        a, b, sign = self._flips()
        areas = np.array([self.first.proposal_area(), self.second.proposal_area()])
        which, v = pick(u[0], like(u, np.cumsum(areas) / np.sum(areas)))
        draws = []
        for child, flip in ((self.first, a), (self.second, b)):
            draw = child.boundary_map(u.at[0].set(v)[: child.n_boundary_coords])
            names = jnp.asarray([self.parts.index(name) for name in child.parts])
            draws.append(draw._replace(normal=sign * flip * draw.normal, part=names[draw.part]))
        draw = jax.tree.map(partial(jnp.where, which == 0), draws[0], draws[1])
        eps = self._tolerance(u)
        inside = self.contains(draw.point - eps * draw.normal)
        outside = ~self.contains(draw.point + eps * draw.normal)
        # where both boundaries run along each other, count the surface once
        twice = (which == 1) & (jnp.abs(self.first.signed_distance(draw.point)) < 0.5 * eps)
        return draw._replace(keep=draw.keep & inside & outside & ~twice)

    def enclosing_ball(self) -> tuple[np.ndarray, float]:
        """Around the bounding box."""
        return ball_around(self.bounding_box())

    def volume(self) -> float:
        """By formula where the sets are nested or apart, else by quadrature (about 1e-4)."""
        terms = self._nested()
        if terms is not None:
            return sum(sign * child.volume() for sign, child in terms)
        keep = _on_sobol_points(self.n_interior_coords, lambda u: self.interior_map(u).keep)
        return self.proposal_volume() * float(np.mean(keep))

    def areas(self) -> dict[str, float]:
        """By formula where the sets are nested or apart, else by quadrature (about 1e-4)."""
        terms = self._nested()
        if terms is not None:
            totals = dict.fromkeys(self.parts, 0.0)
            for _, child in terms:
                for name, area in child.areas().items():
                    totals[name] += area
            return totals
        part, keep = _on_sobol_points(
            self.n_boundary_coords, lambda u: tuple(self.boundary_map(u)[2:])
        )
        counts = np.bincount(part[keep], minlength=len(self.parts))
        return dict(
            zip(self.parts, (self.proposal_area() * counts / len(keep)).tolist(), strict=True)
        )

    def proposal_area(self) -> float:
        """Area of both boundaries."""
        return self.first.proposal_area() + self.second.proposal_area()

    def outline(self) -> tuple[Segment | Circle, ...]:
        """Both outlines."""
        return self.first.outline() + self.second.outline()

    def _tolerance(self, x: Array) -> float:
        """A length far below the size of the set and far above rounding."""
        lower, upper = self.bounding_box()
        size = max(float(np.max(np.abs([lower, upper]))), self.diameter())
        scale = size if np.isfinite(size) else 1.0
        return scale * float(jnp.finfo(x.dtype).eps) ** (2 / 3)


class Union(_AbstractPair):
    """Points of either set. The sets should overlap or be apart, not merely touch."""

    first: AbstractDomain
    second: AbstractDomain

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("|", first, second)
        self.first, self.second = first, second

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return max(self.first.n_interior_coords, self.second.n_interior_coords)

    def _flips(self) -> tuple[float, float, float]:
        return -1.0, -1.0, -1.0

    def bounding_box(self) -> Window:
        """Smallest box around both boxes."""
        (a, b), (c, d) = self.first.bounding_box(), self.second.bounding_box()
        return np.minimum(a, c), np.maximum(b, d)

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        both = ((1.0, self.first), (1.0, self.second))
        return {"apart": both, "second inside": both[:1]}.get(_relation(self.first, self.second))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """A point of either set; those of the second that lie in the first are dropped."""
        volumes = np.array([self.first.proposal_volume(), self.second.proposal_volume()])
        which, v = pick(u[0], like(u, np.cumsum(volumes) / np.sum(volumes)))
        u = u.at[0].set(v)
        one = self.first.interior_map(u[: self.first.n_interior_coords])
        two = self.second.interior_map(u[: self.second.n_interior_coords])
        keep_two = two.keep & ~self.first.contains(two.point)
        return InteriorDraw(
            jnp.where(which == 0, one.point, two.point), jnp.where(which == 0, one.keep, keep_two)
        )

    def proposal_volume(self) -> float:
        """Both volumes."""
        return self.first.proposal_volume() + self.second.proposal_volume()

    def within(self, window: Window) -> "Union":
        """Pass the window on."""
        return Union(self.first.within(window), self.second.within(window))


class Intersection(_AbstractPair):
    """Points of both sets."""

    first: AbstractDomain
    second: AbstractDomain

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("&", first, second)
        self.first, self.second = _cut_to_size(first, second, _overlap(first, second))

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return max(self.dim, self.first.n_interior_coords, self.second.n_interior_coords)

    def _flips(self) -> tuple[float, float, float]:
        return 1.0, 1.0, 1.0

    def bounding_box(self) -> Window:
        """Overlap of both boxes."""
        return _overlap(self.first, self.second)

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        inner = ((1.0, self.second),)
        return {"apart": (), "second inside": inner}.get(_relation(self.first, self.second))

    def _proposals(self) -> list[float]:
        lower, upper = self.bounding_box()
        box = float(np.prod(np.maximum(upper - lower, 0.0)))
        return [self.first.proposal_volume(), self.second.proposal_volume(), box]

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Points of the smallest of: first set, second set, bounding box."""
        smallest = int(np.argmin(self._proposals()))
        if smallest == 2:
            lower, upper = self.bounding_box()
            point = like(u, lower) + like(u, upper - lower) * u[: self.dim]
            return InteriorDraw(point, self.contains(point))
        child = (self.first, self.second)[smallest]
        draw = child.interior_map(u[: child.n_interior_coords])
        return InteriorDraw(draw.point, draw.keep & self.contains(draw.point))

    def proposal_volume(self) -> float:
        """Volume of the set the points are taken from."""
        return min(self._proposals())

    def within(self, window: Window) -> "Intersection":
        """Pass the window on."""
        return Intersection(self.first.within(window), self.second.within(window))


class Difference(_AbstractPair):
    """Points of the first set that are not in the second."""

    first: AbstractDomain
    second: AbstractDomain

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("-", first, second)
        self.first, self.second = _cut_to_size(first, second, first.bounding_box())

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return self.first.n_interior_coords

    def _flips(self) -> tuple[float, float, float]:
        return 1.0, -1.0, 1.0

    def bounding_box(self) -> Window:
        """Box of the first set."""
        return self.first.bounding_box()

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        both = ((1.0, self.first), (-1.0, self.second))
        return {"apart": both[:1], "second inside": both}.get(_relation(self.first, self.second))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Points of the first set; those in the second are dropped."""
        draw = self.first.interior_map(u)
        return InteriorDraw(draw.point, draw.keep & (self.second.signed_distance(draw.point) > 0))

    def proposal_volume(self) -> float:
        """Volume of the first set."""
        return self.first.proposal_volume()

    def within(self, window: Window) -> "Difference":
        """Pass the window on."""
        return Difference(self.first.within(window), self.second.within(window))


def _check_pair(operation: str, first: AbstractDomain, second: AbstractDomain) -> None:
    if first.dim != second.dim:
        raise ValueError(
            f"`domain {operation} other` needs two domains of one dimension; "
            f"got {first.dim} and {second.dim}."
        )


def _overlap(first: AbstractDomain, second: AbstractDomain) -> Window:
    (a, b), (c, d) = first.bounding_box(), second.bounding_box()
    return np.maximum(a, c), np.minimum(b, d)


def _cut_to_size(
    first: AbstractDomain, second: AbstractDomain, window: Window
) -> tuple[AbstractDomain, AbstractDomain]:
    lower, upper = window
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
        return first, second
    return first.within(window), second.within(window)


def _relation(first: AbstractDomain, second: AbstractDomain) -> str:
    """`apart`, `second inside`, or `unclear`, judged by a ball around the second set."""
    center, radius = second.enclosing_ball()
    distance = float(first.signed_distance(jnp.asarray(center)))
    if distance >= radius:
        return "apart"
    return "second inside" if distance <= -radius else "unclear"


def _on_sobol_points(n_coords: int, function):
    """Values of a one-point function at the first low-discrepancy points of the unit cube."""
    from scipy.stats import qmc

    points = qmc.Sobol(n_coords, scramble=False).random_base2(_LOG2_POINTS)
    points = (points + 0.5 / len(points)) % 1.0  # off the cell borders
    batched = jax.jit(lambda u: jax.lax.map(function, u, batch_size=1 << 14))
    return jax.tree.map(np.asarray, batched(jnp.asarray(points)))
