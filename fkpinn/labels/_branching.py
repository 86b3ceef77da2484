r"""Labels from branching paths: polynomial equations without a linearization.

A particle moves as a path does and lives for an exponential time. If it dies before the horizon, it
leaves `k` particles with probability $q_k$. The payoff of the tree is the product of the data at
the ends of all particles and of a factor for every death that makes the mean right
(Henry-Labordère, Tan, Touzi: Stoch. Proc. Appl. 124, 2014).
"""

import math
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._progress import AbstractProgress, SilentProgress
from .._streams import Stream
from ..problem import Problem
from ..reference import Batched
from ._labels import Labels

_DEGREE = 6  # the largest power
_POWERS = _DEGREE + 1
_LOOKS = 64
_TREES = 1 << 16  # at a time
_CROWD = 1 << 23  # particles of a generation, at most
_GENERATIONS = 4096
_RATES = (1.0, 2.0, 4.0, 8.0, 16.0)  # of deaths, over the least
_INFINITE = 1e12  # of a mean square
_STEPS = 16  # of Euler in a particle's life, where coefficients vary


class Polynomial(NamedTuple):
    r"""$F = \sum_k a_k u^k$, and how particles branch for it.

    `rate` is that of deaths, `chance` the probability of `k` particles, and `factor` what a death
    multiplies the payoff by. Lifetimes are a discount at that rate, which the linear term makes up.
    """

    coefficients: np.ndarray
    rate: float
    chance: np.ndarray
    factor: np.ndarray


