"""Union, intersection and difference of two domains."""

import abc
import warnings
from functools import partial
from typing import Any

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
    Hull,
    InteriorDraw,
    Remains,
    Segment,
    Size,
    Surface,
    Window,
    ball_around,
    length,
    like,
    pick,
)
from ._factor import both, either, require_all

_LOG2_POINTS = 17  # of one set of low-discrepancy points behind a volume that has no formula
_SETS = (8, 64)  # how many, at least and at most
_PRECISION = 2e-4  # relative standard error at which there are enough
_PROMISED = 1e-3  # relative error beyond which a warning says so
_NEWTON_STEPS = 8  # to the corner where two boundaries meet; convergence is quadratic
_LEAST = ("all", "some", "none")


class _AbstractPair(AbstractDomain):
    """What the three set operations share.

    Subclasses say how the two signed distances combine; the rest follows. A set operation
    is written as an intersection of two sets, each possibly turned inside out:
    `A - B` is `A & ~B`, and `A | B` is `~(~A & ~B)`.
    """

    first: eqx.AbstractVar[AbstractDomain]
    second: eqx.AbstractVar[AbstractDomain]
    cuts: eqx.AbstractVar[tuple[Remains, ...]]

    @abc.abstractmethod
    def _flips(self) -> tuple[float, float, float]:
        """Sign for the distance of `first`, of `second`, and of the result."""

    @abc.abstractmethod
    def bounding_box(self) -> Window:
        """Lower and upper corner of an axis-aligned box that contains the set."""

    @abc.abstractmethod
    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        """The volume as a signed sum, where one set surely contains or misses the other."""

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.first.dim

    @property
    def moves(self) -> bool:
        """Whether one of the two does."""
        return self.first.moves or self.second.moves

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of both, equal names once."""
        return tuple(dict.fromkeys(self.first.parts + self.second.parts))

    def centers(self) -> tuple[tuple[float, ...], ...]:
        """Of the balls of both, each once."""
        return tuple(dict.fromkeys(self.first.centers() + self.second.centers()))

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
        valid = off <= jnp.maximum(2.0 * jnp.min(off), self._tolerance(x.dtype))
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

    def surfaces(self) -> tuple[Surface, ...]:
        """Those of both sets, cut or not."""
        return self.first.surfaces() + self.second.surfaces()

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """Those of the two sets combined."""
        a, b, sign = self._flips()
        low, high = np.maximum(
            sorted(a * bound for bound in self.first.distance_range(hull)),
            sorted(b * bound for bound in self.second.distance_range(hull)),
        ).tolist()
        return (low, high) if sign > 0 else (-high, -low)

    def remains(self) -> tuple[Remains, ...]:
        """The least of what this operation leaves and those before it."""
        before = self.first.remains() + self.second.remains()
        return tuple(max(pair, key=_LEAST.index) for pair in zip(before, self.cuts, strict=True))

    def _cuts(self) -> tuple[Remains, ...]:
        """What this operation leaves of each surface of the two sets.

        A surface of one set bounds the result where it lies on the right side of the other set.
        """
        if self.moves:
            return ("some",) * (len(self.first.surfaces()) + len(self.second.surfaces()))
        a, b, _ = self._flips()
        margin, found = self._tolerance(np.dtype(np.float64)), []
        for child, other, flip in ((self.first, self.second, b), (self.second, self.first, a)):
            sides: dict[int, float] = {}  # faces of one shape share the answer
            for shape, _ in child.surfaces():
                if id(shape) not in sides:
                    sides[id(shape)] = flip * _side(shape, other, margin)
                side = sides[id(shape)]
                found.append("some" if side == 0 else "all" if side < 0 else "none")
        return tuple(found)

    def _owner(self, surface: int) -> tuple[int, int]:
        """Which of the two sets a surface comes from, and its index there."""
        count = self._n_first()
        return (0, surface) if surface < count else (1, surface - count)

    def _n_first(self) -> int:
        """How many surfaces the first set has."""
        return len(self.cuts) - len(self.second.surfaces())

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """A point of either boundary, kept where it bounds the combination."""
        if surface is not None:
            of, own = self._owner(surface)
            return self._trimmed(self._turned(u, of, own), jnp.array(of), {self.cuts[surface]})
        weights = self.arrays.stack(self._areas_left())
        if not self.moves and not np.any(weights):
            weights = np.ones(2)  # nothing is left: nothing will be kept
        which, v = pick(u[0], like(u, weights.cumsum() / weights.sum()))
        draws = [self._turned(u.at[0].set(v), of, None) for of in (0, 1)]
        draw = jax.tree.map(partial(jnp.where, which == 0), *draws)
        return self._trimmed(draw, which, set(self.cuts))

    def _turned(self, u: Float[Array, " q"], of: int, surface: int | None) -> BoundaryDraw:
        """A draw of one of the two sets as one of the combination."""
        child, (a, b, sign) = (self.first, self.second)[of], self._flips()
        draw = child.boundary_map(u[: child.n_boundary_coords], surface)
        names = jnp.asarray([self.parts.index(name) for name in child.parts])
        return draw._replace(normal=sign * (a, b)[of] * draw.normal, part=names[draw.part])

    def _trimmed(self, draw: BoundaryDraw, of: Array, cuts: set[Remains]) -> BoundaryDraw:
        """Keep a draw where it bounds the combination; `cuts` are those of its surfaces."""
        if cuts == {"all"}:
            return draw
        if cuts == {"none"}:
            return draw._replace(keep=jnp.array(False))
        eps = self._tolerance(draw.point.dtype)
        inside = self.contains(draw.point - eps * draw.normal)
        outside = ~self.contains(draw.point + eps * draw.normal)
        # where both boundaries run along each other, count the surface once
        twice = (of == 1) & (jnp.abs(self.first.signed_distance(draw.point)) < 0.5 * eps)
        return draw._replace(keep=draw.keep & inside & outside & ~twice)

    def _areas_left(self) -> tuple[Size, Size]:
        """Area each of the two sets proposes; none where nothing of it bounds the combination."""
        count = self._n_first()
        return (
            0.0 if set(self.cuts[:count]) == {"none"} else self.first.proposal_area(),
            0.0 if set(self.cuts[count:]) == {"none"} else self.second.proposal_area(),
        )

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Around the bounding box."""
        return ball_around(self.bounding_box())

    def volume(self) -> Size:
        """By formula where the sets are nested or apart, else by quadrature (about 2e-4).

        Where that is less precise than 1e-3, a warning says how precise it is.
        """
        terms = self._nested()
        if terms is not None:
            return sum(sign * child.volume() for sign, child in terms)
        keep = lambda u: self.interior_map(u).keep
        share = _measured("The volume", self.n_interior_coords, keep)
        return self.proposal_volume() * share

    def areas(self) -> dict[str, Size]:
        """By formula for surfaces that are whole, else by quadrature on each (about 2e-4).

        Where that is less precise than 1e-3, a warning says how precise it is.
        """
        totals = dict.fromkeys(self.parts, 0.0)
        for k, ((_, part), left) in enumerate(zip(self.surfaces(), self.remains(), strict=True)):
            share = {"all": 1.0, "none": 0.0}.get(left)
            if share is None:
                keep = lambda u, k=k: self.boundary_map(u, k).keep
                share = _measured(f"The area of part {part!r}", self.n_boundary_coords, keep)
            totals[part] += self.proposal_area(k) * share
        return totals

    def proposal_area(self, surface: int | None = None) -> Size:
        """Area of both boundaries, without those of which nothing is left."""
        if surface is None:
            return sum(self._areas_left())
        of, own = self._owner(surface)
        child = (self.first, self.second)[of]
        return 0.0 if self.cuts[surface] == "none" else child.proposal_area(own)

    def within(self, hull: Hull) -> "_AbstractPair":
        """Pass it on."""
        first, second = self.first.within(hull), self.second.within(hull)
        same = first is self.first and second is self.second
        return self if same else type(self)(first, second)  # pyright: ignore[reportCallIssue]

    def outline(self) -> tuple[Segment | Circle, ...]:
        """Both outlines."""
        return self.first.outline() + self.second.outline()

    def _tolerance(self, dtype: np.dtype) -> Any:
        """A length far below the size of the set and far above rounding."""
        lower, upper = self.bounding_box()
        if self.moves:
            far = jnp.maximum(jnp.max(jnp.abs(lower)), jnp.max(jnp.abs(upper)))
            size = jnp.maximum(far, jnp.linalg.norm(upper - lower))
            return size.astype(dtype) * float(jnp.finfo(dtype).eps) ** (2 / 3)
        size = max(float(np.max(np.abs([lower, upper]))), self.diameter())
        scale = size if np.isfinite(size) else 1.0
        return scale * float(jnp.finfo(dtype).eps) ** (2 / 3)


