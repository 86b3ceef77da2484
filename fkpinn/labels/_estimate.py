"""Monte Carlo values of the solution at single points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._progress import AbstractProgress, SilentProgress
from ..problem import Dirichlet, Problem, Robin
from ..sde import run_paths


class Labels(NamedTuple):
    """Estimates of the solution at points, with their standard errors.

    `unfinished` counts the paths of each point that were still running at `t_max`.
    """

    points: Float[Array, "n z"]
    value: Float[Array, " n"]
    stderr: Float[Array, " n"]
    n_paths: int
    unfinished: Int[Array, " n"]
    path_steps: int


def estimate_labels(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float,
    t_max: float = float("inf"),
    throw: bool = True,
    progress: AbstractProgress | None = None,
    key: PRNGKeyArray,
) -> Labels:
    r"""Estimate $u$ at every point by averaging over Euler paths run to exit.

    Equations: [eq:fk-elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:fk-mc-estimator](../theory/equations.md), Algorithm alg:fk-mc of the paper.

    Args:
        problem: the boundary value problem.
        points: where, one point a row, inside the domain.
        n_paths: paths a point, at least 2; the error bar shrinks as `n_paths ** -0.5`.
        dt: time step; exit is seen only at grid times, so the bias falls as `dt ** 0.5`.
        t_max: paths are cut at this time.
        throw: raise if paths were cut; if False, look at `Labels.unfinished`.
        progress: told how many paths have ended.
        key: random key.

    Returns:
        `Labels`: value, standard error and number of unfinished paths at every point.
    """
    _check(problem, points, n_paths, dt, t_max)
    progress = progress or SilentProgress()
    run = run_paths(
        problem, points, dt=dt, n_paths=n_paths, t_max=t_max, progress=progress, key=jr.clone(key)
    )
    bad = ~np.isfinite(run.payoff)
    if np.any(bad):
        point, path = np.argwhere(bad)[0]
        raise ValueError(
            f"A coefficient of `problem` is not finite along a path: path {path} from point "
            f"{np.asarray(points[point])} ({np.count_nonzero(bad)} paths in all). Paths step past "
            f"the boundary by about sigma * sqrt(dt); the data must be finite there too."
        )
    if throw and run.unfinished.any():
        raise ValueError(
            f"{int(run.unfinished.sum())} of {run.payoff.size} paths had not ended at "
            f"`t_max`={t_max:g}. Raise `t_max`, or pass `throw=False` and look at "
            f"`Labels.unfinished`."
        )
    dtype = points.dtype
    return Labels(
        points=points,
        value=jnp.asarray(run.payoff.mean(axis=1), dtype),
        stderr=jnp.asarray(run.payoff.std(axis=1, ddof=1) / np.sqrt(n_paths), dtype),
        n_paths=n_paths,
        unfinished=jnp.asarray(run.unfinished),
        path_steps=run.path_steps,
    )


def _check(problem: Problem, points, n_paths: int, dt: float, t_max: float) -> None:
    if points.ndim != 2 or points.shape[1] != problem.n_coords:
        raise ValueError(
            f"`points` must have shape (n, {problem.n_coords}); got shape {points.shape}."
        )
    inside = np.asarray(jax.vmap(lambda z: problem.domain.contains(problem.space(z)))(points))
    if not np.all(inside):
        raise ValueError(
            f"`points` must lie inside the domain; {np.count_nonzero(~inside)} of {len(points)} "
            f"do not, the first at {np.asarray(points[int(np.argmin(inside))])}."
        )
    if n_paths < 2:
        raise ValueError(f"`n_paths` must be at least 2; got {n_paths}.")
    if not (np.isfinite(dt) and dt > 0):
        raise ValueError(f"`dt` must be positive and finite; got {dt!r}.")
    if not t_max > 0:
        raise ValueError(f"`t_max` must be positive; got {t_max!r}.")
    ends = any(isinstance(c, (Dirichlet, Robin)) for c in problem.conditions())
    fades = not problem.reaction.is_zero
    if not (ends or fades or problem.timed or np.isfinite(t_max)):
        raise ValueError(
            "`problem` has only Neumann boundary parts, no reaction and no horizon, so paths "
            "never end. "
            "Pass a finite `t_max` with `throw=False`."
        )
