"""How a path moves in one time step."""

import abc
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Point, Scalar, SpaceTimePoint
from ..problem import Problem

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractStepper(eqx.Module):
    """One step of the diffusion behind a problem, and the matching rule for integrals.

    `order` is the weak order in the interior. Steppers of order 1 take the left end of a step
    in integrals along the path, as Algorithm alg:fk-mc does; those of order 2 the trapezoid.
    """

    order: AbstractClassVar[int]

    @abc.abstractmethod
    def step(
        self,
        problem: Problem,
        z: SpaceTimePoint,
        dt: Scalar,
        noise: Float[Array, " m"],
        signs: Float[Array, " s"],
    ) -> Point:
        """Where the path is after `dt`, from standard normals `noise`."""

    def n_signs(self, problem: Problem) -> int:
        """Number of random signs per step, in addition to the normals."""
        return 0


class EulerMaruyama(AbstractStepper):
    """The Euler step, weak order 1.

    Equation: [eq:fk-euler-scheme](../theory/equations.md).
    """

    order = 1

    def step(
        self,
        problem: Problem,
        z: SpaceTimePoint,
        dt: Scalar,
        noise: Float[Array, " m"],
        signs: Float[Array, " s"],
    ) -> Point:
        """Drift and noise of the left end."""
        moves, x = problem.dynamics, problem.space(z)
        return x + moves.drift(z) * dt + moves.push(z, jnp.sqrt(dt) * noise)


class Heun(AbstractStepper):
    """Average of the drifts at both ends, weak order 2 where the diffusion is constant."""

    order = 2

    def step(
        self,
        problem: Problem,
        z: SpaceTimePoint,
        dt: Scalar,
        noise: Float[Array, " m"],
        signs: Float[Array, " s"],
    ) -> Point:
        """Predict, then correct the drift."""
        x, b = problem.space(z), problem.drift(z)
        push = problem.dynamics.push(z, jnp.sqrt(dt) * noise)
        ahead = problem.layout.later(z, dt, x + b * dt + push)
        return x + 0.5 * (b + problem.drift(ahead)) * dt + push


class Platen(AbstractStepper):
    r"""Platen's explicit step, weak order 2 also where the diffusion depends on the place.

    The derivative-free scheme of order 2.0 for several noises (Kloeden and Platen, Numerical
    Solution of Stochastic Differential Equations, Section 15.1), with random signs
    $V_{j_1 j_2} = -V_{j_2 j_1}$, $V_{jj} = -1$.
    """

    order = 2

    def n_signs(self, problem: Problem) -> int:
        """One for each pair of noises."""
        m = problem.dynamics.noise_dim
        return m * (m - 1) // 2

    def step(
        self,
        problem: Problem,
        z: SpaceTimePoint,
        dt: Scalar,
        noise: Float[Array, " m"],
        signs: Float[Array, " s"],
    ) -> Point:
        """Support values along each noise, combined to match moments up to order 2."""
        x, b, root = problem.space(z), problem.drift(z), jnp.sqrt(dt)
        sigma, w = problem.sigma(z), jnp.sqrt(dt) * noise
        m = w.shape[0]
        middle = x + b * dt
        ahead = problem.layout.later(z, dt, middle + sigma @ w)
        result = x + 0.5 * (b + problem.drift(ahead)) * dt
        at = lambda y: problem.sigma(problem.layout.later(z, dt, y))
        # the scheme's support points share the time of the step's end; to this order it is enough
        above = [at(middle + sigma[:, j] * root) for j in range(m)]
        below = [at(middle - sigma[:, j] * root) for j in range(m)]
        up = [at(x + sigma[:, j] * root) for j in range(m)]
        down = [at(x - sigma[:, j] * root) for j in range(m)]
        pair = {}
        position = 0
        for j in range(m):
            for r in range(j + 1, m):
                pair[r, j], pair[j, r] = signs[position] * dt, -signs[position] * dt
                position += 1
        for j in range(m):
            own, total = sigma[:, j], above[j][:, j] + below[j][:, j] + 2.0 * sigma[:, j]
            twist = (above[j][:, j] - below[j][:, j]) * (w[j] ** 2 - dt)
            for r in range(m):
                if r != j:
                    total = total + up[r][:, j] + down[r][:, j] - 2.0 * own
                    twist = twist + (up[r][:, j] - down[r][:, j]) * (w[j] * w[r] + pair[r, j])
            result = result + 0.25 * total * w[j] + 0.25 * twist / root
        return result
