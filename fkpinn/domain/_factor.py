"""Smooth functions that vanish on a boundary: how those of pieces combine."""

from collections.abc import Collection

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import Scalar


def both(values: Float[Array, " c"]) -> Scalar:
    r"""For the intersection: $1 / \sum_i 1/\phi_i$ where all are positive, else the least.

    Rational, so smooth wherever two values do not vanish together; next to a zero of one value
    it is that value to first order. A product of the values divided by it is smooth even at a
    corner, which a network next to a right angle needs.
    """
    return _entry(values, _is_least(values)) / jnp.sum(inverse_shares(values))


def either(values: Float[Array, " c"]) -> Scalar:
    r"""For the union: $(\sum_i \max(\phi_i, 0)^4)^{1/4}$ where one is positive, else the largest.

    Three times differentiable in the open union, also where a boundary or a corner of one set
    is hidden inside another.
    """
    at = _is_least(-values)
    most = _entry(values, at)
    ratio = jnp.maximum(values, 0.0) / jnp.where(most > 0, most, 1.0)
    return most * (1.0 + jnp.sum(jnp.where(at | (most <= 0), 0.0, ratio) ** 4)) ** 0.25


def inverse_shares(values: Float[Array, " c"]) -> Float[Array, " c"]:
    """Inverse of each value, in units of the largest inverse; finite where a value is zero.

    One at the least value, which may be zero or (outside, or by rounding) negative; the others
    are then zero.
    """
    at = _is_least(values)
    least = _entry(values, at)
    ratio = least / jnp.where(values > 0, values, 1.0)
    return jnp.where(at, 1.0, jnp.where(least > 0, ratio, jnp.zeros_like(values)))


def require_all(parts: tuple[str, ...], named: Collection[str]) -> None:
    """Raise unless all parts of a union are named."""
    left = tuple(part for part in parts if part not in named)
    if left:
        here = tuple(part for part in parts if part in named)
        raise ValueError(
            f"`parts` names {here} but not {left}, and these parts bound a union (or difference) "
            f"of sets: no smooth factor vanishes on the former and not on the latter. Name all of "
            f"them, or impose this condition by a boundary term of the loss."
        )


def _is_least(values: Float[Array, " c"]) -> Bool[Array, " c"]:
    """True at the least entry, the first of them if there are several."""
    return jnp.arange(values.shape[0]) == jnp.argmin(values)


def _entry(values: Float[Array, " c"], at: Bool[Array, " c"]) -> Scalar:
    return jnp.sum(jnp.where(at, values, 0.0))
