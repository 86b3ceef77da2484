r"""What the linear problem next to a candidate leaves out of a nonlinear one.

The error $e = u - w$ solves the linearized problem with the residual of $w$ and, beside it, the
source $N = F(w+e) - F(w) - F'(w)e$, of second order in $e$. Paths of the linearized problem measure
the first; $\delta(x) = \mathbb{E}_x\int D_s N\,ds$ is what they miss. Their payoffs $Y$ tell how
large it may be: $Y - e(x)$ is the martingale $\int D\,\sigma^\top\nabla e\cdot dW$, so that the
variance of $Y$ is the mean of $\int D^2|\sigma^\top\nabla e|^2ds$.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._types import SpaceTimePoint
from ..labels import Labels, estimate_labels
from ..loss import cast
from ..problem import Nonlinearity, Problem, derivatives

_FEW = 64  # points at which paths tell how long they take
_PATHS = 32


def remainder(
    problem: Problem, candidate: Callable[..., Any], found: Labels, *, seed: int = 0
) -> Float[np.ndarray, " n"]:
    """How far corrections may be wrong since the problem is not linear, at each of their points.

    Args:
        problem: a nonlinear problem that reads values and gradients.
        candidate: a differentiable function of one point.
        found: corrections, from paths of the problem linearized at the candidate.
        seed: fixes everything random.
    """
    given = problem.nonlinearity
    assert given is not None
    if why := why_no_remainder(problem):
        raise ValueError(f"{why}.")
    value, stderr = (np.asarray(a, np.float64) for a in (found.value, found.stderr))
    spread = stderr**2 * found.n_paths  # of a payoff
    with precision("float64"):
        points = jnp.asarray(np.asarray(found.points, np.float64))
        by = [np.asarray(a) for a in _second(problem, given, candidate, points)]
    uu, up, pp, least, growth = by
    slope = spread / least  # the mean of the squared gradient of the error, over a path
    square = (value**2 + spread) * _time_spent(problem, candidate, points, growth, seed)
    return 0.5 * (
        np.max(uu) * square + 2.0 * np.max(up) * np.sqrt(square * slope) + np.max(pp) * slope
    )


def why_no_remainder(problem: Problem) -> str:
    """Why it cannot be told how far corrections may be wrong; empty if it can."""
    if problem.nonlinearity is None or "Q" not in problem.nonlinearity.reads:
        return ""
    return (
        "`nonlinearity` reads second derivatives, and those of an error leave no trace in payoffs "
        "of paths, so that what the linearized problem leaves out is not known"
    )


@eqx.filter_jit
def _second(
    problem: Problem, given: Nonlinearity, w: Callable[..., Any], points: Float[Array, "n z"]
) -> tuple[Array, ...]:
    """Sizes of second derivatives, the least variance of the noise, and the rate of growth."""

    def one(z: SpaceTimePoint) -> tuple[Array, ...]:
        u, p, _ = derivatives(given, w, z)
        twice = jax.hessian(lambda u, p: given(z, u, p, None), argnums=(0, 1))(u, p)
        (uu, up), (_, pp) = twice
        least = jnp.linalg.eigvalsh(problem.covariance(z))[0]
        growth = given.slopes(z, u, p, None).by_u - problem.reaction(z)
        size = lambda a: jnp.sqrt(jnp.sum(a**2))
        return jnp.abs(uu), size(up), jnp.linalg.norm(pp, 2), least, growth

    return jax.vmap(one)(points)


def _time_spent(
    problem: Problem, w: Callable[..., Any], points: Any, growth: np.ndarray, seed: int
) -> np.ndarray:
    """Discounted time of paths from each point, about: until the horizon, or measured."""
    if problem.timed:
        left = np.asarray(jax.vmap(problem.layout.time_left)(points))
        return left * np.exp(np.maximum(np.max(growth), 0.0) * left)
    with precision("float32"):
        clock = problem.linearized(cast(w, "float32")).clock()
        some = jnp.asarray(np.asarray(points)[:_FEW], jnp.float32)
        found = estimate_labels(clock, some, n_paths=_PATHS, seed=seed, warn=False)
    return np.full(len(points), float(np.max(np.asarray(found.value))))
