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
    """Rebuild a table or figure of the paper: run what has no record yet, then write its page.

    Every run writes a record under `results/runs`, so an interrupted command continues when it is
    repeated. Example: `fkpinn reproduce all --from-records`
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """A file of `configs/` without its extension (table1, preconditioners, pdata, dt, paths, ...),
    or `all`."""
    seeds: int | None = None
    """Runs of each kind; by default as in the configuration."""
    from_records: bool = False
    """Do not train; use existing records only."""
    seconds: float = float("inf")
    """Start no training after this many seconds."""
    at_once: int | None = None
    """Seeds of one kind trained at the same time; by default all of them on an accelerator. The
    same command may also be started several times: the processes share the runs."""
    jobs: int = 1
    """Number of training processes, each with one seed at a time. On an NVIDIA GPU, start the
    multi-process service first (`nvidia-cuda-mps-control -d`)."""
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
