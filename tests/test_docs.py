"""The code and the table of equations speak of the same labels."""

import json
import re
from pathlib import Path

import pytest

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