class Union(_AbstractPair):
    """Points of either set. The sets should overlap or be apart, not merely touch."""

    first: AbstractDomain
    second: AbstractDomain
    cuts: tuple[Remains, ...] = eqx.field(static=True)

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("|", first, second)
        self.first, self.second = first, second
        self.cuts = self._cuts()

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return max(self.first.n_interior_coords, self.second.n_interior_coords)

    def _flips(self) -> tuple[float, float, float]:
        return -1.0, -1.0, -1.0

    def bounding_box(self) -> Window:
        """Smallest box around both boxes."""
        (a, b), (c, d) = self.first.bounding_box(), self.second.bounding_box()
        return self.arrays.minimum(a, c), self.arrays.maximum(b, d)

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        both = ((1.0, self.first), (1.0, self.second))
        known = {"apart": both, "second inside": both[:1], "first inside": both[1:]}
        return known.get(_relation(self.first, self.second))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """A point of either set; those of the second that lie in the first are dropped."""
        volumes = self.arrays.stack([self.first.proposal_volume(), self.second.proposal_volume()])
        which, v = pick(u[0], like(u, volumes.cumsum() / volumes.sum()))
        u = u.at[0].set(v)
        one = self.first.interior_map(u[: self.first.n_interior_coords])
        two = self.second.interior_map(u[: self.second.n_interior_coords])
        keep_two = two.keep & ~self.first.contains(two.point)
        return InteriorDraw(
            jnp.where(which == 0, one.point, two.point), jnp.where(which == 0, one.keep, keep_two)
        )

    def proposal_volume(self) -> Size:
        """Both volumes."""
        return self.first.proposal_volume() + self.second.proposal_volume()


