"""The loss over a plane of parameters around a network."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from .._streams import fold, fold_each
from ._curvature import Curvature, Vector
from ._lanczos import lanczos


class Landscape(NamedTuple):
    """Losses at the nodes of a square grid; the network is in the middle.

    `loss[i, j]` is at `reach[i]` times the first direction plus `reach[j]` times the second.
    """

    reach: Float[np.ndarray, " k"]
    loss: Float[np.ndarray, "k k"]
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """As a plain record."""
        return {"kind": self.kind, "reach": self.reach.tolist(), "loss": self.loss.tolist()}

    @property
    def roughness(self) -> float:
        """Deviation from convexity: fraction of negative second differences of the log loss."""
        log = np.log(np.maximum(self.loss, np.finfo(float).tiny))
        second = [np.diff(log, 2, axis=axis).ravel() for axis in (0, 1)]
        return float(np.mean(np.concatenate(second) < 0))


def random_directions(network: Any, *, key: PRNGKeyArray) -> tuple[Vector, Vector]:
    """Two random directions, normalized row by row to the network's own weights.

    Each row of a weight matrix (a filter) of the direction has the length of the network's, so that
    steps of the same length mean the same for networks of different scale; biases stay where they
    are (Li et al., 2018).

    Args:
        network: the middle of the plane.
        key: of the directions.
    """

    def normalized(leaf: Array, key: PRNGKeyArray) -> Array:
        if leaf.ndim < 2:
            return jnp.zeros_like(leaf)
        noise = jr.normal(key, leaf.shape, leaf.dtype)
        norms = lambda a: jnp.linalg.norm(a, axis=-1, keepdims=True)
        return noise * norms(leaf) / norms(noise)

    arrays = eqx.filter(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    found = []
    for number in range(2):
        keys = fold_each(fold(key, "direction", number), "array", len(leaves))
        rows = [normalized(a, k) for a, k in zip(leaves, keys, strict=True)]
        found.append(ravel_pytree(jax.tree.unflatten(tree, rows))[0])
    return found[0], found[1]


def top_directions(
    curvature: Curvature, *, steps: int = 60, key: PRNGKeyArray
) -> tuple[Vector, Vector]:
    """The two directions of largest curvature, as long as the parameters themselves.

    Args:
        curvature: the loss at the network.
        steps: of Lanczos' method on the Hessian.
        key: of its start.
    """
    p = len(curvature.parameters)
    found = lanczos(curvature.hessian_product, p, steps, key=key)
    length = jnp.linalg.norm(curvature.parameters)
    return length * found.vectors[-1], length * found.vectors[-2]


def landscape(
    curvature: Curvature,
    directions: Sequence[Vector],
    *,
    reach: float = 1.0,
    n: int = 51,
    kind: str = "",
) -> Landscape:
    """The loss on a square grid around a network.

    Args:
        curvature: the loss at the network.
        directions: two vectors, with the length of one step of `reach` 1.
        reach: extent of the grid to both sides.
        n: nodes per side, odd, so that the network is one of them.
        kind: what the directions are, for the record.
    """
    if n < 3 or n % 2 == 0:
        raise ValueError(f"`n` must be odd and at least 3; got {n}.")
    if not reach > 0:
        raise ValueError(f"`reach` must be positive; got {reach}.")
    if len(directions) != 2 or any(d.shape != curvature.parameters.shape for d in directions):
        raise ValueError(
            f"`directions` must be two vectors of {len(curvature.parameters)} parameters; got "
            f"shapes {[d.shape for d in directions]}."
        )
    steps = jnp.linspace(-reach, reach, n)
    first, second = jnp.meshgrid(steps, steps, indexing="ij")
    nodes = jnp.stack([first.ravel(), second.ravel()], axis=1)
    found = _losses(curvature, jnp.stack(list(directions)), nodes)
    return Landscape(np.asarray(steps), np.asarray(found).reshape(n, n), kind)


@eqx.filter_jit
def _losses(curvature: Curvature, plane: Float[Array, "2 p"], nodes: Float[Array, "m 2"]) -> Array:
    # one node after the other: its points fill the machine
    at = lambda node: 0.5 * curvature.objective(curvature.parameters + node @ plane)
    return jax.lax.map(at, nodes)
