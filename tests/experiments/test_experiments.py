"""Tables and figures: from TOML to records to pages, small."""

import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from fkpinn._lock import locked
from fkpinn._solve import PRESETS, Settings
from fkpinn.cli._main import main
from fkpinn.experiments import (
    Cell,
    read_experiment,
    reproduce,
    run_in_jobs,
    run_missing,
    summarize,
)
from fkpinn.experiments import _run as running
from fkpinn.experiments._jobs import _from_cell

ROOT = Path(__file__).parents[2]
tiny = Settings().changed(
    {
        "network.widths": (8,),
        "points.n_collocation": 40,
        "labels.p_data": 0.2,
        "points.n_boundary": 10,
        "labels.n_paths": 8,
        "labels.dt": 0.05,
        "labels.scheme": "euler",
        "training.boundary_weight": 1.0,
        "labels.weight": 1.0,
        "training.uncertainty": True,
        "network.scaled": False,
        "training.steps": 0,
        "training.adam_steps": 6,
        "training.lbfgs_steps": 0,
        "training.nncg_steps": 1,
    }
)
TABLE = """
kind = "table"
title = "Two methods"
label = "tab:two"
seeds = 2
problems = ["poisson"]
methods = ["pinn", "fk-pinn"]
[own.pinn]
"training.boundary_weight" = 2.0
[[search]]
problem = "poisson"
method = "pinn"
"network.widths" = [4, 4]
[paper.poisson.pinn]
l2_rel = [0.322, 0.149]
[paper.poisson.fk-pinn]
l2_rel = [0.118, 0.003]
"""
SWEEP = """
kind = "sweep"
title = "Steps"
seeds = 2
problems = ["poisson"]
methods = ["fk-pinn"]
[vary]
"labels.dt" = [0.1, 0.05]
"""


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A folder with configurations, and presets that take no time."""
    monkeypatch.setitem(PRESETS, "paper", tiny)
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "two.toml").write_text(TABLE)
    (configs / "steps.toml").write_text(SWEEP)
    for kind in ("losses", "solutions"):
        (configs / f"{kind}.toml").write_text(TABLE.replace('"table"', f'"{kind}"'))
    return tmp_path


def test_the_same_training_has_the_same_cell(place):
    plain = Cell.of("met", "fk-pinn", "paper", {})
    assert Cell.of("met", "fk-pinn", "paper", {"labels.dt": tiny.labels.dt}) == plain
    assert Cell.of("met", "fk-pinn", "paper", {"labels.p_data": 0.0}).method == "pinn"
    bare = Cell.of("met", "pinn", "paper", {})
    assert Cell.of("met", "pinn", "paper", {"labels.dt": 0.1}) == bare
    other = Cell.of("met", "fk-pinn", "paper", {"labels.dt": 0.1, "labels.n_paths": 16})
    assert other.name == "met_fk-pinn_dt=0.1_n_paths=16"
    labels = other.settings.labels
    assert (labels.dt, labels.n_paths, labels.p_data) == (0.1, 16, 0.2)
    assert bare.settings.labels.p_data == 0


@pytest.mark.broad
def test_tables_are_made_from_records(place, monkeypatch, capsys):
    """All that is printed follows from the records; what is there is not trained again."""
    where = [
        "--configs", str(place / "configs"), "--results", str(place / "results"),
        "--pages", str(place / "pages"), "--json",
    ]  # fmt: skip
    assert main(["reproduce", "two", *where]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["missing"] == 0
    paths = sorted((place / "results" / "runs" / "paper").glob("*.json"))
    assert [p.stem for p in paths] == [
        "poisson_fk-pinn_0", "poisson_fk-pinn_1", "poisson_pinn_boundary_weight=2.0_0",
        "poisson_pinn_boundary_weight=2.0_1", "poisson_pinn_widths=4x4_0",
    ]  # fmt: skip
    records = [json.loads(p.read_text()) for p in paths]
    errors = [r["errors"]["l2_rel"] for r in records[2:4]]
    row = made["summary"]["rows"][0]
    assert row["method"] == "pinn" and row["n"] == 2
    np.testing.assert_allclose(row["l2_rel"], [np.mean(errors), statistics.stdev(errors)])
    for record in records:
        assert {"device", "versions", "commit", "seconds", "settings", "history"} <= set(record)
    page = (place / "pages" / "two.md").read_text()
    assert f"{np.mean(errors):.3f} ± {statistics.stdev(errors):.3f}" in page
    assert "PINN, trial 1 (1 seed)" in page
    assert "\n1. PINN: `network.widths = 4x4`, `training.boundary_weight = 1.0`\n" in page
    assert "| 0.322 ± 0.149 |" in page and "**Verdict.** " in page
    assert "\\toprule" in (place / "pages" / "assets" / "two.tex").read_text()

    monkeypatch.setattr(running, "_train", None)  # the sweep shares its second half
    assert main(["reproduce", "all", "--from-records", *where]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["steps"]["missing"] == 2 and found["two"]["missing"] == 0
    for name in ("losses", "solutions", "steps"):
        for figure in found[name]["figures"]:
            assert Path(figure).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert found[name]["figures"]
    assert "2 runs of this page have no record" in (place / "pages" / "steps.md").read_text()


@pytest.mark.slow
def test_seeds_at_once_are_the_seeds_one_by_one(place):
    """On an accelerator seeds are trained side by side, to the same errors."""
    cell = Cell.of("poisson", "fk-pinn", "paper", {})
    run_missing([(cell, 0), (cell, 1)], place / "one")
    run_missing([(cell, 0), (cell, 1)], place / "many", at_once=2)
    for seed in (0, 1):
        one, many = (
            json.loads(cell.record_path(place / kind, seed).read_text()) for kind in ("one", "many")
        )
        assert many["errors"]["l2_rel"] == pytest.approx(one["errors"]["l2_rel"], rel=1e-3)


def test_what_another_process_does_is_left_to_it(place, monkeypatch):
    trained = []

    def train(cell, seeds, jobs, progress):
        trained.append((cell.method, seeds))
        return [{"seed": seed} for seed in seeds]

    monkeypatch.setattr(running, "_train", train)
    pinn, fk = (Cell.of("poisson", method, "paper", {}) for method in ("pinn", "fk-pinn"))
    lock = pinn.record_path(place, 1).with_suffix(".lock")
    with locked(lock) as other:
        assert other
        left = run_missing([(c, s) for c in (pinn, fk) for s in (0, 1, 2)], place, at_once=2)
    assert left == 1
    assert trained == [("pinn", [0]), ("pinn", [2]), ("fk-pinn", [0, 1]), ("fk-pinn", [2])]
    assert run_missing([(pinn, 1)], place) == 0  # the lock went with its owner
    assert trained[-1] == ("pinn", [1]) and not list(place.rglob("*.lock"))
    with pytest.raises(ValueError, match="`at_once` must be at least 1"):
        run_missing([(pinn, 1)], place, at_once=0)


def test_jobs_begin_with_other_cells():
    cells = [Cell.of("poisson", "pinn", "paper", {"training.adam_steps": n}) for n in (1, 2, 3)]
    runs = [(cell, seed) for cell in cells for seed in (0, 1)]
    first, second = _from_cell(runs, 0, 2), _from_cell(runs, 1, 2)
    assert first == runs and second[0] == (cells[1], 0)
    assert [cells.index(cell) for cell, _ in second] == [1, 1, 2, 2, 0, 0]
    with pytest.raises(ValueError, match="`jobs` must be at least 1; got 0"):
        run_in_jobs(runs, Path("nowhere"), jobs=0)


@pytest.mark.slow
def test_jobs_share_the_runs(place):
    small = {"training.adam_steps": 3, "training.lbfgs_steps": 0, "network.widths": [4]}
    small |= {"points.n_collocation": 20, "training.uncertainty": False}
    runs = [
        (Cell.of("poisson", "pinn", "paper", small | {"points.n_boundary": n}), 0) for n in (20, 21)
    ]
    said = []
    assert run_in_jobs(runs, place, jobs=2, say=said.append) == 0
    assert said == ["2 of 2 runs on record"]
    for cell, seed in runs:
        record = json.loads(cell.record_path(place, seed).read_text())
        assert record["jobs"] == 2 and record["errors"]["l2_rel"] > 0
    cell = Cell("no such problem", "pinn", "paper")
    with pytest.raises(RuntimeError, match="1 of 1 processes ended with an error"):
        run_in_jobs([(cell, 0)], place, jobs=1)


def test_bookings_may_be_short(place):
    """No training is begun after the time is up; what is missing is said."""
    experiment = read_experiment(place / "configs", "two")
    left = run_missing(experiment.runs(), place / "results", seconds=-1.0)
    assert left == 5
    assert summarize(experiment, place / "results")["missing"] == 5
    made = reproduce(
        experiment, results=place / "results", pages=place / "pages", from_records=True
    )
    assert made["missing"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[own.pinn]", "[owns.pinn]"), "Did you mean `own`"),
        (("seeds = 2", "seeds = 2\nours = {seed = 3}"), "there is no key `seed`"),
        (("seeds = 2", "seeds = 2\nsizes = {width = 3}"), "there is no size `width`"),
        (('problem = "poisson"\n', ""), "a `search` must name its 'problem'"),
        (("kind", "kinds"), "Did you mean `kind`"),
        (('"table"', '"tables"'), "`kind` must be one of"),
        (('["poisson"]', '["poison"]'), "`name` must be a problem of the catalogue"),
        (('["pinn", "fk-pinn"]', '["pin"]'), "`method` must be one of"),
        (("seeds = 2", "seeds = 0"), "`seeds` must be at least 1"),
        (("seeds = 2", "seeds = 'two'"), "`seeds` must be a int"),
        (
            ("[paper.poisson.pinn]", "[vary]\n'labels.dtt' = [1]\n[paper.poisson.pinn]"),
            "Did you mean `labels.dt`",
        ),
    ],
)
def test_configurations_are_checked_first(place, change, message):
    (place / "configs" / "two.toml").write_text(TABLE.replace(*change, 1))
    with pytest.raises(ValueError, match=message):
        read_experiment(place / "configs", "two")


def test_unknown_names_are_refused(place, capsys):
    assert main(["reproduce", "table9", "--configs", str(place / "configs")]) == 2
    assert "known: losses, solutions, steps, two" in capsys.readouterr().err
    assert main(["reproduce", "all", "--configs", str(place / "none")]) == 2
    assert "Run this in a checkout" in capsys.readouterr().err


def test_configurations_of_the_paper():
    """They name what the paper has: sizes, seeds, and runs they share."""
    table = read_experiment(ROOT / "configs", "table1")
    assert len(table.cells) == 8 and table.seeds == 5 and len(table.ours) == 4
    runs = set(table.runs())
    for name, new in (("pdata", 25), ("dt", 15), ("paths", 15), ("preconditioners", 17)):
        own = set(read_experiment(ROOT / "configs", name).runs())
        assert len(own - runs) == new
    settings = table.cells[1].settings
    assert (settings.n_labels, settings.n_interior) == (200, 9800)
    assert (settings.points.n_boundary, settings.network.widths) == (400, (128,) * 4)
    assert (settings.training.adam_steps, settings.training.lbfgs_steps) == (30_000, 15_000)


@pytest.mark.broad
def test_pages_say_what_the_records_say(tmp_path, monkeypatch):
    """Every mean that is printed follows from the files; pages in the docs are what they give."""
    # pictures take most of the time, and are looked at elsewhere
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path, **_: path.touch())
    printed = 0
    for path in sorted((ROOT / "configs").glob("*.toml")):
        experiment = read_experiment(ROOT / "configs", path.stem)
        made = reproduce(experiment, results=ROOT / "results", pages=tmp_path, from_records=True)
        page = Path(made["page"]).read_text()
        kept = ROOT / "docs" / "reproduce" / f"{path.stem}.md"
        assert not kept.exists() or kept.read_text() == page
        if experiment.kind not in ("table", "sweep"):
            continue
        for cells, seeds in experiment.parts().values():
            for cell in cells:
                files = [cell.record_path(ROOT / "results", seed) for seed in range(seeds)]
                runs = [json.loads(f.read_text()) for f in files if f.is_file()]
                for metric in ("l2_rel", "h1_rel") if runs else ():
                    mean = np.mean([r["errors"][metric] for r in runs])
                    digits = f"{mean:.3f}" if mean >= 1e-2 else f"{mean:.1e}".replace("e-0", "e-")
                    after = "±" if len(runs) > 1 else "|"
                    assert f"| {digits} {after}" in page
                    printed += 1
    assert printed >= 12  # the product's own rows, at least
