"""The residual loss of the `poisson` problem in fkpinn: its own way, and by `jax.hessian`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from fkpinn.loss import ResidualTerm
from fkpinn.loss._rows import mean_square
from fkpinn.nn import MLP
from fkpinn.problem import catalogue, residual_by_hessian
from fkpinn.sampling import sobol_interior


def network(width: int, depth: int) -> MLP:
    """A tanh network in float32 whose inputs are left as they are, as in the other codes."""
    return MLP([-1.0, -1.0], [1.0, 1.0], [width] * depth, dtype=np.float32, key=jr.key(0))


def interior(n: int) -> np.ndarray:
    """The first `n` Sobol points of the square, in float32."""
    return np.asarray(sobol_interior(catalogue("poisson").problem, n), np.float32)


def losses() -> dict[str, Callable[[MLP, Any], Any]]:
    """Mean square of the residual: ours; by `jax.hessian`; by that in pieces that fit the cache."""
    problem = catalogue("poisson").problem

    def by_hessian(u, points):
        return jnp.mean(jax.vmap(lambda z: residual_by_hessian(problem, u, z))(points) ** 2)

    def in_pieces(u, points):
        return mean_square(lambda v, z: residual_by_hessian(problem, v, z), u, points)

    ours = lambda u, points: ResidualTerm(problem, points)(u)
    return {"fkpinn": ours, "hessian": by_hessian, "hessian_in_pieces": in_pieces}


def flat(u: MLP) -> np.ndarray:
    """The parameters, or their gradient: weights and bias of each layer in turn."""
    layers = zip(u.weights, u.biases, strict=True)
    return np.concatenate([np.asarray(jax.device_get(a)).ravel() for pair in layers for a in pair])


def gradient_flops(u: MLP, n_points: int) -> int:
    """Multiplications and additions of the layers in one gradient of the residual loss.

    A point has a value, a slope along each axis and a curvature; each of these rows goes through
    every layer forward, and twice as much is done on the way back. What tanh costs is left out.
    """
    rows = 1 + u.weights[0].shape[1] + 1
    forward = sum(2 * rows * weight.size for weight in u.weights)
    return 3 * forward * n_points
