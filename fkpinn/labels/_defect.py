r"""The error of a candidate, as the solution of a boundary value problem of its own.

If $w$ is close to the solution $u$, then $u - w$ solves the same equation with the residual of
$w$ for a source and what $w$ lacks at the boundary for data. Noise and step-size bias of labels
for $u - w$ shrink with its size.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar
from ..problem import Dirichlet, Neumann, Problem, Robin, residual
from ..sde import whole
from ._estimate import estimate_labels
from ._labels import Labels


def estimate_defect(
    problem: Problem, candidate: Callable[..., Any], points: Float[Array, "n z"], **how: Any
) -> Labels:
    """Labels for the solution minus a candidate.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point (`x`, or time followed by `x`): a
            network, or anything written in JAX.
        points: where, one point a row.
        how: as for `estimate_labels`; `every` reads the residual at one random step in so many.

    Returns:
        `Labels`, to be added to the values of the candidate.
    """
    return estimate_labels(defect_problem(problem, candidate), points, **how)


def defect_problem(problem: Problem, candidate: Callable[..., Any]) -> Problem:
    """The problem that the solution minus the candidate solves."""
    lacks = {
        part: _lacking(problem, condition, candidate)
        for part, condition in problem.boundary.items()
    }
    terminal = None
    if problem.horizon is not None:
        terminal = _AtEnd(problem, candidate)
    return Problem(
        problem.domain,
        drift=problem.drift,
        diffusion=problem.diffusion,
        reaction=problem.reaction,
        source=_Residual(problem, candidate),
        boundary=lacks,
        horizon=problem.horizon,
        terminal=terminal,
        name=f"{problem.name}, defect",
        check=False,
    )


def _lacking(problem: Problem, condition, candidate):
    lack = _Lack(problem, condition, candidate)
    if isinstance(condition, Robin):
        return Robin(condition.coefficient, lack)
    return Neumann(lack) if isinstance(condition, Neumann) else Dirichlet(lack)


class _Residual(eqx.Module):
    problem: Problem
    candidate: Callable[..., Any]

    def __call__(self, *z: Array) -> Scalar:
        return whole(lambda at: residual(self.problem, self.candidate, at))(_joined(z))


class _Lack(eqx.Module):
    """What the candidate lacks on a boundary part."""

    problem: Problem
    condition: Any
    candidate: Callable[..., Any]

    def __call__(self, *z: Array) -> Scalar:
        at = _joined(z)
        if isinstance(self.condition, Dirichlet):
            return self.condition.value(at) - whole(self.candidate)(at)
        value, slope = whole(jax.value_and_grad(self.candidate))(at)
        normal = self.problem.domain.normal(self.problem.space(at))
        outward = jnp.dot(normal, self.problem.space(slope))
        return -self.condition.residual(value, outward, at)


class _AtEnd(eqx.Module):
    problem: Problem
    candidate: Callable[..., Any]

    def __call__(self, x: Array) -> Scalar:
        assert self.problem.terminal is not None and self.problem.horizon is not None
        end = jnp.full((1,), self.problem.horizon, x.dtype)
        return self.problem.terminal(x) - whole(self.candidate)(jnp.concatenate([end, x]))


def _joined(z: tuple[Array, ...]) -> Array:
    """A point of the problem from `x`, or from `t` and `x`."""
    return z[0] if len(z) == 1 else jnp.concatenate([jnp.reshape(z[0], (1,)), z[1]])
