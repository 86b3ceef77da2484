"""Functions of one point that provide their own derivatives."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._types import Scalar, SpaceTimePoint

Directions = Float[Array, "q z"]
Weights = Float[Array, " q"]
Layers = list[tuple[Array, Array]]  # what goes into each, and the slope by what comes out


class Taylor(NamedTuple):
    r"""Value, slopes along directions $c_k$, and $\sum_k \omega_k\, c_k^\top D^2u\, c_k$."""

    value: Scalar
    slopes: Float[Array, " q"]
    curvature: Scalar


class AbstractField(eqx.Module):
    """A function of one point with fast derivatives, for example a network."""

    @abc.abstractmethod
    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""

    @abc.abstractmethod
    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value and derivatives along the directions, in one forward pass."""

    def layers(self, z: SpaceTimePoint) -> Layers | None:
        """The input `a` of each layer, and the slope `b` of the value by what comes out of it.

        The derivatives of the value by weights and biases are `outer(b, a)` and `b`, and there are
        no other parameters. None if the field is not made of layers.
        """
        del z
        return None

    def scaled(self, factor: Any) -> "AbstractField | None":
        """The same with what is not given by data so many times as large; None if it cannot.

        The factor is a number, or a `Size`, a function of the parameters.
        """
        return None


def taylor(
    u: Callable[..., Any], z: SpaceTimePoint, directions: Directions, weights: Weights
) -> Taylor:
    """The same for any function: its own way if it has one, else nested forward derivatives."""
    if isinstance(u, AbstractField):
        return u.taylor(z, directions, weights)

    def along(c):
        slope = lambda y: jax.jvp(lambda x: u(x), (y,), (c,))
        (value, first), (_, second) = jax.jvp(slope, (z,), (c,))
        return value, first, second

    values, slopes, seconds = jax.vmap(along)(directions)
    return Taylor(values[0], slopes, jnp.sum(weights * seconds))


def product(a: Taylor, b: Taylor, weights: Weights) -> Taylor:
    """Derivatives of a product."""
    cross = jnp.sum(weights * a.slopes * b.slopes)
    return Taylor(
        a.value * b.value,
        a.value * b.slopes + b.value * a.slopes,
        a.value * b.curvature + b.value * a.curvature + 2.0 * cross,
    )


def total(a: Taylor, b: Taylor) -> Taylor:
    """Derivatives of a sum."""
    return Taylor(a.value + b.value, a.slopes + b.slopes, a.curvature + b.curvature)


def unsplit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that paths must not take apart (`sde._apart`): a network, made of products.

    These keep the digits they have: GPUs multiply in TF32 unless told otherwise, and a residual
    made of such products is mostly rounding.
    """

    def fkpinn_unsplit(*arguments: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return jax.jit(fkpinn_unsplit)
