"""Put tables and picture of a record into the documentation, and a row into the README.

python -m benchmarks.peers.docs results/peers/cpu.json
"""

import argparse
import re
from pathlib import Path
from typing import Any

from fkpinn._files import read_json
from fkpinn._records import write_bytes

from .._common import ROOT
from ._figure import draw
from ._table import PEERS, effort, main_budget, same_time, short, table, told

PAGE = ROOT / "docs/usage/peers.md"
README = ROOT / "README.md"
PICTURE = ROOT / "docs/assets/peers.png"
_TABLES = {"errors": table, "same time": same_time, "lines": effort, "told": told}
_PLACE = "<!-- {name} -->\n\n{table}\n<!-- end -->"


def filled(text: str, record: dict[str, Any]) -> str:
    """A page with its tables drawn anew.

    Args:
        text: it, with a comment before and after each table.
        record: of this benchmark.
    """
    for name, draw_table in _TABLES.items():
        place = re.compile(rf"<!-- {name} -->.*?<!-- end -->", re.S)
        new = _PLACE.format(name=name, table=draw_table(record))
        text = place.sub(lambda _, new=new: new, text)
    return text


def row(record: dict[str, Any]) -> str:
    """Of the README's table: what the best of the peers with networks reaches.

    Args:
        record: of this benchmark.
    """
    summary, cells = record["summary"], []
    budget = main_budget(summary)
    for problem in ("poisson", "schrodinger", "met", "committor"):
        errors = [
            s["worst"] for s in summary
            if s["problem"] == problem and s["tool"] in PEERS and s["tool"] != "skfem"
            and s["budget"] == budget and s["worst"] is not None
        ]  # fmt: skip
        cells.append(short(min(errors)) if errors else "–")
    tools = "[other tools with networks](docs/usage/peers.md)"
    name = f"best of four {tools}, one core, {budget or 0:.0f} s"
    return "| " + " | ".join((name, *cells)) + " |"


def with_row(text: str, record: dict[str, Any]) -> str:
    """The README with that row drawn anew.

    Args:
        text: it, with such a row.
        record: of this benchmark.
    """
    old = re.compile(r"^\| best of four \[other tools.*$", re.M)
    return old.sub(lambda _: row(record), text)


def main() -> None:
    """Page and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    record = read_json(parser.parse_args().record)
    write_bytes(PAGE, filled(PAGE.read_text(encoding="utf-8"), record).encode())
    write_bytes(README, with_row(README.read_text(encoding="utf-8"), record).encode())
    draw(record, PICTURE)


if __name__ == "__main__":
    main()
