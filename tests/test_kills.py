"""`kill -9` at random moments: what is on disk stays whole, and the end is that of a quiet run."""

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from fkpinn._files import unpack
from fkpinn._solve import load
from fkpinn._solve._settings import read_config
from fkpinn.labels import Labels
from fkpinn.report import read_fields
from fkpinn.train import load_about

SIZES = [
    "network.widths=[10, 10]", "points.n_collocation=80", "points.n_boundary=20",
    "labels.n_paths=200", "labels.p_data=0.2", "training.steps=30", "points.n_test=50",
    "training.checkpoint_seconds=0",
]  # fmt: skip
TWO = """
kind = "table"
seeds = 2
problems = ["poisson"]
methods = ["pinn", "fk-pinn"]
[own.pinn]
"network.widths" = [4]
"points.n_collocation" = 40
"points.n_boundary" = 10
"training.adam_steps" = 300
"training.lbfgs_steps" = 20
[own.fk-pinn]
"network.widths" = [4]
"points.n_collocation" = 40
"points.n_boundary" = 10
"labels.n_paths" = 50
"labels.dt" = 0.01
"training.adam_steps" = 300
"training.lbfgs_steps" = 20
"""


class Command(NamedTuple):
    """A command that is killed: its words for a folder, and what must be the same at the end."""

    words: Callable[[Path], list[str]]
    outcome: Callable[[Path], list]


def labels_words(folder):
    words = "labels met --points 10 --paths 8000 --dt 2e-2 --seed 5 --json --out".split()
    return [*words, str(folder / "labels.npz")]


def labels_outcome(folder):
    labels = Labels.load(folder / "labels.npz")
    assert [path.name for path in folder.iterdir()] == ["labels.npz"]
    return [*(getattr(labels, n) for n in ("points", "value", "stderr", "skew", "unfinished"))]


def solve_words(folder, certify=0):
    if (folder / "config.toml").exists() and len(list(folder.iterdir())) % 2:
        return ["solve", "--resume", str(folder), "--json"]
    words = ["solve", "exit-ball-3d", "--seed", "2", "--json", "--out", str(folder)]
    return [*words, "--set", *SIZES, f"certificate.seconds={certify}"]


def solve_outcome(folder):
    network = load(folder / "solution.fkpinn").network
    result = json.loads((folder / "result.json").read_text())
    assert (folder / "report.html").is_file() and not list(folder.glob("*.lock"))
    return [*jax.tree.leaves(network), *result["errors"].values(), *labels_values(folder)]


def certified_words(folder):
    return solve_words(folder, certify=4)


def certified_outcome(folder):
    """How many paths fit into the time differs from run to run; what they measure does not."""
    result = json.loads((folder / "result.json").read_text())
    low, high = (result["certificate"][end] for end in ("ci_low", "ci_high"))
    assert low / 2 < result["errors"]["l2_rel"] < 2 * high
    return solve_outcome(folder)


def labels_values(folder):
    labels = Labels.load(folder / "labels.npz")
    return [labels.points, labels.value, labels.stderr]


def reproduce_words(folder):
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    (folder / "configs" / "two.toml").write_text(TWO)
    places = {name: str(folder / name) for name in ("configs", "results", "pages")}
    return ["reproduce", "two", "--json", *(w for n, p in places.items() for w in (f"--{n}", p))]


def reproduce_outcome(folder):
    paths = sorted((folder / "results" / "runs" / "paper").iterdir())
    records = [json.loads(path.read_text()) for path in paths]
    assert len(records) == 4 and (folder / "pages" / "two.md").is_file()
    found = []
    for record in records:
        found += record["errors"].values()
        last = record["history"][-1]
        found += [last[name] for name in sorted(last) if name not in ("phase", "seconds")]
    return found


COMMANDS = {
    "labels": Command(labels_words, labels_outcome),
    "solve": Command(solve_words, solve_outcome),
    "certified": Command(certified_words, certified_outcome),
    "reproduce": Command(reproduce_words, reproduce_outcome),
}


def start(command, folder, errors):
    words = [sys.executable, "-m", "fkpinn", *command.words(folder)]
    with errors.open("w") as file:
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=file)


def check_whole(folder):
    """Every file is what its name says; only the last line of a log may be torn."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name.endswith((".unfinished", ".lock")):
            continue
        match path.suffix:
            case ".npz" if path.parent.name == "checkpoints":
                unpack(path, [f"leaf{i}" for i in range(load_about(path)["leaves"])])
            case ".npz":
                read_fields(path) if path.name == "fields.npz" else Labels.load(path)
            case ".partial":
                unpack(path, ["done", "identity"])
            case ".fkpinn":
                load(path)
            case ".json":
                json.loads(path.read_text())
            case ".jsonl":
                for line in path.read_text().splitlines()[:-1]:
                    json.loads(line)
            case ".toml":
                path.parent.name == "configs" or read_config(path)
            case ".png":
                assert path.read_bytes()[-8:-4] == b"IEND"
            case ".html":
                assert path.read_text().rstrip().endswith("</html>")
            case ".md" | ".tex":
                assert path.stat().st_size > 0
            case _:
                raise AssertionError(f"{path} is unknown")


def run_quietly(command, folder):
    """An undisturbed run: what it ends with, and how long it takes."""
    folder.mkdir()
    errors, began = folder.with_suffix(".err"), time.monotonic()
    assert start(command, folder, errors).wait() == 0, errors.read_text()
    return command.outcome(folder), time.monotonic() - began


def kill_often(command, root, wanted, kills, longest, rng):
    """Kill until there were so many kills; a run that ended is compared, and another is begun."""
    done = 0
    for number in itertools.count():
        folder = root / f"broken-{number}"
        folder.mkdir()
        errors, ended, before = folder.with_suffix(".err"), False, done
        while not ended:
            process, began = start(command, folder, errors), time.monotonic()
            wait = None if done >= kills else rng.uniform(0.3, 0.9) * longest
            try:
                assert process.wait(wait) == 0, errors.read_text()
                ended = True
                if done == before:  # the machine has become faster
                    longest = min(longest, time.monotonic() - began)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                done += 1
                check_whole(folder)
        for one, two in zip(wanted, command.outcome(folder), strict=True):
            np.testing.assert_array_equal(one, two)
        assert not list(folder.rglob(".*.unfinished")) and not list(folder.rglob("*.lock"))
        if done >= kills:
            return


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        pytest.param("labels", 17, marks=pytest.mark.slow),
        pytest.param("solve", 17, marks=pytest.mark.slow),
        pytest.param("certified", 10, marks=pytest.mark.slow),
        pytest.param("reproduce", 16, marks=pytest.mark.slow),
    ],
)
def test_killed_at_random(tmp_path, name, kills):
    command = COMMANDS[name]
    wanted, _ = run_quietly(command, tmp_path / "quiet")
    again, seconds = run_quietly(command, tmp_path / "warm")  # nothing is compiled now
    for one, two in zip(wanted, again, strict=True):
        np.testing.assert_array_equal(one, two)
    kill_often(command, tmp_path, wanted, kills, seconds, random.Random(f"{name} {kills}"))
