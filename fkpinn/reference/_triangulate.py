"""Triangles that fill a two-dimensional domain."""

import dataclasses

import numpy as np

from ..domain import AbstractDomain
from ._base import Batched
from ._cells import Mesh
from ._outline import AbstractPiece, Line, boundary_pieces
from ._size import Background, SizeField, size_field

_TOO_LARGE = 0.75  # circumradius over size; an equilateral triangle has 0.58
_ROUNDS = 80
_SWEEPS = 12
_RETRIES = 12
_MIN_ANGLE = 1.0  # degrees; less than this spoils the solve


def triangulate(
    domain: AbstractDomain, h: float, dirichlet: frozenset[str], background: Background | None
) -> Mesh:
    """Spread points along the boundary, fill the inside, and check what came out."""
    pieces = boundary_pieces(domain)
    size = size_field(pieces, h, domain.diameter(), dirichlet, background)
    contains = Batched(domain.contains)
    marks = [_spread(piece, size) for piece in pieces]
    missing = np.zeros(0, bool)
    for _ in range(_RETRIES):
        outline = _outline_edges(domain, pieces, marks)
        points, triangles = _fill(domain, contains, outline, size)
        missing = _missing(outline.facets, triangles)
        if not np.any(missing):
            return _finish(outline, points, triangles)
        marks, size = _halve(pieces, marks, missing, size)
    raise ValueError(
        f"`domain` could not be meshed at h={h:g}: {np.count_nonzero(missing)} boundary edges are "
        f"missing. It may have a cusp or pieces that almost touch; try a smaller `h`."
    )


def _spread(piece: AbstractPiece, size: SizeField) -> np.ndarray:
    """Positions along the piece, ends included, spaced as the size field asks."""
    s = np.linspace(0.0, 1.0, 2001)
    density = piece.length / size(piece.at(s))
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(s)
    count = np.concatenate([[0.0], np.cumsum(steps)])
    least = 1 if isinstance(piece, Line) else int(np.ceil(piece.length / piece.radius * 6 / np.pi))
    n = max(least, int(np.ceil(count[-1] - 0.1)))
    return np.interp(np.linspace(0.0, count[-1], n + 1), count, s)


def _outline_edges(
    domain: AbstractDomain, pieces: list[AbstractPiece], marks: list[np.ndarray]
) -> Mesh:
    """The boundary alone: a mesh without cells, ends of neighboring pieces joined."""
    from scipy.spatial import KDTree

    chains = [piece.at(s) for piece, s in zip(pieces, marks, strict=True)]
    loose = np.concatenate(chains)
    near = KDTree(loose).query_ball_point(loose, 1e-8 * domain.diameter())
    first = np.array([min(group) for group in near])
    unique, number = np.unique(first, return_inverse=True)
    starts = np.cumsum([0, *(len(chain) for chain in chains)])
    counts = [len(s) - 1 for s in marks]
    facets = np.concatenate(
        [
            np.stack([number[a : a + n], number[a + 1 : a + n + 1]], axis=1)
            for a, n in zip(starts, counts, strict=False)
        ]
    )
    owner = np.repeat(np.arange(len(pieces)), counts)
    part = np.array([domain.parts.index(piece.part) for piece in pieces])
    return Mesh(
        vertices=loose[unique],
        cells=np.zeros((0, 3), int),
        facets=facets,
        facet_parts=part[owner],
        centers=np.stack([piece.center for piece in pieces])[owner],
        radii=np.array([piece.radius for piece in pieces])[owner],
        parts=domain.parts,
    )


