"""The code and the table of equations speak of the same labels."""

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
