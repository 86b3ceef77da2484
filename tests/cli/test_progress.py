import io

from rich.console import Console

from fkpinn._progress import AbstractProgress, SilentProgress
from fkpinn.cli._progress import BarProgress, LineProgress, terminal_progress


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
    assert err.count("in all") == 2  # each phase ends once


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
    assert "10/10" in shown
    assert "loss=0.001" in shown


def test_choice_without_a_terminal(capsys):
    assert isinstance(terminal_progress(), LineProgress)
    run_phases(SilentProgress())
    assert capsys.readouterr() == ("", "")