def _fill(
    domain: AbstractDomain, contains: Batched, outline: Mesh, size: SizeField
) -> tuple[np.ndarray, np.ndarray]:
    """Add interior points and triangulate."""
    fixed = outline.vertices
    ends = fixed[outline.facets]
    middles, halves = ends.mean(axis=1), 0.5 * np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    points = np.concatenate([fixed, _lattice(domain, contains, fixed, size)])
    for _ in range(_ROUNDS):
        triangles = _delaunay(points)
        triangles = triangles[contains(points[triangles].mean(axis=1))]
        center, radius = _circumcircles(points[triangles])
        excess = radius / size(center)
        large = excess > _TOO_LARGE
        center, excess = center[large], excess[large]
        keep = contains(center) & ~_within(center, middles, halves)
        center, excess = center[keep], excess[keep]
        if len(center) == 0:
            break
        points = np.concatenate([points, _apart(center[np.argsort(-excess)], size)])
    points = _smooth(contains, points, len(fixed), size)
    return points, _delaunay(points)


def _lattice(
    domain: AbstractDomain, contains: Batched, fixed: np.ndarray, size: SizeField
) -> np.ndarray:
    """Points of a triangular lattice where the size is the largest one."""
    from scipy.spatial import KDTree

    lower, upper = domain.bounding_box()
    h, middle = size.h, 0.5 * (lower + upper)
    n = np.ceil(0.5 * (upper - lower) / (h * np.array([1.0, np.sqrt(0.75)]))).astype(int) + 1
    i, j = np.meshgrid(np.arange(-n[0], n[0] + 1), np.arange(-n[1], n[1] + 1), indexing="ij")
    x = np.stack([h * (i + 0.5 * (j % 2)), h * np.sqrt(0.75) * j], axis=-1).reshape(-1, 2) + middle
    x = x[np.all((x > lower) & (x < upper), axis=1)]
    if len(x) == 0:
        return x
    x = x[contains(x)]
    return x[(size(x) > 0.95 * h) & (KDTree(fixed).query(x)[0] > 0.8 * h)]


def _delaunay(points: np.ndarray) -> np.ndarray:
    """Counterclockwise triangles, those of no area left out."""
    from scipy.spatial import Delaunay

    triangles = Delaunay(points).simplices.astype(int)
    area = _areas(points[triangles])
    triangles[area < 0] = triangles[area < 0][:, ::-1]
    longest = np.max(np.linalg.norm(np.diff(points[triangles], axis=1), axis=2), axis=1)
    return triangles[np.abs(area) > 1e-10 * longest**2]


def _areas(corners: np.ndarray) -> np.ndarray:
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return 0.5 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])


