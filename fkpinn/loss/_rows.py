"""Many rows at once: means and their gradients in pieces that fit the cache."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float

from .._compute import OVER_DEVICES, current
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
    n = jax.tree.leaves(rows)[0].shape[0]
    if current().mesh is not None:
        own = lambda part, mine: jnp.sum(jnp.where(mine, jax.vmap(lambda row: of(u, row))(part), 0))
        return summed_over_devices(own, rows) / n
    chunk = _chunk(of, u, rows)
    if n <= 2 * chunk:
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
    n, chunk = jax.tree.leaves(rows)[0].shape[0], _chunk(at, u, rows)
    if n <= 2 * chunk:
        return jax.vmap(lambda row: at(u, row))(rows)
    return jax.lax.map(lambda row: at(u, row), rows, batch_size=chunk)


def _chunk(of: Callable[[Any, Any], Scalar], u: Any, rows: Any) -> int:
    """Rows of a piece: those that stay in a core's cache, or that an accelerator has memory for."""
    compute = current()
    if compute.row_chunk is not None:
        return compute.row_chunk
    return compute.rows_at_once(entries_of_a_row(of, u, rows))


def entries_of_a_row(of: Callable[[Any, Any], Scalar], u: Any, rows: Any) -> int:
    """Numbers that one row keeps until its derivatives by `u` are known, those of `u` included."""
    arrays, static = eqx.partition(u, eqx.is_inexact_array)
    at = lambda row: lambda arrays: of(eqx.combine(arrays, static), row)
    one = lambda arrays, row: jax.vjp(at(row), arrays)[1]
    kept = jax.eval_shape(one, arrays, jax.tree.map(lambda leaf: leaf[0], rows))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(kept))


def summed_over_devices(of: Callable[[Any, Array], Any], rows: Any) -> Any:
    """The sum of what every device makes of its own share of the rows.

    Args:
        of: of some rows, and of whether each of them is one: the last rows of a device may be there
            to fill it only.
        rows: a pytree of arrays whose leading axis counts the rows.
    """
    mesh, n = current().mesh, jax.tree.leaves(rows)[0].shape[0]
    assert mesh is not None
    lacking = -n % mesh.size
    fill = lambda leaf: jnp.concatenate([leaf, jnp.repeat(leaf[-1:], lacking, axis=0)])
    filled = jax.tree.map(fill, rows) if lacking else rows
    total = lambda part, mine: jax.lax.psum(of(part, mine), mesh.axis_names[0])
    run = jax.shard_map(
        total, mesh=mesh, in_specs=OVER_DEVICES, out_specs=PartitionSpec(), check_vma=False
    )
    return run(filled, jnp.arange(n + lacking) < n)


def cast(tree: Any, dtype: Any) -> Any:
    """The same with every real array in the given precision."""
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, tree)
