"""`fkpinn report`: the page of a run, written anew."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._json import print_json, stdout_reserved


@dataclasses.dataclass(frozen=True)
class Report:
    """Write `report.html` of a run folder anew, from what the folder holds.

    Example: `fkpinn report runs/demo`
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """A run folder that `fkpinn solve` made."""
    json: bool = False
    """Print where it lies as one JSON object on standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Write and say where."""
        with stdout_reserved(self.json):
            from fkpinn._solve import report_run

            path = report_run(self.run_folder)
        if self.json:
            print_json({"report": str(path)})
        else:
            print(path)