def _circumcircles(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    uu, vv = np.sum(u**2, axis=1), np.sum(v**2, axis=1)
    scale = 4.0 * _areas(corners)
    away = np.stack([v[:, 1] * uu - u[:, 1] * vv, u[:, 0] * vv - v[:, 0] * uu], axis=1)
    away /= scale[:, None]
    return corners[:, 0] + away, np.linalg.norm(away, axis=1)


def _within(x: np.ndarray, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Whether a point lies in one of the discs."""
    if len(x) == 0:
        return np.zeros(0, bool)
    inside = [
        np.any(np.sum((part[:, None] - centers[None]) ** 2, axis=2) < radii[None] ** 2, axis=1)
        for part in np.array_split(x, max(1, len(x) * len(centers) // 4_000_000))
    ]
    return np.concatenate(inside)


def _apart(candidates: np.ndarray, size: SizeField) -> np.ndarray:
    """A subset in which no two points are close, the first ones preferred."""
    from scipy.spatial import KDTree

    near = KDTree(candidates).query_ball_point(candidates, 0.8 * size(candidates))
    free = np.ones(len(candidates), bool)
    taken = []
    for i, others in enumerate(near):
        if free[i]:
            taken.append(i)
            free[others] = False
    return candidates[taken]


def _smooth(contains: Batched, points: np.ndarray, n_fixed: int, size: SizeField) -> np.ndarray:
    """Move interior points to the middle of the triangles around them, weighed by size."""
    for _ in range(_SWEEPS):
        triangles = _delaunay(points)
        centroid = points[triangles].mean(axis=1)
        inside = contains(centroid)
        triangles, centroid = triangles[inside], centroid[inside]
        weight = np.abs(_areas(points[triangles])) / size(centroid) ** 2
        total = np.zeros(len(points))
        moved = np.zeros_like(points)
        for k in range(3):
            np.add.at(total, triangles[:, k], weight)
            np.add.at(moved, triangles[:, k], weight[:, None] * centroid)
        free = np.arange(len(points)) >= n_fixed
        free &= total > 0
        points = points.copy()
        points[free] = moved[free] / total[free, None]
    return points


def _keys(edges: np.ndarray, n: int) -> np.ndarray:
    edges = np.sort(edges, axis=1)
    return edges[:, 0] * n + edges[:, 1]


def _missing(facets: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    n = int(max(facets.max(), triangles.max())) + 1
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    return ~np.isin(_keys(facets, n), _keys(edges, n))


def _halve(pieces, marks, missing: np.ndarray, size: SizeField):
    """Split the missing boundary edges, and ask for smaller triangles there."""
    start, refined, centers, sizes = 0, [], [], []
    for piece, s in zip(pieces, marks, strict=True):
        here = missing[start : start + len(s) - 1]
        start += len(s) - 1
        middle = 0.5 * (s[1:] + s[:-1])[here]
        refined.append(np.sort(np.concatenate([s, middle])))
        centers.append(piece.at(middle))
        sizes.append(0.6 * np.diff(s)[here] * piece.length)
    return refined, size.with_sources(np.concatenate(centers), np.concatenate(sizes))


def _finish(outline: Mesh, points: np.ndarray, triangles: np.ndarray) -> Mesh:
    """Keep what is inside, drop loose points, check area and angles."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n, m = len(points), len(triangles)
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    owner = np.tile(np.arange(m), 3)
    keys, walls = _keys(edges, n), _keys(outline.facets, n)
    # triangles that share an edge that is no wall lie on the same side of the boundary
    order = np.argsort(keys, kind="stable")
    keys, owner, edges = keys[order], owner[order], edges[order]
    same = (keys[1:] == keys[:-1]) & ~np.isin(keys[1:], walls)
    graph = coo_matrix((np.ones(same.sum()), (owner[:-1][same], owner[1:][same])), shape=(m, m))
    _, label = connected_components(graph, directed=False)
    # the set is to the left of every facet, as a triangle is to the left of its own edges
    left = np.isin(edges[:, 0] * n + edges[:, 1], outline.facets[:, 0] * n + outline.facets[:, 1])
    triangles = triangles[np.isin(label, label[owner[left]])]
    start, end = (points[outline.facets[:, k]] - points[0] for k in (0, 1))
    wanted = 0.5 * np.sum(start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0])
    got = float(np.sum(_areas(points[triangles])))
    angle = min_angle(points[triangles])
    if abs(got - wanted) > 1e-9 * abs(wanted) or angle < _MIN_ANGLE:
        raise ValueError(
            f"`domain` could not be meshed: the triangles cover {got:.6g} of an area of "
            f"{wanted:.6g}, smallest angle {angle:.2g} degrees. It may have a cusp or a corner "
            f"that is too sharp; try a smaller `h`."
        )
    used, number = np.unique(triangles, return_inverse=True)
    renumber = np.full(n, -1)
    renumber[used] = np.arange(len(used))
    return dataclasses.replace(
        outline,
        vertices=points[used],
        cells=number.reshape(triangles.shape),
        facets=renumber[outline.facets],
    )


def min_angle(corners: np.ndarray) -> float:
    """Smallest angle of the triangles, in degrees."""
    sides = np.roll(corners, -1, axis=1) - corners
    sides /= np.linalg.norm(sides, axis=2)[:, :, None]
    cosine = -np.sum(sides * np.roll(sides, -1, axis=1), axis=2)
    return float(np.degrees(np.arccos(np.clip(np.max(cosine), -1.0, 1.0))))
