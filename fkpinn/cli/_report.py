"""`fkpinn report`: write the page of a run again."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json


@dataclasses.dataclass(frozen=True)
class Report:
    """Write `report.html` of a run folder again, from the data in the folder.

    Example: `fkpinn report runs/demo`
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """A run folder written by `fkpinn solve`."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Write and say where."""
        with self.output.reserved():
            from fkpinn._solve import report_run

            path = report_run(self.run_folder)
        if self.output.json:
            print_json({"report": str(path)})
        else:
            print(path)
