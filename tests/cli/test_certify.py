"""`fkpinn certify` on a small run."""

import json

from fkpinn._solve import Settings, run
from fkpinn.cli import main

small = Settings().changed(
    {
        "network.widths": (6,),
        "points.n_collocation": 40,
        "points.n_boundary": 10,
        "labels.n_paths": 10,
        "training.steps": 2,
        "points.n_test": 20,
        "certificate.seconds": 0.0,
    }
)


def test_prints_its_contract_and_renews_the_report(tmp_path, capsys):
    run("exit-ball-3d", settings=small, out=tmp_path)
    before = json.loads((tmp_path / "result.json").read_text())
    assert before["certificate"] is None
    assert "fkpinn certify" in (tmp_path / "report.html").read_text()
    words = ["certify", str(tmp_path), "--points", "32", "--paths", "16", "--seed", "3"]
    assert main([*words, "--json"]) == 0
    certificate = json.loads(capsys.readouterr().out)["certificate"]
    assert certificate["n_points"] == 32 and certificate["n_paths"] == 16
    assert 0 <= certificate["ci_low"] <= certificate["l2_rel"] <= certificate["ci_high"]
    after = json.loads((tmp_path / "result.json").read_text())
    assert after["certificate"] == certificate
    assert len(after["figures"]) == len(before["figures"]) + 1
    assert "fresh points" in (tmp_path / "report.html").read_text()
    assert main(words) == 0  # again, in words, and no picture twice
    assert "ci_high" in capsys.readouterr().out
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == after["figures"]


def test_refuses_what_is_not_a_run(tmp_path, capsys):
    assert main(["certify", str(tmp_path / "nothing")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
