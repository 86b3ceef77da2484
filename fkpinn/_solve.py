"""From a problem to a trained network, its errors and a run folder."""

import dataclasses
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ._progress import AbstractProgress, SilentProgress
from ._records import Errors, installed_versions, write_bytes, write_json
from .evaluate import errors as measure_errors
from .labels import Labels, estimate_labels
from .loss import AbstractTerm, BoundaryTerm, LabelTerm, Loss, ResidualTerm, TerminalTerm
from .nn import MLP
from .problem import Problem, catalogue
from .reference import AbstractReference, catalogue_reference, find_reference
from .report import draw_curves, draw_slice, write_page
from .sampling import sample_boundary, sample_interior, sample_terminal
from .train import Fit, fit


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much work a run does.

    `dt` is the time step of the label paths; None takes one from the size of the domain.
    """

    widths: tuple[int, ...] = (64, 64, 64)
    n_interior: int = 1000
    n_boundary: int = 200
    n_labels: int = 200
    n_paths: int = 100
    dt: float | None = None
    steps: int = 6000
    learning_rate: float = 2e-3
    boundary_weight: float = 10.0
    label_weight: float = 10.0
    n_test: int = 4000

    def __post_init__(self):
        for field in ("n_interior", "n_boundary", "n_labels", "n_paths", "steps", "n_test"):
            if getattr(self, field) < 1:
                raise ValueError(f"`{field}` must be at least 1; got {getattr(self, field)}.")


PRESETS = {
    "quick": Settings(),
    "best": Settings((128,) * 4, 4000, 400, 400, 500, steps=20_000, learning_rate=1e-3),
    # the paper's sizes; its second optimizer and trained weights are not part of this yet
    "paper": Settings((128,) * 4, 9800, 400, 200, 500, 1e-3, 30_000, 1e-3),
}
METHODS = ("fk-pinn", "pinn")


class Solution(eqx.Module):
    """A network that solves a problem: call it with a point, or with points, one a row."""

    problem: Problem
    network: MLP
    history: list[dict[str, float]]

    def __call__(self, points: Any) -> Float[Array, "..."]:
        """Value at one point, or values at many."""
        return _at_points(self.network, self.problem, points)

    def gradient(self, points: Any) -> Float[Array, "..."]:
        """Gradient in space at one point, or at many."""
        return _at_points(
            lambda z: self.problem.space(jax.grad(self.network)(z)), self.problem, points
        )


def _at_points(function: Callable[..., Any], problem: Problem, points: Any) -> Array:
    array = jnp.asarray(points, jnp.result_type(float))
    if array.ndim not in (1, 2) or array.shape[-1] != problem.n_coords:
        raise ValueError(
            f"`points` must have shape ({problem.n_coords},) or (n, {problem.n_coords}); "
            f"got shape {array.shape}."
        )
    inside = jax.vmap(lambda z: problem.domain.signed_distance(problem.space(z)))
    outside = np.asarray(inside(jnp.atleast_2d(array))) > 1e-6 * problem.domain.diameter()
    if np.any(outside):
        first = np.asarray(jnp.atleast_2d(array))[int(np.argmax(outside))]
        raise ValueError(
            f"`points` must lie in the closed domain; {np.count_nonzero(outside)} do not, the "
            f"first at {first}."
        )
    return _batched(function, array) if array.ndim == 2 else function(array)


@eqx.filter_jit
def _batched(function: Callable[..., Any], points: Float[Array, "n z"]) -> Array:
    return jax.vmap(lambda z: function(z))(points)


def solve(
    problem: Problem,
    *,
    settings: Settings | None = None,
    method: str = "fk-pinn",
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Solution:
    """Train a network on residual, boundary data and Monte Carlo labels.

    Args:
        problem: the boundary value problem.
        settings: how much work; the preset `quick` by default.
        method: `fk-pinn`, or `pinn` for the same without labels.
        seed: fixes everything random.
        progress: told how far the run is.

    Returns:
        `Solution`: call it with points.
    """
    settings = settings or PRESETS["quick"]
    _check_method(method)
    keys = jr.split(jr.key(seed), 2)
    labels = _labels(problem, settings, method, progress or SilentProgress(), seed, keys[0])
    trained = _train(problem, settings, labels, progress or SilentProgress(), keys[1])
    return Solution(problem, trained.network, trained.history)


def run(
    problem: str | Problem,
    *,
    method: str = "fk-pinn",
    preset: str = "quick",
    seed: int = 0,
    out: Path,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    """Solve, compare with the reference, and write a run folder.

    Args:
        problem: a catalogue name or a problem.
        method: `fk-pinn` or `pinn`.
        preset: how much work, one of `quick`, `best`, `paper`.
        seed: fixes everything random.
        out: the run folder, made if it does not exist.
        progress: told how far the run is.

    Returns:
        The result, as written to `result.json`.
    """
    _check_method(method)
    if preset not in PRESETS:
        raise ValueError(f"`preset` must be one of {tuple(PRESETS)}; got {preset!r}.")
    progress, settings, out = progress or SilentProgress(), PRESETS[preset], Path(out)
    out.mkdir(parents=True, exist_ok=True)
    target = catalogue(problem).problem if isinstance(problem, str) else problem
    name = problem if isinstance(problem, str) else target.name
    label_key, train_key, test_key = jr.split(jr.key(seed), 3)
    clock = [time.perf_counter()]
    labels = _labels(target, settings, method, progress, seed, label_key)
    clock.append(time.perf_counter())
    trained = _train(target, settings, labels, progress, train_key)
    clock.append(time.perf_counter())
    truth = _truth(problem)
    points = sample_interior(target, settings.n_test, key=test_key)
    found = None if truth is None else measure_errors(target, trained.network, truth, points)
    _write_curves(out, trained.history)
    figures = _draw(out, target, name, trained, truth, found, labels)
    result = {
        "problem": name,
        "method": method,
        "preset": preset,
        "seed": seed,
        "errors": found.to_dict() if found else None,
        "certificate": None,
        "seconds": {
            "labels": clock[1] - clock[0],
            "compile": trained.compile_seconds,
            "train": clock[2] - clock[1] - trained.compile_seconds,
            "certify": 0.0,
            "total": time.perf_counter() - clock[0],
        },
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()})",
        "versions": installed_versions(),
        "settings": dataclasses.asdict(settings),
        "out": str(out),
        "figures": [str(path) for path in figures],
        "report": str(out / "report.html"),
    }
    write_page(out / "report.html", result, figures)
    write_json(out / "result.json", result)
    progress.finish()
    return result


def _truth(problem: str | Problem) -> AbstractReference | None:
    """What to compare with: the catalogue's reference, or finite elements in the plane."""
    if isinstance(problem, str):
        return catalogue_reference(problem)
    return find_reference(problem) if problem.dim <= 2 else None


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS}; got {method!r}.")


