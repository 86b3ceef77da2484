"""Monte Carlo values of the solution at single points."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._compute import Compute, Lanes, current, using
from .._files import reading
from .._lock import alone
from .._progress import AbstractProgress, SilentProgress
from .._records import clear_unfinished
from .._streams import Stream
from .._together import clock
from ..problem import Problem, Region
from ..sde import (
    NEAR,
    AbstractWalk,
    Plan,
    Scheme,
    Visits,
    compile_batch,
    describe_lost_path,
    run_batches,
)
from ._branching import branching_labels
from ._labels import Labels
from ._moments import Moments, merge, moments, segment_starts
from ._scheme import Choice, Steps, choose_scheme, step_size, steps_for
from ._store import Store, check_same, identity

_HEAVY = 0.5  # share of the total that one path may carry before its point counts as heavy
_HEAVY_NEGATIVE = 0.1  # the same where a negative reaction lets payoffs grow along the path
_MANY = 0.02  # share of heavy points that is worth a warning: next to walls there are always a few
_MOST_SPHERES = 100_000  # a walk on spheres of more is lost
_PLACES = 1 << 14  # least room for visited places, so that runs of fewer paths share compiled code


def estimate_labels(
    problem: Problem,
    points: Float[Array, "n z"] | Float[np.ndarray, "n z"],
    *,
    n_paths: int,
    dt: float | Steps | None = None,
    scheme: str | AbstractWalk = "default",
    t_max: float = float("inf"),
    seed: int = 0,
    antithetic: bool = False,
    control: Callable[..., Any] | None = None,
    read_every: int = 1,
    forget: float = 1e-7,
    refine: int | None = None,
    near: float | None = None,
    bias: bool = False,
    throw: bool = True,
    warn: bool = True,
    store: Path | str | None = None,
    compute: Compute | None = None,
    progress: AbstractProgress | None = None,
) -> Labels:
    r"""Estimate $u$ at every point by averaging over paths run to exit.

    Equations: [eq:fk-elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:fk-mc-estimator](../theory/equations.md), [eq:fk-Y-delta-Tmax](../theory/equations.md);
    `scheme="euler"` is Algorithm alg:fk-mc of the paper.

    Args:
        problem: the boundary value problem.
        points: points inside the domain, one per row; their precision is that of the paths.
        n_paths: paths per point, at least 2; the error bar shrinks as `n_paths ** -0.5`.
        dt: time step; by default derived from the size of the domain, see
            `fkpinn.labels.steps_for`; a `Steps` object from it sets `refine` and `near` too. Walks
            on spheres have no time step.
        scheme: how paths move and end: `default` chooses for the problem, see `SCHEMES`; or your
            own walk. `branching` is for polynomial equations on all of space, see
            `fkpinn.labels.branching_labels`.
        t_max: paths are cut at this time.
        seed: together with the indices of point, path and step it determines every random number;
            labels do not depend on how the work is divided.
        antithetic: run paths in pairs with opposite noise; helps if payoffs are odd functions of
            it.
        control: a differentiable function of one point, close to the solution; the martingale
            computed from its gradient is subtracted. The mean is unchanged, the noise shrinks with
            the error of the function.
        read_every: evaluate source and flux at only one random step in this number (a power of 2 up
            to 64); for data that cost more than the walk.
        forget: discount below which a path is ended; the relative error is about this number.
        refine: next to absorbing walls and in strong drift, steps are up to this factor shorter (a
            power of 2 up to 1024), if the problem has no horizon; by default 1 if `dt` is given,
            otherwise chosen by `fkpinn.labels.steps_for`.
        near: with `refine`, a step next to a wall reaches at most the distance to the wall divided
            by this; by default 4, in hundreds of dimensions chosen by `fkpinn.labels.steps_for`.
        bias: run half as many paths with twice the step as well, and compare.
        throw: raise an error if paths were cut; if False, check `Labels.unfinished`.
        warn: warn where single paths dominate the average at many points; `provenance["heavy"]`
            counts them in any case.
        store: a file for the labels. Finished work is stored next to it, so that after a crash the
            same call continues, with bitwise the same result; once complete, the call returns the
            stored labels.
        compute: device and number of simultaneous paths; chosen for the device by default.
        progress: told how many paths have ended.

    Returns:
        `Labels`: value, standard error and number of unfinished paths at every point.
    """
    points = jnp.asarray(points)
    if scheme == "branching":
        given = {
            "dt": dt, "refine": refine, "control": control, "store": store, "bias": bias or None,
            "antithetic": antithetic or None, "t_max": None if np.isinf(t_max) else t_max,
        }  # fmt: skip
        if unused := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"`scheme='branching'` does not use {unused}; leave them out.")
        return branching_labels(problem, points, n_paths=n_paths, seed=seed, progress=progress)
    steps = _steps(problem, points, scheme, dt, refine, near, t_max)
    how: dict[str, Any] = {
        "scheme": scheme, "t_max": t_max, "antithetic": antithetic, "control": control,
        "read_every": read_every, "forget": forget,
    }  # fmt: skip
    stream = Stream(seed)
    with using(compute):
        chosen, plan = _planned(
            problem, points, n_paths=n_paths, seed=(stream / "paths").seed, **steps._asdict(), **how
        )
        total = len(points) * n_paths
        lanes = current().lanes_for(total, problem.dim, short=plan.walk.short)
        progress = progress or SilentProgress()
        store, partial = _files(store)
        options = {"read_every": read_every, "forget": forget, "refine": steps.refine, "bias": bias}
        options |= {"near": steps.near} if steps.refine > 1 else {}
        options |= {"noise": plan.noise} if plan.noise else {}
        who = {} if store is None else identity(plan, chosen.name, seed=seed, **options)
        if store is not None and store.exists():
            return _stored(store, plan, who)
        with contextlib.nullcontext() if store is None else _only_here(store):
            work = Store(partial, who, len(_segments(plan)))
            labels = _estimated(plan, chosen, lanes, work, t_max, throw, warn, progress)
            labels.provenance["seed"] = seed
            if bias and plan.walk.stepped:
                coarse = estimate_labels(
                    problem, points, n_paths=max(4, n_paths // 4 * 2), dt=steps.times(2.0),
                    seed=(stream / "coarse").seed, throw=throw, warn=False, progress=progress,
                    compute=dataclasses.replace(current(), lanes=lanes),  # shares compiled code
                    **how,
                )  # fmt: skip
                labels = _with_bias(labels, coarse)
            if store is not None and partial is not None:
                labels.provenance["identity"] = who
                labels.save(store)
                partial.unlink(missing_ok=True)
            return labels


def _steps(
    problem: Problem,
    points: Float[Array, "n z"],
    scheme: str | AbstractWalk,
    dt: float | Steps | None,
    refine: int | None,
    near: float | None,
    t_max: float = float("inf"),
) -> Steps:
    """What the caller wants, or what fits the problem."""
    if isinstance(dt, Steps):
        if refine is not None or near is not None:
            raise ValueError(
                "`dt` is a `Steps` object, which already sets `refine` and `near`; do not pass "
                "these as well."
            )
        return dt
    if dt is None and refine is None and np.isinf(t_max):
        found = steps_for(problem, points, choose_scheme(problem, scheme).walk)
    else:
        each = step_size(problem, points) if dt is None else dt
        found = Steps(each, 1 if refine is None else refine)
    return found if near is None else found._replace(near=near)


def _estimated(
    plan: Plan,
    chosen: Choice,
    lanes: Lanes,
    work: Store,
    t_max: float,
    throw: bool,
    warn: bool,
    progress: AbstractProgress,
) -> Labels:
    """Compile, run what is not done yet, and average."""
    n_points = len(plan.points)
    progress.start("labels", n_points * plan.n_paths)
    times = [clock()]
    batches = _batches(plan, lanes, work.done)
    for count in sorted({count for _, count in batches}):
        compile_batch(plan, lanes, count)
    times.append(clock())
    _run(plan, lanes, batches, work, progress)
    times.append(clock())
    total = merge(work.moments, n_points)
    cut = np.zeros_like(total.late) if plan.problem.timed else total.late
    if throw and cut.any():
        raise ValueError(
            f"{int(cut.sum())} of {int(total.n.sum()) * _per_payoff(plan)} paths had not ended at "
            f"`t_max`={t_max:g}. Raise `t_max`, or pass `throw=False` and look at "
            f"`Labels.unfinished`."
        )
    labels = _labels(plan, chosen, total, cut)
    labels.provenance.update(
        {
            "t_max": None if np.isinf(t_max) else t_max,
            "path_steps": int(work.steps.sum()),
            "seconds": {"compile": times[1] - times[0], "run": times[2] - times[1]},
            "heavy": _heavy_points(plan, total, warn),
            "devices": max(len(current().with_everyone().devices), 1),
        }
    )
    return labels


def compile_labels(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float | Steps,
    scheme: str | AbstractWalk = "default",
    read_every: int = 1,
    forget: float = 1e-7,
    compute: Compute | None = None,
) -> None:
    """Compile what `estimate_labels` needs for work of this kind, without running a path."""
    steps = _steps(problem, points, scheme, dt, None, None)
    _, plan = _planned(
        problem, points, n_paths=n_paths, scheme=scheme, read_every=read_every, forget=forget,
        **steps._asdict(),
    )  # fmt: skip
    with using(compute):
        lanes = current().lanes_for(len(points) * n_paths, problem.dim)
        compile_batch(plan, lanes, len(points) * n_paths)


def visited_places(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float | Steps | None = None,
    refine: int | None = None,
    scheme: str | AbstractWalk = "default",
    seed: int = 0,
    n_steps: int | None = None,
    most: int = 1 << 16,
    compute: Compute | None = None,
    progress: AbstractProgress | None = None,
) -> Visits:
    """Run paths to their exits; return one visited place and the exit point of each.

    Args:
        problem: the boundary value problem.
        points: where paths start, one point per row.
        n_paths: from each point, at least 2.
        dt: time step, or `Steps`; by default derived from the size of the domain.
        refine: how much shorter steps may be next to walls, see `estimate_labels`.
        scheme: how paths move and end, see `SCHEMES`.
        seed: seed of all random numbers.
        n_steps: number of steps after which paths are cut, if given; walks on spheres are not cut.
        most: maximum number of paths that return a place; if there are more, only every k-th does.
        compute: device and number of simultaneous paths; chosen for the device by default.
        progress: told how many paths have ended.

    Returns:
        `Visits`: `time * f(point)` has the mean of the integral of `f` along paths, discounted.
    """
    how = {"n_paths": n_paths, "dt": dt, "refine": refine, "scheme": scheme}
    how |= {"seed": seed, "n_steps": n_steps, "most": most}
    with using(compute):
        plan, lanes, batches = _visiting(problem, points, **how)
        progress, found, done = progress or SilentProgress(), [], 0
        progress.start("paths for collocation points", len(points) * n_paths)
        for ended in run_batches(plan, batches, lanes):
            found.append(ended.visits)
            done += len(ended.payoff)
            progress.update(done)
    return Visits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def compile_visits(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float | Steps | None = None,
    refine: int | None = None,
    scheme: str | AbstractWalk = "default",
    n_steps: int | None = None,
    most: int = 1 << 16,
) -> None:
    """Compile what `visited_places` needs for work of this kind, without running a path."""
    plan, lanes, batches = _visiting(
        problem, points, n_paths=n_paths, dt=dt, refine=refine, scheme=scheme, seed=0,
        n_steps=n_steps, most=most,
    )  # fmt: skip
    for count in sorted({count for _, count in batches}):
        compile_batch(plan, lanes, count)


def _visiting(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float | Steps | None,
    refine: int | None,
    scheme: str | AbstractWalk,
    seed: int,
    n_steps: int | None,
    most: int,
) -> tuple[Plan, Lanes, list[tuple[int, int]]]:
    """The work of `visited_places`."""
    steps = _steps(problem, points, scheme, dt, refine, None)
    _, plan = _planned(
        problem, points, n_paths=n_paths, scheme=scheme, read_every=1, forget=1e-7,
        seed=(Stream(seed) / "paths").seed, **steps._asdict(),
    )  # fmt: skip
    total = len(points) * n_paths
    plan = plan._replace(visits=min(most, max(total, _PLACES)))
    if n_steps is not None and plan.n_steps is None and not problem.timed:
        plan = plan._replace(n_steps=n_steps)
    lanes = current().lanes_for(total, problem.dim)
    batches = _batches(plan, lanes, np.zeros(len(_segments(plan)), bool))
    return plan._replace(visits=max(1, -(-plan.visits // len(batches)))), lanes, batches


def _planned(
    problem: Problem,
    points: Float[Array, "n z"],
    *,
    n_paths: int,
    dt: float,
    scheme: str | AbstractWalk,
    read_every: int,
    forget: float,
    refine: int,
    near: float = NEAR,
    noise: float = 0.0,
    t_max: float = float("inf"),
    seed: int = 0,
    antithetic: bool = False,
    control: Any = None,
) -> tuple[Choice, Plan]:
    """The scheme and the work, checked."""
    if not problem.linear:
        raise ValueError(
            "`problem` is nonlinear, but labels are averages for linear problems. Use "
            "`problem.linearized(w)` with a candidate `w`, or `estimate_defect`; for polynomial "
            "equations on all of space, `scheme='branching'`."
        )
    chosen = choose_scheme(problem, scheme, cut=bool(np.isfinite(t_max)))
    walk = _with_options(chosen, control, read_every, forget, refine)
    _check(problem, points, n_paths, dt, t_max, antithetic)
    if not (np.isfinite(near) and near > 0):
        raise ValueError(f"`near` must be positive; got {near!r}.")
    if refine > 1 and np.isfinite(t_max):
        raise ValueError(
            f"`refine` uses steps of varying length and does not support `t_max`; got {t_max!r}."
        )
    n_steps = None if np.isinf(t_max) else max(int(np.floor(t_max / dt + 1e-9)), 1)
    if not walk.stepped:
        n_steps = _MOST_SPHERES
    plan = Plan(
        problem, walk, points, n_paths, dt, n_steps, seed, antithetic, control,
        near=near, noise=noise if walk.stepped else 0.0,
    )  # fmt: skip
    return chosen, plan


def _files(store: Path | str | None) -> tuple[Path | None, Path | None]:
    """The file for the labels, and the one for work on them."""
    if store is None:
        return None, None
    path = Path(store)
    return path, path.with_name(f"{path.name}.partial")


@contextlib.contextmanager
def _only_here(store: Path) -> Iterator[None]:
    """No other process makes these labels; what a killed one was writing is removed."""
    with alone(store.with_name(f"{store.name}.lock"), store):
        clear_unfinished(store.parent, store.name)
        yield


def _stored(store: Path, plan: Plan, who: dict[str, Any]) -> Labels:
    """Finished labels, if they are those of the plan."""
    labels = Labels.load(store)
    check_same(store, labels.provenance.get("identity", {}), who)
    with reading(store):
        same = np.array_equal(labels.points, plan.points) and labels.n_paths == plan.n_paths
        made = labels.provenance
        numbers = [made["dt"], made["path_steps"], *map(made["seconds"].get, ("compile", "run"))]
        if not (same and isinstance(made["reason"], str) and np.all(np.isfinite(numbers))):
            raise ValueError("its record does not fit")
    return labels


def _with_options(
    chosen: Choice, control, read_every: int, forget: float, refine: int
) -> AbstractWalk:
    """The scheme with its options, or an error where it has none."""
    if read_every not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError(f"`read_every` must be a power of 2 from 1 to 64; got {read_every!r}.")
    if not 0 < forget <= 0.1:
        raise ValueError(f"`forget` must lie in (0, 0.1]; got {forget!r}.")
    if refine not in {1 << k for k in range(11)}:
        raise ValueError(f"`refine` must be a power of 2 from 1 to 1024; got {refine!r}.")
    if isinstance(chosen.walk, Scheme):
        options = {"read_every": read_every, "forget": forget, "refine": refine}
        return dataclasses.replace(chosen.walk, **options)
    if control is not None or read_every > 1 or refine > 1:
        name = "control" if control is not None else "read_every" if read_every > 1 else "refine"
        raise ValueError(
            f"`{name}` is for paths that move in time steps; got scheme {chosen.name!r}. Try "
            f"`scheme='heun'`."
        )
    return chosen.walk


def _per_payoff(plan: Plan) -> int:
    """Paths whose average counts as one payoff."""
    return 2 if plan.antithetic else 1


def _segments(plan: Plan) -> np.ndarray:
    """Number of the first path of each segment."""
    each = _per_payoff(plan)
    return each * segment_starts(len(plan.points), plan.n_paths // each)


def _batches(plan: Plan, lanes: Lanes, done: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of whole segments that are not done, about as large as the device wants them."""
    starts = _segments(plan)
    ends = np.append(starts[1:], len(plan.points) * plan.n_paths)
    size = min(lanes.batch, -(-int(ends[-1]) // lanes.threads))
    batches: list[tuple[int, int]] = []
    for start, end, ready in zip(starts.tolist(), ends.tolist(), done, strict=True):
        if ready:
            continue
        if batches and sum(batches[-1]) == start and batches[-1][1] < size:
            batches[-1] = (batches[-1][0], end - batches[-1][0])
        else:
            batches.append((start, end - start))
    return batches


def _run(
    plan: Plan,
    lanes: Lanes,
    batches: list[tuple[int, int]],
    work: Store,
    progress: AbstractProgress,
) -> None:
    """Run the batches, reduce each to the moments of its segments, and keep those."""
    starts, each = _segments(plan), _per_payoff(plan)
    finished = len(plan.points) * plan.n_paths - sum(count for _, count in batches)
    for ended in run_batches(plan, batches, lanes):
        bad = ~np.isfinite(ended.payoff)
        if np.any(bad):
            number = ended.first + int(np.argmax(bad))
            raise ValueError(describe_lost_path(plan, number, int(np.count_nonzero(bad))))
        count = len(ended.payoff)
        low, high = np.searchsorted(starts, [ended.first, ended.first + count])
        own = (starts[low:high] - ended.first) // each
        payoff, late = ended.payoff, ended.late
        if each > 1:
            payoff = payoff.reshape(-1, each).mean(axis=1, dtype=np.float64)
            late = late.reshape(-1, each).sum(axis=1)
        steps = np.add.reduceat(ended.steps, own * each, dtype=np.int64)
        work.add(slice(low, high), moments(payoff, late, own), steps)
        finished += count
        progress.update(finished)
    work.write()


def _labels(plan: Plan, chosen: Choice, total: Moments, cut: np.ndarray) -> Labels:
    dtype = plan.points.dtype
    array = lambda values: jnp.asarray(values, dtype)
    n = total.n
    size = float(np.max(np.abs(total.mean)))
    exact = not plan.walk.stepped
    return Labels(
        points=plan.points,
        value=array(total.mean),
        stderr=array(np.sqrt(total.variance() / n)),
        n_paths=plan.n_paths,
        unfinished=jnp.asarray(cut.astype(np.int64)),
        bias=array(np.full(len(n), 0.0 if exact else np.nan)),
        provenance={
            "scheme": chosen.name,
            "reason": chosen.reason,
            "dt": plan.dt,
            "antithetic": plan.antithetic,
        },
        skew=array(total.skew() * np.sqrt(plan.n_paths / n)),
        truncation=array(cut / plan.n_paths * size),  # what they miss is a value of u, about
    )


def _with_bias(labels: Labels, coarse: Labels) -> Labels:
    """What one step size says of the other, as one share of the value at all points.

    A single difference drowns in noise, so the share is fitted over the points.
    """
    value = np.asarray(labels.value, float)
    gap = np.asarray(coarse.value, float) - value
    noise = np.asarray(labels.stderr, float) ** 2 + np.asarray(coarse.stderr, float) ** 2
    weight = 1.0 / np.maximum(noise, np.finfo(np.float32).tiny)
    norm = max(float(np.sum(weight * value**2)), np.finfo(float).tiny)
    share, spread = float(np.sum(weight * value * gap)) / norm, norm**-0.5
    # the schemes are of first order at least: one halving of the step takes half of the bias
    labels.provenance["bias_share"] = share
    labels.provenance["bias_share_stderr"] = spread
    bias = np.maximum(abs(share), spread) * np.abs(value)
    return labels._replace(bias=jnp.asarray(bias, labels.value.dtype))


def _heavy_points(plan: Plan, total: Moments, warn: bool) -> dict[str, int | float]:
    """Points at which one path carries much of the sum: how many, and the largest such share."""
    limit = _HEAVY_NEGATIVE if _may_grow(plan) else _HEAVY
    share = total.largest / np.maximum(total.size, np.finfo(float).tiny)
    heavy = (share > limit) & (total.n >= 100)
    count, worst = int(np.count_nonzero(heavy)), float(np.max(share))
    if warn and count > _MANY * len(heavy):
        warnings.warn(
            f"At {count} of {len(heavy)} points a single path contributes more than {limit:.0%} "
            f"of the sum (up to {worst:.0%}): the average is dominated by rare paths and its "
            f"error bar is unreliable. Use more paths, or `control`; a strongly negative reaction "
            f"makes this worse.",
            stacklevel=4,
        )
    return {"points": count, "largest_share": worst}


def _may_grow(plan: Plan) -> bool:
    """Whether the reaction is negative at one of the points."""
    if plan.problem.reaction.is_zero:
        return False
    return bool(np.any(np.asarray(jax.vmap(plan.problem.reaction)(plan.points)) < 0))


@eqx.filter_jit
def _inside(region: Region, points: Float[Array, "n z"]) -> Bool[Array, " n"]:
    return jax.vmap(region.contains)(points)


def _check(
    problem: Problem, points, n_paths: int, dt: float, t_max: float, antithetic: bool
) -> None:
    if points.ndim != 2 or points.shape[1] != problem.n_coords or len(points) == 0:
        raise ValueError(
            f"`points` must have shape (n, {problem.n_coords}), n >= 1; got shape {points.shape}."
        )
    inside = np.asarray(_inside(problem.region, points))
    if not np.all(inside):
        raise ValueError(
            f"`points` must lie inside the domain; {np.count_nonzero(~inside)} of {len(points)} "
            f"do not, the first at {np.asarray(points[int(np.argmin(inside))])}."
        )
    if n_paths < 2:
        raise ValueError(f"`n_paths` must be at least 2; got {n_paths}.")
    if antithetic and (n_paths % 2 or n_paths < 4):
        raise ValueError(f"`n_paths` must be even and at least 4 with `antithetic`; got {n_paths}.")
    if not (np.isfinite(dt) and dt > 0):
        raise ValueError(f"`dt` must be positive and finite; got {dt!r}.")
    if not t_max > 0:
        raise ValueError(f"`t_max` must be positive; got {t_max!r}.")
    if not (problem.paths_end() or np.isfinite(t_max)):
        raise ValueError(
            "`problem` has only Neumann boundary parts, no reaction and no horizon, so paths "
            "never end. Pass a finite `t_max` with `throw=False`."
        )
