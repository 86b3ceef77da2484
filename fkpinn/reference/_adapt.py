"""Sizes for the next mesh, from what a solution shows: small where it bends strongly."""

import numpy as np

from ._p2 import P2Space
from ._size import GROWTH, Background

_NEIGHBORS = 8
_SWEEPS = 40
_FINEST = 1 / 16  # smallest size over the old one
_MORE = 2.0  # elements of the next mesh over those of this one


def adapted(coarse: P2Space, fine: P2Space, field: np.ndarray) -> Background:
    """Sizes that spread the local error evenly over the elements.

    The error is seen in what the fine solution has beyond its quadratic interpolant on the
    coarse elements. In the energy norm it falls as the third power of the size when the
    number of elements in the plane is counted in, hence the exponent.

    Args:
        coarse: a space.
        fine: the space on the mesh cut in half; its first nodes are those of `coarse`.
        field: solution at the nodes of `fine`.
    """
    n = len(coarse.nodes)
    one = np.ones((len(fine.nodes), 1))
    seen, _, _ = coarse.evaluate(fine.nodes, field[None, :n], np.zeros(one.shape, int), one)
    surplus = np.max(np.abs(field - seen)[fine.elements], axis=1)
    corners = fine.nodes[fine.cells]
    areas = 0.5 * np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    size = 2.0 * np.sqrt(areas / np.sqrt(3 / 16))  # of the coarse element around
    surplus = np.maximum(surplus, 1e-12 * np.max(np.abs(field)) + 1e-300)
    low, high = np.log(surplus.min()), np.log(surplus.max())
    shrink = np.ones(len(size))
    for _ in range(50):  # bisection for the error an element that gives the number wanted
        middle = 0.5 * (low + high)
        shrink = np.clip((np.exp(middle) / surplus) ** (1 / 3), _FINEST, 1.0)
        many = np.sum(areas / (shrink * size) ** 2) > _MORE * np.sum(areas / size**2)
        low, high = (middle, high) if many else (low, middle)
    return Background(corners.mean(axis=1), _graded(corners.mean(axis=1), shrink * size))


def _graded(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Sizes lowered until they grow no faster than meshes can."""
    from scipy.spatial import KDTree

    distance, neighbor = KDTree(x).query(x, k=min(_NEIGHBORS, len(x)))
    for _ in range(_SWEEPS):
        lowered = np.minimum(size, np.min(size[neighbor] + GROWTH * distance, axis=1))
        if np.array_equal(lowered, size):
            break
        size = lowered
    return size
