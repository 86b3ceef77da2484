"""Every kind of file the package reads: a small valid one, its reader, and what must hold then."""

import contextlib
import functools
import json
import os
import random
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from fuzz.mutations import MARK, mutate
from run_folders import finished_run

import fkpinn as fk
from fkpinn._files import kept
from fkpinn._records import write_bytes, write_json
from fkpinn._solve import Solution, report_run
from fkpinn._solve._settings import Settings, read_config, write_config
from fkpinn.experiments import read_experiment, reproduce, summarize
from fkpinn.labels._store import Store
from fkpinn.loss import BoundaryTerm, Fixed, Loss, ResidualTerm
from fkpinn.nn import MLP
from fkpinn.problem import catalogue
from fkpinn.reference import FEMReference, fem_reference, fingerprint
from fkpinn.report import read_fields
from fkpinn.report._page import _curves
from fkpinn.sampling import sample_boundary, sample_interior
from fkpinn.train import Adam, Phase
from fkpinn.train._fit import State, _Run
from fkpinn.train._objective import Objective, split

PROBLEM = catalogue("exit-ball-3d").problem
ROOM = 1 << 30  # bytes that a reader may take beside what is taken already
SECONDS = 20.0  # that it may need


class Format(NamedTuple):
    """A file, how to read it, and a check of what was read (beyond what the reader promises)."""

    name: str
    kind: str
    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    check: Callable[[Any], object] = lambda found: None


class TooLongError(BaseException):
    """A reader hangs."""


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Inside, memory is short, so that what asks for too much fails at once."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))

    def stop(*_):
        raise TooLongError

    old = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, before)


def attack(format_: Format, folder: Path, cases: range) -> dict[str, int]:
    """Read changed files, one a number; whatever is neither refused nor sound is an error.

    Returns how many were refused and how many were read.
    """
    path = format_.make(folder)
    whole = path.read_bytes()
    format_.check(format_.read(path))
    count = {"refused": 0, "read": 0}
    with limits():
        for number in cases:
            count[case(format_, path, whole, number)] += 1
    path.write_bytes(whole)
    return count


def case(format_: Format, path: Path, whole: bytes, number: int) -> str:
    """One changed file: `refused` or `read`."""
    mark = path.parent / "exploded"
    os.environ[MARK] = str(mark)
    rng = random.Random(f"{format_.name} {number}")
    path.write_bytes(mutate(whole, format_.kind, rng))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found = format_.read(path)
    except (ValueError, OSError) as error:
        said = str(error)
        assert path.name in said and len(said) < 3000, f"case {number}: {said:.300}"
        return "refused"
    except BaseException as error:
        raise AssertionError(f"case {number}: {type(error).__name__}: {error}") from error
    else:
        try:
            format_.check(found)
        except Exception as error:
            raise AssertionError(f"case {number} was read: {error!r}") from error
        return "read"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        assert not mark.exists(), f"case {number} ran code"


# labels


def _labels(folder: Path) -> Path:
    points = sample_interior(PROBLEM, 4, dtype=jnp.float32, key=jr.key(0))
    labels = fk.Labels.from_data(points, [1.0, 2.0, 3.0, 4.0], 0.1)
    labels.save(folder / "labels.npz")
    return folder / "labels.npz"


def _sound_labels(labels: fk.Labels) -> None:
    n = len(labels.points)
    assert labels.points.ndim == 2 and n > 0 and labels.n_paths >= 0
    for name in ("value", "stderr", "unfinished", "bias", "skew", "truncation"):
        assert getattr(labels, name).shape == (n,), name
    low, high = labels.interval()
    assert np.all(np.isfinite(labels.value)) and low.shape == high.shape == (n,)
    assert isinstance(labels.provenance, dict)
    labels.error()


WHO = {"problem": "x", "n_paths": 3}


def _partial(folder: Path) -> Path:
    path = folder / "labels.npz.partial"
    store = Store(path, WHO, 5)
    for field in store.moments:
        field[:3] = [1.0, 2.0, 3.0]
    store.steps[:3], store.done[:3] = 7, True
    store.write()
    return path


def _sound_partial(store: Store) -> None:
    assert store.done.shape == store.steps.shape == (5,) and store.done.dtype == bool
    assert all(field.shape == (5,) and field.dtype == float for field in store.moments)


# training


