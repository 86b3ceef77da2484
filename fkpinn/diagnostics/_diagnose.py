"""Diagnostics by name, for a problem or for a run: a record, and a picture of it."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compute import precision
from .._files import kept, reading
from .._progress import AbstractProgress, SilentProgress
from .._records import installed_versions, plain, source_commit, write_json
from .._solve import Job, Settings, label_at, load, run_problem, train
from .._streams import Stream
from ..labels import Labels, step_size
from ..loss import make_loss
from ..problem import Problem, catalogue
from ..reference import catalogue_reference, find_reference
from ..report import (
    draw_bounds,
    draw_conditioning,
    draw_coverage,
    draw_labels,
    draw_landscapes,
    draw_spectra,
)
from ..sampling import sample_interior
from ._bounds import balanced, master_bound
from ._conditioning import conditioning
from ._coverage import compare_descent, coverage
from ._curvature import Curvature
from ._label_theory import fit_subexponential, payoffs, step_bias, tails, truncation_bias
from ._landscape import landscape, random_directions, top_directions
from ._spectrum import decay_exponent, gauss_newton_spectrum, hessian_spectrum

_RISE = 10.0  # times the loss, at the edge of the plane of largest curvature
_FEW = 6  # points of each kind whose tangent kernel still has full rank in double precision


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the diagnostics.

    `widths` and `adam_steps` are of the networks that are trained for it; a run folder has its own.
    `sizes` are the numbers of points of `conditioning`, `grid` the nodes per side of `landscape`,
    `descent_steps` the longest run of gradient descent in `coverage`.
    """

    widths: tuple[int, ...] = (24, 24)
    n_interior: int = 400
    n_boundary: int = 80
    n_labels: int = 50
    n_paths: int = 200
    adam_steps: int = 3000
    sizes: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200)
    seeds: int = 3
    grid: int = 51
    reach: float = 1.0
    descent_steps: int = 20_000
    label_points: int = 40
    label_paths: int = 1000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = min(value) if isinstance(value, tuple) and value else value
            if isinstance(least, tuple) or not least > 0:
                raise ValueError(f"`{field.name}` must be positive; got {value}.")


class _Case:
    """A problem with the networks that are looked at, trained when they are first asked for."""

    def __init__(self, name: str, problem: Problem, sizes: Sizes, seed: int, progress):
        self.name, self.problem, self.sizes = name, problem, sizes
        self.seed, self.progress = seed, progress
        self.stream = Stream(seed)
        self.direction_key = (self.stream / "directions").key
        self._labels: Labels | None = None
        self._networks: dict[str, Any] = {}

    @classmethod
    def of_run(cls, folder: Path, sizes: Sizes, seed: int, progress, find) -> "_Case":
        problem = run_problem(folder, find)
        solution = load(
            folder / "solution.fkpinn", problem if isinstance(problem, Problem) else None
        )
        assert solution.problem is not None  # it was given, or is in the catalogue
        case = cls(solution.name, solution.problem, sizes, seed, progress)
        stored = folder / "labels.npz"
        case._labels = Labels.load(stored) if stored.is_file() else None
        case._networks = dict.fromkeys(("pinn", "fk-pinn"), solution.network)
        return case

    @property
    def labels(self) -> Labels:
        if self._labels is None:
            n, key = self.sizes.n_labels, (self.stream / "labels/points").key
            points = sample_interior(self.problem, n, dtype=jnp.float32, key=key)
            self._labels = label_at(self.job("fk-pinn-adam"), points, self.stream / "labels")
        return self._labels

    def settings(self) -> Settings:
        """Of a training by Adam, with fixed weights."""
        return Settings().changed(
            {
                "network.widths": self.sizes.widths,
                "points.n_collocation": self.sizes.n_interior,
                "points.n_boundary": self.sizes.n_boundary,
                "labels.p_data": 0.0,
                "labels.n_paths": self.sizes.n_paths,
                "training.boundary_weight": 1.0,
                "training.adam_steps": self.sizes.adam_steps,
                "training.lbfgs_steps": 0,
            }
        )

    def job(self, method: str) -> Job:
        """A training of this problem."""
        return Job(self.problem, self.settings(), method, self.seed, progress=self.progress)

    def network(self, method: str) -> Any:
        if method not in self._networks:
            labels = None if method == "pinn" else self.labels
            name = "pinn" if labels is None else "fk-pinn-adam"
            self._networks[method] = train(self.job(name), labels).network
        return self._networks[method]

    def curvature(self, method: str, few: int | None = None) -> Curvature:
        """The loss at the network of a method; with `few` points of each kind."""
        labels = None if method == "pinn" else self.labels
        n, m = few or self.sizes.n_interior, few or self.sizes.n_boundary
        with precision("float64"):
            if labels is not None and few:
                first = slice(0, few)
                labels = Labels.from_data(
                    labels.points[first], labels.value[first], labels.stderr[first]
                )
            key = (self.stream / "curvature").key
            loss = make_loss(self.problem, n, m, labels, dtype=jnp.float64, key=key)
            return Curvature(self.network(method), loss)


