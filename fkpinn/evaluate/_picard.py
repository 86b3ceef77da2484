r"""Multilevel Picard iteration: point values of semilinear equations without a network.

The fixed point $u(t,x) = \mathbb{E}[g(X_T) + \int_t^T F(s, X_s, u, \nabla u)\,ds]$ is iterated.
Differences of iterates, which shrink from level to level, are averaged over fewer and fewer paths
(E, Hutzenthaler, Jentzen, Kruse: J. Sci. Comput. 79, 2019). Gradients come from the law of the
path, by a weight $W_s/(\sigma s)$ of the same increments; squares of such noisy gradients are far
too large in many dimensions, and no more levels help.
"""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._streams import Stream
from .._types import Scalar
from ..problem import Problem
from ..reference import Batched

_CHUNK = 1 << 18  # points at a time


class PicardValue(NamedTuple):
    """A value at a point, its standard error over independent repetitions, and what it took."""

    value: float
    stderr: float
    levels: int
    repeats: int
    evaluations: int
    seconds: float


def picard_value(
    problem: Problem,
    point: Any,
    *,
    levels: int = 4,
    samples: int | None = None,
    repeats: int = 10,
    seed: int = 0,
) -> PicardValue:
    """The value of a semilinear equation on all of space at one point.

    Args:
        problem: with a horizon and without boundary; constant drift and constant, scalar noise; a
            nonlinearity that reads values and gradients.
        point: the point, time first.
        levels: Picard iterations; the cost grows as a power of `samples` to this.
        samples: paths of the last level difference, powers of this number for the others; by
            default `levels`.
        repeats: independent repetitions, at least 2, for the standard error.
        seed: seed of all random numbers.

    Returns:
        `PicardValue`; its error also includes the bias of the number of levels, which repetitions
        do not show.
    """
    _check(problem, levels, samples, repeats)
    z = np.asarray(point, np.float64).reshape(1, -1)
    if z.shape[1] != problem.n_coords or not np.all(np.isfinite(z)):
        raise ValueError(f"`point` must be {problem.n_coords} finite numbers; got {point!r:.80}.")
    began, run = time.perf_counter(), _Picard(problem, samples or levels)
    found = []
    for k in range(repeats):
        rng = (Stream(seed) / "picard" / k).generator
        found.append(float(run.level(levels, z, rng)[0][0]))
    stderr = float(np.std(found, ddof=1)) / repeats**0.5
    spent = time.perf_counter() - began
    return PicardValue(float(np.mean(found)), stderr, levels, repeats, run.evaluations, spent)


class _Picard:
    """Iterates at many points at once, as values and gradients."""

    def __init__(self, problem: Problem, samples: int):
        self.problem, self.samples = problem, samples
        assert problem.nonlinearity is not None and problem.terminal is not None
        self.gradients = "p" in problem.nonlinearity.reads
        self.data, self.source = Batched(problem.terminal), Batched(_LowOrder(problem))
        self.sigma = float(np.asarray(problem.diffusion.constant))
        self.drift = np.asarray(problem.drift.constant)
        self.evaluations = 0

    def level(self, n: int, z: np.ndarray, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        """Iterate `n` at each row."""
        value, slope = np.zeros(len(z)), np.zeros((len(z), self.problem.dim))
        if n == 0:
            return value, slope
        room = max(1, _CHUNK // self.samples**n)
        for start in range(0, len(z), room):
            here = slice(start, start + room)
            value[here], slope[here] = self._level(n, z[here], rng)
        return value, slope

    def _level(self, n: int, z: np.ndarray, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        layout = self.problem.layout
        left = np.maximum(layout.pace * (layout.end - layout.time(z)), 0.0)
        many = self.samples**n
        ends, weights = self._moved(z, left, many, rng, left)
        data = self.data(layout.space(ends)).reshape(-1, many)
        # data at the start are a control of the slope's variance
        own = self.data(layout.space(z))
        value, slope = data.mean(axis=1), self._mean((data - own[:, None]), weights)
        for k in range(n):
            many = self.samples ** (n - k)
            after = rng.uniform(0.0, 1.0, (len(z), many)) * left[:, None]
            then, weights = self._moved(z, left, many, rng, after)
            u, p = self.level(k, then, rng)
            source = self._source(then, u, p)
            if k > 0:
                u, p = self.level(k - 1, then, rng)
                source = source - self._source(then, u, p)
            source = source.reshape(-1, many) * left[:, None]
            value, slope = value + source.mean(axis=1), slope + self._mean(source, weights)
        return value, slope

    def _moved(
        self, z: np.ndarray, left: np.ndarray, many: int, rng: Any, after: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Where paths are after some time, and the weights of their slopes."""
        layout, d = self.problem.layout, self.problem.dim
        dt = np.broadcast_to(after.reshape(len(z), -1), (len(z), many)).reshape(-1)
        rows = np.repeat(layout.space(z), many, axis=0)
        noise = rng.standard_normal((len(rows), d))
        root = np.sqrt(dt)[:, None]
        x = rows + self.drift * dt[:, None] + self.sigma * root * noise
        now = np.repeat(layout.time(z), many) + layout.pace * dt
        self.evaluations += len(rows)
        if not self.gradients:
            return layout.points(now, x), None
        return layout.points(now, x), noise / (self.sigma * np.maximum(root, 1e-12))

    def _mean(self, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        if weights is None:
            return np.zeros((len(values), self.problem.dim))
        return np.mean(values[:, :, None] * weights.reshape(*values.shape, -1), axis=1)

    def _source(self, z: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.source(np.concatenate([z, u[:, None], p], axis=1))


class _LowOrder(eqx.Module):
    """All terms without second derivatives, of a row with a point, a value and a gradient."""

    problem: Problem

    def __call__(self, row: Float[Array, " r"]) -> Scalar:
        n, given = self.problem.n_coords, self.problem.nonlinearity
        assert given is not None
        z, u, p = jnp.split(row, [n, n + 1])
        linear = self.problem.source(z) - self.problem.reaction(z) * u[0]
        return given(z, u[0], p, None) + linear


def _check(problem: Problem, levels: int, samples: int | None, repeats: int) -> None:
    given = problem.nonlinearity
    if given is None or given.second or problem.domain.parts or not problem.timed:
        raise ValueError(
            "Multilevel Picard iteration is for semilinear equations on all of space (`Space(d)`)."
        )
    if problem.jumps is not None:
        raise ValueError("Multilevel Picard iteration is for equations without `jumps`.")
    if problem.drift.function is not None or not problem.dynamics.is_isotropic_constant:
        raise ValueError(
            "Multilevel Picard iteration needs constant drift and one constant number as noise."
        )
    if levels < 1 or repeats < 2 or (samples is not None and samples < 1):
        raise ValueError(
            f"`levels` and `samples` must be at least 1 and `repeats` at least 2; got {levels}, "
            f"{samples}, {repeats}."
        )
