"""`fkpinn reference`: the reference solution that errors are measured against."""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import ProblemArgument, find_problem

if TYPE_CHECKING:
    from fkpinn.problem import Problem
    from fkpinn.reference import AbstractReference

_EDGES = 64  # edges across the domain at `--refine 0`
_POINTS = 4096  # Sobol points that the size of the solution is measured at


@dataclasses.dataclass(frozen=True)
class Reference:
    """Compute the reference solution of a problem, and store it.

    Example: `fkpinn reference met --refine 1 --out met.npz`
    """

    problem: ProblemArgument
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    refine: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Use finite elements with 64 times 2**N edges across the domain; by default the best reference
    available."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Store a finite element reference in this .npz file."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Compute, store, print."""
        with self.output.reserved():
            began = time.perf_counter()
            problem, truth = self._compute()
            seconds = time.perf_counter() - began
            if self.out is not None:
                words = f"fkpinn reference {self.problem} --refine {self.refine or 0} --out FILE"
                truth.provenance["command"] = words
                _store(truth, self.out)
            summary = _describe(problem, truth) | {"seconds": seconds, "out": self.out}
        if self.output.json:
            print_json(summary)
        else:
            for key, value in summary.items():
                print(f"{key:>15}  {value}")

    def _compute(self) -> "tuple[Problem, AbstractReference]":
        from fkpinn.problem import catalogue
        from fkpinn.reference import fem_reference, find_reference

        found = find_problem(self.problem)
        problem, exact = catalogue(found) if isinstance(found, str) else (found, None)
        if self.refine is None:
            return problem, find_reference(problem, exact=exact)
        if self.refine < 0:
            raise ValueError(f"`--refine` must not be negative; got {self.refine}.")
        lower, upper = problem.domain.bounding_box()
        across = float((upper - lower).prod()) ** (1 / problem.dim)
        return problem, fem_reference(problem, h=across / (_EDGES * 2**self.refine))


def _store(truth: "AbstractReference", path: Path) -> None:
    from fkpinn.reference import FEMReference

    if not isinstance(truth, FEMReference):
        raise ValueError(
            f"`--out` stores finite element references only; this one is computed whenever it is "
            f"needed ({truth.provenance['method']}). Leave out `--out`, or add `--refine 0` for "
            f"finite elements."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    truth.save(path)


def _describe(problem: "Problem", truth: "AbstractReference") -> dict[str, Any]:
    from fkpinn.sampling import sobol_interior

    values = truth.values(sobol_interior(problem, _POINTS))
    return {
        "problem": problem.name,
        "method": truth.provenance["method"],
        "error_estimate": truth.error_estimate,
        "n_points": _POINTS,
        "rms": float((values**2).mean() ** 0.5),
        "min": float(values.min()),
        "max": float(values.max()),
        "provenance": truth.provenance,
    }
