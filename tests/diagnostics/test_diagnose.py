"""`fkpinn diagnose` at tiny sizes: records, figures, run folders, errors."""

import json
import types

import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._files import kept
from fkpinn._solve import Settings, run
from fkpinn.cli import main
from fkpinn.diagnostics import Sizes, conditioning, diagnose, verdict
from fkpinn.nn import MLP

TINY = Sizes(
    widths=(6,), n_interior=20, n_boundary=8, n_labels=6, n_paths=20, adam_steps=5,
    sizes=(8, 12, 16), seeds=2, grid=5, descent_steps=4, label_points=3, label_paths=60,
)  # fmt: skip
FLAGS = ["--widths", "6", "--points", "20", "--boundary", "8", "--labels", "6", "--steps", "5"]


def is_picture(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x89PNG"


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("bounds", marks=pytest.mark.broad),
        pytest.param("spectrum", marks=pytest.mark.slow),
        pytest.param("coverage", marks=pytest.mark.slow),
        pytest.param("landscape", marks=pytest.mark.slow),
    ],
)
def test_each_diagnostic_writes_record_and_figure(what, tmp_path, capsys):
    call = ["diagnose", "poisson", "--what", what, *FLAGS, "--grid", "5", "--out", str(tmp_path)]
    assert main([*call, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["what"] == what and record["problem"] == "poisson"
    assert is_picture(record["figure"])
    stored = json.loads((tmp_path / f"{what}.json").read_text())
    assert stored["sizes"]["widths"] == [6] and stored["versions"]["jax"]
    if what == "spectrum":
        found = record["gauss_newton"]
        assert set(found["fk-pinn"]) == {"residual", "boundary", "labels", "all"}
        assert set(found["pinn"]) == {"residual", "boundary", "all"}
        assert record["hessian"]["pinn"]["exact"]
    if what == "landscape":
        assert np.shape(record["random"]["pinn"]["loss"]) == (5, 5)
        assert is_picture(tmp_path / "landscape-curved.png")


@pytest.mark.slow
def test_labels_beside_their_theory(tmp_path):
    problem = fk.Problem(fk.Interval(-1, 1), source=1.0, name="interval")
    record = diagnose(problem, "labels", out=tmp_path, sizes=TINY)
    assert record["tails"]["bernstein_coverage"] >= 0.95
    assert set(record["bias"]) == {"euler", "euler-shifted"}
    assert record["truncation"]["kappa"] > 0 and is_picture(record["figure"])


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.slow
def test_conditioning_goes_on_where_it_was_stopped(trained, monkeypatch, tmp_path, capsys):
    if not trained:  # networks as they are drawn
        network = MLP([0.0, 0.0], [1.0, 1.0], (6,), key=jr.key(0))
        module = "fkpinn.diagnostics._conditioning.train"
        monkeypatch.setattr(module, lambda *_, **__: types.SimpleNamespace(network=network))
    call = [
        "diagnose", "poisson", "--what", "conditioning", *FLAGS, "--sizes", "8", "12", "16",
        "--seeds", "1", "--out", str(tmp_path),
    ]  # fmt: skip
    assert main([*call, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["records"]) == 3 * 2
    kept = sorted((tmp_path / "conditioning").glob("*.json"))
    assert len(kept) == 6 and is_picture(first["figure"])
    times = [path.stat().st_mtime_ns for path in kept]
    assert main(call) == 0
    assert "thm:rathore is" in capsys.readouterr().out
    assert [path.stat().st_mtime_ns for path in kept] == times
    growth = first["growth"]["pinn"]
    assert growth["ci_low"] <= growth["exponent"] <= growth["ci_high"]
    with pytest.raises(ValueError, match=r"`sizes` must contain at least three different numbers"):
        conditioning(fk.catalogue("poisson").problem, sizes=(4, 4, 8))


@pytest.mark.slow
def test_a_run_folder_is_looked_at_as_it_is(tmp_path, capsys):
    settings = Settings().changed(
        {
            "network.widths": (6,),
            "points.n_collocation": 40,
            "points.n_boundary": 10,
            "labels.n_paths": 20,
            "training.steps": 2,
            "certificate.seconds": 0.0,
        }
    )
    run("poisson", settings=settings, out=tmp_path / "run")
    folder = tmp_path / "run"
    call = ["diagnose", str(folder), "--what", "spectrum", "--points", "20", "--boundary", "8"]
    assert main(call) == 0
    assert "condition number" in capsys.readouterr().out
    record = json.loads((folder / "diagnose" / "spectrum.json").read_text())
    assert record["gauss_newton"]["pinn"]["all"]["dim"] == 6 * 3 + 7
    labels = len(record["gauss_newton"]["fk-pinn"]["labels"]["values"])
    assert labels == settings.n_labels


def test_words_for_what_was_measured():
    of = lambda low, middle, high, lost=0: {
        "exponent": middle, "ci_low": low, "ci_high": high, "median_condition": {"10": 8.0},
        "cases": 18, "at_limit": lost, "decay_exponent": 4.0,
        "above": {"1e-03": 9.0, "1e-12": 70.0},
    }  # fmt: skip
    said = verdict({"pinn": of(0.5, 1.0, 1.5), "fk-pinn": of(-0.1, 0.0, 0.1)})
    assert "thm:rathore is confirmed" in said
    assert "thm:cond-number-bound is not contradicted" in said
    said = verdict({"pinn": of(-0.5, 0.0, 0.5), "fk-pinn": of(0.1, 0.2, 0.3)})
    assert "thm:rathore is not confirmed" in said
    assert "thm:cond-number-bound is not confirmed" in said
    # a clear slope of numbers that rounding has made is no growth
    said = verdict({"pinn": of(0.5, 1.0, 1.5, lost=18), "fk-pinn": of(-0.1, 0.0, 0.1, lost=10)})
    assert said.startswith("The condition number confirms neither thm:rathore nor thm:cond-number")
    assert "28 of 36" in said and "70 eigenvalues are above 1e-12" in said


def test_bad_targets_are_named(tmp_path, capsys):
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "is not a run folder: it has no `config.toml`" in capsys.readouterr().err
    assert main(["diagnose", "poissn"]) == 2
    assert "Did you mean `poisson`" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"`what` must be one of"):
        diagnose("poisson", "weather", out=tmp_path)
    with pytest.raises(ValueError, match=r"`grid` must be positive"):
        Sizes(grid=0)


def test_records_hold_what_has_no_bound(tmp_path):
    """Infinities, of a theory that foretells nothing, are written as null; the run is not lost."""
    path = tmp_path / "a" / "b.json"
    made = kept(path, lambda: {"predicted": float("inf"), "n": np.float64(2.0)})
    assert made["predicted"] == float("inf")
    assert kept(path, dict) == {"predicted": None, "n": 2.0}
