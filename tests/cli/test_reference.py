"""`fkpinn reference` on problems whose truth costs nothing, and on a small mesh."""

import json

import pytest

from fkpinn.cli import main
from fkpinn.reference import FEMReference


def test_exact(capsys):
    assert main(["reference", "exit-ball-3d", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["problem"] == "exit-ball-3d"
    assert shown["method"] == "exact"
    assert shown["error_estimate"] == 0.0
    assert 0 < shown["min"] < shown["rms"] < shown["max"] <= 1 / 6  # (1 - |x|²) / 6
    assert shown["out"] is None


def test_text(capsys):
    assert main(["reference", "exit-ball-3d"]) == 0
    assert "method  exact" in capsys.readouterr().out


def test_exact_cannot_be_stored(capsys, tmp_path):
    assert main(["reference", "exit-ball-3d", "--out", str(tmp_path / "x.npz")]) == 2
    assert "`--out` stores finite element references" in capsys.readouterr().err


def test_negative_refinement(capsys):
    assert main(["reference", "met", "--refine", "-1"]) == 2
    assert "`--refine` must not be negative; got -1" in capsys.readouterr().err


def test_no_elements_in_three_dimensions(capsys):
    assert main(["reference", "exit-ball-3d", "--refine", "0"]) == 2
    assert "finite elements here cover 1 and 2" in capsys.readouterr().err


def test_elements_are_stored(capsys, tmp_path):
    pytest.importorskip("skfem")
    mine, out = tmp_path / "mine.py", tmp_path / "new" / "mine.npz"
    mine.write_text("import fkpinn\nproblem = fkpinn.poisson(fkpinn.Interval(0.0, 1.0))\n")
    assert main(["reference", str(mine), "--refine", "0", "--out", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["out"] == str(out)
    assert shown["max"] == pytest.approx(1 / 8, abs=1e-6)  # x (1 - x) / 2
    truth = FEMReference.load(out)
    assert truth.values([[0.5]])[0] == pytest.approx(1 / 8, abs=1e-12)
