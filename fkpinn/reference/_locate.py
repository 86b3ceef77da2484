"""Which element a point lies in, and where in it."""

import numpy as np

_STAGES = (3, 12, 60)  # nearest elements to try; later numbers for points not found before
_INSIDE = -1e-9
_SLACK = 1e-5  # of the diameter: points drawn in single precision still count as inside
_CURVE_SLACK = 1e-3  # of an element: a quadratic edge differs a little from its circle
_NEWTON = 6


def shape_functions(local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quadratic shape functions `(n, k)` and their derivatives `(n, k, d)` in an element."""
    last = 1.0 - np.sum(local, axis=1)
    corner = np.concatenate([last[:, None], local], axis=1)
    d = local.shape[1]
    slope = np.concatenate([-np.ones((1, d)), np.eye(d)])
    values = list((corner * (2.0 * corner - 1.0)).T)
    slopes = [(4.0 * corner[:, k : k + 1] - 1.0) * slope[k] for k in range(d + 1)]
    for i, j in [(0, 1), (1, 2), (0, 2)] if d == 2 else [(0, 1)]:
        a, b = corner[:, i : i + 1], corner[:, j : j + 1]
        values.append(4.0 * (a * b)[:, 0])
        slopes.append(4.0 * (a * slope[j] + b * slope[i]))
    return np.stack(values, axis=1), np.stack(slopes, axis=1)


def jacobians(nodes: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Derivative of the position, `(n, i, j)`: of coordinate `j` along local axis `i`."""
    return np.einsum("nki,nkj->nij", slope, nodes)


class Locator:
    """Finds elements by their nearest centers.

    Args:
        nodes: `(N, d)`.
        elements: `(m, k)` node numbers, vertices first.
        curved: `(m,)`, whether an element needs Newton's method.
    """

    def __init__(self, nodes: np.ndarray, elements: np.ndarray, curved: np.ndarray):
        from scipy.spatial import KDTree

        self.nodes, self.elements, self.curved = nodes, elements, curved
        d = nodes.shape[1]
        corners = nodes[elements[:, : d + 1]]
        self._first = corners[:, 0]
        self._inverse = np.linalg.inv(corners[:, 1:] - corners[:, :1])
        # distance from a side to the corner opposite is one over the slope of its coordinate
        slopes = np.concatenate(
            [-self._inverse.sum(axis=2)[:, None], self._inverse.swapaxes(1, 2)], 1
        )
        self._heights = 1.0 / np.linalg.norm(slopes, axis=2)
        self._tree = KDTree(corners.mean(axis=1))
        self._slack = _SLACK * float(np.linalg.norm(np.ptp(nodes, axis=0)))

    def find(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Element `(n,)` and place in it `(n, d)` of each point, and whether it is outside `(n,)`.

        Points between a curved element and the circle it stands for get the nearest element.
        """
        element = np.zeros(len(x), int)
        local = np.zeros_like(x)
        depth = np.full(len(x), -np.inf)
        left = np.arange(len(x))
        for stage in _STAGES:
            k = min(stage, len(self.elements))
            candidates = self._tree.query(x[left], k=k)[1].reshape(len(left), k)
            place = self._places(x[left], candidates)
            depths = np.minimum(place.min(axis=2), 1.0 - place.sum(axis=2))
            best = np.argmax(depths, axis=1)
            row = np.arange(len(left))
            element[left], local[left] = candidates[row, best], place[row, best]
            depth[left] = depths[row, best]
            left = left[depth[left] < _INSIDE]
            if len(left) == 0 or k == len(self.elements):
                break
        outside = np.zeros(len(x), bool)
        if len(left):
            bary = np.concatenate([1.0 - local[left].sum(axis=1, keepdims=True), local[left]], 1)
            heights = self._heights[element[left]]
            beyond = np.max(-bary * heights, axis=1)
            allowed = self._slack + _CURVE_SLACK * self.curved[element[left]] * heights.min(axis=1)
            outside[left] = beyond > allowed
        return element, local, outside

    def _places(self, x: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        away = x[:, None] - self._first[candidates]
        place = np.einsum("nci,ncij->ncj", away, self._inverse[candidates])
        depths = np.minimum(place.min(axis=2), 1.0 - place.sum(axis=2))
        row, column = np.nonzero(self.curved[candidates] & (depths > -0.3))
        if len(row):
            bent = candidates[row, column]
            place[row, column] = self._newton(x[row], bent, place[row, column])
        return place

    def _newton(self, x: np.ndarray, element: np.ndarray, local: np.ndarray) -> np.ndarray:
        nodes = self.nodes[self.elements[element]]
        for _ in range(_NEWTON):
            shape, slope = shape_functions(local)
            miss = x - np.einsum("nk,nkj->nj", shape, nodes)
            matrix = jacobians(nodes, slope).swapaxes(1, 2)
            local = local + np.linalg.solve(matrix, miss[:, :, None])[:, :, 0]
        return local
