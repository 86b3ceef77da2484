import io
import sys

import pytest
from rich.console import Console

from fkpinn._progress import AbstractProgress, TensorBoardProgress, Together
from fkpinn.cli._main import main
from fkpinn.cli._output import Output
from fkpinn.cli._progress import BarProgress, LineProgress, short, spark


def run_phases(progress: AbstractProgress) -> None:
    progress.start("labels", None)
    progress.update(3)
    progress.start("train", 10)
    progress.update(5, loss=0.01234)
    progress.update(10, loss=0.001)
    progress.finish()
    progress.finish()


def test_lines(capsys):
    run_phases(LineProgress(every=0.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert "labels: 3 after" in err
    assert "train: 5/10 after 0 s, about 0 s left loss=0.0123" in err
    assert err.count("in total") == 2  # each phase ends once


def test_lines_are_rare(capsys):
    run_phases(LineProgress(every=3600.0))
    assert "after" not in capsys.readouterr().err


def test_bar(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(
        "fkpinn.cli._progress.Console",
        lambda stderr: Console(file=stream, force_terminal=True, width=120),
    )
    run_phases(BarProgress())
    shown = stream.getvalue()
    assert "train" in shown
    assert "10/10" in shown and "/s" in shown
    assert "loss      0.001  █▁" in shown


def test_numbers_are_short():
    found = [short(n) for n in (0, 3.14159, 120, 9999, 20400, 204000, 1.64e7, 2.5e10)]
    assert found == ["0", "3.14", "120", "9999", "20.4k", "204k", "16.4M", "25G"]


def test_curves():
    assert spark([1.0]) == "" and spark([1.0, 1.0]) == "▁▁"
    assert spark([100.0, 10.0, 1.0]) == "█▅▁"  # by orders of magnitude
    assert spark([-1.0, 0.0, float("nan"), 1.0]) == "▁▅█"
    assert len(spark([float(k) for k in range(1000)])) == 24


def test_choice_without_a_terminal(capsys):
    assert isinstance(Output().progress(), LineProgress)
    run_phases(Output(quiet=True).progress())
    assert capsys.readouterr() == ("", "")
    run_phases(Output(verbose=True).progress())
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert "jax " in first and second == "labels: started"


def test_a_bar_in_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert isinstance(Output().progress(), BarProgress)


@pytest.mark.broad
def test_quiet_commands(capsys, tmp_path):
    where = ["--out", str(tmp_path / "labels.npz"), "--points", "2", "--paths", "8"]
    assert main(["labels", "poisson", *where, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "mean_stderr" in out and err == ""
    assert main(["labels", "poisson", *where, "-q", "-v"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_curves_for_tensorboard(tmp_path, capsys):
    progress = Together(LineProgress(every=0.0), TensorBoardProgress(tmp_path / "curves"))
    assert not (tmp_path / "curves").exists()
    for _ in range(2):  # one file each, also within a second
        run_phases(progress)
    assert "train: 5/10" in capsys.readouterr().err
    one, two = (tmp_path / "curves").iterdir()
    assert all(b"train/loss" in events.read_bytes() for events in (one, two))


def test_without_tensorboard(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r'pip install "fkpinn\[tensorboard\]"'):
        TensorBoardProgress(tmp_path)
