"""From a problem to a trained network, in memory or in a run folder."""

import dataclasses
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._compute import Compute, in_context, precision, using
from .._field import AbstractField
from .._files import read_json, reading
from .._lock import alone
from .._progress import AbstractProgress, SilentProgress
from .._records import Errors, clear_unfinished, installed_versions, write_json
from .._streams import Stream
from .._together import clock, several
from ..evaluate import Certificate, compare, value_and_gradient
from ..labels import Labels
from ..loss import AbstractSampler, AbstractWeighting
from ..problem import Problem, catalogue
from ..reference import AbstractReference, catalogue_reference, find_reference, why_no_grid
from ..report import (
    draw_corrections,
    draw_curves,
    profile_figure,
    progress_here,
    save_figure,
    slice_figure,
    write_report,
)
from ..sampling import sample_interior
from ..sde import AbstractWalk
from ..train import AbstractOptimizer, Fit
from ._certify import central_value, second_bound
from ._cuts import batched, moments, profile, slice_through
from ._folder import about_problem, changed_settings, report_run, save_corrections, save_fields
from ._job import Job, Parts
from ._methods import for_method
from ._pipeline import Outcome, check_labels, run_stages
from ._presets import settings_for
from ._settings import Settings, read_config, write_config
from ._solution import Solution, corrections, load
from ._start import starting_network

_CERTIFICATE = "certificate.png"
_ROUNDS = 6  # of further training, at most, where a target is given


def solve(
    problem: Problem,
    *,
    preset: str = "quick",
    settings: Settings | None = None,
    method: str = "fk-pinn",
    labels: Labels | None = None,
    network: AbstractField | None = None,
    start: Solution | None = None,
    optimizer: AbstractOptimizer | None = None,
    scheme: AbstractWalk | None = None,
    weighting: AbstractWeighting | None = None,
    sampler: AbstractSampler | None = None,
    target: float | None = None,
    certify: bool = False,
    seed: int = 0,
    out: Path | str | None = None,
    compute: Compute | None = None,
    progress: AbstractProgress | None = None,
) -> Solution:
    """Train a network on residual, boundary data and Monte Carlo labels.

    With a `target` the error is measured by paths, and rounds of further training follow until the
    upper confidence limit of the relative L2 error is below it, or until no round is expected to
    help; `Solution.stopped` says which.

    Args:
        problem: the boundary value problem.
        preset: `quick`, `best` or `paper`.
        settings: your own settings, instead of a preset.
        method: `fk-pinn`; others are baselines, see `fkpinn solve --help`.
        labels: existing labels, for example from measurements; no labels are computed then.
        network: your own network, before training.
        start: the solution of a similar problem, as initial guess: labels measure its error, and
            training takes fewer steps. If its error is too large, training begins from scratch, and
            `Solution.stopped` says so.
        optimizer: your own optimizer; it takes `training.steps` steps.
        scheme: how label paths move and end, for example `Scheme(stepper, exit)`.
        weighting: weights of the terms of the loss.
        sampler: chooses new collocation points.
        target: relative L2 error to reach.
        certify: measure the error by paths, like `Solution.certify`; `Solution.certificate` is the
            record.
        seed: seed of all random numbers.
        out: a run folder, for labels, checkpoints, result and report; its certificate follows the
            settings. After a crash, the same call or `resume` continues the run.
        compute: device and chunk sizes; the default device if not given.
        progress: told how far the run is; in notebooks shown there if not given.

    Returns:
        `Solution`: call it with points.
    """
    if not isinstance(problem, Problem):
        hint = f" Try `fk.catalogue({problem!r}).problem`." if isinstance(problem, str) else ""
        raise TypeError(f"`problem` must be a `Problem`; got {problem!r:.80}.{hint}")
    if start is not None and (network is not None or labels is not None):
        raise ValueError(
            "`start` provides the network and the labels; do not pass `network` or `labels` as "
            "well."
        )
    first = None if start is None else starting_network(start, problem)
    parts = Parts(network, optimizer, scheme, weighting, sampler)
    settings = _for_target(settings or settings_for(preset, problem), target, certify)
    progress = progress or progress_here()
    with using(compute):
        job = Job.of(
            problem, settings, method, seed=seed, parts=parts, progress=progress, start=first
        )
        if out is not None:
            name = _catalogue_name(problem)
            return _in_folder(job, name or problem, preset, Path(out), None, labels)[0]
        asked = job.settings.certificate
        wanted = certify or (asked.rounds > 0 and asked.seconds > 0)
        found = run_stages(job, labels, certify=wanted)
        progress.finish()
        return _solution(job, problem.name, found)


