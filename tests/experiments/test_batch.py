"""Many seeds of one problem: here, on a cluster that is played, and their table."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fkpinn.cli import main
from fkpinn.experiments import Batch, parse_seeds, run_here, submit, table

SMALL = (
    "--set", "network.widths=[6]", "points.n_collocation=60", "points.n_boundary=20",
    "labels.n_paths=50", "training.steps=6", "points.n_test=50", "certificate.seconds=0",
    "training.checkpoint_seconds=0",
)  # fmt: skip


def end(folder, error, seconds):
    """The files that a run leaves, as far as a table reads them."""
    folder.mkdir(parents=True)
    (folder / "config.toml").touch()
    about = {"problem": "met", "method": "pinn", "preset": "quick", "seed": 0, "settings": {}}
    errors = {"l2_rel": error, "h1_rel": 1.0}
    record = about | {"errors": errors, "about": {"dim": 2}, "seconds": {"total": seconds}}
    (folder / "result.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (3,)), ("0-3", (0, 1, 2, 3)), ("0-1, 7,5-6,1", (0, 1, 7, 5, 6)), ("9-9", (9,))],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-3", "0-100000", "1;2", "1.5"])
def test_seeds_refused(text):
    with pytest.raises(ValueError, match="`--seeds`"):
        parse_seeds(text)


def test_table_of_what_has_ended(tmp_path):
    batch = Batch("met", (0, 1, 2, 3), ("--preset", "quick"), tmp_path / "runs")
    batch.claim()
    for seed, error in ((0, 1e-3), (1, 4e-3), (3, 2e-3)):
        end(batch.folder(seed), error, 10.0 + seed)
    found = table(batch)
    assert found["missing"] == [2] == batch.missing()
    assert found["summary"]["relative L2"] == {"median": 2e-3, "worst": 4e-3}
    shown = [" ".join(row[:2]) for row in found["rows"]]
    assert shown == ["0 1.00e-03", "1 4.00e-03", "3 2.00e-03"]
    page = (batch.out / "table.md").read_text()
    assert "met: 3 runs" in page and "not ended: 2" in page and "median 0.002" in page


def test_a_folder_holds_one_batch(tmp_path):
    batch = Batch("met", (0,), ("--preset", "quick"), tmp_path)
    batch.claim()
    Batch("met", (5, 6), ("--preset", "quick"), tmp_path).claim()  # more seeds of the same
    with pytest.raises(ValueError, match="contains different runs: `options` differ"):
        Batch("met", (0,), ("--preset", "best"), tmp_path).claim()
    with pytest.raises(ValueError, match="contains different runs: `problem` differ"):
        Batch("poisson", (0,), ("--preset", "quick"), tmp_path).claim()


def test_only_what_is_missing_is_run(tmp_path, monkeypatch):
    """One has ended, one is refused, which its log tells."""
    words = lambda self, seed: ["python", "-c", f"import sys; print('seed {seed}'); sys.exit(2)"]
    monkeypatch.setattr(Batch, "words", words)
    batch = Batch("met", (0, 1), (), tmp_path)
    end(batch.folder(0), 1e-3, 1.0)
    assert run_here(batch) == {1: "seed 1"}
    assert not (tmp_path / "logs" / "seed-0.txt").exists()


def test_words_of_a_run_are_those_of_solve(tmp_path):
    batch = Batch("met", (4,), ("--preset", "best"), tmp_path)
    out = str(tmp_path / "seed-4")
    wanted = f"python -m fkpinn solve met --seed 4 --out {out} --json --preset best"
    assert batch.words(4) == wanted.split()


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Programs of SLURM that write down what they are told."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun", "scancel", "sacct"):
        path = programs / name
        path.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/script.sh\necho Submitted batch job 77\n')
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path


def test_slurm_gets_an_array_of_the_missing_runs(played):
    batch = Batch("met", (0, 1, 2), (), played / "runs")
    end(batch.folder(1), 1e-3, 1.0)
    queued = submit(batch, {"timeout_min": 30, "gpus_per_node": 1, "slurm_partition": "fast"})
    assert queued == ["77_0", "77_1"]
    told = (played / "script.sh").read_text()
    for line in ("--array=0-1", "--time=30", "--gpus-per-node=1", "--partition=fast", "fkpinn-met"):
        assert line in told
    with pytest.raises(ValueError, match=r"`--slurm`.*slurm_speed"):
        submit(batch, {"slurm_speed": 3})


def test_a_queued_run_goes_on_where_it_was_cut_off(tmp_path):
    """On a queue that is this machine."""
    batch = Batch("met", (0,), (), tmp_path / "runs")
    words = ["python", "-c", f"open({str(tmp_path / 'a')!r}, 'a').write('x')"]
    from fkpinn.experiments._batch import _Queued

    run = _Queued(words)
    run()
    again = run.checkpoint()
    again.function()
    assert (tmp_path / "a").read_text() == "xx"
    assert batch.missing() == [0]


def test_command(tmp_path, capsys):
    out = ["--out", str(tmp_path / "runs")]
    assert main(["submit", "met", "--seeds", "0-1", *out]) == 2
    assert "has no runs yet: add `--local`" in capsys.readouterr().err
    assert main(["submit", "met", "--local", "--slurm", "timeout_min=3", *out]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main(["submit", "nothing", "--local", *out]) == 2
    assert main(["submit", "met", "--slurm", "fast", *out]) == 2
    assert "`--slurm` takes KEY=VALUE; got 'fast'" in capsys.readouterr().err
    words = ("--method", "fk-pinn", "--preset", "quick")
    Batch("met", (0,), words, tmp_path / "runs").claim()
    end(tmp_path / "runs" / "seed-0", 1e-3, 3.0)
    assert main(["submit", "met", "--seeds", "0-1", *out]) == 0
    shown = capsys.readouterr().out
    assert "1.00e-03" in shown and "1 runs are unfinished: seeds 1" in shown
    assert main(["submit", "met", "--seeds", "0-1", *out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == [1]


@pytest.mark.slow
def test_twenty_runs_of_which_five_are_killed(tmp_path):
    """All of them end, and give what a quiet run gives."""
    out, rng = tmp_path / "runs", random.Random(3)
    words = [sys.executable, "-m", "fkpinn", "submit", "exit-ball-3d", "--seeds", "0-19", "--local"]
    done = subprocess.Popen([*words, "--jobs", "2", "--out", str(out), *SMALL])
    killed = 0
    while done.poll() is None:
        time.sleep(rng.uniform(2.0, 6.0))
        looked = subprocess.run(["pgrep", "-P", str(done.pid)], capture_output=True, text=True)
        if killed < 5 and looked.stdout.split():
            os.kill(int(rng.choice(looked.stdout.split())), signal.SIGKILL)
            killed += 1
    assert done.returncode == 0 and killed == 5
    page = (out / "table.md").read_text()
    assert "exit-ball-3d: 20 runs" in page and "not ended" not in page
    alone = [sys.executable, "-m", "fkpinn", "solve", "exit-ball-3d", "--json", "--seed", "3"]
    subprocess.run([*alone, "--out", str(tmp_path / "quiet"), *SMALL], check=True)
    read = lambda folder: json.loads((Path(folder) / "result.json").read_text())["errors"]
    assert read(out / "seed-3") == read(tmp_path / "quiet")
