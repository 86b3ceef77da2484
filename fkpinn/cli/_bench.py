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
    "families": ("problems", "preset", "seeds", "points"),
    "warm": ("problems", "preset"),
    "scaling": ("repeats",),
    "lbfgs": ("seeds",),
    "rivals": ("problems", "preset", "seeds"),
    "jumps": ("paths", "repeats"),
    "peers": ("problems", "seeds", "tools", "budget", "jobs"),
}
_GROWING = ("dimensions", "peers")  # these add to their record row by row


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
    `dimensions`: errors, certificates and time of problems in many dimensions and of nonlinear
    ones, beside bars; rows are added to the record as they end.
    `intervals`: bias and coverage of labels in many dimensions.
    `slopes`: how often intervals of gradients hold the true components.
    `inverse`: how often limits of inferred parameters hold the true ones.
    `families`: one network for all temperatures of `met`, and for all sizes of a hole, beside
    finite elements for single problems.
    `warm`: time from the solution of a problem that is much alike, beside that from scratch.
    `scaling`: what steps, labels and certificates cost as sizes grow, and what many devices gain.
    `lbfgs`: the L-BFGS of this package beside that of optax, from the same networks.
    `rivals`: values of nonlinear problems beside Deep BSDE and multilevel Picard, in as much time.
    `jumps`: exits a second of stable processes, and a step with jumps over one without.
    `peers`: eight problems with DeepXDE, jinns, PINA, jNO, scikit-fem and this package; the
    environment variable FKPINN_PEERS names a Python that has them.

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
            "rivals",
            "jumps",
            "peers",
        ],
        tyro.conf.Positional,
    ]
    """Which benchmark."""
    points: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Number of points; by default 100 for `paths`, 2000 for `labels`, 10000 for `step`, 1000 for
    `intervals` and `slopes`. For `families`: number of parameter values, 20 by default."""
    paths: Annotated[int | None, tyro.conf.arg(metavar="M")] = None
    """Paths per point; by default 1000 for `paths` and `slopes`, 500 for `labels`, 256 for
    `intervals`. For `jumps`: of all points together, 1000000 by default."""
    repeats: Annotated[int | None, tyro.conf.arg(metavar="R")] = None
    """Number of timings, of which the median is reported; by default 5 for `paths`, 9 for `step`
    and `jumps`, 3 for `scaling`. For `inverse`: number of data sets, 100 by default."""
    max_paths: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Largest total number of paths in the sweep of `labels`; 1000000 by default."""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder for networks and single results, from which an interrupted benchmark continues. By
    default a folder in runs with the benchmark's name."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Preset of the trainings; `quick` by default, `best` for `dimensions` and `rivals`."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Trainings of each kind; 3 by default, 1 for `refresh` and `certificates`."""
    problems: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="P ...")] = None
    """Which problems; of `dimensions` by default those that have a bar on this kind of device."""
    tools: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="T ...")] = None
    """Which tools of `peers`; by default all but `fkpinn-best`, which takes long."""
    budget: Annotated[float | None, tyro.conf.arg(metavar="S")] = None
    """Processor seconds of a run of `peers`; 60 by default."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Runs of `peers` side by side, each on a core of its own; as many as cores by default."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the record to this file as well. `dimensions` and `peers` add to what is there, in
    runs if not given."""
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
            "tools": ("tools", self.tools),
            "budget": ("budget", self.budget),
            "jobs": ("jobs", self.jobs),
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
