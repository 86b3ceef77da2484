"""`fkpinn bench`: one benchmark, with the code it is compared with measured in the same run."""

import dataclasses
import importlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import fkpinn
from fkpinn._records import write_json
from fkpinn.cli._output import PLAIN, OutputOptions, print_json

_OPTIONS = {
    "paths": ("points", "paths", "repeats"),
    "labels": ("points", "paths", "max_paths"),
    "step": ("points", "repeats"),
    "certificates": ("folder", "problems", "seeds"),
    "targets": ("folder", "preset"),
    "ablation": ("folder", "preset", "seeds"),
    "refresh": ("folder", "preset", "seeds"),
    "examples": ("folder",),
    "sizes": ("folder",),
    "dimensions": ("problems", "preset", "seeds"),
    "intervals": ("problems", "points", "paths"),
    "slopes": ("problems", "points", "paths"),
    "inverse": ("problems", "repeats", "preset"),
    "families": ("preset", "seeds", "points"),
    "warm": ("problems", "preset"),
    "scaling": ("repeats",),
    "lbfgs": ("seeds",),
}
_GROWING = ("dimensions",)  # these add to their record row by row


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure speed and accuracy on this machine, compared with other codes where there are any.

    `paths`: path-steps per second of fkpinn, hand-written C, diffrax and NumPy.
    `labels`: the paper's largest label set, and time and memory for growing numbers of paths.
    `step`: a gradient of the residual loss, compared with `jax.hessian`, DeepXDE and jinns, the
    last two if the environment variable FKPINN_PEERS names a Python that has them.
    `certificates`: how often certificates of networks, good and bad, contain the true error.
    `targets`: whether runs with a target end below it.
    `ablation`: what each part of the method is worth.
    `refresh`: further training with labels corrected by paths, compared with the same time without.
    `examples`: the scripts in `examples/` at full size, their output and run times.
    `sizes`: time and memory of the largest sizes in the documentation.
    `dimensions`: errors, certificates and times of problems in high dimension and of nonlinear
    ones, compared with goals; rows are added to the record as they end.
    `intervals`: bias and coverage of labels in high dimension.
    `slopes`: how often intervals of gradients contain the true components.
    `inverse`: how often intervals of inferred parameters contain the true ones.
    `families`: one network for `met` at all temperatures, compared with finite elements.
    `warm`: time when starting from the solution of a similar problem, compared with from scratch.
    `scaling`: cost of steps, labels and certificates as sizes grow, and speedup by many devices.
    `lbfgs`: the L-BFGS of this package compared with that of optax, from the same networks.

    Example: `fkpinn bench paths --json`
    """

    benchmark: Annotated[
        Literal[
            "paths",
            "labels",
            "step",
            "certificates",
            "targets",
            "ablation",
            "refresh",
            "examples",
            "sizes",
            "dimensions",
            "intervals",
            "slopes",
            "inverse",
            "families",
            "warm",
            "scaling",
            "lbfgs",
        ],
        tyro.conf.Positional,
    ]
    """Which benchmark."""
    points: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Number of points; by default 100 for `paths`, 2000 for `labels`, 10000 for `step`, 1000 for
    `intervals` and `slopes`. For `families`: number of parameter values, 20 by default."""
    paths: Annotated[int | None, tyro.conf.arg(metavar="M")] = None
    """Paths per point; by default 1000 for `paths` and `slopes`, 500 for `labels`, 256 for
    `intervals`."""
    repeats: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Number of timings, of which the median is reported; by default 5 for `paths`, 9 for `step`,
    3 for `scaling`. For `inverse`: number of data sets, 100 by default."""
    max_paths: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Largest total number of paths in the sweep of `labels`; 1000000 by default."""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder for networks and single results, from which an interrupted benchmark continues. By
    default a folder in runs with the benchmark's name."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Preset of the trainings; `quick` by default, `best` for `dimensions`."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Trainings of each kind; 3 by default, 1 for `refresh` and `certificates`."""
    problems: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="P ...")] = None
    """Which problems; for `dimensions` by default those with a goal on this kind of device."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the record to this file as well. `dimensions` adds to an existing file, by default one
    in runs."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Measure, write, print."""
        given = self._given()
        with self.output.reserved():
            module = _load(self.benchmark)
            given |= {"out": self.out} if self.benchmark in _GROWING else {}
            record = module.run(**given)
            if self.out is not None and self.benchmark not in _GROWING:
                write_json(self.out, record)
        if self.output.json:
            print_json(record)
        elif (page := getattr(module, "page", None)) is not None:  # it knows better how to say it
            print(page(record), end="")
        else:
            _print_record(record)

    def _given(self) -> dict[str, Any]:
        """Arguments of the benchmark; an option that it does not have is an error."""
        options = {
            "points": ("n_points", self.points),
            "paths": ("n_paths", self.paths),
            "repeats": ("repeats", self.repeats),
            "max_paths": ("max_paths", self.max_paths),
            "folder": ("folder", self.folder),
            "preset": ("preset", self.preset),
            "seeds": ("seeds", self.seeds),
            "problems": ("problems", self.problems),
        }
        given = {}
        for name, (argument, value) in options.items():
            if value is None:
                continue
            if name not in _OPTIONS[self.benchmark]:
                owners = [f"`fkpinn bench {b}`" for b, names in _OPTIONS.items() if name in names]
                flag = name.replace("_", "-")
                raise ValueError(f"`--{flag}` belongs to {' and '.join(owners)}; leave it out.")
            given[argument] = value
        return given


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
