"""The exact boundary of a two-dimensional domain: its outline, cut at crossings and sorted out."""

import abc
import itertools

import numpy as np

from ..domain import AbstractDomain, Circle, Segment
from ._base import evaluate

_TINY = 1e-9  # of the diameter: closer than this is the same point
_PROBE = 1e-7  # of the diameter: how far to either side of a piece to look


class AbstractPiece(abc.ABC):
    """A smooth piece of the boundary, run through by `s` in [0, 1] with the set to its left."""

    part: str
    length: float
    center: np.ndarray
    radius: float  # 0 for a straight piece

    @abc.abstractmethod
    def at(self, s: np.ndarray) -> np.ndarray:
        """Points `(n, 2)`."""

    @abc.abstractmethod
    def inward(self, s: np.ndarray) -> np.ndarray:
        """Unit normals to the left `(n, 2)`."""

    @abc.abstractmethod
    def turned(self) -> "AbstractPiece":
        """The same piece, run through the other way."""

    @abc.abstractmethod
    def split(self, points: np.ndarray, tiny: float) -> list["AbstractPiece"]:
        """Cut at points that lie on the piece."""


class Line(AbstractPiece):
    """A straight piece."""

    def __init__(self, start: np.ndarray, end: np.ndarray, part: str):
        self.start, self.end, self.part = start, end, part
        self.length = float(np.linalg.norm(end - start))
        self.center, self.radius = np.zeros(2), 0.0

    def at(self, s: np.ndarray) -> np.ndarray:
        """Points, the ends without rounding."""
        return (1.0 - s)[:, None] * self.start + s[:, None] * self.end

    def inward(self, s: np.ndarray) -> np.ndarray:
        """The left normal."""
        along = (self.end - self.start) / self.length
        return np.tile([-along[1], along[0]], (len(s), 1))

    def turned(self) -> "Line":
        """Ends swapped."""
        return Line(self.end, self.start, self.part)

    def split(self, points: np.ndarray, tiny: float) -> list[AbstractPiece]:
        """Cut where the points are, in order along the line."""
        s = (points - self.start) @ (self.end - self.start) / self.length**2
        inner = points[np.argsort(s)][np.sort(s) * self.length > tiny]
        stops = [self.start]
        for p in inner:
            far = np.linalg.norm(p - stops[-1]) > tiny and np.linalg.norm(p - self.end) > tiny
            if far and np.dot(p - self.end, self.end - self.start) < 0:
                stops.append(p)
        stops.append(self.end)
        return [Line(a, b, self.part) for a, b in itertools.pairwise(stops)]


class Arc(AbstractPiece):
    """A piece of a circle, from one angle to another."""

    def __init__(self, center: np.ndarray, radius: float, begin: float, end: float, part: str):
        self.center, self.radius, self.part = center, radius, part
        self.begin, self.end = begin, end
        self.length = abs(end - begin) * radius

    def _directions(self, s: np.ndarray) -> np.ndarray:
        angle = self.begin + s * (self.end - self.begin)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def at(self, s: np.ndarray) -> np.ndarray:
        """Points of the circle."""
        return self.center + self.radius * self._directions(s)

    def inward(self, s: np.ndarray) -> np.ndarray:
        """To the center when run through counterclockwise."""
        return np.sign(self.begin - self.end) * self._directions(s)

    def turned(self) -> "Arc":
        """Angles swapped."""
        return Arc(self.center, self.radius, self.end, self.begin, self.part)

    def split(self, points: np.ndarray, tiny: float) -> list[AbstractPiece]:
        """Cut a full circle where the points are."""
        away = points - self.center
        angles = np.unique(np.arctan2(away[:, 1], away[:, 0]) % (2 * np.pi))
        if len(angles) == 0:
            return [self]
        gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
        keep = gaps * self.radius > tiny
        starts = angles[keep] if np.any(keep) else angles[:1]
        ends = np.append(starts[1:], starts[0] + 2 * np.pi)
        return [
            Arc(self.center, self.radius, a, b, self.part)
            for a, b in zip(starts, ends, strict=True)
        ]


