"""Simple polygons in the plane, convex or not."""

import functools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

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
    ball_around,
    finite_array,
    frozen,
    grouped_min,
    length,
    like,
    name_parts,
    pick,
    safe_sqrt,
    unit,
)
from ._polygon_factor import polygon_factor


class Polygon(AbstractDomain):
    """A simple polygon.

    Args:
        vertices: the corners in order, either way round; edges must not cross.
        name: one name for the whole boundary, or one per edge (edge `i` goes from vertex `i` to
            vertex `i + 1`).
    """

    vertices: tuple[tuple[float, float], ...] = eqx.field(static=True)
    parts: tuple[str, ...] = eqx.field(static=True)
    edge_parts: tuple[int, ...] = eqx.field(static=True)
    triangles: tuple[tuple[int, int, int], ...] = eqx.field(static=True)

    def __init__(self, vertices: Numbers, *, name: Names = "outer"):
        corners = finite_array("Polygon(vertices=...)", vertices, (None, 2))
        if len(corners) < 3:
            raise ValueError(
                f"`Polygon(vertices=...)` must have at least 3 vertices; got {len(corners)}."
            )
        self.parts, edge_parts = name_parts(
            "Polygon", name, len(corners), "edge i goes from vertex i to vertex i + 1"
        )
        _check_simple(corners)
        if _signed_area(corners) < 0:  # turn it counterclockwise, edges keep their names
            corners = corners[::-1]
            edge_parts = (*edge_parts[:-1][::-1], edge_parts[-1])
        self.vertices, self.edge_parts = frozen(corners), edge_parts
        self.triangles = _ear_clip(corners)

    @property
    def dim(self) -> int:
        """Two."""
        return 2

    @property
    def n_interior_coords(self) -> int:
        """Coordinates of the unit cube that `interior_map` takes."""
        return 2

    @property
    def n_boundary_coords(self) -> int:
        """Coordinates of the unit cube that `boundary_map` takes."""
        return 1

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Start of each edge, and the vector along it."""
        start = np.asarray(self.vertices)
        return start, np.roll(start, -1, axis=0) - start

    def _edge_normals(self) -> np.ndarray:
        _, along = self._edges()
        return np.stack([along[:, 1], -along[:, 0]], axis=1) / _lengths(along)[:, None]

    def _nearest(self, x: Point) -> tuple[Int[Array, ""], Scalar, Vector]:
        """Nearest edge, position along its line, and the vector from the edge to `x`."""
        start, along = (like(x, a) for a in self._edges())
        t = jnp.sum((x[None] - start) * along, 1) / jnp.sum(along**2, 1)
        away = x[None] - (start + jnp.clip(t, 0.0, 1.0)[:, None] * along)
        edge = jnp.argmin(jnp.sum(away**2, axis=1))
        return edge, t[edge], away[edge]

    def signed_distance(self, x: Point) -> Scalar:
        """Distance to the boundary, negative inside.

        Where the nearest boundary point is inside an edge, the side of that edge decides, and at
        a vertex between edges of one line as well; at other vertices `x` is outside if the vertex
        is convex and inside if reflex.
        """
        edge, t, away = self._nearest(x)
        normal = like(x, self._edge_normals())[edge]
        corners = np.asarray(self.vertices)
        convex, straight = jnp.asarray(_is_convex(corners)), jnp.asarray(_is_straight(corners))
        last = len(self.vertices) - 1
        vertex = jnp.where(t <= 0, edge, jnp.where(edge == last, 0, edge + 1))
        at_vertex = jnp.where(convex[vertex], 1.0, -1.0) * length(away)
        start = like(x, np.asarray(self.vertices))[edge]
        by_edge = ((t >= 0) & (t <= 1)) | straight[vertex]
        return jnp.where(by_edge, jnp.dot(normal, x - start), at_vertex)

    def level(self, x: Point) -> Scalar:
        """In a convex polygon the nearest edge line decides, without a search."""
        corners = np.asarray(self.vertices)
        if not np.all(_is_convex(corners)):
            return self.signed_distance(x)
        normals = self._edge_normals()
        offsets = np.sum(normals * corners, axis=1)
        lines = zip(normals.tolist(), offsets.tolist(), strict=True)
        return functools.reduce(jnp.maximum, [n[0] * x[0] + n[1] * x[1] - c for n, c in lines])

    def normal(self, x: Point) -> Vector:
        """Normal of the nearest edge, or the direction to the nearest vertex."""
        edge, t, away = self._nearest(x)
        of_edge = like(x, self._edge_normals())[edge]
        of_vertex = unit(jnp.sign(self.signed_distance(x)) * away, of_edge)
        return jnp.where((t > 0) & (t < 1), of_edge, of_vertex)

    def project(self, x: Point) -> Point:
        """Nearest boundary point."""
        _, _, away = self._nearest(x)
        return x - away

    def part_distance(self, x: Point) -> Float[Array, " parts"]:
        """Distance to the edges of each part."""
        start, along = (like(x, a) for a in self._edges())
        t = jnp.clip(jnp.sum((x[None] - start) * along, 1) / jnp.sum(along**2, 1), 0.0, 1.0)
        away = x[None] - (start + t[:, None] * along)
        return grouped_min(safe_sqrt(jnp.sum(away**2, axis=1)), self.edge_parts)

    def side_factor(self, x: Point, parts: frozenset[str], outside: bool) -> Scalar:
        """Combined from the edges; see `polygon_factor`."""
        named = np.array([self.parts[part] in parts for part in self.edge_parts])
        return polygon_factor(x, np.asarray(self.vertices), named, outside)

    def bounding_box(self) -> Window:
        """Smallest axis-aligned box."""
        corners = np.asarray(self.vertices)
        return corners.min(axis=0), corners.max(axis=0)

    def enclosing_ball(self) -> tuple[Any, Size]:
        """Around the bounding box."""
        return ball_around(self.bounding_box())

    def distance_range(self, hull: Hull) -> tuple[float, float]:
        """From the distance at the center of the ball."""
        start, along = self._edges()
        t = np.sum((hull.center - start) * along, 1) / np.sum(along**2, 1)
        away = hull.center - (start + np.clip(t, 0.0, 1.0)[:, None] * along)
        (x, y), (x0, y0), (dx, dy) = hull.center, start.T, along.T
        crossed = ((y0 > y) != (y0 + dy > y)) & (
            x < x0 + dx * (y - y0) / np.where(dy == 0, 1.0, dy)
        )
        middle = (-1.0 if np.count_nonzero(crossed) % 2 else 1.0) * float(np.min(_lengths(away)))
        return middle - hull.radius, middle + hull.radius

    def volume(self) -> Size:
        """Area by the shoelace formula."""
        return _signed_area(np.asarray(self.vertices))

    def areas(self) -> dict[str, Size]:
        """Length of the edges of each part."""
        totals = np.bincount(self.edge_parts, weights=_lengths(self._edges()[1]))
        return dict(zip(self.parts, totals.tolist(), strict=True))

    def interior_map(self, u: Float[Array, " q"]) -> InteriorDraw:
        """A triangle by area, then a point of it."""
        corners = np.asarray(self.vertices)[np.asarray(self.triangles)]
        areas = np.array([_signed_area(triangle) for triangle in corners])
        which, v = pick(u[0], like(u, np.cumsum(areas) / np.sum(areas)))
        a, b, c = like(u, corners)[which]
        root = jnp.sqrt(v)
        return InteriorDraw(
            (1.0 - root) * a + root * (1.0 - u[1]) * b + root * u[1] * c, jnp.array(True)
        )

    def boundary_map(self, u: Float[Array, " q"], surface: int | None = None) -> BoundaryDraw:
        """An edge by length, then a point of it."""
        start, along = self._edges()
        edges = self._edges_of(surface)
        sizes = _lengths(along)[edges]
        chosen, t = pick(u[0], like(u, np.cumsum(sizes) / np.sum(sizes)))
        edge = chosen if surface is None else jnp.asarray(edges)[chosen]
        point = like(u, start)[edge] + t * like(u, along)[edge]
        normal = like(u, self._edge_normals())[edge]
        return BoundaryDraw(point, normal, jnp.asarray(self.edge_parts)[edge], jnp.array(True))

    def proposal_volume(self) -> Size:
        """Nothing is rejected: the area."""
        return self.volume()

    def _edges_of(self, surface: int | None) -> np.ndarray:
        """Edges of one part, or of all."""
        of = np.asarray(self.edge_parts)
        return np.flatnonzero((of == surface) | (surface is None))

    def proposal_area(self, surface: int | None = None) -> Size:
        """Nothing is rejected: the length."""
        return float(np.sum(_lengths(self._edges()[1])[self._edges_of(surface)]))

    def within(self, hull: Hull) -> "Polygon":
        """A polygon is bounded anyway."""
        return self

    def outline(self) -> tuple[Segment | Circle, ...]:
        """The edges."""
        start, along = self._edges()
        return tuple(
            Segment(a, a + v, self.parts[part])
            for a, v, part in zip(start, along, self.edge_parts, strict=True)
        )


def RegularPolygon(  # noqa: N802 (reads as a shape)
    sides: int,
    circumradius: float,
    *,
    center: Numbers = (0.0, 0.0),
    angle: float = 0.0,
    name: Names = "outer",
) -> Polygon:
    """The regular polygon with a vertex at the given angle (radians) from the first axis.

    Args:
        sides: number of sides, at least 3.
        circumradius: distance from the center to a vertex, positive.
        center: the center.
        angle: direction of the first vertex.
        name: one name for the whole boundary, or one per edge.
    """
    if not isinstance(sides, int) or sides < 3:
        raise ValueError(f"`RegularPolygon(sides=...)` must be an integer >= 3; got {sides!r}.")
    radius = float(finite_array("RegularPolygon(circumradius=...)", circumradius, ()))
    if radius <= 0:
        raise ValueError(
            f"`RegularPolygon(circumradius=...)` must be positive; got {circumradius}."
        )
    turn = angle + 2.0 * math.pi * np.arange(sides) / sides
    middle = finite_array("RegularPolygon(center=...)", center, (2,))
    return Polygon(middle + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1), name=name)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


def _cross(a: np.ndarray, b: np.ndarray) -> Any:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _signed_area(corners: np.ndarray) -> float:
    centered = corners - corners[0]  # keeps digits when the polygon is far from the origin
    return 0.5 * float(np.sum(_cross(centered, np.roll(centered, -1, axis=0))))


def _is_convex(corners: np.ndarray) -> np.ndarray:
    before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
    return _cross(corners - before, after - corners) >= 0


def _is_straight(corners: np.ndarray) -> np.ndarray:
    before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
    turn = np.abs(_cross(corners - before, after - corners))
    return turn <= 1e-9 * _lengths(corners - before) * _lengths(after - corners)


def _check_simple(corners: np.ndarray) -> None:
    """Raise if two edges touch elsewhere than in a shared vertex."""
    n = len(corners)
    after = np.roll(corners, -1, axis=0)
    scale = np.ptp(corners, axis=0).max()
    if np.any(_lengths(after - corners) <= 1e-12 * scale):
        raise ValueError(
            "`Polygon(vertices=...)` must not repeat a vertex; leave out the closing vertex and "
            "any duplicates."
        )
    for i in range(n):
        for j in range(i + 1, n):
            neighbors = j == i + 1 or (i == 0 and j == n - 1)
            if _edges_meet(corners[i], after[i], corners[j], after[j], neighbors):
                raise ValueError(
                    f"`Polygon(vertices=...)` must not cross itself; edges {i} and {j} meet. "
                    f"Check the order of the vertices."
                )


def _edges_meet(a, b, c, d, neighbors: bool) -> bool:
    if neighbors:  # they share a vertex; they overlap only if one folds back on the other
        joint, p, q = (b, a, d) if np.array_equal(b, c) else (a, b, c)
        u, v = p - joint, q - joint
        size = np.linalg.norm(u) * np.linalg.norm(v)
        return bool(abs(_cross(u, v)) <= 1e-12 * size and np.dot(u, v) > 0)
    side_c, side_d = _cross(b - a, c - a), _cross(b - a, d - a)
    side_a, side_b = _cross(d - c, a - c), _cross(d - c, b - c)
    if side_c == side_d == 0:  # on one line
        axis = int(np.argmax(np.abs(b - a)))
        low, high = sorted((a[axis], b[axis]))
        return bool(max(min(c[axis], d[axis]), low) <= min(max(c[axis], d[axis]), high))
    return bool(side_c * side_d <= 0 and side_a * side_b <= 0)


def _ear_clip(corners: np.ndarray) -> tuple[tuple[int, int, int], ...]:
    """Cut a counterclockwise simple polygon into triangles."""
    left = list(range(len(corners)))
    triangles = []
    while len(left) > 3:
        for k in range(len(left)):
            i, j, m = left[k - 1], left[k], left[(k + 1) % len(left)]
            ear = corners[[i, j, m]]
            if _signed_area(ear) <= 0:
                continue
            others = corners[[v for v in left if v not in (i, j, m)]]
            sides = [_cross(ear[(s + 1) % 3] - ear[s], others - ear[s]) for s in range(3)]
            if not np.any(np.all(np.stack(sides) >= 0, axis=0)):
                triangles.append((i, j, m))
                left.pop(k)
                break
        else:  # only straight angles are left
            flat = min(
                range(len(left)),
                key=lambda k: abs(
                    _signed_area(corners[[left[k - 1], left[k], left[(k + 1) % len(left)]]])
                ),
            )
            left.pop(flat)
    triangles.append((left[0], left[1], left[2]))
    return tuple(triangles)
