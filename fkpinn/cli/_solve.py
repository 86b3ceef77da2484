"""`fkpinn solve`: one problem, one run folder."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fkpinn.cli._json import print_json, stdout_reserved
from fkpinn.cli._problem_argument import ProblemArgument, find_problem


@dataclasses.dataclass(frozen=True)
class Solve:
    """Solve one problem and write a run folder: result, figures, report.

    Example: `fkpinn solve met --preset quick --out runs/demo`
    """

    problem: ProblemArgument
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    method: Literal["fk-pinn", "pinn"] = "fk-pinn"
    """With Feynman-Kac labels, or by residual and boundary alone."""
    preset: Literal["quick", "best", "paper"] = "quick"
    """How much work: a first look, our best, or the paper's sizes."""
    seed: int = 0
    """Fixes everything random."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Run folder; by default runs/PROBLEM-METHOD-PRESET-SEED."""
    json: bool = False
    """Print the result as one JSON object on standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Solve, then print the errors and where the files lie."""
        with stdout_reserved(self.json):
            problem = find_problem(self.problem)

            from fkpinn._solve import run
            from fkpinn.cli._progress import terminal_progress

            progress = terminal_progress()
            try:
                result = run(
                    problem,
                    method=self.method,
                    preset=self.preset,
                    seed=self.seed,
                    out=self.out or self._default_out(),
                    progress=progress,
                )
            finally:
                progress.finish()
        if self.json:
            print_json(result)
        else:
            from fkpinn.cli._result import print_result

            print_result(result)

    def _default_out(self) -> Path:
        stem = Path(self.problem).stem
        return Path("runs") / f"{stem}-{self.method}-{self.preset}-{self.seed}"
