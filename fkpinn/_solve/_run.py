"""From a problem to a trained network, its errors and a run folder."""

import contextlib
import dataclasses
import platform
import threading
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from .._files import blame, read_json
from .._lock import alone
from .._progress import AbstractProgress, SilentProgress
from .._records import Errors, clear_unfinished, installed_versions, write_json
from ..evaluate import Certificate, compare, rehearse, value_and_gradient
from ..labels import Labels
from ..problem import Problem, catalogue
from ..reference import AbstractReference, catalogue_reference, find_reference
from ..report import draw_corrections, draw_curves, draw_slice, write_report
from ..sampling import sample_interior
from ..train import Fit
from ._folder import about_problem, changed_settings, report_run, save_corrections, save_fields
from ._phases import make_labels, make_network, output_size, solution_size, train_network
from ._presets import check_method, check_preset
from ._rounds import Improved, improve
from ._settings import Settings, read_config, write_config
from ._solution import Solution, load, slice_through

_ROUNDS = 6  # of further training, at most, where a target is given


def solve(
    problem: Problem,
    *,
    preset: str = "quick",
    settings: Settings | None = None,
    method: str = "fk-pinn",
    labels: Labels | None = None,
    target: float | None = None,
    seed: int = 0,
    progress: AbstractProgress | None = None,
) -> Solution:
    """Train a network on residual, boundary data and Monte Carlo labels.

    With a `target` the error is measured by paths, and rounds of further training follow until
    the upper confidence limit of the relative L2 error is below it, or no round is expected to
    pay; `Solution.stopped` says which.

    Args:
        problem: the boundary value problem.
        preset: how much work: `quick`, `best` or `paper`.
        settings: sizes and weights of your own, instead of a preset.
        method: `fk-pinn`; others are baselines, see `fkpinn solve --help`.
        labels: labels you have already, from measurements say; none are made then.
        target: relative L2 error to reach.
        seed: fixes everything random.
        progress: told how far the run is.

    Returns:
        `Solution`: call it with points.
    """
    check_method(method)
    settings = _for_method(settings or check_preset(preset), method)
    settings = _for_target(settings, target)
    progress = progress or SilentProgress()
    label_key, train_key, _ = jr.split(jr.key(seed), 3)
    began = time.perf_counter()
    if labels is None or settings.p_data == 0:
        labels = make_labels(
            problem, settings, method, folder=None, progress=progress, seed=seed, key=label_key
        )
    trained = train_network(problem, settings, method, labels, progress=progress, key=train_key)
    certificate = None
    if settings.rounds:
        improved = improve(
            problem, settings, trained.network,
            size=solution_size(labels), trained_in=time.perf_counter() - began, seed=seed,
            progress=progress, key=jr.fold_in(train_key, 1),
        )  # fmt: skip
        trained, certificate = _with_rounds(trained, improved), improved.certificate
    progress.finish()
    about = None if certificate is None else certificate.to_dict()
    return Solution(problem, trained.network, trained.history, trained.stopped, problem.name, about)


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
    """Solve, compare with the reference, and write a run folder; go on where it was left.

    Args:
        problem: a catalogue name or a problem.
        method: `fk-pinn`, or a baseline.
        preset: how much work, one of `quick`, `best`, `paper`.
        settings: sizes and weights instead of those of the preset.
        target: relative L2 error to reach, see `solve`.
        seed: fixes everything random.
        out: the run folder, made if it does not exist. Labels and checkpoints of the same run
            that lie there are used.
        source: where the problem comes from, a file say, for whoever resumes the run.
        progress: told how far the run is.

    Returns:
        The result, as written to `result.json`.
    """
    check_method(method)
    settings = _for_method(settings or check_preset(preset), method)
    settings = _for_target(settings, target)
    progress, out = progress or SilentProgress(), Path(out)
    wanted = catalogue(problem).problem if isinstance(problem, str) else problem
    name = problem if isinstance(problem, str) else wanted.name
    config = {
        "problem": problem if isinstance(problem, str) else source or name,
        "method": method,
        "preset": preset,
        "seed": seed,
        "settings": dataclasses.asdict(settings),
    }
    with alone(out / "run.lock", out):
        _claim(out, config)
        return _run(problem, wanted, name, settings, config, out, progress)