def run(
    problem: str | Problem,
    *,
    method: str = "fk-pinn",
    preset: str = "quick",
    settings: Settings | None = None,
    target: float | None = None,
    seed: int = 0,
    out: Path,
    source: str | None = None,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    """Solve, compare with the reference, and write a run folder; continue an existing one.

    Args:
        problem: a catalogue name or a problem.
        method: `fk-pinn`, or a baseline.
        preset: how much work, one of `quick`, `best`, `paper`.
        settings: sizes and weights instead of those of the preset.
        target: relative L2 error to reach, see `solve`.
        seed: seed of all random numbers.
        out: the run folder, made if it does not exist. Labels and checkpoints of the same run
            that lie there are used.
        source: where the problem comes from, for example a file, to resume the run.
        progress: told how far the run is.

    Returns:
        The result, as written to `result.json`.
    """
    wanted = catalogue(problem).problem if isinstance(problem, str) else problem
    settings = _for_target(settings or settings_for(preset, wanted), target, False)
    job = Job.of(wanted, settings, method, seed=seed, progress=progress or SilentProgress())
    return _in_folder(job, problem, preset, Path(out), source, None)[1]


def resume(
    out: Path | str, problem: Problem | None = None, *, progress: AbstractProgress | None = None
) -> Solution:
    """Continue a run folder after a crash; for a finished run, return its solution.

    Args:
        out: the run folder.
        problem: the problem; not needed for those of the catalogue.
        progress: told how far the run is; in notebooks shown there if not given.
    """
    config = _config_of(Path(out))
    found: str | Problem = problem if problem is not None else config["problem"]
    if isinstance(found, str) and _catalogued(found) is None:
        raise ValueError(
            f"`{out}` is the run of {found!r:.80}, which is not in the catalogue, and a folder "
            f"cannot store functions. Pass the problem: `resume(folder, problem)`."
        )
    return _resumed(Path(out), config, found, progress or progress_here())[0]


def resume_run(out: Path, *, progress: AbstractProgress | None = None, find=None) -> dict[str, Any]:
    """Go on with a run folder after a crash; a finished run is trained no further.

    Args:
        out: the run folder.
        progress: told how far the run is.
        find: makes a problem, or a catalogue name, of what `config.toml` says of it.

    Returns:
        The result, as written to `result.json`.
    """
    config = _config_of(Path(out))
    problem = config["problem"] if find is None else find(config["problem"])
    return _resumed(Path(out), config, problem, progress)[1]


def _resumed(
    out: Path, config: dict[str, Any], problem: str | Problem, progress: AbstractProgress | None
) -> tuple[Solution, dict[str, Any]]:
    if config["own"]:
        raise ValueError(
            f"`{out}` is a run with objects passed by the user ({', '.join(config['own'])}), "
            f"which a folder cannot store. Repeat the original call `solve(..., out=...)`."
        )
    wanted = catalogue(problem).problem if isinstance(problem, str) else problem
    job = Job.of(
        wanted, config["settings"], config["method"], seed=config["seed"],
        progress=progress or SilentProgress(),
    )  # fmt: skip
    return _in_folder(job, problem, config["preset"], out, config["problem"], None)


def _in_folder(
    job: Job,
    problem: str | Problem,
    preset: str,
    out: Path,
    source: str | None,
    labels: Labels | None,
) -> tuple[Solution, dict[str, Any]]:
    """Run all stages in a folder, which is locked and belongs to one run."""
    check_labels(job, labels)
    name = problem if isinstance(problem, str) else job.problem.name
    config = {
        "problem": problem if isinstance(problem, str) else source or name,
        "method": job.method,
        "preset": preset,
        "seed": job.seed,
        "own": [
            *job.parts.names(),
            *(["labels"] if labels is not None else []),
            *(["start"] if job.start is not None else []),
        ],
        "settings": job.settings.to_dict(),
    }
    with alone(out / "run.lock", out):
        _claim(out, config)
        if not config["own"] and (out / "result.json").is_file():  # the last file of a run
            return load(out / "solution.fkpinn", job.problem), read_json(out / "result.json")
        truth = _truth(problem)
        test = None
        if truth is not None:
            key = (job.stream / "test").key
            test = _Test.draw(job.problem, truth, job.settings.points.n_test, key)
        watch = None if test is None else test.watch
        job = dataclasses.replace(job, folder=out, watch=watch)
        began = clock()
        found = run_stages(job, labels, certify=job.settings.certificate.seconds > 0)
        return _written(job, name, config, found, truth, test, began)


def _written(
    job: Job,
    name: str,
    config: dict[str, Any],
    found: Outcome,
    truth: AbstractReference | None,
    test: "_Test | None",
    began: float,
) -> tuple[Solution, dict[str, Any]]:
    """Solution, figures, result and report of a run that has ended."""
    out, problem, trained = job.folder, job.problem, found.trained
    plain = settings_for(config["preset"], problem)
    assert out is not None
    errors = None if test is None else test.errors(problem, trained.network)
    solution = _solution(job, name, found)
    try:
        solution.save(out / "solution.fkpinn")
    except (TypeError, ValueError) as error:
        if job.parts.network is None:
            raise
        trained.stopped.append(f"the network was not saved in the folder: {error}")
        solution = _solution(job, name, found)
    beside = {"occupation": None, "value": None}
    with ThreadPoolExecutor(1) as pool:  # most of it is compiling
        cuts = pool.submit(in_context(_cuts), problem, trained.network, truth)
        if found.certificate is not None:
            beside = _beside(problem, trained.network, found.certificate, job.stream, job.progress)
        (axes, values, exact), more = cuts.result()
    if found.certificate is not None:
        more |= corrections(problem, trained.network, found.certificate)
    fields = save_fields(out, trained.network, axes, values, exact, found.labels, more)
    figures = _draw(out, problem, name, trained, axes, values, exact, errors, found.labels)
    figures += _draw_fields(out, name, fields, found.certificate)
    preset = config["preset"]
    result = {
        "problem": name,
        "method": job.method,
        "preset": preset,
        "seed": job.seed,
        "errors": errors.to_dict() if errors else None,
        "certificate": solution.certificate,
        **beside,
        "rounds": found.rounds,
        "seconds": found.seconds | {"total": clock() - began},
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()})",
        "versions": installed_versions(),
        "settings": job.settings.flat(),
        "stopped": trained.stopped,
        "out": str(out),
        "figures": [str(path) for path in figures],
        "report": str(out / "report.html"),
        "source": config["problem"],
        "catalogued": _catalogued(config["problem"]) is not None,
        "changed": changed_settings(job.settings, for_method(plain, job.method)),
        "about": about_problem(problem),
    }
    write_report(out, result)
    write_json(out / "result.json", result)
    job.progress.finish()
    return solution, result


