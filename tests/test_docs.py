"""The pages and the code speak of the same things: equations, settings, names, versions."""

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

import fkpinn as fk

ROOT = Path(__file__).parents[1]
LABEL = re.compile(r"\beq:[A-Za-z0-9_-]*[A-Za-z0-9]")
FILES = sorted((ROOT / "fkpinn").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_equation_labels_are_in_the_table(path):
    table = (ROOT / "docs/theory/equations.md").read_text(encoding="utf-8")
    known = set(LABEL.findall(table))
    assert set(LABEL.findall(path.read_text(encoding="utf-8"))) <= known


def test_rows_of_the_table_can_be_linked_to():
    table = (ROOT / "docs/theory/equations.md").read_text(encoding="utf-8")
    labels = set(LABEL.findall(table))
    anchors = set(re.findall(r'id="(eq-[^"]*)"', table))
    assert anchors == {label.replace(":", "-") for label in labels}


def equations():
    """Functions and tests that the table of equations names."""
    lines = (ROOT / "docs/theory/equations.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split(" | ")[-2:] for line in lines if line.startswith("|") and "`" in line]
    functions, tests = zip(*cells, strict=True)
    named = lambda column: sorted(
        {name for cell in column for name in re.findall(r"`(.*?)`", cell)}
    )
    return named(functions), named(tests)


@pytest.mark.parametrize("name", equations()[0])
def test_functions_of_the_table_are_there(name):
    package, module, *rest = name.split(".")
    found = fk if module in dir(fk) else importlib.import_module(f"{package}.{module}")
    for part in rest if found is not fk else [module, *rest]:
        found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize("name", equations()[1])
def test_tests_of_the_table_are_there(name):
    path, _, test = name.partition("::")
    assert re.search(rf"^def {test}\(", (ROOT / path).read_text(encoding="utf-8"), re.M)


def test_the_table_of_settings_is_that_of_the_code():
    page = (ROOT / "docs/usage/training.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+\.\w+)` \| (.*?) \|", page, re.M))
    plain = {"none": None, "true": True, "false": False}
    read = lambda text: plain[text] if text in plain else json.loads(text.strip("`"))
    settings = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fk.Settings().flat().items()
    }
    assert {name: read(text) for name, text in rows.items()} == settings


def test_the_changelog_names_every_setting():
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("  | ")]
    new = {name for line in table for name in re.findall(r"`(\w+\.\w+)`", line)}
    assert new == set(fk.Settings().flat())


def test_public_names_have_a_place_in_the_api_pages():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs/api").glob("*.md"))
    shown = set(re.findall(r"^::: fkpinn[.\w]*\.(\w+)$", pages, re.M))
    assert set(fk._EXPORTS) - shown == {"TensorBoardProgress"}  # the command line's page has it


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("CITATION.cff", r"version: {version}\nlicense: {license}"),
        ("mkdocs.yml", r"copyright: fkpinn {version}, {license} license"),
        ("SECURITY.md", r".*latest release, now {short}, "),
    ],
)
def test_versions_are_that_of_the_package(file, line):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = {key: re.escape(project[key]) for key in ("version", "license")}
    short = re.escape(".".join(project["version"].split(".")[:2]))
    page = (ROOT / file).read_text(encoding="utf-8")
    assert re.search("^" + line.format(**about, short=short), page, re.M)


def test_the_gallery_shows_what_the_examples_said():
    record = json.loads((ROOT / "results/examples/cpu.json").read_text(encoding="utf-8"))
    gallery = (ROOT / "docs/gallery.md").read_text(encoding="utf-8").lower()
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert {one["example"] for one in record["records"]} == scripts
    for one in record["records"]:
        after = f"({one['seconds']:.0f} seconds)"
        assert any(f"{line} {after}".lower() in gallery for line in one["said"])
        assert f"assets/examples/{one['example']}.png" in gallery


def test_sizes_are_those_on_record():
    record = json.loads((ROOT / "results/sizes/cpu.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    for one in record["records"]:
        mark = "*" if "note" in one else ""
        assert f"| {one['what']} | {one['seconds']:.0f}{mark} | {one['peak_mib']:.0f} |" in page
