"""A mesh of a one- or two-dimensional domain."""

import numpy as np

from ..domain import AbstractDomain
from ._base import Batched, evaluate
from ._cells import Mesh
from ._size import Background
from ._triangulate import triangulate

_SAMPLES = 4097  # along a line, to find the ends of its intervals
_BISECTIONS = 60


def make_mesh(
    domain: AbstractDomain,
    h: float,
    dirichlet: frozenset[str] | None = None,
    background: Background | None = None,
) -> Mesh:
    """A mesh of a one- or two-dimensional domain; the same one every time.

    Boundary points are spread along the exact boundary; interior points are the centers of
    circumcircles that are too large for the size wanted there, then smoothed.

    Args:
        domain: bounded, of dimension 1 or 2.
        h: largest edge length; edges are shorter at small features.
        dirichlet: names of parts with given values, by default all: the mesh is finer where
            they meet others.
        background: further limits on sizes in 2-D, from a solution on another mesh.
    """
    if not (np.isfinite(h) and h > 0):
        raise ValueError(f"`h` must be a positive length; got {h!r}.")
    if not domain.is_bounded():
        raise ValueError(
            "`domain` must be bounded; intersect it with a box, for example `box & domain`."
        )
    if domain.dim == 1:
        return _intervals(domain, h)
    if domain.dim != 2:
        raise ValueError(f"`domain` must have dimension 1 or 2 to be meshed; got {domain.dim}.")
    held = frozenset(domain.parts) if dirichlet is None else dirichlet
    return triangulate(domain, h, held, background)


def _intervals(domain: AbstractDomain, h: float) -> Mesh:
    """Find the ends of the intervals by bisection, and cut each in equal cells."""
    lower, upper = (float(end[0]) for end in domain.bounding_box())
    margin = 1e-3 * (upper - lower)
    contains = Batched(domain.contains)
    x = np.linspace(lower - margin, upper + margin, _SAMPLES)
    inside = contains(x[:, None])
    change = np.flatnonzero(inside[1:] != inside[:-1])
    low, high = x[change], x[change + 1]
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        stay = contains(middle[:, None]) == inside[change]
        low, high = np.where(stay, middle, low), np.where(stay, high, middle)
    ends = 0.5 * (low + high)
    if len(ends) == 0:
        raise ValueError(f"`domain` has no interior that could be found: {domain}.")
    vertices, cells, facets, start = [], [], [], 0
    for a, b in ends.reshape(-1, 2):
        n = max(2, int(np.ceil((b - a) / h)))
        vertices.append(np.linspace(a, b, n + 1))
        cells.append(start + np.stack([np.arange(n), np.arange(1, n + 1)], axis=1))
        facets += [start, start + n]
        start += n + 1
    points = np.concatenate(vertices)[:, None]
    return Mesh(
        vertices=points,
        cells=np.concatenate(cells),
        facets=np.array(facets)[:, None],
        facet_parts=evaluate(domain.part_at, points[facets]).astype(int),
        centers=np.zeros((len(facets), 1)),
        radii=np.zeros(len(facets)),
        parts=domain.parts,
    )