def _cuts(
    problem: Problem, network: Any, truth: AbstractReference | None
) -> tuple[Any, dict[str, np.ndarray]]:
    """What pictures of the solution show: a slice, as time runs too, and a profile in space."""
    more = {} if problem.dim <= 2 else profile(problem, network, truth)
    return slice_through(problem, network, truth), more | moments(problem, network)


def _beside(
    problem: Problem,
    network: Any,
    certificate: Certificate,
    stream: Stream,
    progress: AbstractProgress | None,
) -> dict[str, Any]:
    """What stands beside a certificate: a second bound, and the value at the center."""
    makers = {"occupation": second_bound, "value": central_value}
    how = {"occupation": progress, "value": None}  # the longer one shows how far it is
    with ThreadPoolExecutor(1 if several() else None) as pool:  # these do all in one order
        found = {
            name: pool.submit(
                in_context(make), problem, network, certificate,
                seed=(stream / name).seed, progress=how[name],
            )
            for name, make in makers.items()
        }  # fmt: skip
        return {name: record.result() for name, record in found.items()}


def _solution(job: Job, name: str, found: Outcome) -> Solution:
    about = None if found.certificate is None else found.certificate.to_dict()
    fit = found.trained
    return Solution(job.problem, fit.network, fit.history, fit.stopped, name, about)


