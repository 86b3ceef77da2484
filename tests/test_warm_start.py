"""Warm starts: from the solution of a problem that is much alike."""

import jax.numpy as jnp
import numpy as np
import pytest
from run_folders import SMALL

import fkpinn as fk

pytestmark = [pytest.mark.xdist_group("families"), pytest.mark.broad]

HOW = SMALL.changed({"training.steps": 24, "labels.n_paths": 64})


def _line(source, *, width=1.0):
    return fk.Problem(fk.Interval(0.0, width), diffusion=2.0**0.5, source=source, name="a line")


def _error(solution, source, width=1.0):
    x = jnp.linspace(0.01, width - 0.01, 99)[:, None]
    exact = 0.5 * source * x[:, 0] * (width - x[:, 0])
    return float(jnp.linalg.norm(solution(x) - exact) / jnp.linalg.norm(exact))


@pytest.fixture(scope="module")
def first():
    return fk.solve(_line(1.0), settings=HOW, seed=0)


def test_a_near_start_takes_fewer_steps(first):
    found = fk.solve(_line(1.1), settings=HOW, start=first, seed=1)
    assert found.stopped[0].startswith("start: the given network had a relative error of 0.09")
    assert found.history[-1]["step"] == 6
    assert _error(found, 1.1) < 0.02 < 0.5 * _error(first, 1.1)


def test_a_far_start_is_left_and_said(first):
    far = fk.solve(_line(-3.0), settings=HOW, start=first, seed=1)
    scratch = fk.solve(_line(-3.0), settings=HOW, seed=1)
    assert "began from scratch" in far.stopped[0]
    x = np.array([[0.3], [0.7]])
    np.testing.assert_array_equal(far(x), scratch(x))


@pytest.mark.slow
def test_a_folder_knows_its_start(first, tmp_path):
    found = fk.solve(_line(1.1), settings=HOW, start=first, seed=1, out=tmp_path / "run")
    again = fk.solve(_line(1.1), settings=HOW, start=first, seed=1, out=tmp_path / "run")
    np.testing.assert_array_equal(again([0.3]), found([0.3]))
    with pytest.raises(ValueError, match="start"):
        fk.resume(tmp_path / "run", _line(1.1))


def test_starts_that_do_not_fit_are_refused(first):
    with pytest.raises(TypeError, match="Solution"):
        fk.solve(_line(1.1), start=first.network)
    with pytest.raises(ValueError, match="the same coordinates"):
        fk.solve(fk.Problem(fk.Ball([0.0, 0.0], 1.0)), start=first)
    with pytest.raises(ValueError, match="do not pass"):
        fk.solve(_line(1.1), start=first, network=first.network)
