"""Many rows at once: means and their gradients in pieces that fit the cache."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._compute import current
from .._types import Scalar


def mean_square(at: Callable[[Any, Any], Scalar], u: Any, rows: Any) -> Scalar:
    """Mean of `at(u, row) ** 2`, see `mean`."""
    return mean(lambda v, row: at(v, row) ** 2, u, rows)


def mean(of: Callable[[Any, Any], Scalar], u: Any, rows: Any) -> Scalar:
    """Mean of `of(u, row)`; on processors with its gradient, piece by piece.

    Args:
        of: a number for one row.
        u: a network; its arrays are what gradients are taken of.
        rows: a pytree of arrays whose leading axis counts the rows.
    """
    n, chunk = jax.tree.leaves(rows)[0].shape[0], current().row_chunk
    if chunk is None or n <= 2 * chunk:
        return jnp.sum(jax.vmap(lambda row: of(u, row))(rows)) / n
    in_chunks = (n // chunk) * chunk
    arrays, static = eqx.partition(u, eqx.is_inexact_array)
    head = jax.tree.map(lambda a: a[:in_chunks].reshape(-1, chunk, *a.shape[1:]), rows)
    tail = jax.tree.map(lambda a: a[in_chunks:], rows)

    def share(arrays, some):
        v = eqx.combine(arrays, static)
        return jnp.sum(jax.vmap(lambda row: of(v, row))(some)) / n

    @jax.custom_vjp
    def value(arrays):
        sums = jax.lax.map(lambda some: share(arrays, some), head)
        return jnp.sum(sums) + share(arrays, tail)

    def forward(arrays):
        def add(carry, some):
            return jax.tree.map(jnp.add, carry, jax.value_and_grad(share)(arrays, some)), None

        carry = jax.value_and_grad(share)(arrays, tail)
        return jax.lax.scan(add, carry, head)[0]

    value.defvjp(forward, lambda slope, given: (jax.tree.map(lambda leaf: given * leaf, slope),))
    return value(arrays)


def each(at: Callable[[Any, Any], Scalar], u: Any, rows: Any) -> Float[Array, " n"]:
    """`at(u, row)` for every row."""
    n, chunk = jax.tree.leaves(rows)[0].shape[0], current().row_chunk
    if chunk is None or n <= 2 * chunk:
        return jax.vmap(lambda row: at(u, row))(rows)
    return jax.lax.map(lambda row: at(u, row), rows, batch_size=chunk)


def cast(tree: Any, dtype: Any) -> Any:
    """The same with every real array in the given precision."""
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, tree)
