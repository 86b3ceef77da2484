"""`fkpinn submit`: one problem with many seeds, here or on a cluster."""

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import find_problem
from fkpinn.cli._solve import HowToSolve, key_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submit(HowToSolve):
    """Solve a problem with many seeds: a run folder for each, and one table.

    Finished runs are not repeated and interrupted ones are continued, so the same command may be
    repeated at any time; with neither `--local` nor `--slurm` it only shows the table so far.
    Example: `fkpinn submit met --seeds 0-9 --local`
    """

    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="P")]
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    seeds: Annotated[str, tyro.conf.arg(metavar="SEEDS")] = "0-9"
    """Seeds of the runs: `0-99`, or `0-4,7`."""
    local: bool = False
    """Run on this machine, now; runs that are killed are restarted."""
    slurm: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="KEY=VALUE")] = None
    """Submit to SLURM, with these job parameters: `timeout_min=60 gpus_per_node=1
    slurm_partition=gpu slurm_array_parallelism=16`. Needs submitit."""
    jobs: int = 1
    """Number of runs at the same time on this machine; they share its cores."""
    tries: int = 3
    """Maximum number of times a run is started on this machine."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder for the run folders; by default runs/PROBLEM-METHOD-PRESET."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Run or hand over, then print the table."""
        with self.output.reserved():
            if self.local and self.slurm is not None:
                raise ValueError("`--local` and `--slurm` exclude each other; give one of them.")
            # the memory of a card is for the runs, not for this process
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
            find_problem(self.problem)  # refuses what there is not, before any process starts

            from fkpinn.experiments import Batch, parse_seeds, run_here, submit, table

            batch = Batch(
                self.problem, parse_seeds(self.seeds), tuple(self.words()), self._folder()
            )
            failed: dict[int, str] = {}
            queued: list[str] = []
            if self.local:
                failed = run_here(
                    batch, at_once=self.jobs, tries=self.tries,
                    progress=self.output.progress(), say=self.output.say,
                )  # fmt: skip
            elif self.slurm is not None:
                queued = submit(batch, key_values("--slurm", self.slurm))
            elif not (batch.out / "batch.json").is_file():
                raise ValueError(
                    f"`{batch.out}` has no runs yet: add `--local` to run them here, or `--slurm` "
                    f"to submit them to a queue."
                )
            else:
                batch.claim()
            found = table(batch) | {"failed": failed, "queued": queued}
        if self.output.json:
            print_json(found)
        else:
            _print(found)
        if failed:
            raise RuntimeError(
                f"{len(failed)} of {len(batch.seeds)} runs failed, the first of them with: "
                f"{next(iter(failed.values()))}\nRepeat the command to try them again."
            )

    def _folder(self) -> Path:
        stem = Path(self.problem).stem
        return self.out or Path("runs") / f"{stem}-{self.method}-{self.preset}"


def _print(found: dict[str, Any]) -> None:
    from fkpinn.cli._result import print_table

    if found["rows"]:
        print_table(tuple(found["columns"]), [tuple(row) for row in found["rows"]])
    for name, of in found["summary"].items():
        print(f"{name}: median {of['median']:.3g}, worst {of['worst']:.3g}")
    if found["queued"]:
        print(f"{len(found['queued'])} runs queued, as jobs {', '.join(found['queued'][:4])}, ...")
    if found["missing"]:
        shown = ", ".join(map(str, found["missing"][:12]))
        more = ", ..." if len(found["missing"]) > 12 else ""
        print(f"{len(found['missing'])} runs are unfinished: seeds {shown}{more}")
    print(f"{found['out']}/table.md")
