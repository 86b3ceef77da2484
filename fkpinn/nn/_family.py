"""One member of a family of networks."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._field import AbstractField, Directions, Taylor, Weights
from .._types import Scalar, SpaceTimePoint


class AtValues(AbstractField):
    """A network of parameters, time and position, for given values of the parameters.

    Args:
        network: a network of points that begin with the parameters.
        values: values of the parameters.
    """

    network: AbstractField
    values: Float[Array, " k"]

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point without parameters."""
        return self.network(self._whole(z))

    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value and derivatives along the directions, which leave parameters as they are."""
        still = jnp.zeros((len(directions), len(self.values)), directions.dtype)
        along = jnp.concatenate([still, directions], axis=1)
        return self.network.taylor(self._whole(z), along, weights)

    def _whole(self, z: SpaceTimePoint) -> Float[Array, " whole"]:
        return jnp.concatenate([jax.lax.stop_gradient(self.values).astype(z.dtype), z])
