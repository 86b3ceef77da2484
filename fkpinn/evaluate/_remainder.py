r"""What the linear problem next to a candidate leaves out of a nonlinear one.

The error $e = u - w$ solves the linearized problem with the residual of $w$ and, beside it, the
source $N = F(w+e) - F(w) - F'(w)e$, of second order in $e$. Paths of the linearized problem measure
the first; $\delta(x) = \mathbb{E}_x\int D_s N\,ds$ is what they miss. Their payoffs $Y$ tell how
large it may be: $Y - e(x)$ is the martingale $\int D\,\sigma^\top\nabla e\cdot dW$, so that the
variance of $Y$ is the mean of $\int D^2|\sigma^\top\nabla e|^2ds$. Second derivatives of $e$ leave
no such trace. But they are of the size of the residual $R$: over all of space and time
$\int|\tfrac12\Delta e|^2 \le \int|\partial_te + \tfrac12\Delta e|^2$ for what vanishes at the end.
So $|A^{1/2}D^2e\,A^{1/2}|$, in coordinates where the covariance $A$ of the noise is the identity,
is some $2|R|$; where $F$ reads them, it is tried what $N$ comes to for random ones of that size.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._streams import Stream
from .._types import SpaceTimePoint
from ..labels import Labels, estimate_labels
from ..loss import cast
from ..problem import Nonlinearity, Problem, Slopes, derivatives, residual
from ..sampling import sample_interior

_FEW = 64  # points at which paths tell how long they take
_PATHS = 32
_LAW = 512  # points that tell how large second derivatives are
_AT_ONCE = 32  # of these points, since each takes many matrices
_TRIED = 8  # second derivatives of each kind, and their opposites


def remainder(
    problem: Problem, candidate: Callable[..., Any], found: Labels, *, seed: int = 0
) -> Float[np.ndarray, " n"]:
    """How far corrections may be wrong since the problem is not linear, at each of their points.

    Args:
        problem: a nonlinear problem that reads values and gradients.
        candidate: a differentiable function of one point.
        found: corrections, from paths of the problem linearized at the candidate.
        seed: seed of all random numbers.
    """
    given = problem.nonlinearity
    assert given is not None
    value, stderr = (np.asarray(a, np.float64) for a in (found.value, found.stderr))
    spread = stderr**2 * found.n_paths  # of a payoff
    with precision("float64"):
        points = jnp.asarray(np.asarray(found.points, np.float64))
        by = [np.asarray(a) for a in _second(problem, given, candidate, points)]
    uu, up, pp, least, growth = by
    slope = spread / least  # the mean of the squared gradient of the error, over a path
    spent = _time_spent(problem, candidate, points, growth, seed)
    square = (value**2 + spread) * spent
    low = 0.5 * (
        np.max(uu) * square + 2.0 * np.max(up) * np.sqrt(square * slope) + np.max(pp) * slope
    )
    if "Q" not in given.reads:
        return low
    with precision("float64"):
        bends = _directions(problem.dim, given.diagonal, Stream(seed) / "remainder")
        law = sample_interior(problem, _LAW, key=(Stream(seed) / "remainder/points").key)
        tried = np.asarray(_tried(problem, given, candidate, law, jnp.asarray(bends)))
    return low + float(np.mean(tried)) * spent


@quickly_compiled
def _second(
    problem: Problem, given: Nonlinearity, w: Callable[..., Any], points: Float[Array, "n z"]
) -> tuple[Array, ...]:
    """Sizes of second derivatives, the least variance of the noise, and the rate of growth."""

    def one(z: SpaceTimePoint) -> tuple[Array, ...]:
        u, p, q = derivatives(given, w, z)
        twice = jax.hessian(lambda u, p: given(z, u, p, q), argnums=(0, 1))(u, p)
        (uu, up), (_, pp) = twice
        slopes = given.slopes(z, u, p, q)
        least = jnp.linalg.eigvalsh(_noise(problem, slopes, z))[0]
        growth = slopes.by_u - problem.reaction(z)
        size = lambda a: jnp.sqrt(jnp.sum(a**2))
        return jnp.abs(uu), size(up), jnp.linalg.norm(pp, 2), least, growth

    return jax.vmap(one)(points)


def _noise(problem: Problem, slopes: Slopes, z: SpaceTimePoint) -> Float[Array, "d d"]:
    """The covariance of the noise of the linear problem."""
    noise = problem.covariance(z)
    return noise if slopes.by_q is None else noise + 2.0 * slopes.by_q


def _inverse_root(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    sizes, axes = jnp.linalg.eigh(matrix)
    return (axes / jnp.sqrt(sizes)[None]) @ axes.T


def _directions(dim: int, diagonal: bool, stream: Stream) -> Float[np.ndarray, "k d d"]:
    """Second derivatives of size one: along single lines, and in all directions."""
    rng = stream.generator
    if diagonal:
        some = np.eye(dim)[rng.integers(dim, size=_TRIED)]
        rows = np.concatenate([some, rng.standard_normal((_TRIED, dim))])
        made = rows[:, :, None] * np.eye(dim)
    else:
        lines, full = rng.standard_normal((_TRIED, dim)), rng.standard_normal((_TRIED, dim, dim))
        made = np.concatenate([lines[:, :, None] * lines[:, None], full + full.transpose(0, 2, 1)])
    made /= np.linalg.norm(made, axis=(1, 2), keepdims=True)
    return np.concatenate([made, -made])


@quickly_compiled
def _tried(
    problem: Problem,
    given: Nonlinearity,
    w: Callable[..., Any],
    points: Float[Array, "n z"],
    bends: Float[Array, "k d d"],
) -> Float[Array, " n"]:
    """The most that second derivatives of a likely size leave out, at each point."""
    lack = jax.vmap(lambda z: residual(problem, w, z))(points)
    typical = jnp.sqrt(jnp.mean(lack**2))

    def one(z: SpaceTimePoint) -> Array:
        u, p, q = derivatives(given, w, z)
        slopes = given.slopes(z, u, p, q)
        assert q is not None and slopes.by_q is not None
        by_q, root = slopes.by_q, _inverse_root(_noise(problem, slopes, z))

        def left(bend: Array) -> Array:
            change = 2.0 * typical * (root @ bend @ root)
            return given(z, u, p, q + change) - slopes.value - jnp.sum(by_q * change)

        return jnp.max(jnp.abs(jax.vmap(left)(bends)))

    return jax.lax.map(one, points, batch_size=_AT_ONCE)


def _time_spent(
    problem: Problem, w: Callable[..., Any], points: Any, growth: np.ndarray, seed: int
) -> np.ndarray:
    """Discounted time of paths from each point, about: until the horizon, or measured."""
    if problem.timed:
        with precision("float64"):
            left = np.asarray(jax.vmap(problem.layout.time_left)(jnp.asarray(points)))
        return left * np.exp(np.maximum(np.max(growth), 0.0) * left)
    with precision("float32"):
        clock = problem.linearized(cast(w, "float32")).clock()
        some = jnp.asarray(np.asarray(points)[:_FEW], jnp.float32)
        found = estimate_labels(clock, some, n_paths=_PATHS, seed=seed, warn=False)
    return np.full(len(points), float(np.max(np.asarray(found.value))))