def _training(folder: Path) -> tuple[_Run, Phase, State]:
    phase = Phase("Adam", Adam(9, 1e-2), 9, Fixed({"boundary": 5.0}))
    network = MLP(*PROBLEM.bounds(), (3,), dtype=jnp.float32, key=jr.key(0))
    inside = sample_interior(PROBLEM, 4, dtype=jnp.float32, key=jr.key(1))
    on = sample_boundary(PROBLEM, 4, dtype=jnp.float32, key=jr.key(2))
    loss = Loss({"residual": ResidualTerm(PROBLEM, inside), "boundary": BoundaryTerm(PROBLEM, on)})
    assert phase.weighting is not None
    parameters, static, unravel = split(network, phase.weighting)
    first = Objective(loss, jnp.zeros((), jnp.int32), static, unravel)
    state = State(parameters, phase.optimizer.init(first, parameters), loss, first.step)
    return _Run([phase], None, None, folder, 0.0, jr.key(3)), phase, state


def _checkpoint(folder: Path) -> Path:
    run, _, state = _training(folder)
    run.history = [{"phase": "Adam", "step": k, "loss": 1.0 / k, "seconds": 0.1} for k in (1, 2)]
    run.stopped = ["Adam stopped."]
    run._save(0, state)
    return folder / "checkpoints" / "last.npz"


class _Restored(NamedTuple):
    about: dict[str, Any] | None
    state: State


_trainings: dict[Path, tuple[_Run, Phase, State]] = {}


def _read_checkpoint(path: Path) -> _Restored:
    if path.parents[1] not in _trainings:
        _trainings[path.parents[1]] = _training(path.parents[1])
    run, phase, state = _trainings[path.parents[1]]
    return _Restored(run._resumed(), run._restored(state, phase))


def _sound_checkpoint(found: _Restored) -> None:
    assert found.about is not None and found.about["phase"] == 0
    assert all(isinstance(record["step"], int) for record in found.about["history"])
    assert np.all(np.isfinite(found.state.parameters)) and 0 <= int(found.state.step) <= 9


# solutions and run folders


def _solution(folder: Path) -> Path:
    network = MLP(
        *PROBLEM.bounds(), (3, 2), frequencies=1.0, n_features=2, dtype=jnp.float32, key=jr.key(0)
    )
    report = {"phase": "Adam", "step": 1, "loss": 1.0, "seconds": 0.1}
    solution = Solution(PROBLEM, network, [report], ["x"], "exit-ball-3d", {"l2_rel": 0.1})
    solution.save(folder / "solution.fkpinn")
    return folder / "solution.fkpinn"


def _read_solution(path: Path) -> Solution:
    with pytest.MonkeyPatch.context() as patch:  # the problem stays, so do its numbers
        patch.setattr("fkpinn.reference._fingerprint.fingerprint", lambda _: _numbers())
        return fk.load(path, PROBLEM)


@functools.cache
def _numbers() -> np.ndarray:
    return fingerprint(PROBLEM)


def _sound_solution(solution: Solution) -> None:
    leaves = jax.tree.leaves(solution.network)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves if hasattr(leaf, "dtype"))
    assert isinstance(solution.name, str) and isinstance(solution.history, list)


def _fields(folder: Path) -> Path:
    finished_run(folder)
    return folder / "fields.npz"


def _sound_fields(found: dict[str, np.ndarray]) -> None:
    assert found["values"].shape == (len(found["axis_1"]), len(found["axis_0"])) or (
        "axis_1" not in found and found["values"].shape == found["axis_0"].shape
    )


def _metrics(folder: Path) -> Path:
    finished_run(folder)
    return folder / "metrics.jsonl"


def _sound_curves(curves: dict[str, Any]) -> None:
    json.dumps(curves, allow_nan=False)


def _result(folder: Path) -> Path:
    finished_run(folder)
    return folder / "result.json"


def _sound_page(page: Path) -> None:
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")


def _config(folder: Path) -> Path:
    settings = Settings().changed({"labels.dt": 0.1, "network.widths": (4, 4)}).to_dict()
    config = {"problem": "met", "method": "pinn", "preset": "quick", "seed": 0, "own": ["labels"]}
    write_config(folder / "config.toml", config | {"settings": settings})
    return folder / "config.toml"


def _sound_config(config: dict[str, Any]) -> None:
    assert isinstance(config["settings"], Settings) and isinstance(config["seed"], int)


# experiments

