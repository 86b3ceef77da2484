"""The process behind an equation: how a path moves, and what its generator does to a function."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._field import Directions, Taylor, Weights, taylor
from .._types import Matrix, Point, Scalar, SpaceTimePoint, Vector
from ._coefficient import Coefficient
from ._jumps import AbstractJumps
from ._layout import Layout


class AbstractDynamics(eqx.Module):
    r"""The process whose generator the equation has.

    Paths read `noise_dim`, `drift`, `push` and `spread`; residuals read `directions`, `along` and
    `first_order`; finite elements, checks and records read `drift`, `diffusion` and `covariance`.
    Paths and residuals read `jumps`, which is None where paths are continuous.
    """

    drift: eqx.AbstractVar[Coefficient]
    diffusion: eqx.AbstractVar[Coefficient]
    layout: eqx.AbstractVar[Layout]
    jumps: eqx.AbstractVar[AbstractJumps | None]

    @property
    @abc.abstractmethod
    def noise_dim(self) -> int:
        """Number of driving Brownian motions: standard normals that a step takes."""

    @abc.abstractmethod
    def push(self, z: SpaceTimePoint, noise: Float[Array, " m"]) -> Point:
        """Where noise takes a path, from standard normals times the root of the step."""

    @abc.abstractmethod
    def spread(self, z: SpaceTimePoint, normal: Callable[[], Vector], dt: Scalar) -> Scalar:
        r"""$|n^\top\sigma|\sqrt{dt}$: how far a step reaches across a wall.

        Args:
            z: where the step begins.
            normal: makes the normal of the wall; it need not be called where noise is the same in
                all directions.
            dt: the time step.
        """

    @abc.abstractmethod
    def directions(self, z: SpaceTimePoint) -> tuple[Directions, Weights]:
        r"""Directions $c_k$ and weights whose derivatives make the generator at `z`.

        $\sum_k \omega_k\, c_k^\top D^2u\, c_k = \mathrm{tr}(\sigma\sigma^\top D^2u)$.
        """

    @abc.abstractmethod
    def first_order(self, at: Taylor, z: SpaceTimePoint) -> Scalar:
        r"""$[\pm\partial_t u +]\ b\cdot\nabla u$, from derivatives along `directions`."""

    @property
    def along_axes(self) -> bool:
        """Whether `directions` are the axes, so that slopes along them are the gradient."""
        return False

    @property
    def is_isotropic_constant(self) -> bool:
        """Whether the noise is the same everywhere and in all directions, and not zero."""
        sigma = self.diffusion
        return sigma.function is None and sigma.shape == () and not sigma.is_zero

    @property
    def has_first_order(self) -> bool:
        """Whether `first_order` is not zero by declaration."""
        return self.layout.timed or not self.drift.is_zero

    def sigma(self, z: SpaceTimePoint) -> Matrix:
        """Diffusion as a `d` by `m` matrix, however it was declared."""
        sigma = self.diffusion(z)
        return sigma if sigma.ndim == 2 else jnp.diag(jnp.broadcast_to(sigma, (self.layout.dim,)))

    def variances(self, z: SpaceTimePoint) -> Vector:
        r"""Diagonal of $\sigma\sigma^\top$, without building a matrix that was not declared."""
        sigma = self.diffusion(z)
        if sigma.ndim == 2:
            return jnp.sum(sigma**2, axis=1)
        return jnp.broadcast_to(sigma**2, (self.layout.dim,))

    def covariance(self, z: SpaceTimePoint) -> Float[Array, "d d"]:
        r"""$a = \sigma\sigma^\top$."""
        sigma = self.sigma(z)
        return sigma @ sigma.T

    def along(
        self, z: SpaceTimePoint, rows: Float[Array, "m d"], weights: np.ndarray
    ) -> tuple[Directions, Weights]:
        """Directions in space with their weights, and last the drift, without any."""
        found = [self.layout.direction(row) for row in rows]
        found.append(self.layout.direction(self.drift(z), rate=1.0))
        return jnp.stack(found), jnp.asarray(np.append(weights, 0.0), z.dtype)

    def generator(self, u: Callable[..., Any], z: SpaceTimePoint) -> Scalar:
        r"""$[\pm\partial_t u +]\ \tfrac12\mathrm{tr}(\sigma\sigma^\top D^2u) + b\cdot\nabla u$.

        Equation: [eq:diffusion-generator-appendix](../theory/equations.md).
        """
        at = taylor(u, z, *self.directions(z))
        return 0.5 * at.curvature + self.first_order(at, z)


class Dynamics(AbstractDynamics):
    r"""A diffusion $dX = b\,dt + \sigma\,dW$ with given coefficients, and jumps if any.

    Args:
        drift: $b$.
        diffusion: $\sigma$: a number, a diagonal, or a matrix.
        layout: layout of the points.
        jumps: see `Problem`.
    """

    drift: Coefficient
    diffusion: Coefficient
    layout: Layout
    jumps: AbstractJumps | None = None

    @property
    def noise_dim(self) -> int:
        """Number of driving Brownian motions."""
        shape = self.diffusion.shape
        return shape[1] if len(shape) == 2 else self.layout.dim

    def push(self, z: SpaceTimePoint, noise: Float[Array, " m"]) -> Point:
        """`sigma(z) @ noise`, without building a matrix from a number or a diagonal."""
        sigma = self.diffusion(z)
        return sigma @ noise if sigma.ndim == 2 else sigma * noise

    def spread(self, z: SpaceTimePoint, normal: Callable[[], Vector], dt: Scalar) -> Scalar:
        """From the column, diagonal or number that was declared."""
        sigma = self.diffusion(z)
        if sigma.ndim == 0:
            return jnp.abs(sigma) * jnp.sqrt(dt)
        across = normal() @ sigma if sigma.ndim == 2 else normal() * sigma
        return jnp.sqrt(jnp.sum(across**2) * dt)

    def directions(self, z: SpaceTimePoint) -> tuple[Directions, Weights]:
        """The axes, where the diffusion is a number or a diagonal.

        Otherwise the columns of the diffusion, and last the drift (with time, where there is any).
        """
        sigma = self.diffusion(z)
        if sigma.ndim < 2:
            weights = self.layout.direction(jnp.broadcast_to(sigma**2, (self.layout.dim,)))
            return jnp.eye(self.layout.n_coords, dtype=z.dtype), weights
        return self.along(z, sigma.T, np.ones(sigma.shape[1]))

    @property
    def along_axes(self) -> bool:
        """Where the diffusion is a number or a diagonal."""
        return len(self.diffusion.shape) < 2

    def first_order(self, at: Taylor, z: SpaceTimePoint) -> Scalar:
        """The slope along the drift, or from slopes along the axes."""
        if self.diffusion(z).ndim == 2:
            return at.slopes[-1]
        slope = jnp.dot(self.drift(z), self.layout.space(at.slopes))
        if not self.layout.timed:
            return slope
        return slope + self.layout.pace * self.layout.time(at.slopes)
