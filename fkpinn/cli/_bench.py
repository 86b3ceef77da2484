"""`fkpinn bench`: one benchmark, with its yardstick measured in the same run."""

import dataclasses
import importlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import fkpinn
from fkpinn._records import write_json
from fkpinn.cli._json import print_json, stdout_reserved


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure speed on this machine, beside codes that do the same.

    `paths`: path-steps a second of fkpinn, hand-written C, diffrax and NumPy.
    `labels`: the paper's largest label set, and cost and memory as paths are added.

    Example: `fkpinn bench paths --json`
    """

    benchmark: Annotated[Literal["paths", "labels"], tyro.conf.Positional]
    """Which one."""
    points: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Points; 100 for `paths`, 2000 for `labels` by default."""
    paths: Annotated[int | None, tyro.conf.arg(metavar="M")] = None
    """Paths a point; 1000 for `paths`, 500 for `labels` by default."""
    repeats: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Timed runs of `paths` whose median is reported; 5 by default."""
    max_paths: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Where the sweep of `labels` ends, paths in all; 1000000 by default."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the record to this file as well."""
    json: bool = False
    """Print the record as one JSON object on standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Measure, write, print."""
        given = {"n_points": self.points, "n_paths": self.paths, **self._own_options()}
        with stdout_reserved(self.json):
            module = _load(self.benchmark)
            record = module.run(**{k: v for k, v in given.items() if v is not None})
            if self.out is not None:
                write_json(self.out, record)
        if self.json:
            print_json(record)
        else:
            _print_record(record)

    def _own_options(self) -> dict[str, int | None]:
        """Options that only one benchmark has; given to the other they are an error."""
        own = {"paths": ("repeats", self.repeats), "labels": ("max_paths", self.max_paths)}
        name, value = own.pop(self.benchmark)
        for other, (stranger, number) in own.items():
            if number is not None:
                flag = stranger.replace("_", "-")
                raise ValueError(f"`--{flag}` belongs to `fkpinn bench {other}`; leave it away.")
        return {name: value}


def _load(name: str) -> Any:
    """The benchmark's module, from the source tree around the package."""
    root = Path(fkpinn.__file__).resolve().parents[1]
    if not (root / "benchmarks" / name).is_dir():
        raise ValueError(
            "`fkpinn bench` needs the folder `benchmarks`, which comes with the source and not "
            "with an installed wheel. Clone the repository and `pip install -e .` there."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{name}")


def _print_record(record: dict[str, Any], indent: str = "") -> None:
    for key, value in record.items():
        if isinstance(value, dict):
            print(f"{indent}{key}:")
            _print_record(value, indent + "  ")
        else:
            print(
                f"{indent}{key}: {value:.6g}"
                if isinstance(value, float)
                else f"{indent}{key}: {value}"
            )
