"""Notebooks of the gallery, made from its scripts.

Each script of `docs/gallery.md` becomes a notebook in `examples/notebooks`. Its docstrings and
comments on lines of their own become text, the rest code; `main` is opened, so that all it makes is
there to play with. The same scripts give the same notebooks, byte by byte.

    python tools/make_notebooks.py            # write them
    python tools/make_notebooks.py --check    # exit code 1 if they differ from what is there
"""

import argparse
import ast
import hashlib
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"
_HEADING = re.compile(r"^### (.+?) \{ #.*?\}\n\n`python examples/(\w+)\.py`", re.M)
_SLOW = "fk.solve("  # what comes after it can be changed without waiting again
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Cell(NamedTuple):
    """Text in Markdown, or code."""

    kind: str
    text: str


def titles() -> dict[str, str]:
    """Names of the scripts in the gallery, with their headings there."""
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    return {name: title for title, name in _HEADING.findall(page)}


def cells(title: str, name: str, script: str) -> list[Cell]:
    """What the notebook of a script consists of."""
    tree = ast.parse(script)
    lines = script.splitlines()
    main = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "main")
    others = [s for s in tree.body[1:] if s is not main and not isinstance(s, ast.If)]
    about = f"# {title}\n\n{ast.get_docstring(tree)}\n\n*Made from [{name}.py](../{name}.py).*"
    found = [Cell("markdown", about)]
    for group in _groups(others):
        found += _split(lines, group)
    found.append(Cell("markdown", (ast.get_docstring(main) or "").replace("return", "show")))
    given = [
        f"{argument.arg} = {ast.get_source_segment(script, default)}"
        for argument, default in zip(main.args.args, main.args.defaults, strict=True)
    ]
    found.append(Cell("code", "\n".join(given)))
    found += _split(lines, main.body[1:])
    if "plt.subplots" not in script or "plt.close" in script:  # open figures are shown anyway
        found.append(Cell("code", "from IPython.display import Image\n\nImage(picture)"))
    return found


def _groups(statements: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Imports together, then constants, then each function for itself."""
    group: list[ast.stmt] = []
    for statement in statements:
        alone = isinstance(statement, ast.FunctionDef | ast.ClassDef)
        if group and (alone or _imports(group[-1]) != _imports(statement)):
            yield group
            group = []
        group.append(statement)
        if alone:
            yield group
            group = []
    if group:
        yield group


def _imports(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _split(lines: list[str], statements: list[ast.stmt]) -> Iterator[Cell]:
    """Code as it stands in the script, cut at comments, at blank lines and after what is slow."""
    code: list[str] = []
    last = _first(statements[0]) - 1
    while last > 0 and lines[last - 1].lstrip().startswith("#"):
        last -= 1
    for statement in statements:
        end = statement.end_lineno or statement.lineno
        between = [line.strip() for line in lines[last : _first(statement) - 1]]
        told = [line.lstrip("# ") for line in between if line]
        if (told or (between and not _imports(statement))) and code:
            yield Cell("code", _joined(code))
            code = []
        if told:
            yield Cell("markdown", _sentence(" ".join(told)))
        code += between if not told and code else []
        code += _plain(lines[_first(statement) - 1 : end], statement)
        last = end
        if _SLOW in ast.unparse(statement):
            yield Cell("code", _joined(code))
            code = []
    if code:
        yield Cell("code", _joined(code))


def _first(statement: ast.stmt) -> int:
    """The first line, with decorators."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _plain(lines: list[str], statement: ast.stmt) -> list[str]:
    """Without marks for the formatter; what `main` returns is shown."""
    lines = [line.replace("  # fmt: skip", "") for line in lines]
    if isinstance(statement, ast.Return):
        lines[0] = lines[0].replace("return ", "", 1)
    return lines


def _joined(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip()


def _sentence(text: str) -> str:
    """With a capital letter, and an end."""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".:!?" else ".")


def notebook(made: list[Cell]) -> dict[str, Any]:
    """In nbformat 4.5; a cell's id follows from what it says."""
    found, seen = [], set()
    for cell in made:
        name = hashlib.sha256("\n".join(cell).encode()).hexdigest()[:12]
        while name in seen:
            name += "-again"
        seen.add(name)
        one: dict[str, Any] = {"cell_type": cell.kind, "id": name, "metadata": {}}
        if cell.kind == "code":
            one |= {"execution_count": None, "outputs": []}
        found.append(one | {"source": cell.text.splitlines(keepends=True)})
    return {"cells": found, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def notebooks() -> dict[str, str]:
    """File names and contents."""
    found = {}
    for name, title in titles().items():
        script = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        text = json.dumps(notebook(cells(title, name, script)), indent=1, ensure_ascii=False)
        found[f"{name}.ipynb"] = text + "\n"
    return found


def differing(made: dict[str, str]) -> list[str]:
    """Names of notebooks that lack, are too many, or say something else."""
    there = {p.name: p.read_text(encoding="utf-8") for p in NOTEBOOKS.glob("*.ipynb")}
    return sorted(name for name in there.keys() | made.keys() if there.get(name) != made.get(name))


def main() -> int:
    """Write what differs, or tell of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    made = notebooks()
    other = differing(made)
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in [] if check else other:
        if name in made:
            (NOTEBOOKS / name).write_text(made[name], encoding="utf-8", newline="\n")
        else:
            (NOTEBOOKS / name).unlink()
    verb = "differ" if check else "written"
    sys.stdout.write(f"{verb}: {', '.join(other) or 'none'}\n")
    return int(check and bool(other))


if __name__ == "__main__":
    sys.exit(main())