def _labels(
    problem: Problem,
    settings: Settings,
    method: str,
    progress: AbstractProgress,
    seed: int,
    key: PRNGKeyArray,
) -> Labels | None:
    if method == "pinn":
        return None
    points = sample_interior(problem, settings.n_labels, dtype=jnp.float32, key=key)
    dt = settings.dt or _step_size(problem, points)
    return estimate_labels(
        problem, points, n_paths=settings.n_paths, dt=dt, seed=seed, progress=progress
    )


def _step_size(problem: Problem, points: Float[Array, "n z"]) -> float:
    """A step that moves a path by about half a percent of the domain's diameter."""
    variance = jax.vmap(lambda z: jnp.trace(problem.covariance(z)) / problem.dim)(points)
    reach = 0.005 * problem.domain.diameter()
    step = reach**2 / float(jnp.max(variance))
    return step if problem.horizon is None else min(step, problem.horizon / 100)


def _train(
    problem: Problem,
    settings: Settings,
    labels: Labels | None,
    progress: AbstractProgress,
    key: PRNGKeyArray,
) -> Fit:
    net_key, in_key, on_key, end_key = jr.split(key, 4)
    dtype = jnp.float32
    inside = sample_interior(problem, settings.n_interior, dtype=dtype, key=in_key)
    on = sample_boundary(problem, settings.n_boundary, dtype=dtype, key=on_key)
    size = _solution_size(problem, labels, on.points)
    terms: dict[str, AbstractTerm] = {
        "residual": ResidualTerm(problem, inside, _residual_scale(problem, inside, size)),
        "boundary": BoundaryTerm(problem, on, size),
    }
    weights = {"residual": 1.0, "boundary": settings.boundary_weight}
    if problem.timed:
        last = sample_terminal(problem, settings.n_boundary, dtype=dtype, key=end_key)
        terms["terminal"] = TerminalTerm(problem, last, size)
        weights["terminal"] = settings.boundary_weight
    if labels is not None:
        terms["labels"] = LabelTerm(labels, size)
        weights["labels"] = settings.label_weight
    network = MLP(*problem.bounds(), settings.widths, output_scale=size, dtype=dtype, key=net_key)
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.steps, alpha=1e-2)
    return fit(
        network,
        Loss(terms, weights),
        optimizer=optax.adam(schedule),
        steps=settings.steps,
        progress=progress,
    )


