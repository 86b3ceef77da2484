"""The notebooks of the gallery are what its scripts make, and run."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_folders import OF_EXAMPLES

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "tools/make_notebooks.py")
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

FILES = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
SAMPLE = '''\
"""What it is about."""

import math

import numpy as np

# two numbers
# of some size
SIZE = 3
LARGE = 4  # stays here


def twice(x):
    """Twice."""
    # stays, too
    return 2 * x


def main(picture: str = "a.png", n: int = 20_000) -> float:
    """Solve, and return a number."""
    # first this
    u = fk.solve(
        SIZE, LARGE,
    )  # fmt: skip
    v = u + 1

    w = twice(v)
    return float(w)


if __name__ == "__main__":
    main()
'''
# few points and steps in place of the preset; `Image` stands in for that of a notebook
RUN = """
import json, sys, types
from pathlib import Path
from fkpinn._solve import PRESETS, Settings, _run
small = Settings().changed(json.loads(sys.argv[2]))
PRESETS["quick"] = small
_run.settings_for = lambda preset, problem: small
shown = []
sys.modules["IPython.display"] = types.SimpleNamespace(Image=shown.append)
names = {"__name__": "__main__"}
for cell in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        names |= {"n_paths": 50} if "n_paths" in names else {}
assert shown in ([], [names["picture"]])
assert Path(names["picture"]).read_bytes()[:4] == b"\\x89PNG"
"""


def test_notebooks_are_what_the_scripts_make():
    assert tool.differing(tool.notebooks()) == [], "run `python tools/make_notebooks.py`"


def test_every_script_of_the_gallery_has_one():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert set(tool.titles()) == scripts == {path.stem for path in FILES}
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`examples/notebooks/(\w+)\.ipynb`", page)) == scripts


def test_cells_of_a_script():
    assert tool.cells("Sample", "sample", SAMPLE) == [
        ("markdown", "# Sample\n\nWhat it is about.\n\n*Made from [sample.py](../sample.py).*"),
        ("code", "import math\n\nimport numpy as np"),
        ("markdown", "Two numbers of some size."),
        ("code", "SIZE = 3\nLARGE = 4  # stays here"),
        ("code", 'def twice(x):\n    """Twice."""\n    # stays, too\n    return 2 * x'),
        ("markdown", "Solve, and show a number."),
        ("code", 'picture = "a.png"\nn = 20_000'),
        ("markdown", "First this."),
        ("code", "u = fk.solve(\n    SIZE, LARGE,\n)"),
        ("code", "v = u + 1"),
        ("code", "w = twice(v)\nfloat(w)"),
        ("code", "from IPython.display import Image\n\nImage(picture)"),
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_notebook_is_whole(path):
    """In the format that it names, with all statements of its script, in order."""
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in found["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", one) for one in ids)
    code = [c for c in found["cells"] if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in code)
    there = [ast.dump(s) for c in code for s in ast.parse("".join(c["source"])).body]
    script = ast.parse((ROOT / "examples" / f"{path.stem}.py").read_text(encoding="utf-8"))
    main = next(s for s in script.body if getattr(s, "name", "") == "main")
    wanted = [s for s in script.body[1:-1] if s is not main] + main.body[1:-1]
    end = main.body[-1]
    assert isinstance(end, ast.Return) and end.value is not None
    wanted.append(ast.Expr(end.value))
    assert [one for one in there if one in {ast.dump(s) for s in wanted}] == [
        ast.dump(s) for s in wanted
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), json.dumps(OF_EXAMPLES)],
        cwd=tmp_path, env=os.environ | {"MPLBACKEND": "agg"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert [found.suffix for found in tmp_path.iterdir()] == [".png"]
    assert done.stdout.strip()
