"""`fkpinn compare`: a comparison of several runs."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare finished runs: prints a table, and writes a page with curves and maps.

    Example: `fkpinn compare runs/met-fk-pinn-quick-0 runs/met-pinn-quick-0`
    """

    run_folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Run folders, two or more."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("compare.html")
    """Path of the page."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Compare, print, say where the page lies."""
        with self.output.reserved():
            from fkpinn._solve import compare_runs

            results = compare_runs(list(self.run_folders), self.out)
        if self.output.json:
            print_json({"report": str(self.out), "runs": results})
            return
        from fkpinn.cli._result import print_table

        rows = [row_of(str(f), r) for f, r in zip(self.run_folders, results, strict=True)]
        print_table(("run", *_COLUMNS), rows)
        print(self.out)


_COLUMNS = ("problem", "method", "preset", "seed", "relative L2", "by paths", "seconds")


def row_of(folder: str, result: dict[str, Any]) -> tuple[str, ...]:
    """One line of a table of runs."""
    errors, certificate = result.get("errors"), result.get("certificate")
    return (
        folder,
        *(str(result[key]) for key in ("problem", "method", "preset", "seed")),
        f"{errors['l2_rel']:.2e}" if errors else "–",
        f"{certificate['l2_rel']:.2e}" if certificate else "–",
        f"{result['seconds']['total']:.0f}",
    )