def branching_labels(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Labels:
    """Values of a polynomial equation on all of space, unbiased if coefficients are constant.

    Equation: [eq:branching-repr-appendix](../theory/equations.md).

    Args:
        problem: a problem with a horizon and without boundary, whose nonlinearity is a polynomial
            in the value with constant coefficients.
        points: the points, one per row.
        n_paths: trees per point, at least 2.
        seed: seed of all random numbers.
        progress: told how many trees have ended.

    Raises:
        ValueError: if the problem is not of this kind, or its second moments are infinite.
    """
    law = branching_law(problem)
    if n_paths < 2:
        raise ValueError(f"`n_paths` must be at least 2; got {n_paths}.")
    progress = progress or SilentProgress()
    rng, began = (Stream(seed) / "branching").generator, time.perf_counter()
    z = np.asarray(points, np.float64)
    each = max(1, _TREES // n_paths)
    value, square = np.zeros(len(z)), np.zeros(len(z))
    progress.start("branching labels", len(z) * n_paths)
    for start in range(0, len(z), each):
        rows = np.repeat(z[start : start + each], n_paths, axis=0)
        payoff = _trees(problem, law, rows, rng).reshape(-1, n_paths)
        value[start : start + each] = payoff.mean(axis=1)
        square[start : start + each] = payoff.var(axis=1, ddof=1)
        progress.update(min(start + each, len(z)) * n_paths)
    dtype = jnp.asarray(points).dtype
    labels = Labels.from_data(
        jnp.asarray(points), value.astype(dtype), np.sqrt(square / n_paths).astype(dtype),
        source="branching",
    )  # fmt: skip
    spent = {"compile": 0.0, "run": time.perf_counter() - began}
    made = {"scheme": "branching", "reason": "asked for", "seconds": spent, "seed": seed}
    return labels._replace(n_paths=n_paths, provenance=labels.provenance | made)


def branching_law(problem: Problem) -> Polynomial:
    """How particles branch for a problem, or an error that says why they cannot."""
    given = problem.nonlinearity
    if given is None or given.reads != {"u"} or problem.domain.parts or not problem.timed:
        raise ValueError(
            "`scheme='branching'` is for equations on all of space (`Space(d)`) whose "
            "nonlinearity is a polynomial in `u` only."
        )
    if problem.jumps is not None:
        raise ValueError("`scheme='branching'` does not support `jumps`.")
    if not problem.source.is_zero and problem.source.function is not None:
        raise ValueError("`scheme='branching'` needs a constant `source`.")
    if problem.reaction.function is not None:
        raise ValueError("`scheme='branching'` needs a constant `reaction`.")
    a = _coefficients(problem)
    a[0] += float(np.asarray(problem.source.constant))
    a[1] -= float(np.asarray(problem.reaction.constant))
    horizon, largest = problem.layout.horizon, _largest_data(problem)
    assert horizon is not None
    # a linear term that discounts is what lifetimes do anyway; more deaths may mean less variance
    least = max(-a[1], float(np.sum(np.delete(np.abs(a), 1))), 1e-3 / horizon)
    laws = [_with_rate(a, scale * least) for scale in _RATES]
    squares, times = zip(*(_mean_square(law, largest, horizon) for law in laws), strict=True)
    if max(times) < horizon:
        raise ValueError(
            f"The variance of branching labels could not be shown to be finite: with data up to "
            f"{largest:.3g} their mean square may be infinite after a time of {max(times):.3g}, "
            f"and the horizon is {horizon:.3g}. Shorten it, or train a network: `fk.solve`."
        )
    return laws[int(np.argmin(squares))]


def _with_rate(a: np.ndarray, rate: float) -> Polynomial:
    """Particles that die at a rate, and branch in proportion to the coefficients."""
    left = a.copy()
    left[1] += rate
    left[1] = 0.0 if abs(left[1]) < 1e-9 * rate else left[1]
    size = np.abs(left)
    chance = size / np.sum(size) if np.sum(size) > 0 else np.eye(_POWERS)[1]
    factor = np.divide(left, rate * chance, out=np.zeros(_POWERS), where=chance > 0)
    return Polynomial(a, rate, chance, factor)


def _coefficients(problem: Problem) -> np.ndarray:
    """Of the polynomial, from values of the nonlinearity; refuse what is none, or varies."""
    given = problem.nonlinearity
    assert given is not None
    rng = np.random.default_rng(0)
    lower, upper = problem.bounds()
    nodes = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
    u = np.concatenate([nodes, rng.uniform(-3.0, 3.0, _LOOKS)])
    z = np.tile(lower + (upper - lower) * rng.random((1, problem.n_coords)), (len(u), 1))
    z[_POWERS:] = lower + (upper - lower) * rng.random((_LOOKS, problem.n_coords))
    with precision("float64"):
        zero = jnp.zeros(problem.dim)
        value = np.asarray(
            jax.vmap(lambda z, u: given(z, u, zero, None))(jnp.asarray(z), jnp.asarray(u))
        )
    a = np.linalg.solve(np.vander(nodes, increasing=True), value[:_POWERS])
    a = np.where(np.abs(a) < 1e-9 * np.max(np.abs(a)), 0.0, a)
    powers = np.vander(u, _POWERS, increasing=True)
    if np.max(np.abs(powers @ a - value)) > 1e-6 * np.max(np.abs(powers) @ np.abs(a)):
        raise ValueError(
            f"`nonlinearity` is not a polynomial in `u` of degree {_DEGREE} or less with constant "
            f"coefficients, so there are no branching labels. Train a network: `fk.solve`."
        )
    return a


def _mean_square(law: Polynomial, largest: float, horizon: float) -> tuple[float, float]:
    """A bound of the mean square of payoffs, and the time up to which it is finite.

    With data of size `G` the mean square `v` of a payoff that has time `t` left is at most that of
    `v' = rate (sum_k q_k f_k^2 v^k - v)`, `v(0) = G^2`, with chances `q` and factors `f`.
    """
    squares = law.chance * law.factor**2

    def grow(v: float) -> float:
        return law.rate * (sum(c * v**k for k, c in enumerate(squares) if c > 0) - v)

    v, t = largest**2, 0.0
    while t < horizon and v < _INFINITE:
        dt = min(horizon / 2000, 0.01 * max(v, 1e-6) / max(abs(grow(v)), 1e-300), horizon - t)
        v, t = v + dt * grow(v + 0.5 * dt * grow(v)), t + max(dt, 1e-9 * horizon)
    return (v if t >= horizon else math.inf), t


def _largest_data(problem: Problem) -> float:
    """Of the data at the end of time, where paths go and around."""
    lower, upper = problem.domain.bounding_box()
    rng = np.random.default_rng(1)
    x = 0.5 * (lower + upper) + (upper - lower) * (rng.random((2048, problem.dim)) - 0.5) * 1.5
    x = np.concatenate([x, [0.5 * (lower + upper)]])
    return float(np.max(np.abs(_data(problem, x))))


def _data(problem: Problem, x: np.ndarray) -> np.ndarray:
    assert problem.terminal is not None
    return Batched(problem.terminal)(x)


def _trees(problem: Problem, law: Polynomial, z: np.ndarray, rng: Any) -> np.ndarray:
    """Payoffs of one tree from each row."""
    layout = problem.layout
    left = np.maximum(layout.pace * (layout.end - layout.time(z)), 0.0)
    x, tree = layout.space(z).copy(), np.arange(len(z))
    payoff = np.ones(len(z))
    powers = np.arange(_POWERS)
    for _ in range(_GENERATIONS):
        if not len(tree):
            return payoff
        life = rng.exponential(1.0 / law.rate, len(tree))
        dies = life < left
        x = _moved(problem, x, left, np.minimum(life, left), rng)
        ends = ~dies
        if np.any(ends):
            np.multiply.at(payoff, tree[ends], _data(problem, x[ends]))
        left, x, tree = left[dies] - life[dies], x[dies], tree[dies]
        kind = rng.choice(powers, len(tree), p=law.chance)
        np.multiply.at(payoff, tree, law.factor[kind])
        if np.sum(kind) > _CROWD:
            raise ValueError(
                f"More than {_CROWD:,} particles are alive at the same time: trees grow too fast "
                f"for labels. Shorten the horizon, or train a network: `fk.solve`."
            )
        left, tree, x = np.repeat(left, kind), np.repeat(tree, kind), np.repeat(x, kind, axis=0)
    raise ValueError(
        f"Trees had not ended after {_GENERATIONS} generations. Shorten the horizon, or train a "
        f"network: `fk.solve`."
    )


def _moved(
    problem: Problem, x: np.ndarray, left: np.ndarray, life: np.ndarray, rng: Any
) -> np.ndarray:
    """Where particles are after their lives: one step where coefficients are constant."""
    moves, layout = problem.dynamics, problem.layout
    constant = moves.drift.function is None and moves.diffusion.function is None
    n = 1 if constant else _STEPS
    dt = life / n
    for k in range(n):
        noise = rng.standard_normal((len(x), moves.noise_dim)) * np.sqrt(dt)[:, None]
        now = layout.end - layout.pace * (left - k * dt)
        if constant:
            sigma = np.asarray(moves.diffusion.constant)
            push = noise @ sigma.T if sigma.ndim == 2 else noise * sigma
            x = x + np.asarray(moves.drift.constant) * dt[:, None] + push
        else:
            rows = np.concatenate([layout.points(now, x), dt[:, None], noise], axis=1)
            x = Batched(_Euler(problem))(rows)
    return x


class _Euler(eqx.Module):
    """A step of Euler, of a row with a point, a time step and noise."""

    problem: Problem

    def __call__(self, row: Float[Array, " r"]) -> Float[Array, " d"]:
        n, moves = self.problem.n_coords, self.problem.dynamics
        z, dt, noise = jnp.split(row, [n, n + 1])
        return self.problem.space(z) + moves.drift(z) * dt + moves.push(z, noise)
