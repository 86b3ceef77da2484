"""`fkpinn runs`: which run folders there are."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._compare import row_of
from fkpinn.cli._output import PLAIN, OutputOptions, print_json

_KEYS = ("folder", "state", "problem", "method", "preset", "seed", "errors", "certificate")


@dataclasses.dataclass(frozen=True)
class Runs:
    """List run folders: what they solve, how well, and which can be resumed.

    Example: `fkpinn runs runs`
    """

    root: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """Folder to search, including its subfolders."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Look and print."""
        with self.output.reserved():
            from fkpinn._solve import list_runs

            found = list_runs(self.root)
        if self.output.json:
            print_json([{key: one.get(key) for key in _KEYS} for one in found])
            return
        from fkpinn.cli._result import print_table

        if not found:
            print(f"There are no run folders in {self.root}.")
            return
        columns = ("run", "problem", "method", "preset", "seed", "relative L2", "by paths")
        rows = []
        for one in found:
            ended = one["state"] == "ended"
            about = row_of(one["folder"], one)[:-1] if ended else (one["folder"], *[""] * 6)
            rows.append((*about, one["state"]))
        print_table((*columns, "state"), rows)
        stopped = [one["folder"] for one in found if one["state"] in ("stopped", "begun")]
        if stopped:
            print(f"To continue an unfinished run: fkpinn solve --resume {stopped[0]}")
