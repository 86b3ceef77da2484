"""Code in README and docs runs, with smaller numbers; commands are ones that there are."""

import re
import shlex
from pathlib import Path

import pytest

from fkpinn._solve import PRESETS, Settings
from fkpinn.cli._main import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SMALL = Settings().changed(
    {
        "network.widths": (4,),
        "points.n_collocation": 20,
        "points.n_boundary": 10,
        "points.n_test": 50,
        "labels.p_data": 0.2,
        "labels.n_paths": 8,
        "training.steps": 2,
        "training.adam_steps": 4,
        "training.lbfgs_steps": 2,
        "training.nncg_steps": 1,
        "certificate.seconds": 0.5,
    }
)
FEWER = {
    "n_paths=4000": "n_paths=8",
    "beta=5.0": "beta=0.5",  # paths leave soon
    "fk.find_reference(problem)": "fk.find_reference(problem, h=1.0)",
    "problem, 2000,": "problem, 40,",
    "problem, 400,": "problem, 20,",
    "Adam(2000), 2000,": "Adam(4), 4,",
    "LBFGS(), 500": "LBFGS(), 2",
    ".certify()": ".certify(n_points=16, n_paths=4, seconds=0.5)",
    "half_width=": "n_paths=8) #",
    "target=1e-3": "target=50.0",
}
TRAINED = """
import fkpinn as fk
problem = fk.catalogue("met").problem
fk.solve(problem).save("met.fkpinn")
"""
BEFORE = {  # what a page takes for granted
    "README.md": "import jax.numpy as jnp\npoints = jnp.zeros((2, 2))",
    "certificates.md": TRAINED,
    "add-a-domain.md": (
        "import equinox as eqx, jax.numpy as jnp\n"
        "from fkpinn.domain._base import AbstractDomain, length, name_parts\n"
        "from fkpinn._types import Point, Scalar"
    ),
}


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.S | re.M)


def smaller(code):
    for text, less in FEWER.items():
        code = code.replace(text, less)
    return code


SLOW = (
    "certificates.md",
    "coming-from-deepxde.md",
    "coming-from-fenics.md",
    "families.md",
    "getting-started.md",
    "index.md",
    "taking-along.md",
    "training.md",
)  # README and other tests ask for the same
WITH_CODE = [
    pytest.param(p, id=str(p.relative_to(ROOT)), marks=pytest.mark.slow if p.name in SLOW else [])
    for p in PAGES
    if blocks(p, "python")
]


def run_blocks(path, change):
    names: dict = {}
    for code in (BEFORE.get(path.name, ""), *blocks(path, "python")):
        exec(compile(change(code), str(path), "exec"), names)
    return names


@pytest.mark.broad
@pytest.mark.parametrize("path", WITH_CODE)
def test_python_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "quick", SMALL)
    run_blocks(path, smaller)


@pytest.mark.slow
def test_the_first_page_runs_as_it_stands(tmp_path, monkeypatch):
    """With `quick` as it is shipped, to the error the page tells."""
    monkeypatch.chdir(tmp_path)
    names = run_blocks(ROOT / "README.md", lambda code: code)
    problem, points = names["problem"], names["fk"].sobol_interior(names["problem"], 1024)
    found = names["fk"].errors(problem, names["solution"].network, names["truth"], points)
    assert found.l2_rel < 0.03


COMMANDS = [
    pytest.param(words, id=f"{path.name}: {' '.join(words)[:60]}")
    for path in PAGES
    for code in blocks(path, "sh")
    for line in code.splitlines()
    for words in [shlex.split(line, comments=True)]
    if words and words[0].rsplit("/", 1)[-1] in ("fkpinn", "make")
]


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_are_ones_that_there_are(words):
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert words[1] in targets
    else:
        assert parse([w for w in words[1:] if w != "..."]).run
