"""Pages of runs: whole, escaped, and asking nobody for anything."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from run_folders import SECTIONS, finished_run

import fkpinn as fk
from fkpinn._records import write_bytes
from fkpinn.cli import main
from fkpinn.problem import catalogue, describe
from fkpinn.report._equation import equations


def embedded(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_report_holds_every_section_and_asks_nobody(tmp_path, capsys):
    finished_run(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for section in SECTIONS:
        assert f'<section id="{section}">' in page
    assert "https://" not in page and "http://" not in page and "src=" not in page
    assert "--set labels.n_paths=7" in page and "1.16e-02" in page
    (data,) = embedded(page)
    assert set(data["layers"]) == {"network", "reference", "difference"}
    assert data["curves"]["series"]["loss"] == [1.0, 0.5]
    assert len(data["labels"]["value"]) == len(data["labels"]["stderr"])


def test_text_of_users_is_escaped(tmp_path):
    bad = "</script><script>alert(1)</script>"
    about = describe(catalogue("met").problem) | {"middle": [0.0, 0.0]}
    about["boundary"] = [{"part": bad, "kind": "Dirichlet", "value": {"constant": 0.0}}]
    finished_run(tmp_path, bad, about=about, stopped=[bad], device=bad, source=bad)
    line = json.dumps({"step": 1, "phase": bad, "loss": 1.0, "seconds": 0.0, bad: 2.0})
    write_bytes(tmp_path / "metrics.jsonl", line.encode())
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)</script>" not in page and "<script>alert" not in page
    assert embedded(page)[0]["curves"]["phase"] == [bad]


def test_what_a_run_lacks_is_left_out(tmp_path):
    finished_run(
        tmp_path, fields=("exact", "label", "found"), errors=None, certificate=None, stopped=["cut"]
    )
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "no reference solution" in page and "Not measured" in page and "cut" in page
    (data,) = embedded(page)
    assert set(data["layers"]) == {"network"} and "labels" not in data and "found" not in data


def test_a_bound_that_does_not_apply_says_why(tmp_path):
    finished_run(tmp_path, occupation={"why": "the problem has a horizon"})
    assert main(["report", str(tmp_path)]) == 0
    assert (
        "on the whole boundary; the problem has a horizon."
        in (tmp_path / "report.html").read_text()
    )


def test_damaged_folders_are_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    finished_run(tmp_path)
    (tmp_path / "fields.npz").write_bytes(b"PK\x03\x04 no archive")
    assert main(["report", str(tmp_path)]) == 2
    assert "fields.npz" in capsys.readouterr().err
    (tmp_path / "result.json").write_text('{"problem": ')
    assert main(["report", str(tmp_path)]) == 2
    assert "is damaged" in capsys.readouterr().err
    (tmp_path / "result.json").write_text("[1]")
    assert main(["report", str(tmp_path)]) == 2
    assert "is damaged or of another version" in capsys.readouterr().err
    (tmp_path / "result.json").unlink()
    assert main(["report", str(tmp_path)]) == 2
    assert "fkpinn solve --resume" in capsys.readouterr().err


def test_runs_side_by_side(tmp_path, capsys):
    finished_run(tmp_path / "a")
    finished_run(tmp_path / "b", method="pinn", settings={"labels.n_paths": 200, "labels.dt": 0.1})
    page = tmp_path / "both.html"
    call = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(page)]
    assert main(call) == 0
    assert "1.16e-02" in capsys.readouterr().out
    text = page.read_text()
    assert [run["name"] for run in embedded(text)] == ["a", "b"]
    assert "<th>labels.n_paths</th><td>100</td><td>200</td>" in text
    assert main([*call, "--json"]) == 0
    assert [run["method"] for run in json.loads(capsys.readouterr().out)["runs"]] == [
        "fk-pinn",
        "pinn",
    ]
    assert main(call[:2]) == 2
    assert "two or more run folders" in capsys.readouterr().err


def test_run_folders_are_listed_with_their_state(tmp_path, capsys):
    assert main(["runs", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["runs", str(tmp_path)]) == 0
    assert "There are no run folders" in capsys.readouterr().out
    finished_run(tmp_path / "deep" / "a")
    for name in ("killed", "new", "torn"):
        write_bytes(tmp_path / name / "config.toml", b"")
    (tmp_path / "killed" / "checkpoints").mkdir()
    (tmp_path / "torn" / "result.json").write_text("{")
    assert main(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "fkpinn solve --resume" in said and "ended" in said
    assert main(["runs", str(tmp_path), "--json"]) == 0
    states = {
        r["folder"].rsplit("/", 1)[1]: r["state"] for r in json.loads(capsys.readouterr().out)
    }
    assert states == {"a": "ended", "killed": "stopped", "new": "begun", "torn": "damaged"}


def test_a_starter_is_a_problem(tmp_path, capsys, monkeypatch):
    from fkpinn.cli._problem_argument import find_problem

    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_problem"]) == 0
    assert "fkpinn solve my_problem.py" in capsys.readouterr().out
    problem = find_problem("my_problem.py")
    assert isinstance(problem, fk.Problem) and problem.name == "my_problem"
    assert set(problem.boundary) == {"wall", "hole"}
    assert main(["new", "my_problem"]) == 2  # never over a file that is there
    assert "exists" in capsys.readouterr().err
    assert main(["new", "../x"]) == 2
    assert "letters, digits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("met", ["0.2", "Δ", "∇", "on outer"]),
        ("robin", ["∂", "u"]),
        ("variable-diffusion", ["σ"]),
        ("heat2d-ms", ["∂", "×", "φ"]),
        ("committor", ["∇"]),
    ],
)
def test_equations_are_well_formed(name, words):
    lines = equations(describe(catalogue(name).problem))
    text = "".join("".join(ET.fromstring(line).itertext()) for line in lines).replace("\xa0", " ")
    for word in words:
        assert word in text
    conditions = len(catalogue(name).problem.boundary)
    assert len(lines) == 1 + conditions + (catalogue(name).problem.horizon is not None)


def test_equations_with_jumps_and_nonlinear_ones():
    read = lambda problem: [
        "".join(ET.fromstring(line).itertext()).replace("\xa0", " ")
        for line in equations(describe(problem))
    ]
    jumps = fk.CompoundPoisson(2.0, fk.NormalJump())
    inside, on, outside = read(fk.jump_exit_time(fk.Interval(0.0, 1.0), jumps))
    assert inside == "0.5Δu+2E[u(x+Z)−u]+1=0 in D"
    assert on.startswith("u=0") and outside == "u=0 outside D"
    disk = fk.Ball([0.0, 0.0], 1.0)
    assert read(fk.fractional_poisson(disk, alpha=1.5))[0] == "−(−Δ)1.5/2u+1=0 in D"
    assert read(fk.catalogue("bratu").problem)[0] == "Δu+F(x,u)=0 in D"


def test_signs_of_constants():
    problem = fk.Problem(
        fk.Box([0, 0], [1, 1]), diffusion=np.sqrt(2.0), drift=[1.0, -2.0], reaction=1.0, source=-3.0
    )
    (inside, on) = (
        "".join(ET.fromstring(line).itertext()) for line in equations(describe(problem))
    )
    assert inside.replace("\xa0", " ") == "Δu+(1,−2)·∇u−u−3=0 in D"
    assert on.startswith("u=0")
