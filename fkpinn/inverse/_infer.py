"""Parameters of a family from measurements, with limits that hold noise and the solver's error."""

import dataclasses
import importlib.util
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._field import AbstractField
from .._progress import AbstractProgress
from .._solve import Solution, solve
from .._streams import Stream, fold_each
from ..evaluate import value_with_interval
from ..loss import cast
from ..problem import Layout, Problem
from ._data import Observations

_STARTS = 32  # of the search for the best values
_STEPS = 60  # of Gauss and Newton each
_EDGE = 1e-4  # of the unit interval, how near to its ends a search comes
_SMALL = 0.5  # noise of corrections over that of the data, which is small enough
_ROUNDS = 5  # of corrections, each with more paths or at a better place
_FIRST = 0.05  # of the ranges, within which corrections are first measured
_MORE = 4  # times as many paths in the next
_WIDE = 3.0  # deviations within which they are measured at the least
_CHAINS = 4
_WARMUP = 500  # steps of each chain before its samples count
_MIXED = 1.05  # chains whose spread within and between differs by no more

Prior = Mapping[str, tuple[float, float]] | Callable[..., Any] | None


class Band(NamedTuple):
    """Mean and limits of a function of uncertain parameters, one number per point."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Inference(NamedTuple):
    """Values of parameters that fit measurements, and their uncertainty.

    `best` are the most likely values, `samples` samples of the posterior distribution, one per row,
    in the order of `names`. `shares` says how much of the variance of each parameter is due to the
    noise of the data, and how much to the solver's own error; `solver` is the root mean square of
    that error relative to the noise of the data, after the network was corrected by paths. `notes`
    reports problems.
    """

    names: tuple[str, ...]
    best: dict[str, float]
    samples: np.ndarray
    shares: dict[str, dict[str, float]]
    solver: float
    notes: list[str]

    @property
    def mean(self) -> dict[str, float]:
        """Means of the samples."""
        return dict(zip(self.names, self.samples.mean(axis=0).tolist(), strict=True))

    @property
    def std(self) -> dict[str, float]:
        """Standard deviations of the samples."""
        return dict(zip(self.names, self.samples.std(axis=0).tolist(), strict=True))

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Limits with equal probabilities beyond both ends.

        Args:
            level: posterior probability between them.
        """
        tails = np.quantile(self.samples, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return {name: (float(a), float(b)) for name, a, b in zip(self.names, *tails, strict=True)}

    def band(self, function: Callable[..., Any], level: float = 0.95) -> Band:
        """Mean and limits of a function of the parameters, for example of a field at some points.

        Args:
            function: a function of the parameters by name that returns an array.
            level: posterior probability between the limits, at each point.
        """
        with precision("float64"):
            rows = dict(zip(self.names, jnp.asarray(self.samples).T, strict=True))
            found = np.asarray(jax.jit(jax.vmap(lambda row: function(**row)))(rows))
        low, high = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return Band(found.mean(axis=0), low, high)

    def __str__(self) -> str:
        """A line for each parameter."""
        limits = self.interval()
        lines = [
            f"{name} = {self.best[name]:.4g} (95% interval {low:.4g} to {high:.4g}, "
            f"{100 * self.shares[name]['solver']:.0f} % of its variance from the solver)"
            for name, (low, high) in limits.items()
        ]
        return "\n".join(lines + self.notes)


def infer(
    family: Solution | Problem,
    data: Observations,
    prior: Prior = None,
    *,
    n_samples: int = 2000,
    n_paths: int = 256,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Inference:
    """Infer parameters of a family of problems from noisy measurements of one of its solutions.

    The best fit is found with the network of the family. Paths then measure the error of the
    network at the points of the data: predictions are corrected by it, and the noise of the
    corrections is added to the noise of the data. The posterior distribution is sampled by
    `blackjax` (an extra: `fkpinn[inverse]`).

    Args:
        family: the solution of a family; or the family, which is then solved with the preset
            `quick`.
        data: the measurements, see `Observations.of`.
        prior: the prior distribution. By default that of the parameters of the family; or a mean
            and a standard deviation by name (normal distributions, truncated to the ranges), for
            some or all parameters; or the logarithm of a density, a function of the parameters by
            name. The latter two multiply the distribution of the parameters.
        n_samples: number of samples of the posterior distribution.
        n_paths: paths per point for the corrections; increased if these are noisier than the data.
        seed: seed of all random numbers.
        progress: told how far paths are.
    """
    if importlib.util.find_spec("blackjax") is None:
        raise ImportError(
            '`infer` needs blackjax: pip install "fkpinn[inverse]", or pip install blackjax.'
        )
    solution: Any = family
    if isinstance(family, Problem) and family.parameters:
        solution = solve(family, seed=seed, progress=progress)
    if not isinstance(solution, Solution) or not solution.layout.parameters:
        raise ValueError(
            "`family` must be a problem with `parameters`, or its solution; got "
            f"{type(family).__name__} without any."
        )
    problem = solution.problem
    if problem is None:
        raise ValueError("`family` was loaded without its problem; pass it to `load`.")
    _check_points(problem, data)
    with precision("float64"):
        model = _Model.of(problem, cast(solution.network, "float64"), data, prior)
        return _inferred(problem, solution.network, model, n_samples, n_paths, seed, progress)


def _check_points(problem: Problem, data: Observations) -> None:
    if not isinstance(data, Observations):
        raise TypeError(f"`data` must be `Observations`; got {type(data).__name__}.")
    n = problem.layout.single.n_coords
    if data.points.shape[1] != n:
        raise ValueError(
            f"`data.points` must have {n} numbers each, without parameters; got shape "
            f"{data.points.shape}."
        )
    places = problem.layout.single.space(data.points)
    sets = problem.domain.members()
    inside = np.all([jax.vmap(each.contains)(jnp.asarray(places)) for each in sets], axis=0)
    if not np.all(inside):
        where = "the domain" if len(sets) == 1 else "the domain for all values of the parameters"
        raise ValueError(
            f"`data.points` must lie inside {where}; {np.count_nonzero(~inside)} do not, the "
            f"first at {data.points[int(np.argmin(inside))]}."
        )


class _Correction(NamedTuple):
    """What the network lacks at the points of the data: its value at a place, and slopes."""

    at: Float[Array, " k"]
    value: Float[Array, " m"]
    slopes: Float[Array, "k m"]
    error: Float[Array, " m"]  # noise of the corrections, as measured


class _Model(eqx.Module):
    """Posterior law over the unit cube, whose points the laws of the parameters make values of."""

    layout: Layout
    network: AbstractField
    data: Observations  # arrays of jax
    prior: Callable[[Array], Array] = eqx.field(static=True)  # log density beside that of the laws
    correction: _Correction

    @classmethod
    def of(
        cls, problem: Problem, network: AbstractField, data: Observations, prior: Prior
    ) -> "_Model":
        layout, m = problem.layout, len(data.points)
        nothing = _Correction(
            jnp.zeros(layout.n_parameters), jnp.zeros(m), jnp.zeros((layout.n_parameters, m)),
            jnp.zeros(m),
        )  # fmt: skip
        arrays = Observations(*(None if a is None else jnp.asarray(a) for a in data))
        return cls(layout, network, arrays, _log_prior(layout, prior), nothing)

    def corrected(self, correction: _Correction) -> "_Model":
        """The same with other corrections."""
        return eqx.tree_at(lambda model: model.correction, self, correction)

    def values(self, y: Float[Array, " k"]) -> Float[Array, " k"]:
        """Of the parameters, from numbers without bounds."""
        u = jax.nn.sigmoid(y)
        return jnp.stack([law.draw(u[k]) for k, (_, law) in enumerate(self.layout.parameters)])

    def predicted(self, values: Float[Array, " k"]) -> Float[Array, " n"]:
        """What would be measured without noise."""
        points, lacks = self.data.points, self.correction
        front = jnp.broadcast_to(values, (len(points), len(values)))
        rows = jnp.concatenate([front, points], axis=1)
        found = jax.vmap(lambda z: self.network(z))(rows)
        return self.data.observed(found + lacks.value + (values - lacks.at) @ lacks.slopes)

    @property
    def deviation(self) -> Float[Array, " n"]:
        """Standard deviation of the data: of their noise and of the corrections."""
        own = self.data.noise_of(self.correction.error)
        return jnp.sqrt(self.data.noise**2 + own**2)

    def misfit(self, y: Float[Array, " k"]) -> Float[Array, " n"]:
        """Differences from the data over their deviation."""
        return (self.predicted(self.values(y)) - self.data.values) / self.deviation

    def log_density(self, y: Float[Array, " k"]) -> Array:
        """Of the posterior law, up to a constant; in `y`, the law of parameters is logistic."""
        law = jnp.sum(jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y))
        return law + self.prior(self.values(y)) - 0.5 * jnp.sum(self.misfit(y) ** 2)


def _nothing_known(values: Array) -> Array:
    return jnp.zeros((), values.dtype)


@dataclasses.dataclass(frozen=True)
class _ByName:
    """A log density of the parameters by name; equal ones are compiled once."""

    density: Callable[..., Any]
    names: tuple[str, ...]

    def __call__(self, values: Array) -> Array:
        return jnp.asarray(self.density(**dict(zip(self.names, values, strict=True))))


@dataclasses.dataclass(frozen=True)
class _Normal:
    """Normal laws of some parameters: the index of each, its mean and its standard deviation."""

    rows: tuple[tuple[int, float, float], ...]

    def __call__(self, values: Array) -> Array:
        terms = (-0.5 * ((values[k] - m) / s) ** 2 for k, m, s in self.rows)
        return sum(terms, _nothing_known(values))


def _log_prior(layout: Layout, prior: Prior) -> Callable[[Array], Array]:
    names = tuple(name for name, _ in layout.parameters)
    if prior is None:
        return _nothing_known
    if callable(prior):
        return _ByName(prior, names)
    unknown = [name for name in prior if name not in names]
    if unknown:
        raise ValueError(f"`prior` names {unknown}; the parameters are {list(names)}.")
    for name, pair in prior.items():
        if len(pair) != 2 or not pair[1] > 0:
            raise ValueError(
                f"`prior[{name!r}]` must be a mean and a positive standard deviation; got {pair}."
            )
    rows = [(names.index(name), float(mean), float(std)) for name, (mean, std) in prior.items()]
    return _Normal(tuple(rows))


def _inferred(
    problem: Problem,
    network: AbstractField,
    model: _Model,
    n_samples: int,
    n_paths: int,
    seed: int,
    progress: AbstractProgress | None,
) -> Inference:
    stream, notes = Stream(seed) / "infer", []
    y = _best(model, _starts(model))
    solver, near = math.inf, False
    least, most = problem.layout.ranges()
    moved = _FIRST * (most - least)
    for number in range(_ROUNDS):
        before = np.asarray(model.values(y))
        spread = np.sqrt(np.diag(_covariance(model, y)))
        reach = np.maximum(_WIDE * spread, moved)
        lacks = _measured(
            problem, network, model, before, reach, n_paths,
            seed=(stream / "paths" / number).seed, progress=progress,
        )  # fmt: skip
        model = model.corrected(lacks)
        y = _best(model, y[None])
        own = np.asarray(model.data.noise_of(lacks.error) / model.data.noise)
        solver = float(np.sqrt(np.mean(own**2)))
        moved = np.abs(np.asarray(model.values(y)) - before)
        near = bool(np.all(moved < np.maximum(spread, np.sqrt(np.diag(_covariance(model, y))))))
        if solver <= _SMALL and near:
            break
        n_paths = n_paths if solver <= _SMALL else _MORE * n_paths
    else:
        if solver > _SMALL:
            notes.append(
                f"The solver's error is {solver:.2g} times the noise of the data: train the "
                f"family more accurately, or use `n_paths` above {n_paths}."
            )
        if not near:
            notes.append(
                "Corrections still change the best fit by more than a standard deviation: train "
                "the family more accurately, or use more `n_paths`."
            )
    samples, mixed = _sampled(model, y, n_samples, stream)
    if mixed > _MIXED:
        notes.append(
            f"Chains differ from each other by a factor of {mixed:.2f}: the posterior "
            f"distribution may have several peaks, and the intervals are inaccurate."
        )
    names = tuple(name for name, _ in model.layout.parameters)
    best = dict(zip(names, np.asarray(model.values(y)).tolist(), strict=True))
    with_noise = np.diag(_covariance(model, y))
    exact = model.correction._replace(error=jnp.zeros_like(model.correction.error))
    alone = np.diag(_covariance(model.corrected(exact), y))
    shares = {
        name: {"data": float(min(a / b, 1.0)), "solver": float(max(1.0 - a / b, 0.0))}
        for name, a, b in zip(names, alone, with_noise, strict=True)
    }
    return Inference(names, best, samples, shares, solver, notes)


def _starts(model: _Model) -> Float[Array, "s k"]:
    """Places all over the ranges."""
    rng = np.random.default_rng(0)  # plain numbers: nothing here depends on chance
    u = rng.uniform(0.02, 0.98, (_STARTS, model.layout.n_parameters))
    u[0] = 0.5
    return jnp.asarray(np.log(u) - np.log1p(-u))


def _best(model: _Model, starts: Float[Array, "s k"]) -> Float[Array, " k"]:
    """The most likely values: damped steps of Gauss and Newton, from each of the starts."""
    found, heights = _climbs(model, starts)
    heights = np.asarray(heights)
    if not np.any(np.isfinite(heights)):
        raise ValueError("`prior` must be finite somewhere within the ranges of the parameters.")
    return found[int(np.nanargmax(heights))]


@eqx.filter_jit
def _climbs(model: _Model, starts: Float[Array, "s k"]) -> tuple[Array, Array]:
    found = jax.vmap(lambda y: _climbed(model, y))(starts)
    return found, jax.vmap(model.log_density)(found)


def _climbed(model: _Model, y: Array) -> Array:
    """Steps of Levenberg and Marquardt, on misfit and the rest of the log density."""
    rest = lambda y: model.log_density(y) + 0.5 * jnp.sum(model.misfit(y) ** 2)
    edge = float(np.log(1 / _EDGE))

    def step(_, state):
        y, damping = state
        rows, bend = jax.jacfwd(model.misfit)(y), jax.hessian(rest)(y)
        slope = rows.T @ model.misfit(y) - jax.grad(rest)(y)
        matrix = rows.T @ rows - jnp.diag(jnp.minimum(jnp.diag(bend), 0.0))
        matrix = matrix + damping * jnp.diag(jnp.diag(matrix) + 1e-9)
        new = jnp.clip(y - jnp.linalg.solve(matrix, slope), -edge, edge)
        better = model.log_density(new) > model.log_density(y)
        return jnp.where(better, new, y), jnp.where(better, 0.3 * damping, 4.0 * damping)

    return jax.lax.fori_loop(0, _STEPS, step, (y, jnp.asarray(1e-2)))[0]


def _covariance(model: _Model, y: Array) -> np.ndarray:
    """Of the parameters, from the curvature of the log density at its top."""
    slopes = np.asarray(_at_top(model, y)[2]) @ _axes(model, y)
    return slopes @ slopes.T


def _axes(model: _Model, y: Array) -> np.ndarray:
    """Axes of the posterior law at its top, one a column, as long as it is wide."""
    bend, rows, _ = (np.asarray(a) for a in _at_top(model, y))
    spectrum, axes = np.linalg.eigh(0.5 * (bend + bend.T))
    floor = 1e-3 * max(float(np.linalg.norm(rows.T @ rows, 2)), 1e-12)  # where it is no top
    return axes / np.sqrt(np.maximum(spectrum, floor))


@eqx.filter_jit
def _at_top(model: _Model, y: Float[Array, " k"]) -> tuple[Array, Array, Array]:
    """Curvature of the log density, and slopes of misfit and values."""
    bend = -jax.hessian(model.log_density)(y)
    return bend, jax.jacfwd(model.misfit)(y), jax.jacfwd(model.values)(y)


def _measured(
    problem: Problem,
    network: AbstractField,
    model: _Model,
    values: np.ndarray,
    reach: np.ndarray,
    n_paths: int,
    *,
    seed: int,
    progress: AbstractProgress | None,
) -> _Correction:
    """What the network lacks at the best values, and how that changes within reach."""
    points, k = np.asarray(model.data.points), len(values)
    least, most = problem.layout.ranges()
    steps = np.clip(reach, 1e-3 * (most - least), 0.25 * (most - least))
    ends = [
        np.clip(values + s * steps[j] * np.eye(k)[j], least, most)
        for j in range(k)
        for s in (1, -1)
    ]
    places = np.stack([np.clip(values, least, most), *ends])
    rows = np.concatenate(
        [np.repeat(places, len(points), axis=0), np.tile(points, (len(places), 1))], 1
    )
    found = value_with_interval(
        problem, network, rows, n_paths=n_paths, seed=seed, progress=progress, level=0.95
    )
    shape = (len(places), len(points))
    lacks = np.asarray(found.corrections.value, np.float64).reshape(shape)
    half = 0.5 * (np.asarray(found.high) - np.asarray(found.low)).reshape(shape) / 1.96
    half = np.maximum(half, 1e-9 * np.max(np.abs(found.value)) + 1e-300)  # an exact network's
    ups, downs = places[1::2], places[2::2]
    width = np.array([ups[j, j] - downs[j, j] for j in range(k)])
    slopes = (lacks[1::2] - lacks[2::2]) / width[:, None]
    straight = lacks - np.einsum("pk,km->pm", places - places[0], slopes)
    weight = 1.0 / half**2
    mean = np.sum(weight * straight, axis=0) / np.sum(weight, axis=0)
    error = np.sqrt(1.0 / np.sum(weight, axis=0))
    return _Correction(*(jnp.asarray(a) for a in (places[0], mean, slopes, error)))


def _sampled(model: _Model, y: Array, n: int, stream: Stream) -> tuple[np.ndarray, float]:
    """Draws of the posterior law, and how much chains differ (the scale reduction of Gelman)."""
    each = -(-n // _CHAINS)
    warm = jnp.stack([(stream / "warm" / c).key for c in range(_CHAINS)])
    keys = [fold_each((stream / "chain" / c).key, "sample", each) for c in range(_CHAINS)]
    axes = jnp.asarray(_axes(model, y))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        values = np.asarray(_chains(model, y, axes, warm, jnp.stack(keys)))
    within = values.var(axis=1).mean(axis=0)
    between = values.mean(axis=1).var(axis=0)
    mixed = float(np.sqrt(np.max(1.0 + between / np.maximum(within, 1e-300))))
    return values.reshape(-1, values.shape[-1])[:n], mixed


@eqx.filter_jit
def _chains(
    model: _Model, top: Float[Array, " k"], axes: Float[Array, "k k"], warm: Array, keys: Array
) -> Array:
    """Values along chains of NUTS, each with step and metric of its own.

    They move along the axes of the law at its top: where parameters depend on each other, as those
    of a field do, a metric of coordinates alone would make steps short and paths long.
    """
    import blackjax

    place = lambda v: top + axes @ v
    density = lambda v: model.log_density(place(v))

    def chain(warm, keys):
        adapt: Any = blackjax.window_adaptation(blackjax.nuts, density)
        (state, tuned), _ = adapt.run(warm, jnp.zeros_like(top), num_steps=_WARMUP)
        kernel: Any = blackjax.nuts(density, **tuned).step

        def one(state, key):
            state, _ = kernel(key, state)
            return state, model.values(place(state.position))

        return jax.lax.scan(one, state, keys)[1]

    return jax.vmap(chain)(warm, keys)
