"""The plain network."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._compute import few_sizes, is_traced
from .._field import AbstractField, Directions, Layers, Taylor, Weights, product, taylor
from .._streams import fold
from .._types import Scalar, SpaceTimePoint
from ._size import Size


class Input(NamedTuple):
    """An additional input of a network: a function of one point, scaled to about [-1, 1].

    Args:
        function: a function of one point.
        center: middle of the range of its values.
        half_width: half-width of that range.
    """

    function: Callable[..., Any]
    center: float
    half_width: float


class MLP(AbstractField):
    """A tanh network on inputs scaled to [-1, 1], times an output scale.

    Args:
        lower: smallest input on each axis.
        upper: largest input on each axis.
        widths: width of each hidden layer.
        frequencies: standard deviation of random Fourier features of the scaled inputs, which are
            added to them as sines and cosines; or the frequencies themselves, one per row. None by
            default.
        n_features: number of frequencies that are drawn.
        further: additional inputs besides the coordinates, twice differentiable; constants to the
            compiler.
        output_scale: typical size of the solution; the network itself stays of order one. A
            number, or a function of the parameters of a family.
        dtype: precision of the parameters.
        key: random key.
    """

    weights: list[Float[Array, "o i"]]
    biases: list[Float[Array, " o"]]
    features: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    further: tuple[Input, ...] = eqx.field(static=True)
    center: tuple[float, ...] = eqx.field(static=True)
    half_width: tuple[float, ...] = eqx.field(static=True)
    output_scale: Size = eqx.field(static=True)

    def __init__(
        self,
        lower: Sequence[float] | np.ndarray,
        upper: Sequence[float] | np.ndarray,
        widths: Sequence[int],
        *,
        frequencies: float | Sequence[Sequence[float]] | None = None,
        n_features: int = 16,
        further: Sequence[Input] = (),
        output_scale: float | Size = 1.0,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        if not widths or min(widths) < 1:
            raise ValueError(f"`widths` must be positive numbers of units; got {tuple(widths)}.")
        self.center = tuple((0.5 * np.add(lower, upper)).tolist())
        self.half_width = tuple((0.5 * np.subtract(upper, lower)).tolist())
        given = isinstance(output_scale, Size)
        self.output_scale = output_scale if given else Size(float(output_scale))
        n_inputs = len(self.center)
        self.features = _features(frequencies, n_features, n_inputs, fold(key, "features"))
        self.further = tuple(further)
        sizes = (n_inputs + 2 * len(self.features) + len(self.further), *widths, 1)
        dtype = str(jnp.dtype(dtype or jnp.result_type(float)))
        self.weights, self.biases = _drawn(sizes, dtype, key)

    def scaled(self, factor: float | Size) -> "MLP":
        """By the last layer, and where parameters count by the size of the output."""
        if isinstance(factor, Size):
            changed = eqx.tree_at(lambda u: u.weights, self, self.weights)  # a copy
            object.__setattr__(changed, "output_scale", self.output_scale.times(factor))
            return changed
        last = lambda u: (u.weights[-1], u.biases[-1])
        return eqx.tree_at(last, self, tuple(factor * array for array in last(self)))

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        h = self._units(z)[-1]
        return self._scale(z) * (self.weights[-1] @ h + self.biases[-1])[0]

    def layers(self, z: SpaceTimePoint) -> Layers:
        """What goes into each layer, and the slope of the value by what comes out of it."""
        units = self._units(z)
        slope = jnp.full(1, self._scale(z), units[0].dtype)
        found = [(units[-1], slope)]
        for weight, below, at in zip(self.weights[:0:-1], units[-2::-1], units[:0:-1], strict=True):
            slope = (weight.T @ slope) * (1.0 - at**2)
            found.append((below, slope))
        return found[::-1]

    def _units(self, z: SpaceTimePoint) -> list[Array]:
        """What goes into each layer."""
        dtype = self.weights[0].dtype
        h = (z.astype(dtype) - _like(self.center, dtype)) / _like(self.half_width, dtype)
        if self.features:
            phase = _like(self.features, dtype) @ h
            h = jnp.concatenate([h, jnp.sin(phase), jnp.cos(phase)])
        if self.further:
            more = [(i.function(z) - i.center) / i.half_width for i in self.further]
            h = jnp.concatenate([h, jnp.stack(more).astype(dtype)])
        found = [h]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            found.append(jax.nn.tanh(weight @ found[-1] + bias))
        return found

    def _scale(self, z: SpaceTimePoint) -> float | Scalar:
        """What the output is multiplied by."""
        if self.output_scale.growth:
            return self.output_scale(z).astype(self.weights[0].dtype)
        return self.output_scale.typical

    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value, slopes and curvature together, layer by layer: the forward Laplacian.

        An affine layer acts on all three alike, and they stay apart: joined in one array they
        would be copied at every layer.
        """
        dtype = self.weights[0].dtype
        half_width = _like(self.half_width, dtype)
        at = _Rows(
            (z.astype(dtype) - _like(self.center, dtype)) / half_width,
            directions.astype(dtype) / half_width[None],
            jnp.zeros_like(half_width),
        )
        omega = weights.astype(dtype)[:, None]
        if self.features:
            at = _add_features(at, _like(self.features, dtype), omega)
        more = [_scaled(i, taylor(i.function, z, directions, weights), dtype) for i in self.further]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            into = _affine(weight, bias, at, more)
            value = jnp.tanh(into.value)
            first = 1.0 - value**2
            bend = into.bend - 2.0 * value * jnp.sum(omega * into.slopes**2, 0)
            at, more = _Rows(value, first[None] * into.slopes, first * bend), []
        size = self.output_scale
        scale = 1.0 if size.growth else size.typical
        last = scale * self.weights[-1][0]
        value = jnp.dot(last, at.value) + scale * self.biases[-1][0]
        plain = Taylor(value, at.slopes @ last, jnp.dot(last, at.bend))
        if not size.growth:
            return plain
        own = taylor(lambda z: size(z), z, directions, weights)
        return product(Taylor(*(part.astype(dtype) for part in own)), plain, weights.astype(dtype))


