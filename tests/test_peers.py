"""`fkpinn bench peers`: tables, lines, and rows that are kept; nothing is trained."""

import ast
import json
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn.cli import _bench, main

peers = _bench._load("peers")
from benchmarks.peers import _figure, _lines, _ours, _problems, _run, _table, docs  # noqa: E402
from benchmarks.peers._clock import Clock  # noqa: E402

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks/peers"
SCRIPTS = sorted((FOLDER / "users").glob("*_user.py"))


def row(problem, tool, seed, *errors, budget=40.0, **more):
    curve = [{"seconds": 10.0 * (k + 1), "error": e, "loss": 1.0} for k, e in enumerate(errors)]
    budget = None if tool in _table.OURS else budget
    key = {"problem": problem, "tool": tool, "seed": seed, "budget": budget, "finished": True}
    return key | {"curve": curve, "seconds": {"processor": 40.0, "wall": 50.0}} | more


def record(*rows):
    return {
        "benchmark": "peers", "what": "what", "constant": {"poisson": 0.99, "laplace-10d": 0.37},
        "lines": {"skfem": {"poisson": 17, "laplace-10d": 1}},
        "summary": _table.summarize(rows), "records": list(rows),
    }  # fmt: skip


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_user_has_every_problem(path):
    text = path.read_text(encoding="utf-8")
    found = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert {name.replace("-", "_") for name in _problems.NAMES} <= found
    marks = {n.strip() for m in re.findall(r"^# --- (.*)$", text, re.M) for n in m.split(",")}
    assert marks <= {"all", "benchmark", *_problems.NAMES}
    for name in _problems.NAMES:
        assert _lines.count(text, name) > 1


def test_every_tool_has_a_script_and_a_version():
    tools = {tool for tool in _table.TOOLS if tool not in _table.OURS} | {"fkpinn"}
    assert {path.stem.removesuffix("_user") for path in SCRIPTS} == tools
    pinned = (FOLDER / "peers.txt").read_text(encoding="utf-8")
    assert "://" not in pinned and "@" not in pinned
    for name in ("torch", "DeepXDE", "jinns", "pina-mathlab", "jax-numerical-operators"):
        assert re.search(rf"^{name}==\S+$", pinned, re.M)


def test_lines_of_the_benchmark_are_not_counted():
    text = '"""One\n\ntwo."""\n# --- all\nimport a\n\n# why\n"""Text."""\nb = 1  # clock\n'
    text += "# --- benchmark\nc = 1\n# --- x, y\nd = 1\n# --- y\ne = 1\nf = 1\n"
    assert [_lines.count(text, name) for name in ("x", "y", "z")] == [2, 4, 1]


def test_the_clock_leaves_evaluation_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("benchmarks.peers._clock.time.process_time", lambda: now[0])
    clock = Clock(10.0, np.zeros((2, 1)), np.array([3.0, 4.0]))

    def predict(x):
        now[0] += 5.0
        return np.array([0.0, 4.0])

    assert not clock.due()
    now[0] = 2.5
    assert clock.due() and not clock.due() and not clock.over() and clock.over(0.2)
    clock.note(predict, 7)
    assert clock.seconds() == 2.5
    clock.keep("state", 6)
    now[0] += 8.0
    assert clock.due() and clock.over()
    clock.settle(lambda state, x: predict(x))
    assert clock.curve == [
        {"seconds": 2.5, "error": 0.6, "loss": 7.0}, {"seconds": 2.5, "error": 0.6, "loss": 6.0}
    ]  # fmt: skip
    with pytest.raises(ValueError, match="values at"):
        clock.note(lambda x: np.zeros(3))