class Intersection(_AbstractPair):
    """Points of both sets."""

    first: AbstractDomain
    second: AbstractDomain
    cuts: tuple[Remains, ...] = eqx.field(static=True)

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("&", first, second)
        self.first, self.second = first, second
        if not self.moves:
            smaller = min((first, second), key=lambda child: child.enclosing_ball()[1])
            hull = Hull(*_overlap(first, second), *smaller.enclosing_ball())
            self.first, self.second = _cut_to_size(first, second, hull)
        self.cuts = self._cuts()

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return max(self.dim, self.first.n_interior_coords, self.second.n_interior_coords)

    def _flips(self) -> tuple[float, float, float]:
        return 1.0, 1.0, 1.0

    def boxes(self) -> tuple[Any, ...]:
        """Of both."""
        return tuple(dict.fromkeys(self.first.boxes() + self.second.boxes()))

    def bounding_box(self) -> Window:
        """Overlap of both boxes."""
        return _overlap(self.first, self.second)

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        both = ((1.0, self.first), (1.0, self.second))
        known = {"apart": (), "second inside": both[1:], "first inside": both[:1]}
        return known.get(_relation(self.first, self.second))

    def _proposals(self) -> list[float]:
        lower, upper = self.bounding_box()
        box = float(np.prod(np.maximum(upper - lower, 0.0)))
        return [self.first.proposal_volume(), self.second.proposal_volume(), box]

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Points of the smallest of: first set, second set, bounding box."""
        smallest = 0 if self.moves else int(np.argmin(self._proposals()))
        if smallest == 2:
            lower, upper = self.bounding_box()
            point = like(u, lower) + like(u, upper - lower) * u[: self.dim]
            return InteriorDraw(point, self.contains(point))
        child = (self.first, self.second)[smallest]
        draw = child.interior_map(u[: child.n_interior_coords])
        return InteriorDraw(draw.point, draw.keep & self.contains(draw.point))

    def proposal_volume(self) -> Size:
        """Volume of the set the points are taken from."""
        return min(self._proposals())


class Difference(_AbstractPair):
    """Points of the first set that are not in the second."""

    first: AbstractDomain
    second: AbstractDomain
    cuts: tuple[Remains, ...] = eqx.field(static=True)

    def __init__(self, first: AbstractDomain, second: AbstractDomain):
        _check_pair("-", first, second)
        self.first, self.second = first, second
        if not first.moves:
            self.first, self.second = _cut_to_size(first, second, first.hull())
        self.cuts = self._cuts()

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return self.first.n_interior_coords

    def _flips(self) -> tuple[float, float, float]:
        return 1.0, -1.0, 1.0

    def centers(self) -> tuple[tuple[float, ...], ...]:
        """Of the balls of both, and of boxes that are cut out."""
        cut_out = [np.mean(box.bounding_box(), axis=0).tolist() for box in self.second.boxes()]
        return tuple(dict.fromkeys(super().centers() + tuple(map(tuple, cut_out))))

    def boxes(self) -> tuple[Any, ...]:
        """Of the first set."""
        return self.first.boxes()

    def bounding_box(self) -> Window:
        """Box of the first set."""
        return self.first.bounding_box()

    def _nested(self) -> tuple[tuple[float, AbstractDomain], ...] | None:
        both = ((1.0, self.first), (-1.0, self.second))
        known = {"apart": both[:1], "second inside": both, "first inside": ()}
        return known.get(_relation(self.first, self.second))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Points of the first set; those in the second are dropped."""
        draw = self.first.interior_map(u)
        return InteriorDraw(draw.point, draw.keep & (self.second.signed_distance(draw.point) > 0))

    def proposal_volume(self) -> Size:
        """Volume of the first set."""
        return self.first.proposal_volume()


