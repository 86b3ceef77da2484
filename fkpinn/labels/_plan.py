"""A pilot run, and from it the time step and the number of paths that fit the time given."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import current
from .._progress import AbstractProgress, SilentProgress
from .._streams import Stream
from .._together import clock
from ..problem import Problem
from ..sampling import sample_interior
from ..sde import Plan, run_batches
from ._estimate import estimate_labels
from ._scheme import Choice, choose_scheme

_POINTS = 32  # where the pilot starts its paths
_SMALL, _LARGE = 64, 1024  # paths a point in one pilot run; few sizes, since each is compiled
_BIAS = 0.005  # share of the value that the step size may cost
_SURE = 0.003  # standard error at which that share counts as known
_PILOT = 0.5  # time of the pilot, as a share of that of the labels
_HALVINGS = 8  # of the first step size, at most
_FEWEST = 16  # paths a point
_MOST_STEPS = 1 << 14  # after which the first paths of the pilot are cut
_MOST_CUT = 0.1  # share of them; if it is larger, paths are taken never to end
_NO_STEP = 1e-3  # walks on spheres have no time step, but `estimate_labels` asks for one


class LabelPlan(NamedTuple):
    """How to spend a given time on labels, and the expected errors.

    `predicted` has `rel_stderr`, `rel_bias` and `rel_error` (both together), relative to the root
    mean square of the solution, and `seconds`. `pilot` has the measurements: durations of paths,
    variance of payoffs, speed, and time-step bias; `resolved` is False if the pilot was too short
    to distinguish that bias from noise.
    """

    scheme: str
    reason: str
    dt: float
    n_paths: int
    n_points: int
    t_max: float
    predicted: dict[str, float]
    pilot: dict[str, Any]


def plan_labels(
    problem: Problem,
    *,
    seconds: float,
    n_points: int = 200,
    seed: int = 0,
    progress: AbstractProgress | None = None,
    dtype: Any = jnp.float32,
) -> LabelPlan:
    r"""Choose the time step and the number of paths for labels in a given time.

    With $c\,\delta$ for the bias at step $\delta$, $T$ for the mean length of a path and $S$ for
    the steps that fit the time, the error at one of $n$ points is
    $(c\,\delta)^2 + \mathrm{Var}\, T n / (\delta S)$. The step is the one that makes it smallest,
    and never larger than one whose bias was measured to be at most half a percent.

    Args:
        problem: the boundary value problem.
        seconds: time for the labels; the pilot takes up to half of it in addition, plus
            compilation.
        n_points: number of points with labels.
        seed: seed of the pilot's points and paths; its timings differ from run to run nevertheless.
        progress: told how many pilot runs are done.
        dtype: precision of the paths.

    Returns:
        `LabelPlan`: arguments for `estimate_labels`, and the expected errors.

    Example:
        ```python
        import fkpinn as fk

        problem = fk.catalogue("exit-ball-3d").problem
        plan = fk.plan_labels(problem, seconds=1.0)
        points = fk.sample_interior(problem, plan.n_points, key=jax.random.key(0))
        labels = fk.estimate_labels(problem, points, n_paths=plan.n_paths, dt=plan.dt)
        ```
    """
    _check(problem, seconds, n_points)
    chosen = choose_scheme(problem)
    stream = Stream(seed) / "plan"
    points = sample_interior(problem, _POINTS, dtype=dtype, key=(stream / "points").key)
    pilot = _Pilot(problem, chosen, points, seconds, stream, progress or SilentProgress())
    if chosen.name == "spheres":
        return _plan_spheres(pilot, n_points)
    dt = _first_step(problem, points)
    found = pilot.probe(dt)
    at, bias = pilot.search(dt)
    pilot.clock(at)
    level = pilot.levels[at]
    slope = max(abs(bias["share"]), bias["stderr"], abs(bias["offset_sure"])) / at
    work = pilot.mean_steps(at) * at * n_points / (level.speed * seconds)  # of one path, times dt
    best = (level.rel_variance() * work / (2 * slope**2)) ** (1 / 3) if slope > 0 else at
    # where the slope is no more than noise there is nothing to balance
    step = _round_down(min(at, max(best, at / 16)) if bias["resolved"] else at)
    n_paths = max(int(step / work), _FEWEST)
    found |= {
        "rel_std": math.sqrt(level.rel_variance()),
        "mean_time": pilot.mean_steps(at) * at,
        "mean_steps": pilot.mean_steps(at),
        "path_steps_per_s": level.speed,
        "bias_per_dt": slope,
        "bias_dt": at,
        "bias_share": bias["share"],
        "bias_share_stderr": bias["stderr"],
        "resolved": bool(bias["resolved"]),
        "seconds": pilot.elapsed(),
    }
    expected = seconds * work * n_paths / step
    predicted = _predict(level.rel_variance(), n_paths, slope * step, expected)
    return LabelPlan(
        chosen.name, chosen.reason, step, n_paths, n_points, math.inf, predicted, found
    )


def _check(problem: Problem, seconds: float, n_points: int) -> None:
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"`seconds` must be positive and finite; got {seconds!r}.")
    if n_points < 1:
        raise ValueError(f"`n_points` must be at least 1; got {n_points!r}.")
    if not problem.paths_end():
        raise ValueError(
            "`problem` has only Neumann boundary parts, no reaction and no horizon, so paths "
            "never end and nothing can be planned. Call `estimate_labels` with a finite `t_max` "
            "and `throw=False`."
        )


def _predict(variance: float, n_paths: int, bias: float, seconds: float) -> dict[str, float]:
    stderr = math.sqrt(variance / n_paths)
    error = math.hypot(stderr, bias)
    return {"rel_stderr": stderr, "rel_bias": bias, "rel_error": error, "seconds": seconds}


def _plan_spheres(pilot: "_Pilot", n_points: int) -> LabelPlan:
    pilot.run(_NO_STEP, _LARGE)  # the first run pays for what is compiled on the way
    pilot.levels.clear()
    pilot.run(_NO_STEP, _LARGE)
    level, steps = pilot.levels[_NO_STEP], pilot.mean_steps(_NO_STEP)
    work = steps * n_points / (level.speed * pilot.seconds)
    n_paths = max(int(1.0 / work), _FEWEST)
    found = {
        "mean_time": None,
        "time_tail": None,
        "mean_steps": steps,
        "rel_std": math.sqrt(level.rel_variance()),
        "path_steps_per_s": level.speed,
        "bias_per_dt": 0.0,
        "resolved": True,
        "seconds": pilot.elapsed(),
    }
    predicted = _predict(level.rel_variance(), n_paths, 0.0, pilot.seconds * work * n_paths)
    name, reason = pilot.chosen.name, pilot.chosen.reason
    return LabelPlan(name, reason, _NO_STEP, n_paths, n_points, math.inf, predicted, found)


def _first_step(problem: Problem, points: Float[Array, "n z"]) -> float:
    """A step that is small beside the domain and what the coefficients do; a place to start.

    A path must not move more than a quarter of the domain's depth, nor half a wavelength (over
    2 pi) of source and reaction; drift and reaction must not do much in one step.
    """
    size = lambda a: float(np.sqrt(np.mean(np.sum(np.square(np.asarray(a, float)), axis=-1))))
    flat = lambda a: np.reshape(np.asarray(a, float), (len(points), -1))
    inside = jax.vmap(problem.region.signed_distance)(points)
    depth = float(np.max(-np.asarray(inside, float)))
    spread = size(flat(jax.vmap(problem.sigma)(points))) ** 2 / problem.dim
    lengths = [0.25 * depth]
    for field in (problem.source, problem.reaction):
        if field.function is not None:
            change = size(flat(jax.vmap(jax.grad(field))(points)))
            value = size(flat(jax.vmap(field)(points)))
            lengths.append(0.5 * value / change if change > 0 else math.inf)
    steps = [min(lengths) ** 2 / max(spread, 1e-30)]
    rates = [size(flat(jax.vmap(problem.reaction)(points)))]
    if not problem.drift.is_zero:
        b = size(flat(jax.vmap(problem.drift)(points)))
        steps += [0.1 * depth / b if b > 0 else math.inf]
        steps += [spread / b**2 if b > 0 and spread > 0 else math.inf]
        rates += [size(flat(jax.vmap(jax.jacobian(problem.drift))(points)))]
    steps += [0.1 / rate for rate in rates if rate > 0]
    if problem.horizon is not None:
        steps += [problem.horizon / 16]
        if spread == 0:
            steps[0] = problem.horizon / 16
    return _round_down(min(steps))


def _round_down(dt: float) -> float:
    """Two digits are enough, and are easier to copy."""
    unit = 10.0 ** (math.floor(math.log10(dt)) - 1)
    return float(f"{math.floor(dt / unit * (1 + 1e-9)) * unit:.2g}")


class _Level:
    """What all pilot runs at one step size say together."""

    def __init__(self):
        self.n_paths, self.steps, self.largest, self.speed = 0, 0, 0, 0.0
        self.mean = self.square = np.zeros(_POINTS)  # square: of the error bar, times n_paths^2

    def add(self, labels) -> None:
        k, made = labels.n_paths, labels.provenance
        value, stderr = (np.asarray(a, float) for a in (labels.value, labels.stderr))
        self.mean = (self.n_paths * self.mean + k * value) / (self.n_paths + k)
        self.square = self.square + (k * stderr) ** 2
        self.n_paths += k
        self.steps += made["path_steps"]
        if k >= self.largest:  # small runs have more idle lanes than the labels will have
            self.largest, self.speed = k, made["path_steps"] / max(made["seconds"]["run"], 1e-9)

    def noise(self) -> np.ndarray:
        """Variance of `mean`."""
        return self.square / self.n_paths**2

    def rel_variance(self) -> float:
        """Variance of one payoff in units of the mean square of the solution."""
        square = max(
            float(np.mean(self.mean**2 - self.noise())), 0.1 * float(np.mean(self.mean**2))
        )
        return float(np.mean(self.noise())) * self.n_paths / max(square, np.finfo(float).tiny)


class _Pilot:
    """Runs few paths at several step sizes, and keeps what they say."""

    def __init__(
        self, problem: Problem, chosen: Choice, points, seconds: float, stream: Stream, progress
    ):
        self.problem, self.chosen, self.points = problem, chosen, points
        self.seconds, self.stream, self.progress = seconds, stream, progress
        self.levels: dict[float, _Level] = {}
        self.begin, self.compiled, self.n_runs = clock(), 0.0, 0
        progress.start("pilot", None)

    def elapsed(self) -> float:
        return clock() - self.begin

    def left(self) -> float:
        """Seconds that the pilot may still take; compilation is not counted."""
        return _PILOT * self.seconds - (self.elapsed() - self.compiled)

    def mean_steps(self, dt: float) -> float:
        return self.levels[dt].steps / (self.levels[dt].n_paths * _POINTS)

    def probe(self, dt: float) -> dict[str, Any]:
        """Whether paths end at all, and when: a few of them, cut after very many steps."""
        began, half = clock(), _SMALL * _POINTS // 2
        most = None if self.problem.timed else _MOST_STEPS
        seed = (self.stream / "probe").seed
        plan = Plan(self.problem, self.chosen.walk, self.points, _SMALL, dt, most, seed)
        # as `run` has, to share what is compiled
        lanes = current().lanes_for(2 * half, self.problem.dim)
        batches = [(0, half), (half, half)] if lanes.threads == 2 else [(0, 2 * half)]
        ended = list(run_batches(plan, batches, lanes))
        steps = np.concatenate([e.steps for e in ended]).astype(float)
        late = 0 if self.problem.timed else int(sum(np.count_nonzero(e.late) for e in ended))
        if late > _MOST_CUT * len(steps):
            raise ValueError(
                f"{late} of {len(steps)} paths of the pilot had not ended after {_MOST_STEPS} "
                f"steps of {dt:g} (time {_MOST_STEPS * dt:g}): nothing can be planned. Paths end "
                f"at Dirichlet parts, or when Robin parts or a reaction have discounted them; "
                f"check whether they can get there (sign of the drift, size of the diffusion), or "
                f"call `estimate_labels` with a finite `t_max` and `throw=False`."
            )
        self.compiled += clock() - began
        return {"mean_time": float(steps.mean()) * dt, "time_tail": _tail(steps) * dt}

    def run(self, dt: float, n_paths: int) -> None:
        """So many more paths from each point with that step."""
        self.n_runs += 1
        guard = math.inf
        if self.chosen.name != "spheres" and not self.problem.timed:
            guard = 256 * _MOST_STEPS * dt
        labels = estimate_labels(
            self.problem, self.points, n_paths=n_paths, dt=dt, scheme=self.chosen.name, t_max=guard,
            seed=(self.stream / "runs" / self.n_runs).seed,
            warn=False,  # the labels themselves will warn of rare heavy paths
        )  # fmt: skip
        self.compiled += labels.provenance["seconds"]["compile"]
        self.levels.setdefault(dt, _Level()).add(labels)
        self.progress.update(self.n_runs)

    def fill(self, dt: float, n_paths: int) -> None:
        """Bring a step size up to so many paths per point."""
        while (lacking := n_paths - (self.levels[dt].n_paths if dt in self.levels else 0)) > 0:
            self.run(dt, _LARGE if lacking >= _LARGE // 2 else _SMALL)

    def clock(self, dt: float) -> None:
        """Make sure that the speed was measured on a run of some size, if that is affordable."""
        level = self.levels[dt]
        cost = self.mean_steps(dt) * _LARGE * _POINTS / level.speed
        if level.largest < _LARGE and cost < max(self.left(), 0.1 * self.seconds):
            self.run(dt, _LARGE)

    def search(self, dt: float) -> tuple[float, dict[str, Any]]:
        """Halve the step until that changes the values by little.

        Schemes are of first order at least: what one halving changes, the finer step still lacks.
        """
        n_paths, halvings = _SMALL, 1
        self.fill(dt, n_paths)
        self.fill(dt / 2, n_paths)
        while True:
            bias = _bias(self.levels[dt], self.levels[dt / 2])
            share, spread = abs(bias["share"]), bias["stderr"]
            wrong = max(share - 2 * spread, abs(bias["offset_sure"])) > _BIAS
            known = spread <= _SURE
            bias["resolved"] = known and not wrong and share <= _BIAS
            if bias["resolved"] or self.left() <= 0:
                return dt / 2, bias
            if wrong or known:
                halvings, dt = halvings + 1, dt / 2
            else:
                lack = math.ceil(n_paths * (spread / (0.9 * _SURE)) ** 2)
                n_paths = self._affordable(dt, min(lack, 64 * n_paths), n_paths)
            if halvings > _HALVINGS or n_paths == 0:
                return (dt if n_paths else dt / 2), bias
            self.fill(dt, n_paths)
            self.fill(dt / 2, n_paths)

    def _affordable(self, dt: float, wanted: int, now: int) -> int:
        """How many paths per point at this step and at half of it the time allows; 0 for none."""
        each = 3 * self.mean_steps(dt) * _POINTS / self.levels[dt / 2].speed  # seconds
        most = now + int(self.left() / each)
        whole = min(max(wanted, now + _SMALL), most)
        return -(-whole // _SMALL) * _SMALL if most >= now + _SMALL else 0


def _bias(coarse: _Level, fine: _Level) -> dict[str, Any]:
    """What one halving of the step changes: a share of the values, and a common offset.

    Points where all paths pay the same look free of noise but say nothing, hence the mean noise
    in the weights. The offset, in units of the values, finds what is not proportional to them; it
    is noisier, and `offset_sure` is what of it is beyond two standard errors.
    """
    value, gap = fine.mean, coarse.mean - fine.mean
    noise = coarse.noise() + fine.noise()
    weight = 1.0 / np.maximum(noise + np.mean(noise), np.finfo(float).tiny)
    norm = max(float(np.sum(weight * value**2)), np.finfo(float).tiny)
    size = max(float(np.sqrt(np.mean(value**2))), np.finfo(float).tiny)
    offset, spread = float(np.mean(gap)) / size, float(np.sqrt(np.sum(noise))) / len(gap) / size
    return {
        "share": float(np.sum(weight * value * gap)) / norm,
        "stderr": float(np.sqrt(np.sum(weight**2 * value**2 * noise))) / norm,
        "offset_sure": math.copysign(max(abs(offset) - 2 * spread, 0.0), offset),
    }


def _tail(steps: np.ndarray) -> float:
    """The number of steps that one path in a hundred exceeds."""
    return float(np.quantile(steps, 0.99))