def _drawn(sizes: tuple[int, ...], dtype: str, key: PRNGKeyArray) -> tuple[list, list]:
    """Weights as Glorot has them, and biases of zero."""
    weights, biases = [], []
    for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        spread = math.sqrt(2.0 / (fan_in + fan_out))
        drawn = _normals(fold(key, "layer", layer), (fan_out, fan_in), dtype)
        weights.append(jax.device_put(spread * drawn))
        biases.append(jax.device_put(np.zeros(fan_out, dtype)))
    return weights, biases


def _normals(key: PRNGKeyArray, shape: tuple[int, int], dtype: str) -> Array | np.ndarray:
    """What `jax.random.normal` draws, which is a function of the place; compiled for few sizes."""
    if is_traced(key):
        return jax.lax.optimization_barrier(jr.normal(key, shape, dtype))  # rounded as apart
    n = shape[0] * shape[1]
    return np.asarray(jr.normal(key, (few_sizes(n),), dtype))[:n].reshape(shape)


class _Rows(NamedTuple):
    """What a layer passes on: values, slopes along each direction, weighted second derivatives."""

    value: Float[Array, " i"]
    slopes: Float[Array, "q i"]
    bend: Float[Array, " i"]


def _add_features(at: _Rows, frequencies: Array, omega: Array) -> _Rows:
    """The inputs, then the sines and cosines of their phases."""
    phase, slopes, bend = frequencies @ at.value, at.slopes @ frequencies.T, frequencies @ at.bend
    sine, cosine = jnp.sin(phase), jnp.cos(phase)
    square = jnp.sum(omega * slopes**2, 0)
    return _Rows(
        jnp.concatenate([at.value, sine, cosine]),
        jnp.concatenate([at.slopes, cosine[None] * slopes, -sine[None] * slopes], axis=1),
        jnp.concatenate([at.bend, cosine * bend - sine * square, -sine * bend - cosine * square]),
    )


def _scaled(given: Input, its: Taylor, dtype: DTypeLike) -> Taylor:
    """A further input and its derivatives, scaled."""
    width = given.half_width
    scaled = (its.value - given.center) / width, its.slopes / width, its.curvature / width
    return Taylor(*(part.astype(dtype) for part in scaled))


def _affine(weight: Array, bias: Array, at: _Rows, more: list[Taylor]) -> _Rows:
    """The first part of a layer; further inputs come after the others.

    Their share is added on its own: slopes of coordinates are the same at all points, and what they
    come to is computed once for all of these.
    """
    n = at.value.shape[0]
    own = weight[:, :n] if more else weight
    value, slopes, bend = own @ at.value + bias, at.slopes @ own.T, own @ at.bend
    for k, its in enumerate(more):
        column = weight[:, n + k]
        value, bend = value + its.value * column, bend + its.curvature * column
        slopes = slopes + its.slopes[:, None] * column[None]
    return _Rows(value, slopes, bend)


def _features(
    given: float | Sequence[Sequence[float]] | None, n: int, n_inputs: int, key: PRNGKeyArray
) -> tuple[tuple[float, ...], ...]:
    """The frequencies: as given, or drawn with the given standard deviation."""
    if given is None:
        return ()
    if isinstance(given, (int, float)):
        if not (0 < given < math.inf and n > 0):
            raise ValueError(f"`frequencies` and `n_features` must be positive; got {given}, {n}.")
        rows = np.asarray(given * jr.normal(key, (n, n_inputs)), float)
    else:
        rows = np.asarray(given, float)
        if rows.shape[1:] != (n_inputs,) or not np.all(np.isfinite(rows)):
            raise ValueError(
                f"`frequencies` must be finite and have one row of {n_inputs} numbers each; got "
                f"shape {rows.shape}."
            )
    return tuple(map(tuple, rows.tolist()))


def _like(value, dtype) -> Array:
    return jnp.asarray(np.asarray(value), dtype)
