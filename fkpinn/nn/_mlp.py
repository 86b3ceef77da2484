"""The plain network."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Scalar, SpaceTimePoint


class MLP(eqx.Module):
    """A tanh network on inputs scaled to [-1, 1], times an output scale.

    Args:
        lower: smallest input on each axis.
        upper: largest input on each axis.
        widths: width of each hidden layer.
        output_scale: typical size of the solution; the network itself stays of order one.
        dtype: precision of the parameters.
        key: random key.
    """

    weights: list[Float[Array, "o i"]]
    biases: list[Float[Array, " o"]]
    center: tuple[float, ...] = eqx.field(static=True)
    half_width: tuple[float, ...] = eqx.field(static=True)
    output_scale: float = eqx.field(static=True)

    def __init__(
        self,
        lower: Sequence[float] | np.ndarray,
        upper: Sequence[float] | np.ndarray,
        widths: Sequence[int],
        *,
        output_scale: float = 1.0,
        dtype=None,
        key: PRNGKeyArray,
    ):
        if not widths or min(widths) < 1:
            raise ValueError(f"`widths` must be positive numbers of units; got {tuple(widths)}.")
        self.center = tuple((0.5 * np.add(lower, upper)).tolist())
        self.half_width = tuple((0.5 * np.subtract(upper, lower)).tolist())
        self.output_scale = float(output_scale)
        sizes = (len(self.center), *widths, 1)
        dtype = jnp.dtype(dtype or jnp.result_type(float))
        keys = jr.split(key, len(sizes) - 1)
        self.weights, self.biases = [], []
        for fan_in, fan_out, k in zip(sizes, sizes[1:], keys, strict=False):
            spread = math.sqrt(2.0 / (fan_in + fan_out))  # Glorot
            self.weights.append(spread * jr.normal(k, (fan_out, fan_in), dtype))
            self.biases.append(jnp.zeros(fan_out, dtype))

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        dtype = self.weights[0].dtype
        h = (z.astype(dtype) - jnp.asarray(self.center, dtype)) / jnp.asarray(
            self.half_width, dtype
        )
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = jax.nn.tanh(weight @ h + bias)
        return self.output_scale * (self.weights[-1] @ h + self.biases[-1])[0]
