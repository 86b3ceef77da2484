"""How large triangles may be: small at small features, growing slowly away from them."""

import dataclasses
from functools import cached_property

import numpy as np

from ._outline import AbstractPiece, Line

GROWTH = 0.35  # increase of the size over a unit of distance
_ARC = np.pi / 6  # largest turn of a boundary edge
_CORNER = 0.1  # size at a corner where gradients are unbounded, over h
_SAMPLES = 400  # samples along a piece as long as the diameter, to find narrow gaps
_CHUNK = 1 << 22


@dataclasses.dataclass(frozen=True)
class Background:
    """Sizes wanted at scattered points; elsewhere the nearest one counts."""

    centers: np.ndarray
    sizes: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Sizes `(n,)` at points `(n, 2)`."""
        return self.sizes[self._tree.query(x)[1]]

    @cached_property
    def _tree(self):
        from scipy.spatial import KDTree

        return KDTree(self.centers)


class SizeField:
    """Largest edge length wanted near a point."""

    def __init__(
        self, h: float, centers: np.ndarray, sizes: np.ndarray, background: Background | None = None
    ):
        small = sizes < h
        self.h, self.centers, self.sizes = h, centers[small], sizes[small]
        self.background = background

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Sizes `(n,)` at points `(n, 2)`."""
        size = np.full(len(x), self.h)
        if self.background is not None and len(x):
            size = np.minimum(size, self.background(x))
        if len(self.sizes) == 0:
            return size
        step = max(1, _CHUNK // len(self.sizes))
        for i in range(0, len(x), step):
            apart = np.linalg.norm(x[i : i + step, None] - self.centers[None], axis=2)
            near = np.min(self.sizes[None] + GROWTH * apart, axis=1)
            size[i : i + step] = np.minimum(size[i : i + step], near)
        return size

    def with_sources(self, centers: np.ndarray, sizes: np.ndarray) -> "SizeField":
        """A field that is also small at further points."""
        return SizeField(
            self.h,
            np.concatenate([self.centers, centers]),
            np.concatenate([self.sizes, sizes]),
            self.background,
        )


def size_field(
    pieces: list[AbstractPiece],
    h: float,
    diameter: float,
    dirichlet: frozenset[str],
    background: Background | None = None,
) -> SizeField:
    """Size by curvature, by short pieces, by the width of gaps, and at singular corners.

    Args:
        pieces: the boundary.
        h: largest size.
        diameter: of the domain.
        dirichlet: parts with given values; where they meet reflecting ones gradients may be
            unbounded.
        background: further limits, from a solution.
    """
    field = SizeField(h, np.zeros((0, 2)), np.zeros(0), background)
    for index, piece in enumerate(pieces):
        n = int(np.clip(np.ceil(_SAMPLES * piece.length / diameter), 8, 4000))
        s = (np.arange(n) + 0.5) / n
        x = piece.at(s)
        limit = piece.length if isinstance(piece, Line) else piece.radius * _ARC
        sizes = np.full(n, min(h, limit))
        apart = [p for j, p in enumerate(pieces) if j != index and not _touch(piece, p, diameter)]
        sizes = np.minimum(sizes, _gap(x, piece.inward(s), apart))
        field = field.with_sources(x, sizes)
    corners, strength = _corners(pieces, diameter, dirichlet)
    return field.with_sources(corners, strength * h)


def _touch(one: AbstractPiece, two: AbstractPiece, diameter: float) -> bool:
    ends = np.array([0.0, 1.0])
    apart = np.linalg.norm(one.at(ends)[:, None] - two.at(ends)[None], axis=2)
    return bool(np.min(apart) < 1e-8 * diameter)


def _gap(x: np.ndarray, inward: np.ndarray, others: list[AbstractPiece]) -> np.ndarray:
    """Distance along the inward normal to the first of the other pieces."""
    width = np.full(len(x), np.inf)
    for piece in others:
        if isinstance(piece, Line):
            along = piece.end - piece.start
            cross = inward[:, 0] * along[1] - inward[:, 1] * along[0]
            w = piece.start - x
            with np.errstate(divide="ignore", invalid="ignore"):
                t = (w[:, 0] * along[1] - w[:, 1] * along[0]) / cross
                s = (w[:, 0] * inward[:, 1] - w[:, 1] * inward[:, 0]) / cross
                hit = (t > 0) & (s >= 0) & (s <= 1)
            width = np.where(hit, np.minimum(width, np.where(hit, t, np.inf)), width)
        else:  # the whole circle: an arc that was cut away only makes triangles smaller
            w = piece.center - x
            foot = np.sum(w * inward, axis=1)
            square = piece.radius**2 - (np.sum(w**2, axis=1) - foot**2)
            half = np.sqrt(np.maximum(square, 0.0))
            for t in (foot - half, foot + half):
                hit = (square > 0) & (t > 1e-9 * piece.radius)
                width = np.where(hit, np.minimum(width, t), width)
    return width


def _corners(
    pieces: list[AbstractPiece], diameter: float, dirichlet: frozenset[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Corners where the solution behaves like a power of the distance below one."""
    where, strength = [], []
    for one in pieces:
        for two in pieces:
            end, start = one.at(np.array([1.0]))[0], two.at(np.array([0.0]))[0]
            if np.linalg.norm(end - start) > 1e-8 * diameter:
                continue
            before, after = one.inward(np.array([1.0]))[0], two.inward(np.array([0.0]))[0]
            turn = np.arctan2(before[0] * after[1] - before[1] * after[0], before @ after)
            angle = np.pi - turn  # inside the set
            mixed = (one.part in dirichlet) != (two.part in dirichlet)
            power = np.pi / max(angle, 1e-9) / (2.0 if mixed else 1.0)
            if power < 0.98:
                where.append(end)
                strength.append(_CORNER)
    return np.array(where).reshape(-1, 2), np.array(strength)