def _solution_size(problem: Problem, labels: Labels | None, on: Float[Array, "n z"]) -> float:
    """Typical size of the solution, from the labels or, without any, from the data."""
    if labels is not None:
        return float(jnp.sqrt(jnp.mean(labels.value**2))) or 1.0
    return 1.0


def _residual_scale(
    problem: Problem, points: Float[Array, "n z"], size: float
) -> Float[Array, " n"]:
    """Size of the terms of the equation at each point, for a solution of the given size."""
    lower, upper = problem.domain.bounding_box()
    reach = 0.5 * float(np.min(upper - lower))

    def at(z):
        second = 0.5 * jnp.trace(problem.covariance(z)) / reach**2
        first = jnp.sqrt(jnp.sum(problem.drift(z) ** 2)) / reach
        return jnp.abs(problem.source(z)) + size * (second + first + jnp.abs(problem.reaction(z)))

    scale = jax.vmap(at)(points)
    return jnp.maximum(scale, jnp.sqrt(jnp.mean(scale**2)) * 0.1)


def _write_curves(out: Path, history: list[dict[str, float]]) -> None:
    write_bytes(out / "metrics.jsonl", "".join(json.dumps(r) + "\n" for r in history).encode())


def _draw(
    out: Path,
    problem: Problem,
    name: str,
    trained: Fit,
    truth: AbstractReference | None,
    found: Errors | None,
    labels: Labels | None,
) -> list[Path]:
    axes, values, exact = _slice(problem, trained.network, truth)
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    title = name if found is None else f"{name}: relative L2 error {found.l2_rel:.2e}"
    marks = None
    if labels is not None and problem.dim == 2:
        marks = np.asarray(jax.vmap(problem.space)(labels.points))
    return [
        draw_slice(folder / "solution.png", title, axes, values, exact, marks),
        draw_curves(folder / "losses.png", trained.history),
    ]


def _slice(problem: Problem, network: MLP, truth: AbstractReference | None):
    """The network and the reference on a grid over the first two axes, NaN outside."""
    lower, upper = problem.domain.bounding_box()
    n = 160 if problem.dim > 1 else 400
    axes = [np.linspace(lower[i], upper[i], n) for i in range(min(problem.dim, 2))]
    grid = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, len(axes))
    rest = np.tile(0.5 * (lower + upper)[len(axes) :], (len(grid), 1))
    space = jnp.asarray(np.concatenate([grid, rest], axis=1))
    inside = np.asarray(jax.jit(jax.vmap(problem.domain.contains))(space))
    points = jnp.pad(space, ((0, 0), (1, 0))) if problem.timed else space  # time zero
    shape = (n,) * len(axes)

    def spread(found) -> np.ndarray:
        full = np.full(len(grid), np.nan)
        full[inside] = np.asarray(found)
        return full.reshape(shape)

    values = spread(_batched(network, points[inside]))
    exact = None if truth is None else spread(truth.values(points[inside]))
    return axes, values, exact
