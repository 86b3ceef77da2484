r"""The linear problem next to a candidate of a nonlinear one.

With $w$ close to the solution $u$ of $\mathcal{L}u - Vu + f + F(x, u, \nabla u, D^2u) = 0$,
Newton's step solves the equation with drift $b + F_p$, reaction $V - F_u$, covariance
$\sigma\sigma^\top + 2F_Q$ and source $f + F - F_u w - F_p\cdot\nabla w - F_Q : D^2w$, all at $w$.
For control problems it is a step of Howard's policy iteration.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._field import unsplit
from .._types import Scalar, SpaceTimePoint
from ._coefficient import Coefficient, OfCandidate
from ._dynamics import AbstractDynamics, Dynamics
from ._nonlinearity import Slopes, derivatives

_LEAST = 1e-9  # of a variance over that without the nonlinearity, so that paths keep moving


def linear_data(problem: Any, w: Callable[..., Any]) -> dict[str, Any]:
    """Dynamics, reaction and source of the linear problem next to `w`.

    Args:
        problem: a `Problem` with a nonlinearity.
        w: a differentiable function of one point.
    """
    given = problem.nonlinearity
    assert given is not None
    own = lambda kind, shape: Coefficient(kind(problem, w), None, problem.layout, shape)
    dynamics: AbstractDynamics = problem.dynamics
    if given.reads & {"p", "Q"}:
        d = problem.dim
        drift = own(_Drift, (d,)) if "p" in given.reads else problem.drift
        noise = problem.diffusion
        if "Q" in given.reads:
            diagonal = given.diagonal and len(noise.shape) < 2
            noise = own(_Diagonal, (d,)) if diagonal else own(_Root, (d, d))
        dynamics = Dynamics(drift, noise, problem.layout, dynamics.jumps)
    reaction = own(_Reaction, ()) if "u" in given.reads else problem.reaction
    return {"dynamics": dynamics, "reaction": reaction, "source": own(_Source, ())}


class _Near(OfCandidate):
    """A coefficient of the linear problem."""

    problem: Any
    candidate: Callable[..., Any]

    def __call__(self, z: SpaceTimePoint) -> Float[Array, "..."]:
        return unsplit(self.at)(z)

    @abc.abstractmethod
    def at(self, z: SpaceTimePoint) -> Float[Array, "..."]:
        """Its value at a point of the problem."""

    def slopes(self, z: SpaceTimePoint) -> tuple[Slopes, tuple[Any, Any, Any]]:
        """Of the nonlinearity at the candidate, and the candidate's own."""
        given = self.problem.nonlinearity
        assert given is not None
        own = derivatives(given, self.candidate, z)
        return given.slopes(z, *own), own


class _Drift(_Near):
    def at(self, z: SpaceTimePoint) -> Float[Array, " d"]:
        return self.problem.drift(z) + self.slopes(z)[0].by_p


class _Reaction(_Near):
    def at(self, z: SpaceTimePoint) -> Float[Array, ""]:
        return self.problem.reaction(z) - self.slopes(z)[0].by_u


class _Source(_Near):
    def at(self, z: SpaceTimePoint) -> Float[Array, ""]:
        found, (u, p, q) = self.slopes(z)
        total = found.value - found.by_u * u - jnp.dot(found.by_p, p)
        if found.by_q is not None:
            total = total - jnp.sum(found.by_q * q)
        return self.problem.source(z) + total


class _Diagonal(_Near):
    def at(self, z: SpaceTimePoint) -> Float[Array, " d"]:
        by_q = self.slopes(z)[0].by_q
        assert by_q is not None
        own = jnp.broadcast_to(self.problem.diffusion(z) ** 2, (self.problem.dim,))
        return jnp.sqrt(jnp.maximum(own + 2.0 * jnp.diag(by_q), _LEAST * jnp.max(own)))


class _Root(_Near):
    def at(self, z: SpaceTimePoint) -> Float[Array, "d d"]:
        by_q = self.slopes(z)[0].by_q
        assert by_q is not None
        return jnp.linalg.cholesky(self.problem.covariance(z) + 2.0 * by_q)


class FirstGuess(eqx.Module):
    """The guess before there is a network: the terminal data, or zero.

    Args:
        problem: a `Problem`.
    """

    problem: Any

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Its value at one point."""
        end = self.problem.terminal
        return jnp.zeros((), z.dtype) if end is None else end(self.problem.layout.without_time(z))
