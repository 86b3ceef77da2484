"""`fkpinn plan`, small."""

import json

import pytest

from fkpinn.cli import main


@pytest.mark.broad
def test_plan_prints_its_contract(capsys):
    words = "plan exit-ball-3d --seconds 0.5 --points 5 --seed 3 --json"
    assert main(words.split()) in (None, 0)
    record = json.loads(capsys.readouterr().out)
    assert set(record) == {
        "scheme", "reason", "dt", "n_paths", "n_points", "t_max", "predicted", "pilot", "command",
    }  # fmt: skip
    assert set(record["predicted"]) == {"rel_stderr", "rel_bias", "rel_error", "seconds"}
    assert record["t_max"] is None and record["n_points"] == 5 and record["n_paths"] >= 16
    # walks on spheres have no step to choose
    assert record["scheme"] == "spheres" and record["predicted"]["rel_bias"] == 0.0
    assert record["command"].startswith("fkpinn labels exit-ball-3d --points 5 --paths ")


@pytest.mark.broad
def test_plan_prints_a_command_to_copy(capsys):
    assert main("plan exit-ball-3d --seconds 0.5 --points 5".split()) in (None, 0)
    assert "fkpinn labels exit-ball-3d --points 5 --paths " in capsys.readouterr().out
    assert main("plan exit-ball-3d --seconds 0".split()) == 2
    assert "`seconds` must be positive" in capsys.readouterr().err
