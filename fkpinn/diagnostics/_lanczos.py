"""Eigenvalues of large symmetric matrices from products with vectors."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._streams import fold_each


class Ritz(NamedTuple):
    """Approximate eigenvalues, ascending, the share of the start vector on each, and vectors."""

    values: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]
    vectors: Float[Array, "k p"]


def lanczos(product: Callable[[Array], Array], dim: int, steps: int, *, key: PRNGKeyArray) -> Ritz:
    """Lanczos' method with full orthogonalization, from a random start.

    The ends of the spectrum come first: the largest eigenvalues are exact to many digits after some
    dozens of steps, small ones among many never. With as many steps as dimensions all are exact.

    Args:
        product: the matrix times a vector.
        dim: length of the vectors.
        steps: products to take, at most `dim`.
        key: of the start, and of new starts where a subspace is used up.
    """
    if not 1 <= steps:
        raise ValueError(f"`steps` must be at least 1; got {steps}.")
    steps = min(steps, dim)
    diagonal, off, basis = _tridiagonal(product, dim, steps, key)
    matrix = np.diag(np.asarray(diagonal))
    off = np.asarray(off)[: steps - 1]
    matrix += np.diag(off, 1) + np.diag(off, -1)
    values, inner = np.linalg.eigh(matrix)
    return Ritz(values, inner[0] ** 2, jnp.asarray(inner.T) @ basis)


@eqx.filter_jit
def _tridiagonal(product: Callable, dim: int, steps: int, key: PRNGKeyArray):
    starts = jr.normal(key, (steps, dim))
    first = starts[0] / jnp.linalg.norm(starts[0])
    basis = jnp.zeros((steps, dim)).at[0].set(first)
    tiny = 1e-12

    def step(k, carry):
        basis, diagonal, off, size = carry
        at = basis[k]
        new = product(at)
        size = jnp.maximum(size, jnp.linalg.norm(new))
        alpha = at @ new
        new = _orthogonal(new, basis)
        beta = jnp.linalg.norm(new)
        lost = beta <= tiny * size  # the subspace is used up: go on in another one
        fresh = _orthogonal(starts[(k + 1) % steps], basis)
        new = jnp.where(lost, fresh / jnp.linalg.norm(fresh), new / jnp.where(lost, 1.0, beta))
        basis = jnp.where(k + 1 < steps, basis.at[(k + 1) % steps].set(new), basis)
        return basis, diagonal.at[k].set(alpha), off.at[k].set(jnp.where(lost, 0.0, beta)), size

    zeros = jnp.zeros(steps)
    basis, diagonal, off, _ = jax.lax.fori_loop(0, steps, step, (basis, zeros, zeros, 0.0))
    return diagonal, off, basis


def _orthogonal(v: Array, basis: Array) -> Array:
    """`v` without its parts along the basis, whose rows may be zero; twice is enough."""
    for _ in range(2):
        v = v - (basis @ v) @ basis
    return v


def spectral_density(
    product: Callable[[Array], Array],
    dim: int,
    *,
    steps: int = 80,
    probes: int = 8,
    key: PRNGKeyArray,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Stochastic Lanczos quadrature: where eigenvalues lie, and the share of them there.

    Args:
        product: the matrix times a vector.
        dim: length of the vectors.
        steps: products for each random start.
        probes: random starts.
        key: of the starts.

    Returns:
        Nodes, ascending, and their weights, which add up to 1.
    """
    if probes < 1:
        raise ValueError(f"`probes` must be at least 1; got {probes}.")
    found = [lanczos(product, dim, steps, key=k) for k in fold_each(key, "probe", probes)]
    values = np.concatenate([ritz.values for ritz in found])
    weights = np.concatenate([ritz.weights for ritz in found]) / probes
    order = np.argsort(values)
    return values[order], weights[order]
