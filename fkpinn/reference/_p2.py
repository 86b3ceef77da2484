"""Piecewise quadratic fields on intervals and on triangles, curved ones included."""

import dataclasses
from functools import cached_property

import numpy as np

from ._cells import Mesh, edge_middles, edges_of
from ._locate import Locator, jacobians, shape_functions

_CHUNK = 1 << 15


@dataclasses.dataclass(frozen=True)
class P2Space:
    """Nodes (vertices, then middles of edges) and the nodes of each element.

    Attributes:
        nodes: `(N, d)`.
        cells: `(m, d + 1)` vertices of the elements.
        elements: `(m, 3)` in 1-D and `(m, 6)` in 2-D: vertices, then edges (0, 1), (1, 2), (0, 2).
        curved: `(m,)`, whether an edge of the element is not straight.
    """

    nodes: np.ndarray
    cells: np.ndarray
    elements: np.ndarray
    curved: np.ndarray

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.nodes.shape[1]

    @property
    def n_vertices(self) -> int:
        """How many nodes are vertices; they come first."""
        return int(self.cells.max()) + 1

    @cached_property
    def locator(self) -> Locator:
        """Finds the element of a point."""
        return Locator(self.nodes, self.elements, self.curved)

    def rms(self, field: np.ndarray) -> float:
        """Root mean square over the domain of a field given at the nodes."""
        corners = self.nodes[self.cells]
        areas = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
        # exact for quadratic functions: middles of edges in 2-D, Simpson's rule in 1-D
        rule = np.array([0, 0, 0, 1, 1, 1]) / 3 if self.dim == 2 else np.array([1, 1, 4]) / 6
        mean = np.sum(areas * (field[self.elements] ** 2 @ rule)) / np.sum(areas)
        return float(np.sqrt(mean))

    def evaluate(
        self, x: np.ndarray, fields: np.ndarray, which: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values and gradients at points, where each point may combine fields in its own way.

        Args:
            x: `(n, d)` points.
            fields: `(k, N)` values at the nodes.
            which: `(n, c)` numbers of the fields to combine at each point.
            weights: `(n, c)` and how much of each.

        Returns:
            Values `(n,)`, gradients `(n, d)`, and whether each point is outside `(n,)`.
        """
        values, slopes = np.empty(len(x)), np.empty(x.shape)
        outside = np.empty(len(x), bool)
        for i in range(0, len(x), _CHUNK):
            here = slice(i, i + _CHUNK)
            element, local, outside[here] = self.locator.find(x[here])
            nodes = self.elements[element]
            picked = fields[which[here][:, :, None], nodes[:, None, :]]
            at_nodes = np.einsum("nc,nck->nk", weights[here], picked)
            shape, slope = shape_functions(local)
            values[here] = np.einsum("nk,nk->n", shape, at_nodes)
            along = np.einsum("nkj,nk->nj", slope, at_nodes)
            matrix = jacobians(self.nodes[nodes], slope)
            slopes[here] = np.linalg.solve(matrix, along[:, :, None])[:, :, 0]
        return values, slopes, outside


def space_of(mesh: Mesh) -> P2Space:
    """The quadratic space on a mesh; boundary edges on circles are curved."""
    edges, _ = edges_of(mesh.cells)
    return build_space(mesh.vertices, mesh.cells, edge_middles(mesh, edges))


def build_space(vertices: np.ndarray, cells: np.ndarray, middles: np.ndarray) -> P2Space:
    """The quadratic space from its vertices, cells and middles of edges."""
    edges, number = edges_of(cells)
    straight = np.mean(vertices[edges], axis=1)
    length = np.linalg.norm(vertices[edges[:, 1]] - vertices[edges[:, 0]], axis=1)
    bent = np.linalg.norm(middles - straight, axis=1) > 1e-12 * length
    elements = np.concatenate([cells, len(vertices) + number], axis=1)
    nodes = np.concatenate([vertices, middles])
    space = P2Space(nodes, cells, elements, np.any(bent[number], axis=1))
    _check_curved(space)
    return space


def _check_curved(space: P2Space) -> None:
    """A curved edge must not fold its triangle."""
    if not np.any(space.curved):
        return
    curved = space.elements[space.curved]
    corners = np.array([[0, 0], [1, 0], [0, 1], [0.5, 0], [0.5, 0.5], [0, 0.5]])
    for local in corners:
        _, slope = shape_functions(np.tile(local, (len(curved), 1)))
        folded = np.linalg.det(jacobians(space.nodes[curved], slope)) <= 0
        if np.any(folded):
            raise ValueError(
                f"`h` is too large for the curved boundary: {np.count_nonzero(folded)} triangles "
                f"are inverted. Try half of this value."
            )