def certify_run(
    out: Path,
    *,
    find=None,
    progress: AbstractProgress | None = None,
    **how: Any,
) -> dict[str, Any]:
    """Certify the solution in a run folder; its result, figure and report are renewed.

    The record that comes back has the `certificate` and, beside it, the `occupation` bound and the
    `value` at the center of the measure.

    Args:
        out: the run folder.
        find: makes a problem, or a catalogue name, of what `config.toml` says of it.
        progress: told how far the paths are.
        how: as for `fkpinn.evaluate.certify`.
    """
    out = Path(out)
    _config_of(out)
    path = out / "solution.fkpinn"
    if not path.is_file():
        raise ValueError(
            f"`{out}` has no solution yet: its run has not ended. Try `fkpinn solve --resume`."
        )
    problem = run_problem(out, find)
    with alone(out / "run.lock", out):
        solution = load(path, None if isinstance(problem, str) else problem)
        certificate = solution.certify(progress=progress, **how)
        assert solution.problem is not None
        stream = Stream(how.get("seed", 0))
        beside = _beside(solution.problem, solution.network, certificate, stream, progress)
        new = corrections(solution.problem, solution.network, certificate)
        record = {"certificate": certificate.to_dict(), **beside}
        stored = out / "result.json"
        if stored.is_file():
            result = read_json(stored)
            with reading(stored):
                figures = [out / "figures" / Path(f).name for f in result["figures"]]
            drawn = out / "figures" / _CERTIFICATE
            figures += [] if drawn in figures else [drawn]
            result |= record | {"figures": [str(f) for f in figures]}
            write_json(stored, result)  # first: the report of an older folder cannot be drawn
            _draw_fields(out, solution.name, save_corrections(out, new), certificate)
            report_run(out)
        else:
            _draw_fields(out, solution.name, new, certificate)
        return record


def run_problem(out: Path, find=None) -> str | Problem:
    """The problem of a run folder: a catalogue name, or what `find` makes of its source.

    Args:
        out: the run folder.
        find: makes a problem, or a catalogue name, of what `config.toml` says of it.
    """
    name = _config_of(Path(out))["problem"]
    return name if find is None else find(name)


def _config_of(out: Path) -> dict[str, Any]:
    path = out / "config.toml"
    if not path.is_file():
        raise ValueError(f"`{out}` is not a run folder: it has no `config.toml`.")
    return read_config(path)


def _catalogued(name: str) -> Problem | None:
    try:
        return catalogue(name).problem
    except ValueError:
        return None


def _catalogue_name(problem: Problem) -> str | None:
    """The name under which the catalogue has this very problem."""
    return problem.name if _catalogued(problem.name) is problem else None


