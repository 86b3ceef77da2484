"""The paper's theory of labels, compared with simulated paths."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._progress import AbstractProgress
from .._streams import Stream
from ..labels import choose_scheme, estimate_labels
from ..problem import Problem
from ..sde import Plan, run_batches
from ._spectrum import fit_line

_SHARE = 0.002  # of an average of exponentials that one path may carry


class SubExponential(NamedTuple):
    r"""$\mathbb{E}e^{\lambda Z} \le e^{\nu^2\lambda^2/2}$ for $|\lambda| < 1/b$.

    Lemma [lem:fk-subexp-Yd](../theory/equations.md).
    """

    nu: float
    b: float

    def tail(self, t: Float[np.ndarray, " k"], n_paths: int) -> Float[np.ndarray, " k"]:
        r"""Bound of the probability that the error of a mean of `n_paths` payoffs exceeds `t`.

        Proposition [prop:fk-concentration-fixed-dt](../theory/equations.md), with $c = 1/2$, which
        is what Chernoff's argument gives.

        Args:
            t: deviations.
            n_paths: $N$.
        """
        t = np.asarray(t, float)
        rate = np.minimum(t**2 / self.nu**2, t / self.b)
        return np.minimum(2 * np.exp(-0.5 * n_paths * rate), 1.0)

    def half_width(self, n_paths: int, level: float = 0.95) -> float:
        """Half of Bernstein's confidence interval for a mean of `n_paths` payoffs.

        Args:
            n_paths: averaged.
            level: of confidence.
        """
        if n_paths < 1 or not 0 < level < 1:
            raise ValueError(
                f"`n_paths` must be at least 1 and `level` in (0, 1); got {n_paths}, {level}."
            )
        scale = 2 * math.log(2 / (1 - level)) / n_paths
        return max(self.nu * math.sqrt(scale), self.b * scale)


def payoffs(
    problem: Problem,
    point: Sequence[float],
    *,
    n_paths: int,
    dt: float,
    scheme: str = "euler",
    seed: int = 0,
) -> Float[np.ndarray, " n"]:
    """Payoffs of single paths from a point.

    Args:
        problem: the boundary value problem.
        point: where paths start, inside the domain.
        n_paths: how many.
        dt: time step.
        scheme: how paths move and end; the paper's is `euler`.
        seed: seed of all random numbers.
    """
    start = jnp.asarray([point], jnp.float32)
    if start.shape != (1, problem.n_coords):
        raise ValueError(f"`point` must have {problem.n_coords} coordinates; got {point}.")
    if not bool(problem.region.contains(start[0])):
        raise ValueError(f"`point` must lie inside the domain; got {point}.")
    paths = (Stream(seed) / "paths").seed
    plan = Plan(problem, choose_scheme(problem, scheme).walk, start, n_paths, dt, None, paths)
    found = [e.payoff for e in run_batches(plan, [(0, n_paths)])]
    sample = np.concatenate(found).astype(np.float64)
    if not np.all(np.isfinite(sample)):
        raise ValueError(f"Paths from {point} have payoffs that are not finite.")
    return sample


def fit_subexponential(sample: Float[np.ndarray, " n"]) -> SubExponential:
    r"""Parameters of the smallest bound that a sample of payoffs satisfies.

    $1/b$ is the largest $|\lambda|$ for which no single path carries more than a five-hundredth of
    the average of $e^{\lambda Z}$ (beyond, a sample says nothing), and $\nu^2$ is the supremum of
    $2\log\mathbb{E}e^{\lambda Z}/\lambda^2$ up to there, with room for the sample's own noise.

    Args:
        sample: payoffs, at least 100.
    """
    z = np.asarray(sample, float) - np.mean(sample)
    spread = float(np.std(z))
    if len(z) < 100 or spread == 0:
        raise ValueError(
            f"`sample` must hold at least 100 payoffs that differ; got {len(z)} with standard "
            f"deviation {spread:g}."
        )
    most = min(_reach(sign * z, spread) for sign in (1.0, -1.0))
    squares = [
        2 * _log_mean_exp(sign * at * z, sure=at > 0.5 * most) / at**2
        for sign in (1.0, -1.0)
        for at in (np.linspace(0.02, 1.0, 50) * most).tolist()
    ]
    return SubExponential(math.sqrt(max(squares)), 1.0 / most)


def _reach(z: np.ndarray, spread: float) -> float:
    """The largest exponent at which the average is still one of many paths."""
    low, high = 0.0, 1.0 / spread
    heavy = lambda at: math.exp(at * z.max() - _log_mean_exp(at * z)) / len(z) > _SHARE
    while not heavy(high) and high < 1e6 / spread:
        low, high = high, 2 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if heavy(middle) else (middle, high)
    return low


def _log_mean_exp(a: np.ndarray, sure: bool = False) -> float:
    """Logarithm of the mean of exponentials; if `sure`, of its upper limit, two errors up."""
    top = float(a.max())
    terms = np.exp(a - top)
    mean = float(np.mean(terms))
    if sure:
        mean += 2 * float(np.std(terms)) / math.sqrt(len(terms))
    return top + math.log(mean)


def tails(sample: Float[np.ndarray, " n"], n_paths: int, theory: SubExponential) -> dict[str, Any]:
    """How often means of `n_paths` payoffs deviate, compared with the bound.

    Args:
        sample: payoffs; cut into groups of `n_paths`.
        n_paths: payoffs per mean.
        theory: parameters of the bound.
    """
    groups = len(sample) // n_paths
    if n_paths < 1 or groups < 20:
        raise ValueError(
            f"`sample` must hold at least 20 groups of `n_paths`; got {len(sample)} payoffs and "
            f"{n_paths}."
        )
    sample = np.asarray(sample, float)
    means = sample[: groups * n_paths].reshape(groups, n_paths).mean(axis=1)
    off = np.abs(means - sample.mean())
    t = np.linspace(0.0, 1.1 * float(off.max()), 60)[1:]
    seen = np.array([np.mean(off > at) for at in t])
    half = theory.half_width(n_paths)
    normal = 1.959964 * float(np.std(sample)) / math.sqrt(n_paths)
    return {
        "n_paths": n_paths,
        "groups": groups,
        "deviation": t.tolist(),
        "observed": seen.tolist(),
        "bound": theory.tail(t, n_paths).tolist(),
        "bernstein_half_width": half,
        "bernstein_coverage": float(np.mean(off <= half)),
        "normal_half_width": normal,
        "normal_coverage": float(np.mean(off <= normal)),
    }


def step_bias(
    problem: Problem,
    points: Float[np.ndarray, "n z"],
    truth: Float[np.ndarray, " n"],
    *,
    steps: Sequence[float],
    n_paths: int,
    scheme: str = "euler",
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    r"""The bias of labels against the time step, and its fitted order.

    [thm:fk-Gobet](../theory/equations.md): at most $C\sqrt{\Delta t}$ for plain Euler paths.

    Args:
        problem: the boundary value problem.
        points: where, inside the domain.
        truth: the solution at these points.
        steps: time steps, at least three.
        n_paths: paths per point for each.
        scheme: how paths move and end.
        seed: seed of all random numbers.
        progress: told how many paths have ended.
    """
    truth = np.asarray(truth, float)
    size = float(np.sqrt(np.mean(truth**2)))
    mean, noise, worst = [], [], []
    for k, dt in enumerate(steps):
        labels = estimate_labels(
            problem, jnp.asarray(points, jnp.float32), n_paths=n_paths, dt=float(dt),
            scheme=scheme, seed=(Stream(seed) / "steps" / k).seed, progress=progress,
        )  # fmt: skip
        off = np.asarray(labels.value, float) - truth
        mean.append(float(np.mean(off)) / size)
        noise.append(float(np.sqrt(np.mean(np.asarray(labels.stderr, float) ** 2) / len(truth))))
        worst.append(float(np.max(np.abs(off))))
    off, roots = np.abs(mean), np.sqrt(np.asarray(steps, float))
    order, error = fit_line(np.log(np.asarray(steps, float)), np.log(np.maximum(off, 1e-300)))
    return {
        "scheme": scheme,
        "dt": [float(dt) for dt in steps],
        "relative_bias": mean,
        "relative_stderr": [value / size for value in noise],
        "order": order,
        "order_stderr": error,
        "c_bias": float(roots @ off / (roots @ roots)) * size,
        "c_bias_worst_point": max(w / r for w, r in zip(worst, roots, strict=True)),
    }


def truncation_bias(
    problem: Problem,
    points: Float[np.ndarray, "n z"],
    *,
    times: Sequence[float],
    dt: float,
    n_paths: int,
    scheme: str = "euler",
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    r"""The error of labels if paths are cut at $T_{\max}$, and its rate of decay $\kappa$.

    Lemma [lem:fk-truncation-bias](../theory/equations.md). Cut paths are the first parts of whole
    ones, so that the difference has little noise.

    Args:
        problem: the boundary value problem, without a horizon.
        points: where, inside the domain.
        times: $T_{\max}$, at least three.
        dt: time step.
        n_paths: paths per point.
        scheme: how paths move and end.
        seed: seed of all random numbers.
        progress: told how many paths have ended.
    """

    def at(t_max: float) -> np.ndarray:
        labels = estimate_labels(
            problem, jnp.asarray(points, jnp.float32), n_paths=n_paths, dt=dt, scheme=scheme,
            t_max=t_max, seed=seed, throw=False, progress=progress,
        )  # fmt: skip
        return np.asarray(labels.value, float)

    whole = at(math.inf)
    lacks = [float(np.max(np.abs(at(float(t)) - whole))) for t in times]
    if min(lacks) <= 0:
        raise ValueError(
            f"`times` are longer than the longest path: no path is cut at {max(times):g}. Use "
            f"shorter ones, or more `n_paths`."
        )
    slope, error = fit_line(np.asarray(times, float), np.log(lacks))
    return {
        "t_max": [float(t) for t in times],
        "worst_bias": lacks,
        "kappa": -slope,
        "kappa_stderr": error,
        "c_t": float(np.exp(np.mean(np.log(lacks) - slope * np.asarray(times, float)))),
    }
