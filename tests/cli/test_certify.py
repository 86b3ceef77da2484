"""`fkpinn certify` on a small run."""

import base64
import json

import numpy as np
import pytest
from run_folders import SMALL

from fkpinn._solve import run
from fkpinn.cli import main


def unpacked(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


@pytest.mark.broad
def test_prints_its_contract_and_renews_the_report(tmp_path, capsys):
    run("exit-ball-3d", settings=SMALL, seed=1, out=tmp_path)  # compiled for other tests too
    before = json.loads((tmp_path / "result.json").read_text())
    assert before["certificate"] is None
    assert "fkpinn certify" in (tmp_path / "report.html").read_text()
    words = ["certify", str(tmp_path), "--points", "32", "--paths", "16", "--seed", "3"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    certificate, bound = record["certificate"], record["occupation"]
    assert certificate["n_points"] == 32 and certificate["n_paths"] == 16
    assert 0 <= certificate["ci_low"] <= certificate["l2_rel"] <= certificate["ci_high"]
    after = json.loads((tmp_path / "result.json").read_text())
    assert after["certificate"] == certificate and after["occupation"] == bound
    value = after["value"]
    assert value == record["value"] and value["point"] == [0.0, 0.0, 0.0]
    width = value["ci_high"] - value["ci_low"]  # of as many paths as there is time for
    assert abs(value["value"] - 1 / 6) < 2 * width < 0.2  # (1 - |x|²)/6, four standard errors
    # it is cruder than what it stands beside, and both are about the same network
    assert certificate["ci_low"] < bound["l2_rel"] < 30 * certificate["ci_high"]
    assert len(after["figures"]) == len(before["figures"]) + 1
    page = (tmp_path / "report.html").read_text()
    (data,) = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert (
        set(data["profile"]) == {"line_0", "line_1", "cloud", "paths"} and data["found"]["radial"]
    )
    assert len(unpacked(data["found"]["points"])) == 32  # distances, whatever the dimension
    assert any(figure.endswith("profile.png") for figure in after["figures"])
    assert "new points" in page and f"at most <b>{bound['l2_rel']:.2e}</b>" in page
    assert main(words) == 0  # again, in words, and no picture twice
    said = capsys.readouterr().out
    assert "ci_high" in said and f"at most {bound['l2_rel']:.3e}, from residuals" in said
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == after["figures"]


def test_refuses_what_is_not_a_run(tmp_path, capsys):
    assert main(["certify", str(tmp_path / "nothing")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
