"""From a problem to a run folder, small."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._solve import PRESETS, Settings, run, solve

small = Settings((16, 16), 100, 40, 20, 20, steps=100, n_test=200)


@pytest.fixture
def presets(monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", small)


@pytest.mark.parametrize("name", ["poisson", "ornstein-uhlenbeck", "exit-ball-10d"])
def test_run_writes_a_folder(name, presets, tmp_path):
    result = run(name, out=tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "result.json").read_text() == json.dumps(
        result, indent=2, ensure_ascii=False
    ) + "\n"
    assert set(result["errors"]) == {"l2_abs", "l2_rel", "h1_abs", "h1_rel", "linf"}
    assert set(result["seconds"]) == {"labels", "compile", "train", "certify", "total"}
    assert 0 < result["errors"]["l2_rel"] < 2
    for figure in result["figures"]:
        assert Path(figure).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (tmp_path / "run" / "report.html").read_text()
    assert name in page and "data:image/png;base64," in page and "http" not in page
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 100


def test_training_lowers_the_error_and_the_seed_fixes_it():
    problem, exact = fk.catalogue("exit-ball-3d")
    settings = Settings((24, 24), 100, 50, 50, 100, steps=1500, n_test=200)
    one = solve(problem, settings=settings, seed=3)
    two = solve(problem, settings=settings, seed=3)
    points = fk.sobol_interior(problem, 256)
    truth = fk.ExactReference(problem, exact)
    error = fk.errors(problem, one.network, truth, points).l2_rel
    assert error < 0.1
    np.testing.assert_array_equal(one(points), two(points))
    assert one.history[-1]["loss"] < 0.1 * one.history[0]["loss"]


def test_a_problem_of_ones_own_in_one_dimension(presets, tmp_path):
    problem = fk.Problem(fk.Interval(0, 1), source=1.0, name="<script>alert(1)</script>")
    result = run(problem, out=tmp_path, method="pinn")
    assert result["errors"] is not None and result["problem"] == problem.name
    assert "<script>alert" not in (tmp_path / "report.html").read_text()


def test_no_reference_in_higher_dimension(presets, tmp_path):
    problem = fk.Problem(fk.Ball([0, 0, 0], 1), source=1.0)
    assert run(problem, out=tmp_path, method="pinn")["errors"] is None


def test_solution_checks_its_points():
    problem = fk.catalogue("exit-ball-3d").problem
    solution = solve(problem, settings=Settings((8,), 20, 10, 5, 5, steps=2), method="pinn")
    assert solution([0.0, 0.0, 0.0]).shape == ()
    assert solution(jnp.zeros((4, 3))).shape == (4,)
    assert solution.gradient([0.0, 0.0, 0.0]).shape == (3,)
    with pytest.raises(ValueError, match=r"`points` must have shape \(3,\) or \(n, 3\)"):
        solution([0.0, 0.0])
    with pytest.raises(ValueError, match=r"`points` must lie in the closed domain; 1 do not"):
        solution([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])


def test_refusals(tmp_path):
    problem = fk.catalogue("exit-ball-3d").problem
    with pytest.raises(ValueError, match="`method` must be one of"):
        solve(problem, method="magic")
    with pytest.raises(ValueError, match="`preset` must be one of"):
        run(problem, preset="huge", out=tmp_path)
    with pytest.raises(ValueError, match="`steps` must be at least 1; got 0"):
        Settings(steps=0)
    with pytest.raises(ValueError, match="`widths` must be positive"):
        solve(problem, settings=Settings((), 20, 10, 5, 5, steps=2), method="pinn")
    with pytest.raises(FloatingPointError, match=r"The loss is (nan|inf) at step"):
        bad = Settings((8,), 20, 10, 5, 5, steps=60, learning_rate=1e30)
        solve(problem, settings=bad, method="pinn")
