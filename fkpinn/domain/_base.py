"""What every domain can do."""

import abc
import functools
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._compute import has_tracers
from .._types import Point, Scalar, Vector

_SMALL = 0.1  # a surface is small if it has less than this part of an equal share of the area
_SHARE = 0.5  # of an equal share, for a small surface in `fair_mixture`

Size = Any  # a float; of a set that moves, an array of JAX
Window = tuple[Any, Any]  # an axis-aligned box: lower and upper corner, arrays of NumPy or of JAX
Remains = Literal["all", "some", "none"]
Mixture = tuple[tuple[int | None, float], ...]  # surfaces (None: all of them), and their weights


class Hull(NamedTuple):
    """A box and a ball that both contain a set."""

    lower: np.ndarray
    upper: np.ndarray
    center: np.ndarray
    radius: float

    def tighten(self, low: float, high: float, middle: float) -> tuple[float, float]:
        """Bounds of a distance: those over the box, and those by its value at the ball's center."""
        return max(low, middle - self.radius), min(high, middle + self.radius)


class InteriorDraw(NamedTuple):
    """A candidate point of the interior; `keep` is False where it must be drawn again."""

    point: Point
    keep: Bool[Array, ""]


class BoundaryDraw(NamedTuple):
    """A candidate point of the boundary, its outward normal and the index of its part."""

    point: Point
    normal: Vector
    part: Int[Array, ""]
    keep: Bool[Array, ""]


class Surface(NamedTuple):
    """A piece of a boundary: what is left of one part of a shape that is not a combination."""

    shape: "AbstractDomain"
    part: str


class Segment(NamedTuple):
    """A straight piece of the outline of a two-dimensional shape."""

    start: np.ndarray
    end: np.ndarray
    part: str


class Circle(NamedTuple):
    """A full circle in the outline of a two-dimensional shape."""

    center: np.ndarray
    radius: float
    part: str