def _check_pair(operation: str, first: AbstractDomain, second: AbstractDomain) -> None:
    if first.dim != second.dim:
        raise ValueError(
            f"`domain {operation} other` needs two domains of one dimension; "
            f"got {first.dim} and {second.dim}."
        )


def _overlap(first: AbstractDomain, second: AbstractDomain) -> Window:
    (a, b), (c, d) = first.bounding_box(), second.bounding_box()
    arrays = jnp if first.moves or second.moves else np
    return arrays.maximum(a, c), arrays.minimum(b, d)


def _cut_to_size(
    first: AbstractDomain, second: AbstractDomain, hull: Hull
) -> tuple[AbstractDomain, AbstractDomain]:
    """The two sets, told that only what lies in the box counts, if that is one."""
    box = hull.lower, hull.upper
    if not (np.all(np.isfinite(box)) and np.all(hull.lower < hull.upper)):
        return first, second
    center, radius = ball_around(box)
    if radius < hull.radius:
        hull = Hull(*box, center, radius)
    return first.within(hull), second.within(hull)


def _relation(first: AbstractDomain, second: AbstractDomain) -> str:
    """`apart`, `second inside`, `first inside`, or `unclear`, judged by boxes and balls."""
    low, high = first.distance_range(second.hull())
    back_low, back_high = second.distance_range(first.hull())
    if low >= 0 or back_low >= 0:
        return "apart"
    return "second inside" if high <= 0 else "first inside" if back_high <= 0 else "unclear"


def _side(shape: AbstractDomain, other: AbstractDomain, margin: float) -> float:
    """Where the surface of a shape lies: -1 inside the other set, 1 outside, 0 unclear."""
    low, high = other.distance_range(shape.hull())
    if high < -margin:
        return -1.0
    low_back, high_back = shape.distance_range(other.hull())
    clear = low > margin or low_back > margin or high_back < -margin  # the other keeps away
    return 1.0 if clear else 0.0


def _measured(what: str, n_coords: int, keep) -> float:
    """Share of the unit cube that is kept, by sets of scrambled low-discrepancy points."""
    from scipy.stats import qmc

    batched = jax.jit(lambda u: jnp.mean(jax.lax.map(keep, u, batch_size=1 << 14)))
    shares: list[float] = []
    error = np.inf
    for seed in range(_SETS[1]):
        points = qmc.Sobol(n_coords, rng=np.random.default_rng(seed)).random_base2(_LOG2_POINTS)
        shares.append(float(batched(jnp.asarray(points))))
        if len(shares) < _SETS[0]:
            continue
        error = np.std(shares, ddof=1) / np.sqrt(len(shares))
        if error <= _PRECISION * np.mean(shares):
            break
    mean = float(np.mean(shares))
    if error > 0.5 * _PROMISED * mean:
        warnings.warn(
            f"{what} was estimated by sampling, with a relative standard error of "
            f"{error / mean:.1g}: only a fraction of {mean:.1g} of the sampled points was "
            f"accepted.",
            stacklevel=4,
        )
    return mean