def test_tables_are_of_the_rows_there_are():
    found = record(
        row("poisson", "deepxde", 0, 1.0, 0.5),
        row("poisson", "deepxde", 1, 1.0, 0.3),
        row("poisson", "deepxde", 2, 1.0, 0.1),
        row("poisson", "fkpinn-quick", 0, 0.9, 0.8, 0.7, 0.6, 1e-3,
            certificate={"l2_rel": 1e-3, "ci_low": 9e-4, "ci_high": 2e-3, "holds": True}),
        row("laplace-10d", "skfem", 0, note="not possible: mesh"),
    )  # fmt: skip
    shown = _table.table(found)
    assert "0.3<br>(0.5)" in shown and "**1.0e-3**" in shown and "not possible" in shown
    assert "| 0.6 | 1.0e-3 | 50 |" in _table.same_time(found)
    assert _table.error_at(found["records"][0]["curve"], 5.0) is None
    assert "between 9.0e-4 and 2.0e-3" in _table.told(found)
    assert "| `laplace-10d` | – |" in _table.effort(found)
    assert "1 of 1 runs" in peers.page(found)


def test_pages_are_filled_and_pictures_drawn(tmp_path):
    found = record(row("poisson", "jinns", 0, 1.0, 0.5))
    text = docs.filled("a\n<!-- errors -->\nold\n<!-- end -->\nb\n", found)
    assert "old" not in text and "| **0.5** |" in text and docs.filled(text, found) == text
    assert _figure.draw(found, tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_rows_there_are_not_made_again(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("")
    python.chmod(0o755)
    monkeypatch.setenv("FKPINN_PEERS", str(python))
    monkeypatch.setattr(_run, "surroundings", dict)
    monkeypatch.setattr(_run, "write_points", lambda name, path: 0.5)
    monkeypatch.setattr(_run, "_cores", lambda: [0, 1])
    made = []

    def one(key, points, python, core, certify):
        made.append((key["tool"], key["seed"], certify))
        failed = key["seed"] == 1 and len(made) < 4
        return row(*(key[k] for k in ("problem", "tool", "seed")), 0.1, finished=not failed)

    monkeypatch.setattr(_run, "_row", one)
    out = tmp_path / "a.json"
    how = {"problems": ["poisson"], "tools": ["jinns"], "budget": 40.0, "out": out}
    peers.run(seeds=2, **how)
    assert sorted(made) == [("jinns", 0, True), ("jinns", 1, False)]
    found = peers.run(seeds=3, jobs=1, **how)  # the one that failed, and a new one
    assert [seed for _, seed, _ in made[2:]] == [1, 2]
    assert {r["seed"] for r in found["records"]} == {0, 1, 2}
    assert json.loads(out.read_text())["summary"] == found["summary"]
    assert "jinns" in out.with_suffix(".md").read_text() and out.with_suffix(".png").exists()


def test_what_is_asked_must_be_there(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("FKPINN_PEERS", raising=False)
    with pytest.raises(ValueError, match="FKPINN_PEERS is not set"):
        peers.run(out=tmp_path / "a.json")
    with pytest.raises(ValueError, match="`problems` must be names from poisson"):
        peers.run(["bratu"])
    with pytest.raises(ValueError, match="`tools` must be names from deepxde"):
        peers.run(tools=["fenics"])
    with pytest.raises(ValueError, match="`budget` must be positive"):
        peers.run(budget=0.0)
    with pytest.raises(ValueError, match="`seeds` must be one or more"):
        peers.run(seeds=[])
    assert main(["bench", "lbfgs", "--budget", "3"]) == 2
    assert "`--budget` belongs to `fkpinn bench peers`" in capsys.readouterr().err


def test_problems_of_ours_are_those_of_the_peers():
    for name in ("convection-layer", "laplace-10d"):
        ours = getattr(_ours.fkpinn_user, name.replace("-", "_"))()
        same = _problems.problem_of(name)
        point = jnp.full(same.n_coords, 0.3)
        assert float(ours.source(point)) == pytest.approx(float(same.source(point)), rel=1e-6)


def test_the_page_shows_the_record():
    path = ROOT / "results/peers/cpu.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    page = docs.PAGE.read_text(encoding="utf-8")
    assert docs.filled(page, found) == page
    assert path.with_suffix(".md").read_text(encoding="utf-8") == peers.page(found)
    assert docs.row(found) in docs.README.read_text(encoding="utf-8").splitlines()