class AbstractDomain(eqx.Module):
    r"""An open set $D$, described by its signed distance.

    A domain has named boundary parts; in a combination, surfaces with equal names form one part.
    Points are drawn by mapping the unit cube to the set (`interior_map`, `boundary_map`), so that
    random points, low-discrepancy points and volumes share one formula. Numbers that describe the
    shape are static (they may be used in Python control flow and are constants to the compiler),
    kept in double precision and cast to the precision of the point. Only the set of one point of a
    `Shapes` domain has numbers of a computation (`moves`); it is for questions about points.
    """

    dim: eqx.AbstractVar[int]
    parts: eqx.AbstractVar[tuple[str, ...]]
    n_interior_coords: eqx.AbstractVar[int]
    n_boundary_coords: eqx.AbstractVar[int]

    @abc.abstractmethod
    def signed_distance(self, x: Point) -> Scalar:
        r"""Distance from `x` to $\partial D$, negative inside; never an overestimate."""

    @abc.abstractmethod
    def normal(self, x: Point) -> Vector:
        """Outward unit normal at the boundary point nearest to `x`."""

    @abc.abstractmethod
    def project(self, x: Point) -> Point:
        """The boundary point nearest to `x` (a near one, next to corners of combinations)."""

    @abc.abstractmethod
    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance from `x` to each boundary part; never an overestimate."""

    @abc.abstractmethod
    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """`factor` inside or outside the set; names that are not its own are left aside.

        With all parts named it changes sign at the boundary.
        """

    @abc.abstractmethod
    def bounding_box(self) -> Window:
        """Lower and upper corner of an axis-aligned box that contains the set."""

    def centers(self) -> tuple[tuple[float, ...], ...]:
        """Those of the balls the set is made of, each once."""
        return ()

    def boxes(self) -> tuple[Any, ...]:
        """The boxes the set lies in whose faces may bound it, each once; none that moves."""
        return ()

    @abc.abstractmethod
    def enclosing_ball(self) -> tuple[Any, Size]:
        """Center and radius of a ball that contains the set."""

    @abc.abstractmethod
    def volume(self) -> Size:
        """Volume of the set (length in 1-D, area in 2-D)."""

    @abc.abstractmethod
    def areas(self) -> dict[str, Size]:
        """Surface area of each part (a count of points in 1-D, a length in 2-D)."""

    @abc.abstractmethod
    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """Map the unit cube to the set; kept points are uniform if `u` is."""

    @abc.abstractmethod
    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """Map the unit cube to the boundary; kept points are uniform if `u` is.

        Args:
            u: a point of the unit cube.
            surface: only this one of `surfaces()`.
        """

    @abc.abstractmethod
    def proposal_volume(self) -> Size:
        """Volume the interior map spreads its points over, those not kept included."""

    @abc.abstractmethod
    def proposal_area(self, surface: int | None = None) -> Size:
        """Area the boundary map spreads its points over, those not kept included."""

    @abc.abstractmethod
    def within(self, hull: Hull) -> "AbstractDomain":
        """The same set, told that only what lies in `hull` is ever looked at."""

    @abc.abstractmethod
    def outline(self) -> tuple[Segment | Circle, ...]:
        """Curves that together contain the boundary of a two-dimensional set."""

    @property
    def moves(self) -> bool:
        """Whether some of its numbers are those of a computation."""
        return False

    @property
    def arrays(self) -> Any:
        """The library for its numbers: NumPy, or `jax.numpy` if it moves."""
        return jnp if self.moves else np

    def at(self, values: Array | np.ndarray) -> "AbstractDomain":
        """The set for given values of all parameters of a problem; most sets have none."""
        return self

    def members(self) -> tuple["AbstractDomain", ...]:
        """Sets that stand for a family of them; of most domains the set itself."""
        return (self,)

    def level(self, x: Point) -> Scalar:
        """The signed distance inside, anything positive outside, NaN for NaN; cheap."""
        return self.signed_distance(x)

    def surfaces(self) -> tuple[Surface, ...]:
        """The pieces of the boundary: one per part, and in a combination those of both sets."""
        return tuple(Surface(self, part) for part in self.parts)

    def remains(self) -> tuple[Remains, ...]:
        """What set operations leave of each surface; `some` also where that is not known."""
        return ("all",) * len(self.surfaces())

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """Bounds, right in sign, of the signed distance on a set inside `hull`."""
        if not np.isfinite(hull.radius):
            return -np.inf, np.inf
        with jax.ensure_compile_time_eval():
            middle = float(self.signed_distance(jnp.asarray(hull.center)))
        return middle - hull.radius, middle + hull.radius

    def hull(self) -> Hull:
        """Bounding box and enclosing ball."""
        return Hull(*self.bounding_box(), *self.enclosing_ball())

    def detail(self) -> float:
        """Length over which solutions may change next to the smallest shape that bounds the set.

        It is the radius of that shape over half the dimension: in many dimensions a path next to
        a small set misses it unless it is very close. Infinite where no shape is smaller than
        the set.
        """
        lower, upper = self.bounding_box()
        radii = [np.inf]
        for shape, _ in self.surfaces():
            low, high = shape.bounding_box()
            if np.any(low > lower) or np.any(high < upper):
                radii.append(shape.enclosing_ball()[1])
        return min(radii) / max(0.5 * self.dim, 1.0)

    def part_mixture(self, part: str) -> Mixture:
        """What `mixed_map` takes for uniform points of one part."""
        if len(self.surfaces()) == 1:
            return ((None, 1.0),)
        own = [k for k, surface in enumerate(self.surfaces()) if surface.part == part]
        return tuple((k, self.proposal_area(k)) for k in own)

    def fair_mixture(self) -> Mixture:
        """What `mixed_map` takes for points of which every surface gets enough to be seen.

        They are uniform where surfaces are of comparable area. One with less than a tenth of an
        equal share gets half an equal share; the others share what is left by their areas.
        """
        if len(self.surfaces()) == 1:
            return ((None, 1.0),)
        areas = np.array([self.proposal_area(k) for k in range(len(self.surfaces()))])
        equal = 1.0 / max(int(np.count_nonzero(areas)), 1)
        share = areas / (np.sum(areas) or 1.0)
        small = np.flatnonzero((areas > 0) & (share < _SMALL * equal)).tolist()
        own = _SHARE * equal
        return ((None, 1.0 - own * len(small)), *((k, own) for k in small))

    def mixed_map(self, u: Float[Array, " q"], mixture: Mixture) -> BoundaryDraw:
        """Map the unit cube to a mixture of surfaces; kept points are uniform on each.

        Args:
            u: a point of the unit cube.
            mixture: surfaces, by their index in `surfaces()` or None for all, and their weights.
        """
        some = [(surface, weight) for surface, weight in mixture if weight > 0] or mixture[:1]
        if len(some) == 1:
            return self.boundary_map(u, some[0][0])
        weights = np.array([weight for _, weight in some])
        which, v = pick(u[0], like(u, np.cumsum(weights) / np.sum(weights)))
        draws = [self.boundary_map(u.at[0].set(v), surface) for surface, _ in some]
        return jax.tree.map(lambda *of_each: jnp.stack(of_each)[which], *draws)

    def contains(self, x: Point) -> Bool[Array, ""]:
        """Whether `x` lies in the open set."""
        return self.signed_distance(x) < 0

    def part_at(self, x: Point) -> Int[Array, ""]:
        """Index in `parts` of the boundary part nearest to `x`."""
        return jnp.argmin(self.part_distance(x))

    def factor(self, x: Point, parts: tuple[str, ...] | frozenset[str]) -> Scalar:
        """Smooth and positive in the set, zero on the named parts and only there.

        Next to a named part, and away from corners, it is the distance to first order. Its
        second derivatives are finite in the open set and grow towards corners of the boundary.

        Args:
            x: a point of the set or of its boundary.
            parts: names of boundary parts, at least one.
        """
        unknown = [part for part in parts if part not in self.parts]
        if unknown or not parts:
            raise ValueError(
                f"`parts` must name boundary parts of the domain, which are {self.parts}; got "
                f"{tuple(parts)}."
            )
        return self.side_factor(x, frozenset(parts), False)

    def is_bounded(self) -> bool:
        """Whether the bounding box is finite."""
        lower, upper = self.bounding_box()
        return bool(np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)))

    def diameter(self) -> float:
        """Diagonal of the bounding box."""
        lower, upper = self.bounding_box()
        return float(np.linalg.norm(upper - lower))

    def __or__(self, other: Any) -> "AbstractDomain":
        from ._csg import Union

        if not isinstance(other, AbstractDomain):
            return NotImplemented
        return Union(self, other)

    def __and__(self, other: Any) -> "AbstractDomain":
        from ._csg import Intersection

        if not isinstance(other, AbstractDomain):
            return NotImplemented
        return Intersection(self, other)

    def __sub__(self, other: Any) -> "AbstractDomain":
        from ._csg import Difference

        if not isinstance(other, AbstractDomain):
            return NotImplemented
        return Difference(self, other)


def known_domain(domain: Any) -> AbstractDomain:
    """The domain, or an error if it is something else."""
    if isinstance(domain, AbstractDomain):
        return domain
    also = " Shapes that depend on parameters are for `Problem`." if callable(domain) else ""
    raise TypeError(
        f"`domain` must be a domain such as `Box` or `Ball`; got {type(domain).__name__}.{also}"
    )


def ball_around(window: Window) -> tuple[np.ndarray, float]:
    """Center and radius of the ball through the corners of a box."""
    lower, upper = window
    if not np.all(np.isfinite([lower, upper])):
        return np.zeros_like(lower), float("inf")
    return 0.5 * (lower + upper), 0.5 * float(np.linalg.norm(upper - lower))


class Moving:
    """Numbers of a shape that belong to one point of a computation: not known to the compiler.

    Shapes that depend on parameters are built with them, see `Shapes`.

    Args:
        array: the numbers.
    """

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array


def moving(*numbers: Any) -> bool:
    """Whether any of the numbers is `Moving`."""
    return any(isinstance(number, Moving) for number in numbers)


def bare(value: Any) -> Any:
    """Numbers of a shape for arithmetic: those that move as an array of JAX, others unchanged."""
    return value.array if isinstance(value, Moving) else value


def like(x: Array, value) -> Array:
    """`value` as an array in the precision of `x`."""
    known = bare(value)
    return jnp.asarray(known if isinstance(known, Array) else np.asarray(known), x.dtype)


def number(x: Array, value: Any) -> Any:
    """A number of a shape for arithmetic in the precision of `x`."""
    return like(x, value) if isinstance(value, Moving) else value


def length(v: Float[Array, " d"]) -> Scalar:
    """Euclidean norm whose gradient at zero is zero instead of NaN."""
    return safe_sqrt(jnp.sum(v**2))


def safe_sqrt(s: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Square root whose gradient at zero is zero instead of infinite; NaN stays NaN."""
    return jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0 * s)


