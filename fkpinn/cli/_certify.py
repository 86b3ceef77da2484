"""`fkpinn certify`: the error of a saved run, without a reference."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fkpinn.cli._hardware import EVERY_DEVICE, HardwareOptions, speaks
from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import find_problem
from fkpinn.cli._result import bound_in_words, value_in_words


@dataclasses.dataclass(frozen=True)
class Certify:
    """Measure the error of the solution in a run folder by paths, without a reference.

    Example: `fkpinn certify runs/demo`
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """A run folder written by `fkpinn solve`."""
    points: int = 2048
    """Number of new random points, drawn from the measure of the problem."""
    paths: int | None = None
    """Number of paths from each point; by default chosen by a pilot run."""
    seconds: float = 60.0
    """Approximate time limit for the paths, without compilation."""
    seed: int = 0
    """Seed of all random numbers."""
    hardware: HardwareOptions = EVERY_DEVICE
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Measure, draw, print."""
        with self.output.reserved(), self.hardware.chosen():
            from fkpinn._solve import certify_run
            from fkpinn._together import own_copy

            progress = self.output.progress()
            try:
                with own_copy(self.run_folder) as folder:
                    assert folder is not None
                    record = certify_run(
                        folder,
                        find=find_problem,
                        progress=progress,
                        n_points=self.points,
                        n_paths=self.paths,
                        seconds=self.seconds,
                        seed=self.seed,
                    )
            finally:
                progress.finish()
        if not speaks():
            return
        if self.output.json:
            print_json(record)
        else:
            for key, value in record["certificate"].items():
                text = f"{value:.4g}" if isinstance(value, float) else str(value)
                print(f"{key:>12}  {text}")
            print(f"{'second bound':>12}  {bound_in_words(record['occupation'])}")
            print(f"{'value':>12}  {value_in_words(record['value'])}, at the center")
