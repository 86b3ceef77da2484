r"""The error of a candidate, as the solution of a boundary value problem of its own.

If $w$ is close to the solution $u$, then $u - w$ solves the same equation with the residual of $w$
as the source and its boundary error as data. Noise and step-size bias of labels for $u - w$ shrink
with its size.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar, SpaceTimePoint
from ..problem import AbstractCondition, OfCandidate, Problem, residual
from ..sde import unsplit
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
        points: the points, one per row.
        how: as for `estimate_labels`; `read_every=16` evaluates the residual at one random step in
            16.

    Returns:
        `Labels`, to be added to the values of the candidate.
    """
    return estimate_labels(defect_problem(problem, candidate), points, **how)


def defect_problem(problem: Problem, candidate: Callable[..., Any]) -> Problem:
    """The problem that the solution minus the candidate solves; up to a remainder if nonlinear."""
    problem = problem.linearized(candidate)
    lacks = {
        part: condition.with_datum(_Lack(problem, condition, candidate))
        for part, condition in problem.boundary.items()
    }
    return problem.with_data(
        "defect", source=_Residual(problem, candidate), boundary=lacks,
        exterior=None if problem.exterior is None else 0.0,  # nothing is lacking outside
        end=_AtEnd(problem, candidate),
    )  # fmt: skip


class _Residual(OfCandidate):
    problem: Problem
    candidate: Callable[..., Any]

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        return unsplit(lambda at: residual(self.problem, self.candidate, at))(z)


class _Lack(OfCandidate):
    """What the candidate lacks on a boundary part."""

    problem: Problem
    condition: AbstractCondition
    candidate: Callable[..., Any]

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        if self.condition.absorbs:  # no slope in it
            value = unsplit(self.candidate)(z)
            return -self.condition.residual(value, jnp.zeros_like(value), z)
        value, slope = unsplit(jax.value_and_grad(self.candidate))(z)
        normal = self.problem.domain_at(z).normal(self.problem.space(z))
        outward = jnp.dot(normal, self.problem.space(slope))
        return -self.condition.residual(value, outward, z)


class _AtEnd(OfCandidate):
    problem: Problem
    candidate: Callable[..., Any]

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        assert self.problem.terminal is not None
        return self.problem.terminal(z) - unsplit(self.candidate)(self.problem.layout.at_end(z))