def _run(
    problem: str | Problem,
    wanted: Problem,
    name: str,
    settings: Settings,
    config: dict[str, Any],
    out: Path,
    progress: AbstractProgress,
) -> dict[str, Any]:
    """Everything in the folder but its configuration."""
    method, preset, seed = config["method"], config["preset"], config["seed"]
    label_key, train_key, test_key = jr.split(jr.key(seed), 3)
    clock = [time.perf_counter()]
    labels = make_labels(
        wanted, settings, method, folder=out, progress=progress, seed=seed, key=label_key
    )
    clock.append(time.perf_counter())
    truth = _truth(problem)
    test = None if truth is None else _Test.draw(wanted, truth, settings.n_test, test_key)
    watch = None if test is None else test.watch
    rehearsal = _rehearse(wanted, settings, labels)
    trained = train_network(
        wanted, settings, method, labels,
        progress=progress, watch=watch, folder=out, key=train_key,
    )  # fmt: skip
    clock.append(time.perf_counter())
    certificate, rounds = None, []
    if settings.certify_seconds > 0:
        if rehearsal is not None:
            rehearsal.join()
        try:
            improved = improve(
                wanted, settings, trained.network,
                size=solution_size(labels), trained_in=clock[2] - clock[0], seed=seed,
                progress=progress, watch=watch, folder=out, key=jr.fold_in(train_key, 1),
            )  # fmt: skip
            trained, certificate = _with_rounds(trained, improved), improved.certificate
            rounds = improved.rounds
        except ValueError as error:  # paths that never end, say: the network is worth keeping
            trained = trained._replace(stopped=[*trained.stopped, f"no certificate: {error}"])
    clock.append(time.perf_counter())
    found = None if test is None else test.errors(wanted, trained.network)
    about = None if certificate is None else certificate.to_dict()
    solution = Solution(wanted, trained.network, trained.history, trained.stopped, name, about)
    solution.save(out / "solution.fkpinn")
    axes, values, exact = slice_through(wanted, trained.network, truth)
    save_fields(out, wanted, trained.network, axes, values, exact, labels, certificate)
    figures = _draw(out, wanted, name, trained, axes, values, exact, found, labels)
    if certificate is not None:
        figures.append(_draw_certificate(out, solution, certificate))
    result = {
        "problem": name,
        "method": method,
        "preset": preset,
        "seed": seed,
        "errors": found.to_dict() if found else None,
        "certificate": about,
        "rounds": rounds,
        "seconds": {
            "labels": clock[1] - clock[0],
            "compile": trained.compile_seconds,
            "train": clock[2] - clock[1] - trained.compile_seconds,
            "certify": clock[3] - clock[2],
            "total": time.perf_counter() - clock[0],
        },
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()})",
        "versions": installed_versions(),
        "settings": dataclasses.asdict(settings),
        "stopped": trained.stopped,
        "out": str(out),
        "figures": [str(path) for path in figures],
        "report": str(out / "report.html"),
        "source": config["problem"],
        "catalogued": isinstance(problem, str),
        "changed": changed_settings(settings, _for_method(check_preset(preset), method)),
        "about": about_problem(wanted),
    }
    write_report(out, result)
    write_json(out / "result.json", result)
    progress.finish()
    return result


