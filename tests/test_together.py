"""Several processes that share the work: nothing depends on how many they are."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fkpinn import _together as together
from fkpinn.cli import main

SCRIPT = Path(__file__).with_name("processes_script.py")
SMALL = (
    "--set", "network.widths=[12, 12]", "points.n_collocation=200", "points.n_boundary=60",
    "labels.n_paths=100", "training.steps=200", "points.n_test=50", "certificate.seconds=1",
    "training.checkpoint_seconds=0",
)  # fmt: skip


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def started(words: list[str], **how) -> subprocess.Popen:
    environment = os.environ | {"NPROC": "1", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *words], env=environment, **pipes | how)


def run(folder: Path, *counts: int) -> list[dict]:
    """What the first of so many processes says, for each number of them."""
    ports = {count: str(free_port()) for count in counts}
    words = lambda count, k: [str(SCRIPT), str(k), str(count), ports[count], str(folder)]
    groups = [[started(words(count, k)) for k in range(count)] for count in counts]
    for process in (process for group in groups for process in group[1:]):
        _, why = process.communicate(timeout=300)
        assert process.returncode == 0, why[-2000:]
    found = []
    for group in groups:
        said, why = group[0].communicate(timeout=300)
        assert group[0].returncode == 0, why[-2000:]
        found.append(json.loads(said))  # and nothing else is on its standard output
    return found


def check(one: dict, other: dict, count: int, folder: Path) -> None:
    assert other["labels"] == one["labels"], "labels are equal to the bit"
    assert other["visits"] == one["visits"]
    assert other["devices"] == count == other["processes"]
    for key, most in (("steps 1", 1e-12), ("steps 3", 1e-10)):  # equal up to rounding
        a, b = np.array(one[key]), np.array(other[key])
        assert np.linalg.norm(a - b) < most * np.linalg.norm(a)
    found, left, same = json.loads((folder / "seen.json").read_text())
    assert found == ["deep", "file"]  # all that the first one has, but its lock
    assert not left and not same
    assert other["new"] == "mine"


@pytest.mark.broad
def test_two_processes_give_what_one_gives(tmp_path):
    check(*run(tmp_path, 1, 2), 2, tmp_path)


@pytest.mark.slow
def test_three_processes_give_what_one_gives(tmp_path):
    check(*run(tmp_path, 1, 3), 3, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_run_of_two_that_dies_goes_on_with_one(tmp_path, dies):
    """The other ends at once and says why; the certificate is that of a quiet run."""
    solve = ["-m", "fkpinn", "solve", "exit-ball-3d", "--json", *SMALL, "--out"]
    port = free_port()
    join = ["--distributed", "--coordinator", f"localhost:{port}", "--num-processes", "2"]
    both = [
        started([*solve, str(tmp_path / "run"), *join, "--process-id", str(k)]) for k in range(2)
    ]
    checkpoint = tmp_path / "run" / "checkpoints" / "last.npz"
    end = time.monotonic() + 200
    while not checkpoint.exists():
        assert all(process.poll() is None for process in both) and time.monotonic() < end
        time.sleep(0.1)
    both[dies].send_signal(signal.SIGKILL)
    said, complaint = both[1 - dies].communicate(timeout=60)
    both[dies].communicate()
    assert both[1 - dies].returncode != 0
    # jax ends a process that lost the first one, and may be faster than we are
    told = ("another process has died", "another task died")
    assert said == "" and any(words in complaint for words in told)
    resumed = started(["-m", "fkpinn", "solve", "--json", "--resume", str(tmp_path / "run")])
    quiet = started([*solve, str(tmp_path / "quiet")])
    one, other = (
        json.loads(p.communicate(timeout=300)[0])["certificate"] for p in (resumed, quiet)
    )
    for key in ("l2_rel", "ci_low", "ci_high", "n_paths"):
        assert one[key] == pytest.approx(other[key], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--coordinator", "a:1"], "need `--distributed`"),
        (["--distributed", "--devices", "2"], "`--devices` and `--distributed` exclude each other"),
        (["--distributed", "--process-id", "1"], "--coordinator, --num-processes is missing"),
        (
            ["--distributed", "--coordinator", "a:1", "--num-processes", "2", "--process-id", "2"],
            "`--process-id` must be from 0 to 1",
        ),
    ],
)
def test_refused(words, message, capsys):
    assert main(["solve", "met", *words]) == 2
    assert message in capsys.readouterr().err


def test_alone_nothing_is_sent(tmp_path):
    assert not together.several() and together.leads()
    assert together.clock() <= together.clock()
    with together.own_copy(tmp_path) as own:
        assert own == tmp_path
    array = np.arange(3.0)
    assert together.localized(array) is array and together.replicated(array, None) is array
    np.testing.assert_array_equal(together.fetched(array), array)
