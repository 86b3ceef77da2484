"""Monte Carlo values of the solution at single points."""

import time
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._progress import AbstractProgress, SilentProgress
from ..domain import AbstractDomain
from ..problem import Dirichlet, Problem, Robin
from ..sde import Plan, Widths, compile_batch, default_widths, run_batches
from ._moments import Moments, merge, moments, segment_starts
from ._scheme import choose_scheme

_HEAVY = 0.5  # share of the total that one path may carry before it is worth a warning


class Labels(NamedTuple):
    """Estimates of the solution at points, with their standard errors.

    `unfinished` counts the paths of each point that were cut at `t_max`; `provenance` says
    how the labels were made.
    """

    points: Float[Array, "n z"]
    value: Float[Array, " n"]
    stderr: Float[Array, " n"]
    n_paths: int
    unfinished: Int[Array, " n"]
    provenance: dict[str, Any]


def estimate_labels(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float,
    scheme: str = "default",
    t_max: float = float("inf"),
    seed: int = 0,
    throw: bool = True,
    widths: Widths | None = None,
    progress: AbstractProgress | None = None,
) -> Labels:
    r"""Estimate $u$ at every point by averaging over paths run to exit.

    Equations: [eq:fk-elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:fk-mc-estimator](../theory/equations.md), [eq:fk-Y-delta-Tmax](../theory/equations.md);
    `scheme="euler"` is Algorithm alg:fk-mc of the paper.

    Args:
        problem: the boundary value problem.
        points: where, one point a row, inside the domain; their precision is that of the paths.
        n_paths: paths a point, at least 2; the error bar shrinks as `n_paths ** -0.5`.
        dt: time step.
        scheme: how paths move and end: `default` looks at the problem, see `SCHEMES`.
        t_max: paths are cut at this time.
        seed: with the number of the point, of the path and of the step it fixes every random
            number; up to rounding, labels do not depend on how the work is cut up.
        throw: raise if paths were cut; if False, look at `Labels.unfinished`.
        widths: how many paths run side by side; chosen for the device if not given.
        progress: told how many paths have ended.

    Returns:
        `Labels`: value, standard error and number of unfinished paths at every point.
    """
    _check(problem, points, n_paths, dt, t_max)
    chosen = choose_scheme(problem, scheme)
    progress = progress or SilentProgress()
    n_steps = None if np.isinf(t_max) else max(int(np.floor(t_max / dt + 1e-9)), 1)
    plan = Plan(problem, chosen.walk, points, n_paths, dt, n_steps, seed)
    widths = widths or default_widths()
    clock = [time.perf_counter()]
    batches = _batches(plan, widths)
    for count in sorted({count for _, count in batches}):
        compile_batch(plan, widths, count)
    clock.append(time.perf_counter())
    found, path_steps = _run(plan, widths, batches, progress)
    clock.append(time.perf_counter())
    by_point = merge(found, len(points))
    cut = np.zeros_like(by_point.late) if problem.timed else by_point.late
    _check_outcome(by_point, cut, t_max, throw)
    variance = by_point.square / (n_paths - 1)
    return Labels(
        points=points,
        value=jnp.asarray(by_point.mean, points.dtype),
        stderr=jnp.asarray(np.sqrt(variance / n_paths), points.dtype),
        n_paths=n_paths,
        unfinished=jnp.asarray(cut),
        provenance={
            "scheme": chosen.name,
            "reason": chosen.reason,
            "dt": dt,
            "t_max": None if np.isinf(t_max) else t_max,
            "seed": seed,
            "path_steps": path_steps,
            "seconds": {"compile": clock[1] - clock[0], "run": clock[2] - clock[1]},
        },
    )


def _batches(plan: Plan, widths: Widths) -> list[tuple[int, int]]:
    """Ranges of whole segments, about as large as the device wants them."""
    total = len(plan.points) * plan.n_paths
    size = min(widths.batch, -(-total // widths.threads))
    cuts = [0]
    for start in segment_starts(len(plan.points), plan.n_paths):
        if start - cuts[-1] >= size:
            cuts.append(int(start))
    return list(zip(cuts, np.diff([*cuts, total]).tolist(), strict=True))


def _run(
    plan: Plan, widths: Widths, batches: list[tuple[int, int]], progress: AbstractProgress
) -> tuple[Moments, int]:
    """Run the batches and reduce each to the moments of its segments."""
    starts = segment_starts(len(plan.points), plan.n_paths)
    progress.start("labels", len(plan.points) * plan.n_paths)
    parts: list[Moments] = []
    path_steps = 0
    for ended in run_batches(plan, batches, widths):
        bad = ~np.isfinite(ended.payoff)
        if np.any(bad):
            _refuse_nan(plan, ended.first + int(np.argmax(bad)), int(np.count_nonzero(bad)))
        last = ended.first + len(ended.payoff)
        own = starts[(starts >= ended.first) & (starts < last)] - ended.first
        parts.append(moments(ended.payoff, ended.late, own))
        path_steps += int(np.sum(ended.steps, dtype=np.int64))
        progress.update(last)
    return Moments(*(np.concatenate(field) for field in zip(*parts, strict=True))), path_steps


def _refuse_nan(plan: Plan, number: int, how_many: int) -> None:
    point, path = divmod(number, plan.n_paths)
    raise ValueError(
        f"A coefficient of `problem` is not finite along a path: path {path} from point "
        f"{np.asarray(plan.points[point])} ({how_many} paths in this batch). Paths may step past "
        f"the boundary by about sigma * sqrt(dt); the data must be finite there too."
    )


def _check_outcome(by_point: Moments, cut: np.ndarray, t_max: float, throw: bool) -> None:
    if throw and cut.any():
        raise ValueError(
            f"{int(cut.sum())} of {int(by_point.n.sum())} paths had not ended at "
            f"`t_max`={t_max:g}. Raise `t_max`, or pass `throw=False` and look at "
            f"`Labels.unfinished`."
        )
    share = by_point.largest / np.maximum(by_point.size, np.finfo(float).tiny)
    heavy = (share > _HEAVY) & (by_point.n >= 100)
    if np.any(heavy):
        warnings.warn(
            f"At {np.count_nonzero(heavy)} of {len(heavy)} points one path carries more than "
            f"{_HEAVY:.0%} of the sum (up to {share.max():.0%}): the average is dominated by rare "
            f"paths and its error bar is not to be trusted. Use more paths; a strongly negative "
            f"reaction makes this worse.",
            stacklevel=3,
        )


@eqx.filter_jit
def _inside(domain: AbstractDomain, x: Float[Array, "n d"]) -> Bool[Array, " n"]:
    return jax.vmap(domain.contains)(x)


def _check(problem: Problem, points, n_paths: int, dt: float, t_max: float) -> None:
    if points.ndim != 2 or points.shape[1] != problem.n_coords or len(points) == 0:
        raise ValueError(
            f"`points` must have shape (n, {problem.n_coords}), n >= 1; got shape {points.shape}."
        )
    inside = np.asarray(_inside(problem.domain, points[:, problem.n_coords - problem.dim :]))
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
            "never end. Pass a finite `t_max` with `throw=False`."
        )