def _for_target(settings: Settings, target: float | None, certify: bool) -> Settings:
    """A target needs rounds, and a certificate to end them."""
    if target is not None:
        settings = settings.changed({"certificate.target": target})
    usual = Settings().certificate.seconds
    needed = {"certificate.seconds": settings.certificate.seconds or usual}
    if settings.certificate.target is not None:
        rounds = settings.certificate.rounds or _ROUNDS
        return settings.changed(needed | {"certificate.rounds": rounds})
    return settings.changed(needed) if certify else settings


def _claim(out: Path, config: dict[str, Any]) -> None:
    """Make the folder ours, which is locked, or refuse one that holds another run."""
    path = out / "config.toml"
    if path.exists():
        there = read_config(path)
        there["settings"] = there["settings"].to_dict()
        if there != config:
            differ = [key for key in config if there[key] != config[key]]
            raise ValueError(
                f"`{out}` contains a different run: {', '.join(f'`{key}`' for key in differ)} "
                f"differ. Use another `--out`, or delete the folder."
            )
    else:
        write_config(path, config)
    clear_unfinished(out)


class _Test(eqx.Module):
    """The reference at fixed points, in double precision."""

    points: Any
    value: np.ndarray
    gradient: np.ndarray

    @classmethod
    def draw(cls, problem: Problem, truth: AbstractReference, n: int, key: PRNGKeyArray) -> "_Test":
        with precision("float64"):
            points = sample_interior(problem, n, dtype=jnp.float64, key=key)
            value, gradient = truth.values_and_gradients(points)
            return cls(points, np.asarray(value), np.asarray(gradient))

    def watch(self, network: Any) -> dict[str, float]:
        with precision("float64"):
            found = np.asarray(batched(network, self.points), np.float64)
        size = np.sqrt(np.mean(self.value**2))
        return {"error": float(np.sqrt(np.mean((found - self.value) ** 2)) / size)}

    def errors(self, problem: Problem, network: Any) -> Errors | None:
        with precision("float64"):
            value, gradient = value_and_gradient(problem, network, self.points)
        if not np.all(np.isfinite(value)):
            raise ValueError(
                "The trained network is not finite at all test points. Try a smaller learning "
                "rate or more damping."
            )
        return compare(np.asarray(self.points), value, gradient, self.value, self.gradient)


def _truth(problem: str | Problem) -> AbstractReference | None:
    """What to compare with: the catalogue's reference, or finite elements in the plane."""
    if isinstance(problem, str):
        return catalogue_reference(problem)
    if problem.jumps is not None and why_no_grid(problem):
        return None
    known = problem.dim <= 2 and not problem.parameters
    return find_reference(problem) if known else None


def _draw(
    out: Path,
    problem: Problem,
    name: str,
    trained: Fit,
    axes: list[np.ndarray],
    values: np.ndarray,
    exact: np.ndarray | None,
    found: Errors | None,
    labels: Labels | None,
) -> list[Path]:
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    layout = problem.layout
    named = ", ".join([name, layout.spelled(layout.middle())]) if layout.parameters else name
    title = named if found is None else f"{named}: relative L2 error {found.l2_rel:.2e}"
    marks = None
    if labels is not None and problem.dim == 2:
        marks = np.asarray(problem.layout.space(labels.points))
    return [
        save_figure(slice_figure(title, axes, values, exact, marks), folder / "solution.png"),
        draw_curves(folder / "losses.png", trained.history),
    ]


def _draw_fields(
    out: Path, name: str, fields: dict[str, np.ndarray], certificate: Certificate | None
) -> list[Path]:
    """Pictures of what a folder keeps for its report: profiles, and corrections by paths."""
    folder, drawn = out / "figures", []
    folder.mkdir(exist_ok=True)
    if "cloud_at" in fields:
        drawn.append(save_figure(profile_figure(name, fields), folder / "profile.png"))
    if certificate is not None:
        title = f"{name}\n{certificate}"
        drawn.append(draw_corrections(folder / _CERTIFICATE, title, fields))
    return drawn