def boundary_pieces(domain: AbstractDomain) -> list[AbstractPiece]:
    """The pieces of the outline that bound the set, the set to the left of each."""
    size = domain.diameter()
    tiny = _TINY * size
    whole = [_as_piece(piece) for piece in domain.outline()]
    cut: list[AbstractPiece] = []
    for i, piece in enumerate(whole):
        hits = [_crossings(piece, other) for j, other in enumerate(whole) if j != i]
        cut += piece.split(np.concatenate([np.zeros((0, 2)), *hits]), tiny)
    middle = np.concatenate([p.at(np.array([0.5])) for p in cut])
    left = np.concatenate([p.inward(np.array([0.5])) for p in cut]) * _PROBE * size
    on_left = evaluate(domain.contains, middle + left)
    on_right = evaluate(domain.contains, middle - left)
    kept: list[AbstractPiece] = []
    seen: list[np.ndarray] = []
    for piece, point, a, b in zip(cut, middle, on_left, on_right, strict=True):
        # where two outlines run along each other, the first one names the part
        double = any(np.linalg.norm(point - other) < 10 * tiny for other in seen)
        if a == b or double:
            continue
        seen.append(point)
        kept.append(piece if a else piece.turned())
    if not kept:
        raise ValueError(
            f"`domain` has no boundary that could be found: {domain}. Check that the sets overlap."
        )
    return kept


def _as_piece(shape: Segment | Circle) -> AbstractPiece:
    if isinstance(shape, Segment):
        return Line(np.asarray(shape.start, float), np.asarray(shape.end, float), shape.part)
    return Arc(np.asarray(shape.center, float), float(shape.radius), 0.0, 2 * np.pi, shape.part)


def _crossings(one: AbstractPiece, two: AbstractPiece) -> np.ndarray:
    """Points `(k, 2)` where a segment or full circle meets another; ends of overlaps count."""
    if isinstance(one, Line) and isinstance(two, Line):
        return _line_line(one, two)
    if isinstance(one, Line):
        return _line_circle(one, two)
    if isinstance(two, Line):
        return _line_circle(two, one)
    return _circle_circle(one, two)


def _line_line(one: Line, two: Line) -> np.ndarray:
    u, v, w = one.end - one.start, two.end - two.start, two.start - one.start
    cross = u[0] * v[1] - u[1] * v[0]
    if abs(cross) > 1e-12 * one.length * two.length:
        s = (w[0] * v[1] - w[1] * v[0]) / cross
        t = (w[0] * u[1] - w[1] * u[0]) / cross
        hits = [(s, one.start + s * u)] if -1e-12 <= t <= 1 + 1e-12 else []
    elif abs(u[0] * w[1] - u[1] * w[0]) > 1e-9 * one.length * max(one.length, two.length):
        hits = []  # parallel and apart
    else:
        hits = [(np.dot(p - one.start, u) / one.length**2, p) for p in (two.start, two.end)]
    return np.array([p for s, p in hits if -1e-12 <= s <= 1 + 1e-12]).reshape(-1, 2)


def _line_circle(line: Line, circle: AbstractPiece) -> np.ndarray:
    along = (line.end - line.start) / line.length
    foot = np.dot(circle.center - line.start, along)
    off = np.linalg.norm(line.start + foot * along - circle.center)
    if off > circle.radius * (1 + 1e-12):
        return np.zeros((0, 2))
    half = np.sqrt(max(circle.radius**2 - off**2, 0.0))
    slack = 1e-12 * line.length
    s = np.array([t for t in (foot - half, foot + half) if -slack <= t <= line.length + slack])
    return line.start + s[:, None] * along


def _circle_circle(one: AbstractPiece, two: AbstractPiece) -> np.ndarray:
    between = two.center - one.center
    d = float(np.linalg.norm(between))
    r, q = one.radius, two.radius
    if d <= 1e-12 * (r + q) or d > (r + q) * (1 + 1e-12) or d < abs(r - q) * (1 - 1e-12):
        return np.zeros((0, 2))
    a = 0.5 * (d + (r - q) * (r + q) / d)
    half = np.sqrt(max(r**2 - a**2, 0.0))
    u = between / d
    foot = one.center + a * u
    across = half * np.array([-u[1], u[0]])
    return np.stack([foot + across, foot - across])
