"""What `fkpinn solve` passes on and prints; the computation itself is replaced."""

import json
import os
import sys
import webbrowser
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from fkpinn.cli import main
from fkpinn.cli._solve import Solve

RESULT = {
    "problem": "met",
    "method": "fk-pinn",
    "preset": "quick",
    "seed": 3,
    "errors": {
        "l2_abs": 0.1,
        "l2_rel": 0.0125,
        "h1_abs": 0.2,
        "h1_rel": 0.02,
        "linf": float("nan"),
    },
    "certificate": {"l2_rel": 0.013, "ci_low": 0.011, "ci_high": 0.016},
    "occupation": {"l2_rel": 0.125, "l2_abs": 1.0, "boundary": 0.1},
    "seconds": {"labels": 1.0, "compile": 2.0, "train": 3.0, "certify": None, "total": 6.0},
    "device": "cpu",
    "versions": {"fkpinn": "0.1.0"},
    "out": Path("runs/x"),
    "figures": ["runs/x/figures/solution.png"],
    "report": Path("runs/x/report.html"),
}


@pytest.fixture
def calls(monkeypatch):
    """Calls of a `run` that prints, reports progress and returns `RESULT`."""
    made = []

    def run(problem, *, progress, **arguments):
        made.append((problem, arguments))
        print("a library that prints")  # noqa: T201
        progress.start("train", 1)
        progress.update(1, loss=0.5)
        return RESULT

    module = ModuleType("fkpinn._solve")
    module.run = run
    monkeypatch.setitem(sys.modules, "fkpinn._solve", module)
    return made


def test_choices_are_those_of_the_library():
    from fkpinn._solve import METHODS, PRESETS

    hints = get_type_hints(Solve)
    assert set(get_args(hints["method"])) == set(METHODS)
    assert set(get_args(hints["preset"])) == set(PRESETS)


def test_json_stands_alone(calls, capsys):
    assert main(["solve", "met", "--seed", "3", "--out", "runs/x", "--json"]) == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert shown["errors"]["l2_rel"] == 0.0125
    assert shown["errors"]["linf"] is None  # JSON has no NaN
    assert shown["report"] == str(RESULT["report"])
    assert "a library that prints" in err
    assert "train:" in err


def test_arguments_reach_run(calls):
    words = "solve met --method pinn --preset best --seed 3 --target 1e-2 --json"
    main(words.split())
    expected = dict(method="pinn", preset="best", seed=3, out=Path("runs/met-pinn-best-3"))
    assert calls == [("met", expected | {"settings": None, "target": 1e-2, "source": "met"})]


def test_settings_are_changed_and_refused(capsys):
    from fkpinn.cli._solve import _changed

    words = ("labels.n_paths=7", "network.widths=[3, 4]", "labels.scheme=euler")
    changed = _changed("quick", "met", (*words, "network.hard=true"))
    assert (changed.labels.n_paths, changed.labels.scheme) == (7, "euler")
    assert (changed.network.widths, changed.network.hard) == ((3, 4), True)
    assert main(["solve", "met", "--set", "labels.n_path=7"]) == 2
    said = capsys.readouterr().err
    assert "There is no setting `labels.n_path`. Did you mean `labels.n_paths`" in said
    assert main(["solve", "met", "--set", "n_paths=7"]) == 2
    assert "The setting `n_paths` is now called `labels.n_paths`" in capsys.readouterr().err
    assert main(["solve", "met", "--set", "labels.n_paths"]) == 2
    assert "`--set` takes KEY=VALUE; got 'labels.n_paths'" in capsys.readouterr().err


def test_a_problem_or_a_folder(capsys, tmp_path):
    assert main(["solve"]) == 2
    assert "needs either a problem or `--resume DIR`" in capsys.readouterr().err
    assert main(["solve", "--resume", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_table_shows_errors_seconds_and_files(calls, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["solve", "met", "--out", "runs/x"]) == 0
    out = capsys.readouterr().out
    for text in (
        "1.250e-02",
        "between 1.100e-02 and 1.600e-02",
        "at most 1.250e-01",
        "total 6.0",
        "report.html",
    ):
        assert text in out


def test_the_report_is_opened(calls, capfd, monkeypatch):
    opened = []

    def browser(url):
        opened.append(url)
        os.write(1, b"a browser that prints")
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", browser)
    assert main(["solve", "met", "--json"]) == 0
    assert not opened
    capfd.readouterr()
    assert main(["solve", "met", "--open", "--json"]) == 0
    assert opened == [Path("runs/x/report.html").resolve().as_uri()]
    out, err = capfd.readouterr()
    assert json.loads(out)["seed"] == 3  # and nothing else
    assert "a browser that prints" in err and "No browser" not in err


@pytest.mark.parametrize("why", ["none", "broken", "no display"])
def test_without_a_browser_it_is_said_where_the_report_lies(why, calls, capsys, monkeypatch):
    def browser(url):
        assert why != "no display"
        if why == "broken":
            raise webbrowser.Error("could not locate runnable browser")
        return False

    monkeypatch.setattr(webbrowser, "open", browser)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if why != "no display":
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert main(["solve", "met", "--open"]) == 0
    page = Path("runs/x/report.html").resolve()
    assert f"No browser could be opened here. The report is {page}" in capsys.readouterr().err


def test_no_reference_is_said(calls, capsys, monkeypatch):
    monkeypatch.setitem(RESULT, "errors", None)
    monkeypatch.setitem(RESULT, "certificate", None)
    monkeypatch.setitem(RESULT, "occupation", {"why": "the problem has a horizon"})
    assert main(["solve", "met"]) == 0
    said = capsys.readouterr().out
    assert "no reference solution to compare with" in said and "none: the problem has a" in said


def test_interrupted_runs_say_how_to_go_on(monkeypatch, capsys):
    def run(problem, **arguments):
        raise KeyboardInterrupt

    module = ModuleType("fkpinn._solve")
    module.run = run
    monkeypatch.setitem(sys.modules, "fkpinn._solve", module)
    assert main(["solve", "met", "--out", "runs/x"]) == 130
    assert "fkpinn solve --resume runs/x" in capsys.readouterr().err
