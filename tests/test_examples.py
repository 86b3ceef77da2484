"""Every example runs, small, and still gives the number it gave."""

import importlib.util
import math
from pathlib import Path

import pytest
from run_folders import OF_EXAMPLES

from fkpinn._solve import PRESETS, Settings

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = Settings().changed(OF_EXAMPLES)
# what a network of two times eight units gives after five steps, or few paths; rounding differs
# between machines, and steps make it larger
FOUND = {
    "allen_cahn": 0.9,
    "anisotropic": 0.46315,
    "barrier_option": 9.7283,
    "committor": 0.79003,
    "exit_time_10d": 0.68348,
    "heat_with_holes": 0.18939,
    "labels_only": 16.4204,
    "mean_exit_time": 20.527,
    "measured_labels": 0.99665,
    "own_domain": 0.43294,
    "poisson": 0.110938,
    "robin": 0.51833,
    "schrodinger": 1.00316,
}


# after five steps these say nothing yet
FREE = (
    "american_put", "basket_option", "branching", "conductivity", "controlled_exit",
    "implied_volatility", "jump_option", "stable_exit", "temperature_sweep",
)  # fmt: skip
MANY = ("basket_option", "exit_time_10d")  # dimensions, in which presets are larger
QUICK = ("labels_only",)  # to compile; `README.md` trains a network in the fast tests


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=pytest.mark.broad if p.stem in QUICK else pytest.mark.slow)
        for p in sorted(FOLDER.glob("*.py"))
    ],
)
def test_example(path, tmp_path, monkeypatch, record_property):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    monkeypatch.setitem(PRESETS, "quick", SMALL)
    if path.stem in MANY:
        monkeypatch.setattr("fkpinn._solve._run.settings_for", lambda preset, problem: SMALL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    picture = tmp_path / f"{path.stem}.png"
    few = {"labels_only": 50, "conductivity": 16, "implied_volatility": 16}
    few |= {"temperature_sweep": 16}
    fewer = {"n_paths": few[path.stem]} if path.stem in few else {}
    found = module.main(str(picture), **fewer)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    record_property("found", found)
    if path.stem in FREE:
        assert math.isfinite(found)
    else:
        assert found == pytest.approx(FOUND[path.stem], rel=1e-2)