def unit(v: Vector, fallback: Vector) -> Vector:
    """`v` scaled to length one; `fallback` where `v` is zero."""
    r = length(v)
    return jnp.where(r > 0, v / jnp.where(r > 0, r, 1.0), fallback)


def pick(u: Scalar, cumulative: Float[Array, " c"]) -> tuple[Int[Array, ""], Scalar]:
    """Choose a cell by `u`, and rescale `u` inside it, so that one coordinate serves twice."""
    last = cumulative.shape[0] - 1
    index = jnp.minimum(jnp.searchsorted(cumulative, u, side="right"), last)
    start = jnp.where(index > 0, cumulative[jnp.maximum(index - 1, 0)], 0.0)
    return index, jnp.clip((u - start) / (cumulative[index] - start), 0.0, 1.0)


def grouped_min(values: Float[Array, " f"], groups: tuple[int, ...]) -> Float[Array, " parts"]:
    """Smallest value of each group; `groups` says which group each value belongs to."""
    of = lambda g: [values[k] for k, group in enumerate(groups) if group == g]
    least = functools.partial(functools.reduce, jnp.minimum)
    return jnp.stack([least(of(g)) for g in range(max(groups) + 1)])


def name_parts(owner: str, name, count: int, order: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Turn `name` (one for all faces, or one per face) into part names and a group per face."""
    if isinstance(name, str):
        names = (name,) * count
    elif isinstance(name, (tuple, list)) and all(isinstance(part, str) for part in name):
        names = tuple(name)
    else:
        raise TypeError(
            f"`{owner}(name=...)` must be a string or a sequence of strings; got {name!r}. "
            f"Try `name='outer'`."
        )
    if len(names) != count:
        raise ValueError(
            f"`{owner}(name=...)` must be one name or {count} names ({order}); got {len(names)}."
        )
    if not all(names):
        raise ValueError(f"`{owner}(name=...)` must not contain an empty name; got {name!r}.")
    parts = tuple(dict.fromkeys(names))
    return parts, tuple(parts.index(part) for part in names)


def frozen(numbers: Any) -> Any:
    """An array as nested tuples of floats: hashable, so it can be a static field."""
    if has_tracers(numbers):
        return Moving(numbers)
    return tuple(frozen(row) for row in numbers) if np.ndim(numbers) else float(numbers)


def finite_array(
    argument: str, value, shape: tuple[int | None, ...], *, may_move: bool = False
) -> Any:
    """`value` as a double-precision array of the given shape (None: any size), all finite.

    Numbers of a computation are returned as they are if they `may_move`, else refused.
    """
    traced = has_tracers(value)
    if traced and not may_move:
        raise TypeError(
            f"`{argument}` cannot depend on parameters: of the shapes, `Box`, `Interval` and "
            f"`Ball` can, and what is made of them by `|`, `&` and `-`."
        )
    try:
        array = jnp.asarray(value) if traced else np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{argument}` must be real numbers; got {value!r}.") from error
    fits = array.ndim == len(shape) and all(
        want is None or want == got for want, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise ValueError(f"`{argument}` must have shape {wanted}; got shape {array.shape}.")
    if not traced and not np.all(np.isfinite(array)):
        raise ValueError(f"`{argument}` must be finite; got {value!r}.")
    return array