TABLE = """
kind = "table"
title = "Two methods"
label = "tab:two"
preset = "paper"
seeds = 2
problems = ["poisson"]
methods = ["pinn", "fk-pinn"]
vary = {"labels.dt" = [0.1, 0.05]}
own = {pinn = {"training.boundary_weight" = 2.0}}
search = [{problem = "poisson", method = "pinn", "network.widths" = [4, 4]}]
ours = {preset = "best", methods = ["fk-pinn"], seeds = 1}
sizes = {grid = 5, widths = [3, 3], reach = 0.5}
text = {why = "Because."}
paper = {poisson = {pinn = {l2_rel = [0.322, 0.149]}}}
"""


def _experiment(folder: Path) -> Path:
    write_bytes(folder / "configs" / "two.toml", TABLE.encode())
    return folder / "configs" / "two.toml"


def _read_experiment(path: Path) -> dict[str, Any]:
    experiment = read_experiment(path.parent, "two")
    assert len(experiment.runs()) < 10**7
    out = path.parents[1]
    return reproduce(experiment, results=out / "none", pages=out / "pages", from_records=True)


def _record(folder: Path) -> Path:
    _experiment(folder)
    cell = read_experiment(folder / "configs", "two").cells[0]
    errors = {name: 0.25 for name in ("l2_abs", "l2_rel", "h1_abs", "h1_rel", "linf")}
    grid = [[0.0, None], [1.0, 2.0]]
    record = {
        "problem": cell.problem, "method": cell.method, "preset": cell.preset, "changes": {},
        "settings": {}, "errors": errors, "seed": 0, "jobs": 1, "at_once": 1, "stopped": [],
        "labels": {"n": 3, "rel_err": 0.1, "rel_bias": 0.1, "rel_stderr": 0.1},
        "history": [{"step": 1, "phase": "Adam", "loss": 1.0}], "device": "cpu", "versions": {},
        "seconds": {"labels": 1.0, "train": 1.0, "total": 2.0},
        "picture": {"axes": [[0.0, 1.0], [0.0, 1.0]], "values": grid, "exact": grid},
    }  # fmt: skip
    path = cell.record_path(folder / "results", 0)
    write_json(path, record)
    return path


def _read_record(path: Path) -> dict[str, Any]:
    folder = path.parents[3]
    return summarize(read_experiment(folder / "configs", "two"), folder / "results")


def _sound_summary(summary: dict[str, Any]) -> None:
    (row,) = summary["rows"]
    assert all(np.isfinite(row[name]).all() for name in ("l2_abs", "l2_rel", "h1_rel", "seconds"))
    assert np.isfinite(summary["seconds"]) and all(isinstance(d, str) for d in summary["devices"])


def _diagnosis(folder: Path) -> Path:
    kept(folder / "one.json", lambda: {"method": "pinn", "n": 8, "condition": 1e3, "above": {}})
    return folder / "one.json"


# references


def _reference(folder: Path) -> Path:
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0)
    fem_reference(problem, h=0.8).save(folder / "reference.npz")
    return folder / "reference.npz"


def _sound_reference(found: FEMReference) -> None:
    middle = found.space.nodes[found.space.cells[0]].mean(axis=0)
    if found.times is not None:
        middle = np.concatenate([[0.0], middle])
    with contextlib.suppress(ValueError):  # outside, where the mesh is folded over
        assert np.all(np.isfinite(found.values(middle[None])))


FORMATS = (
    Format("labels", "npz", _labels, fk.Labels.load, _sound_labels),
    Format("label checkpoint", "npz", _partial, lambda p: Store(p, WHO, 5), _sound_partial),
    Format("training checkpoint", "npz", _checkpoint, _read_checkpoint, _sound_checkpoint),
    Format("solution", "npz", _solution, _read_solution, _sound_solution),
    Format("fields", "npz", _fields, read_fields, _sound_fields),
    Format("metrics", "jsonl", _metrics, lambda p: _curves(p, {}), _sound_curves),
    Format("result", "json", _result, lambda p: report_run(p.parent), _sound_page),
    Format("config", "toml", _config, read_config, _sound_config),
    Format("experiment", "toml", _experiment, _read_experiment),
    Format("record", "json", _record, _read_record, _sound_summary),
    Format("diagnosis", "json", _diagnosis, lambda p: kept(p, dict)),
    Format("reference", "npz", _reference, FEMReference.load, _sound_reference),
)
