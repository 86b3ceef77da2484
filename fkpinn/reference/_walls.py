"""Integrals over a reflecting part of the boundary."""

import numpy as np

from ._locate import shape_functions

_POINTS = 4  # Gauss points an edge: exact for degree 7


class Wall:
    """Quadrature on boundary facets, which are curved like the elements behind them.

    Args:
        nodes: `(N, d)` of the whole space.
        facets: `(f, k)` node numbers: start, end and middle of an edge; one point in 1-D.
    """

    def __init__(self, nodes: np.ndarray, facets: np.ndarray):
        self.facets = facets
        if nodes.shape[1] == 1:  # a point: its value is the integral
            self.shape, weights, self.points = (
                np.ones((1, 1)),
                np.ones((len(facets), 1)),
                nodes[facets],
            )
        else:
            t, w = np.polynomial.legendre.leggauss(_POINTS)
            self.shape, slope = shape_functions(0.5 * (t + 1.0)[:, None])
            self.points = np.einsum("qk,fkj->fqj", self.shape, nodes[facets])
            along = np.einsum("qk,fkj->fqj", slope[:, :, 0], nodes[facets])
            weights = 0.5 * w * np.linalg.norm(along, axis=2)
        self.weights = weights

    def rows(self) -> np.ndarray:
        """Quadrature points, one per row."""
        return self.points.reshape(-1, self.points.shape[2])

    def entries(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and value of the entries of `∮ alpha u v`, in node numbers."""
        weighed = self.weights * alpha.reshape(self.weights.shape)
        values = np.einsum("fq,qi,qj->fij", weighed, self.shape, self.shape)
        rows = np.broadcast_to(self.facets[:, :, None], values.shape)
        columns = np.broadcast_to(self.facets[:, None, :], values.shape)
        return rows.ravel(), columns.ravel(), values.ravel()

    def load(self, flux: np.ndarray, n_nodes: int) -> np.ndarray:
        """`∮ flux v` for the function `v` of every node."""
        weighed = self.weights * flux.reshape(self.weights.shape)
        values = np.einsum("fq,qi->fi", weighed, self.shape)
        return np.bincount(self.facets.ravel(), values.ravel(), minlength=n_nodes)
