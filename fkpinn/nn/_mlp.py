"""The plain network."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._field import AbstractField, Directions, Taylor, Weights
from .._types import Scalar, SpaceTimePoint


class MLP(AbstractField):
    """A tanh network on inputs scaled to [-1, 1], times an output scale.

    Args:
        lower: smallest input on each axis.
        upper: largest input on each axis.
        widths: width of each hidden layer.
        frequencies: standard deviation of random Fourier features of the scaled inputs, which
            are added to them as sines and cosines; none by default.
        n_features: how many frequencies.
        output_scale: typical size of the solution; the network itself stays of order one.
        dtype: precision of the parameters.
        key: random key.
    """

    weights: list[Float[Array, "o i"]]
    biases: list[Float[Array, " o"]]
    features: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    center: tuple[float, ...] = eqx.field(static=True)
    half_width: tuple[float, ...] = eqx.field(static=True)
    output_scale: float = eqx.field(static=True)

    def __init__(
        self,
        lower: Sequence[float] | np.ndarray,
        upper: Sequence[float] | np.ndarray,
        widths: Sequence[int],
        *,
        frequencies: float | None = None,
        n_features: int = 16,
        output_scale: float = 1.0,
        dtype=None,
        key: PRNGKeyArray,
    ):
        if not widths or min(widths) < 1:
            raise ValueError(f"`widths` must be positive numbers of units; got {tuple(widths)}.")
        if frequencies is not None and not (0 < frequencies < math.inf and n_features > 0):
            raise ValueError(
                f"`frequencies` and `n_features` must be positive; got {frequencies}, {n_features}."
            )
        self.center = tuple((0.5 * np.add(lower, upper)).tolist())
        self.half_width = tuple((0.5 * np.subtract(upper, lower)).tolist())
        self.output_scale = float(output_scale)
        n_inputs = len(self.center)
        keys = jr.split(key, len(widths) + 2)
        self.features = ()
        if frequencies is not None:
            drawn = frequencies * jr.normal(keys[-1], (n_features, n_inputs))
            self.features = tuple(map(tuple, np.asarray(drawn, float).tolist()))
        sizes = (n_inputs + 2 * len(self.features), *widths, 1)
        dtype = jnp.dtype(dtype or jnp.result_type(float))
        self.weights, self.biases = [], []
        for fan_in, fan_out, k in zip(sizes, sizes[1:], keys, strict=False):
            spread = math.sqrt(2.0 / (fan_in + fan_out))  # Glorot
            self.weights.append(spread * jr.normal(k, (fan_out, fan_in), dtype))
            self.biases.append(jnp.zeros(fan_out, dtype))

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        dtype = self.weights[0].dtype
        h = (z.astype(dtype) - _like(self.center, dtype)) / _like(self.half_width, dtype)
        if self.features:
            phase = _like(self.features, dtype) @ h
            h = jnp.concatenate([h, jnp.sin(phase), jnp.cos(phase)])
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = jax.nn.tanh(weight @ h + bias)
        return self.output_scale * (self.weights[-1] @ h + self.biases[-1])[0]

    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value, slopes and curvature together, layer by layer: the forward Laplacian.

        Rows of `h` are the value, the slope along each direction, and the weighted sum of second
        derivatives. An affine layer acts on all rows alike.
        """
        dtype = self.weights[0].dtype
        omega = weights.astype(dtype)[:, None]
        half_width = _like(self.half_width, dtype)[None]
        at = (z.astype(dtype) - _like(self.center, dtype))[None] / half_width
        slopes = directions.astype(dtype) / half_width
        h = jnp.concatenate([at, slopes, jnp.zeros_like(at)])
        if self.features:
            h = _add_features(h, _like(self.features, dtype), omega)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = h @ weight.T
            value = jnp.tanh(h[:1] + bias[None])
            first = 1.0 - value**2
            slopes = h[1:-1]
            bend = first * (h[-1:] - 2.0 * value * jnp.sum(omega * slopes**2, 0, keepdims=True))
            h = jnp.concatenate([value, first * slopes, bend])
        out = self.output_scale * (h @ self.weights[-1].T)[:, 0]
        return Taylor(out[0] + self.output_scale * self.biases[-1][0], out[1:-1], out[-1])


def _add_features(h: Float[Array, "r i"], frequencies: Array, omega: Array) -> Float[Array, "r o"]:
    """The rows of the inputs, then those of the sines and cosines of their phases."""
    phase = h @ frequencies.T
    sine, cosine = jnp.sin(phase[:1]), jnp.cos(phase[:1])
    slopes, bend = phase[1:-1], phase[-1:]
    square = jnp.sum(omega * slopes**2, 0, keepdims=True)
    return jnp.concatenate(
        [
            h,
            jnp.concatenate([sine, cosine * slopes, cosine * bend - sine * square]),
            jnp.concatenate([cosine, -sine * slopes, -sine * bend - cosine * square]),
        ],
        axis=1,
    )


def _like(value, dtype) -> Array:
    return jnp.asarray(np.asarray(value), dtype)
