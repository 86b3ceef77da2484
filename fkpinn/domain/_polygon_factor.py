"""A smooth function that vanishes on edges of a polygon, convex or not."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar
from ._base import like, safe_sqrt
from ._factor import both

_CLEAR_TURN = 0.7  # radians: with gentler corners, lines of neighbors run close to an edge


def polygon_factor(x: Point, corners: np.ndarray, named: np.ndarray, outside: bool) -> Scalar:
    r"""Positive inside (or outside), zero on the named edges, near them the distance.

    In a convex polygon with clear corners the lines of the edges combine. Otherwise each edge,
    seen from `x` under the angle $\gamma_i$ with its ends at the distances $r_i, r_{i+1}$, has
    $1/\psi_i = \tfrac12 (1/r_i + 1/r_{i+1}) \tan(\gamma_i/2)$, which is infinite on the edge, and
    zero on the rest of its line. All of them give $1 / \sum_i 1/\psi_i$, the normalization of
    mean value coordinates (Hormann and Floater 2006), positive inside and negative outside; some
    of them $(\ell^{-2} + \sum_i \psi_i^{-2})^{-1/2}$ with the diameter $\ell$, positive on both
    sides.

    Args:
        x: the point.
        corners: counterclockwise corners.
        named: whether each edge is named.
        outside: which side is positive.
    """
    if not outside and _has_clear_corners(corners):
        return both(_heights(x, corners)[np.flatnonzero(named)])
    height = -_heights(x, corners) if outside else _heights(x, corners)
    size = float(np.linalg.norm(np.ptp(corners, axis=0)))
    if not np.all(named):  # behind an edge by rounding is on it; behind it by more is far from it
        rounding = 64 * float(jnp.finfo(x.dtype).eps) * max(size, float(np.abs(corners).max()))
        height = jnp.where(height < -rounding, -height, height)
    top, bottom = _inverses(x, corners, height)
    top, bottom = top[np.flatnonzero(named)], bottom[np.flatnonzero(named)]
    on_edge = bottom == 0
    inverse = top / jnp.where(on_edge, 1.0, bottom)
    at = jnp.arange(len(top)) == jnp.argmax(jnp.where(on_edge, jnp.inf, jnp.abs(inverse)))
    others = jnp.where(at | on_edge, 0.0, inverse)
    top, bottom = (jnp.sum(jnp.where(at, v, 0.0)) for v in (top, bottom))
    if np.all(named):
        whole = top + bottom * jnp.sum(others)
    else:
        whole = safe_sqrt(top**2 + bottom**2 * (size**-2 + jnp.sum(others**2)))
    return bottom / jnp.where(whole == 0, 1.0, whole)  # zero at a corner


def _inverses(
    x: Point, corners: np.ndarray, height: Float[Array, " e"]
) -> tuple[Float[Array, " e"], Float[Array, " e"]]:
    r"""$1/\psi$ of each edge as a fraction, in the form of $\tan(\gamma/2)$ free of 0/0."""
    lengths = like(x, np.linalg.norm(_along(corners), axis=1))
    first = like(x, corners) - x[None]
    r = safe_sqrt(jnp.sum(first**2, axis=1))
    second, s = jnp.roll(first, -1, axis=0), jnp.roll(r, -1)
    dot, cross = jnp.sum(first * second, axis=1), lengths * height
    near = dot < 0  # within the disk that has the edge as a diameter
    top = (r + s) * jnp.where(near, r * s - dot, cross)
    return top, 2.0 * r * s * jnp.where(near, cross, r * s + dot)


def _heights(x: Point, corners: np.ndarray) -> Float[Array, " e"]:
    """Distance to the line of each edge, positive on the inner side."""
    along = _along(corners)
    inward = np.stack([-along[:, 1], along[:, 0]], axis=1)
    inward = inward / np.linalg.norm(along, axis=1, keepdims=True)
    return jnp.sum((x[None] - like(x, corners)) * like(x, inward), axis=1)


def _along(corners: np.ndarray) -> np.ndarray:
    return np.roll(corners, -1, axis=0) - corners


def _has_clear_corners(corners: np.ndarray) -> bool:
    along = _along(corners)
    direction = np.arctan2(along[:, 1], along[:, 0])
    turn = (direction - np.roll(direction, 1) + np.pi) % (2 * np.pi) - np.pi
    return bool(np.all(turn > _CLEAR_TURN))