def certify_run(
    out: Path,
    *,
    find=None,
    progress: AbstractProgress | None = None,
    **how: Any,
) -> dict[str, Any]:
    """Certify the solution in a run folder; its result, figure and report are renewed.

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
            f"`{out}` holds no solution yet: its run has not ended. Try `fkpinn solve --resume`."
        )
    problem = run_problem(out, find)
    with alone(out / "run.lock", out):
        solution = load(path, None if isinstance(problem, str) else problem)
        certificate = solution.certify(progress=progress, **how)
        picture = _draw_certificate(out, solution, certificate)
        record = certificate.to_dict()
        stored = out / "result.json"
        if stored.is_file():
            result = read_json(stored)
            with blame(stored):
                figures = [out / "figures" / Path(f).name for f in result["figures"]]
            figures += [] if picture in figures else [picture]
            result |= {"certificate": record, "figures": [str(f) for f in figures]}
            write_json(stored, result)  # first: the report of an older folder cannot be drawn
            save_corrections(out, solution.problem, certificate)
            report_run(out)
        return record


def resume(out: Path, *, progress: AbstractProgress | None = None, find=None) -> dict[str, Any]:
    """Go on with a run folder after a crash; a finished run is trained no further.

    Args:
        out: the run folder.
        progress: told how far the run is.
        find: makes a problem, or a catalogue name, of what `config.toml` says of it.
    """
    out = Path(out)
    config = _config_of(out)
    problem = config["problem"] if find is None else find(config["problem"])
    return run(
        problem,
        method=config["method"],
        preset=config["preset"],
        settings=config["settings"],
        seed=config["seed"],
        out=out,
        source=config["problem"],
        progress=progress,
    )


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


def _rehearse(
    problem: Problem, settings: Settings, labels: Labels | None
) -> threading.Thread | None:
    """While an accelerator trains, the host compiles what the certificate will need."""
    if settings.certify_seconds == 0 or jax.default_backend() == "cpu":
        return None

    def work() -> None:
        with jax.enable_x64(True), contextlib.suppress(ValueError):  # the certificate will raise it
            like = make_network(
                problem, settings, output_size(settings, labels), dtype=jnp.float64, key=jr.key(0)
            )
            rehearse(problem, like)

    thread = threading.Thread(target=work)  # no daemon: those that compile at exit crash
    thread.start()
    return thread


def _for_method(settings: Settings, method: str) -> Settings:
    """A plain PINN takes all collocation points for the residual."""
    return settings if method.startswith("fk") else dataclasses.replace(settings, p_data=0.0)


def _for_target(settings: Settings, target: float | None) -> Settings:
    """A target needs rounds, and a certificate to end them."""
    if target is not None:
        settings = dataclasses.replace(settings, target=target)
    if settings.target is None:
        return settings
    return dataclasses.replace(
        settings,
        rounds=settings.rounds or _ROUNDS,
        certify_seconds=settings.certify_seconds or Settings.certify_seconds,
    )


def _with_rounds(trained: Fit, improved: Improved) -> Fit:
    """One record of the training and of the rounds after it."""
    taken = trained.history[-1]["step"] if trained.history else 0
    later = [record | {"step": record["step"] + taken} for record in improved.history]
    return trained._replace(
        network=improved.network,
        history=trained.history + later,
        stopped=trained.stopped + improved.notes,
    )


def _claim(out: Path, config: dict[str, Any]) -> None:
    """Make the folder ours, which is locked, or refuse one that holds another run."""
    path = out / "config.toml"
    if path.exists():
        there = read_config(path)
        there["settings"] = dataclasses.asdict(there["settings"])
        if there != config:
            differ = [key for key in config if there[key] != config[key]]
            raise ValueError(
                f"`{out}` holds another run: {', '.join(f'`{key}`' for key in differ)} differ. Use "
                f"another `--out`, or delete the folder."
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
    def draw(cls, problem: Problem, truth: AbstractReference, n: int, key) -> "_Test":
        with jax.enable_x64(True):
            points = sample_interior(problem, n, dtype=jnp.float64, key=key)
            value, gradient = truth.values_and_gradients(points)
            return cls(points, np.asarray(value), np.asarray(gradient))

    def watch(self, network: Any) -> dict[str, float]:
        with jax.enable_x64(True):
            found = np.asarray(_values(network, self.points), np.float64)
        size = np.sqrt(np.mean(self.value**2))
        return {"error": float(np.sqrt(np.mean((found - self.value) ** 2)) / size)}

    def errors(self, problem: Problem, network: Any) -> Errors | None:
        with jax.enable_x64(True):
            value, gradient = value_and_gradient(problem, network, self.points)
        if not np.all(np.isfinite(value)):
            raise ValueError("The trained network is not finite everywhere.")
        return compare(value, gradient, self.value, self.gradient)


@eqx.filter_jit
def _values(network: Any, points: Any) -> Any:
    return jax.vmap(lambda z: network(z))(points)


def _truth(problem: str | Problem) -> AbstractReference | None:
    """What to compare with: the catalogue's reference, or finite elements in the plane."""
    if isinstance(problem, str):
        return catalogue_reference(problem)
    return find_reference(problem) if problem.dim <= 2 else None


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
    title = name if found is None else f"{name}: relative L2 error {found.l2_rel:.2e}"
    marks = None
    if labels is not None and problem.dim == 2:
        marks = np.asarray(jax.vmap(problem.space)(labels.points))
    return [
        draw_slice(folder / "solution.png", title, axes, values, exact, marks),
        draw_curves(folder / "losses.png", trained.history),
    ]


def _draw_certificate(out: Path, solution: Solution, certificate: Certificate) -> Path:
    (out / "figures").mkdir(exist_ok=True)
    found, problem = certificate.corrections, solution.problem
    low, high = found.interval(certificate.level)
    points = np.asarray(found.points, float)[:, problem.n_coords - problem.dim :]
    value = np.asarray(found.value, float)
    title = f"{solution.name}: {certificate}"
    return draw_corrections(out / "figures" / "certificate.png", title, points, value, low, high)