def _spectrum(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    found: dict[str, dict[str, Any]] = {}
    hessians, decay = {}, {}
    for method in ("pinn", "fk-pinn"):
        curvature = case.curvature(method)
        with precision("float64"):
            names = list(curvature.objective.loss.terms)
            found[method] = {
                name: gauss_newton_spectrum(curvature.jacobian(own)).to_dict()
                for name, own in [*((n, [n]) for n in names), ("all", None)]
            }
            hessian = hessian_spectrum(curvature, key=case.direction_key)
        hessians[method] = hessian.to_dict()
        whole = found[method]["all"]
        positive = np.asarray(whole["values"])
        exponent, error = decay_exponent(positive[positive > whole["zero"]])
        decay[method] = {"exponent": exponent, "stderr": error}
    title = f"{case.name}: curvature by term"
    picture = draw_spectra(out / "spectrum.png", title, found)
    return {"gauss_newton": found, "hessian": hessians, "kernel_decay": decay}, picture


def _coverage(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    curvature = case.curvature("fk-pinn")
    with precision("float64"):
        found = coverage(curvature, np.geomspace(1e-4, 1e6, 21).tolist()).to_dict()
        small = {
            method: compare_descent(case.curvature(method, _FEW), steps=case.sizes.descent_steps)
            for method in ("pinn", "fk-pinn")
        }
    picture = draw_coverage(out / "coverage.png", f"{case.name}: what labels add", found)
    descent = {}
    for method, run in small.items():
        some = np.unique(np.geomspace(1, len(run.losses), 100).astype(int)) - 1
        thinned = {"steps": some.tolist(), "losses": [run.losses[k] for k in some]}
        descent[method] = run._asdict() | thinned | {"points_of_each_kind": _FEW}
    return {"coverage": found, "descent": descent}, picture


def _conditioning(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    def keep(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        path = out / "conditioning" / f"{name}.json"
        record = kept(path, make)
        with reading(path):
            numbers = [record[key] for key in ("n", "condition", "rows", "parameters")]
            if not np.all(np.isfinite([*numbers, *record["above"].values()])):
                raise ValueError("a number is missing")
        return record

    # trained as in the paper; seeds then differ in numbers only and share what is compiled
    settings = case.settings().changed({"network.scaled": False, "training.uncertainty": True})
    record = conditioning(
        case.problem, sizes=case.sizes.sizes, seeds=range(case.sizes.seeds),
        settings=settings, n_labels=case.sizes.n_labels, keep=keep, progress=case.progress,
    )  # fmt: skip
    title = f"{case.name}: condition number against points"
    return record, draw_conditioning(out / "conditioning.png", title, record)


def _landscape(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    record: dict[str, Any] = {"random": {}, "curved": {}}
    with precision("float64"):
        curvatures = {method: case.curvature(method) for method in ("pinn", "fk-pinn")}
        planes, far = {}, {"random": case.sizes.reach, "curved": 0.0}
        for method, curvature in curvatures.items():
            network = curvature.objective.network(curvature.parameters)
            curved = top_directions(curvature, key=case.direction_key)
            planes[method] = {
                "random": random_directions(network, key=case.direction_key),
                "curved": curved,
            }
            # as far as the steepest parabola rises by so many times the loss; one scale for both
            steep = float(curved[0] @ curvature.hessian_product(curved[0]))
            rise = math.sqrt(2 * _RISE * curvature.value() / max(steep, 1e-300))
            far["curved"] = max(far["curved"], min(rise, case.sizes.reach))
        for kind, found in record.items():
            for method, curvature in curvatures.items():
                began = time.perf_counter()
                seen = landscape(
                    curvature, planes[method][kind],
                    reach=far[kind], n=case.sizes.grid, kind=kind,
                )  # fmt: skip
                seconds = time.perf_counter() - began
                found[method] = seen.to_dict() | {"roughness": seen.roughness, "seconds": seconds}
    names = {"random": "random directions", "curved": "the most curved directions"}
    for kind, found in record.items():
        title = f"{case.name}: loss along {names[kind]}"
        draw_landscapes(out / f"landscape-{kind}.png", title, found)
    return record, out / "landscape-random.png"


def _labels(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    problem, sizes = case.problem, case.sizes
    with precision("float64"):
        key = (case.stream / "points").key
        points = np.asarray(sample_interior(problem, sizes.label_points, key=key))
        truth = (
            catalogue_reference(case.name) if _listed(case.name) else find_reference(problem)
        ).values(jnp.asarray(points))
    dt = step_size(problem, jnp.asarray(points, jnp.float32))
    middle = points[int(np.argmax(np.abs(np.asarray(truth))))].tolist()
    seed = (case.stream / "payoffs").seed
    sample = payoffs(problem, middle, n_paths=200 * sizes.label_paths, dt=dt, seed=seed)
    theory = fit_subexponential(sample)
    steps = [dt * 2.0**k for k in range(4)]
    how: dict[str, Any] = {
        "n_paths": sizes.label_paths,
        "seed": (case.stream / "bias").seed,
        "progress": case.progress,
    }
    bias = {
        scheme: step_bias(problem, points, np.asarray(truth), steps=steps, scheme=scheme, **how)
        for scheme in ("euler", "euler-shifted")
    }
    typical = float(np.quantile(np.abs(sample), 0.99)) if _is_exit_time(problem) else 400 * dt
    times = np.linspace(0.2, 1.0, 6) * typical
    cut = truncation_bias(problem, points, times=times.tolist(), dt=dt, **how)
    record = {
        "point": middle,
        "dt": dt,
        "sub_exponential": theory._asdict(),
        "standard_deviation": float(np.std(sample)),
        "tails": tails(sample, 50, theory),
        "bias": bias,
        "truncation": cut,
    }
    return record, draw_labels(out / "labels.png", f"{case.name}: theory of the labels", record)


def _is_exit_time(problem: Problem) -> bool:
    """Whether payoffs are times: no reaction, source one."""
    point = jnp.asarray(np.mean(problem.bounds(), axis=0))
    return problem.reaction.is_zero and float(problem.source(point)) == 1.0


def _listed(name: str) -> bool:
    try:
        catalogue(name)
    except ValueError:
        return False
    return True


def _bounds(case: _Case, out: Path) -> tuple[dict[str, Any], Path]:
    sizes = case.sizes
    dt = step_size(case.problem, case.labels.points)
    record = master_bound(
        widths=sizes.widths, dim=case.problem.dim, smoothness=3, n_interior=sizes.n_interior,
        n_boundary=sizes.n_boundary, n_labels=sizes.n_labels, dt=dt, t_max=math.inf,
        steps=math.inf,
    )  # fmt: skip
    record["balanced"] = balanced(sizes.n_labels, dim=case.problem.dim, smoothness=3)
    return record, draw_bounds(out / "bounds.png", f"{case.name}: terms of the bound", record)


WHAT: dict[str, Callable[[_Case, Path], tuple[dict[str, Any], Path]]] = {
    "spectrum": _spectrum,
    "coverage": _coverage,
    "conditioning": _conditioning,
    "landscape": _landscape,
    "labels": _labels,
    "bounds": _bounds,
}


def diagnose(
    target: str | Problem | Path,
    what: str,
    *,
    out: Path,
    sizes: Sizes | None = None,
    seed: int = 0,
    find: Callable[[str], str | Problem] | None = None,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    """Run one diagnostic for a problem or a run folder.

    For a problem, small networks are trained, a plain PINN and one with labels. For a run folder,
    both losses are examined at its network.

    Args:
        target: a catalogue name, a problem, or the path of a run folder.
        what: one of `spectrum`, `coverage`, `conditioning`, `landscape`, `labels`, `bounds`.
        out: folder for record and figures, made if it does not exist.
        sizes: sizes of networks, points and sweeps.
        seed: seed of all random numbers.
        find: makes a problem, or a catalogue name, of what a run's `config.toml` says of it.
        progress: told how far it is.

    Returns:
        The record, as written to `WHAT.json` in the folder, with the path of the figure.
    """
    if what not in WHAT:
        raise ValueError(f"`what` must be one of {tuple(WHAT)}; got {what!r}.")
    sizes, progress, out = sizes or Sizes(), progress or SilentProgress(), Path(out)
    if isinstance(target, Path):
        case = _Case.of_run(target, sizes, seed, progress, find)
    else:
        problem = catalogue(target).problem if isinstance(target, str) else target
        name = target if isinstance(target, str) else problem.name
        case = _Case(name, problem, sizes, seed, progress)
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    found, picture = WHAT[what](case, out)
    seconds = time.perf_counter() - began
    progress.finish()
    record = {
        "what": what,
        "problem": case.name,
        "seed": seed,
        "sizes": dataclasses.asdict(sizes),
        "device": jax.devices()[0].device_kind,
        "versions": installed_versions(),
        "commit": source_commit(),
        "seconds": seconds,
        **found,
    }
    write_json(out / f"{what}.json", plain(record))
    return record | {"figure": str(picture)}
