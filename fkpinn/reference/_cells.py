"""Cells of a mesh, and the same cells cut in smaller ones."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Cells with straight sides, and which boundary part each boundary facet belongs to.

    Attributes:
        vertices: `(v, d)`.
        cells: `(m, d + 1)` vertex numbers, triangles counterclockwise.
        facets: `(f, d)` vertex numbers of boundary edges (of boundary points in 1-D).
        facet_parts: `(f,)` number of the part.
        centers: `(f, d)` centers of the circles that curved facets lie on.
        radii: `(f,)` their radii, 0 for straight facets.
        parts: names of the parts.
    """

    vertices: np.ndarray
    cells: np.ndarray
    facets: np.ndarray
    facet_parts: np.ndarray
    centers: np.ndarray
    radii: np.ndarray
    parts: tuple[str, ...]

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.vertices.shape[1]

    def facet_middles(self) -> np.ndarray:
        """Middle of each boundary facet, on the circle where it is curved."""
        middle = np.mean(self.vertices[self.facets], axis=1)
        curved = self.radii > 0
        away = middle[curved] - self.centers[curved]
        away *= (self.radii[curved] / np.linalg.norm(away, axis=1))[:, None]
        middle[curved] = self.centers[curved] + away
        return middle


def edges_of(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges `(e, 2)` in a fixed order, and the number of each edge of each cell.

    Edges of a triangle are counted (0, 1), (1, 2), (0, 2), as scikit-fem does.
    """
    ends = [(0, 1), (1, 2), (0, 2)] if cells.shape[1] == 3 else [(0, 1)]
    loose = np.sort(np.stack([cells[:, list(pair)] for pair in ends], axis=1), axis=2)
    edges, number = np.unique(loose.reshape(-1, 2), axis=0, return_inverse=True)
    return edges, number.reshape(len(cells), len(ends))


def find_edges(edges: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of each wanted edge in a sorted list of edges."""
    n = int(edges.max()) + 1
    wanted = np.sort(wanted, axis=1)
    return np.searchsorted(edges[:, 0] * n + edges[:, 1], wanted[:, 0] * n + wanted[:, 1])


def edge_middles(mesh: Mesh, edges: np.ndarray) -> np.ndarray:
    """Middle of every edge, on the circle where it is a curved boundary edge."""
    middles = np.mean(mesh.vertices[edges], axis=1)
    if mesh.dim == 2:
        middles[find_edges(edges, mesh.facets)] = mesh.facet_middles()
    return middles


def refine(mesh: Mesh) -> Mesh:
    """Cut every edge in two: four triangles from one, two intervals from one."""
    edges, number = edges_of(mesh.cells)
    offset = len(mesh.vertices)
    vertices = np.concatenate([mesh.vertices, edge_middles(mesh, edges)])
    if mesh.dim == 1:
        a, b = mesh.cells.T
        m = offset + number[:, 0]
        cells = np.concatenate([np.stack([a, m], axis=1), np.stack([m, b], axis=1)])
        return dataclasses.replace(mesh, vertices=vertices, cells=cells)
    a, b, c = mesh.cells.T
    ab, bc, ac = (offset + number).T
    children = [(a, ab, ac), (ab, b, bc), (ac, bc, c), (ab, bc, ac)]
    middle = offset + find_edges(edges, mesh.facets)
    halves = [(mesh.facets[:, 0], middle), (middle, mesh.facets[:, 1])]
    return dataclasses.replace(
        mesh,
        vertices=vertices,
        cells=np.concatenate([np.stack(child, axis=1) for child in children]),
        facets=np.concatenate([np.stack(half, axis=1) for half in halves]),
        facet_parts=np.tile(mesh.facet_parts, 2),
        centers=np.tile(mesh.centers, (2, 1)),
        radii=np.tile(mesh.radii, 2),
    )
