"""`fkpinn reproduce`: tables and figures of the paper."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._hardware import ALL_HERE, DevicesOptions
from fkpinn.cli._output import PLAIN, OutputOptions, print_json


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Rebuild a table or figure of the paper: run what has no record yet, then draw its page.

    Every run leaves a record under `results/runs`, so the same command goes on where it was
    stopped. Example: `fkpinn reproduce all --from-records`
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """A file of `configs/` without its ending (table1, preconditioners, pdata, dt, paths, ...), or
    `all`."""
    seeds: int | None = None
    """Runs of each kind; by default what the configuration says."""
    from_records: bool = False
    """Train nothing; draw from the records there are."""
    seconds: float = float("inf")
    """Begin no training after so many seconds."""
    at_once: int | None = None
    """Seeds of one kind trained side by side; by default all of them on an accelerator. The same
    command may also run several times at once: each process takes what no other has taken."""
    jobs: int = 1
    """Processes that train, each one seed at a time. On a card, start its multi-process service
    first (`nvidia-cuda-mps-control -d`)."""
    configs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("configs")
    """Folder of the configurations."""
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Folder of the records."""
    pages: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("docs/reproduce")
    """Folder of the pages."""
    hardware: DevicesOptions = ALL_HERE
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Run, draw, print."""
        with self.output.reserved(), self.hardware.chosen():
            from fkpinn.experiments import known_experiments, read_experiment, reproduce

            names = known_experiments(self.configs) if self.name == "all" else [self.name]
            experiments = [read_experiment(self.configs, name, self.seeds) for name in names]
            progress, end = self.output.progress(), time.monotonic() + self.seconds
            made = []
            try:
                for experiment in experiments:
                    made.append(
                        reproduce(
                            experiment,
                            results=self.results,
                            pages=self.pages,
                            from_records=self.from_records,
                            seconds=max(end - time.monotonic(), 0.0),
                            at_once=self.at_once,
                            jobs=self.jobs,
                            progress=progress,
                            say=self.output.say,
                        )
                    )
            finally:
                progress.finish()
        if self.output.json:
            print_json(made if self.name == "all" else made[0])
            return
        for one in made:
            lacks = f", {one['missing']} runs missing" if one["missing"] else ""
            print(f"{one['name']:>16}  {one['page']}{lacks}")
