"""`fkpinn plan`: the time step and the number of paths that fit a given time."""

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import ProblemArgument, find_problem

if TYPE_CHECKING:
    from fkpinn.labels import LabelPlan


@dataclasses.dataclass(frozen=True)
class PlanCommand:
    """Choose time step and number of paths for labels in a given time, by a pilot run.

    Example: `fkpinn plan schrodinger --seconds 60`
    """

    problem: ProblemArgument
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    seconds: float = 60.0
    """Time for the labels; the pilot takes up to half of it in addition, plus compilation."""
    points: int = 200
    """Number of points with labels."""
    seed: int = 0
    """Seed of all random numbers."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Measure, choose, print."""
        with self.output.reserved():
            plan = self._plan()
        record = plan._asdict() | {"command": self._command(plan)}
        if self.output.json:
            print_json(record)
        else:
            _print(plan, record["command"])

    def _plan(self) -> "LabelPlan":
        from fkpinn.labels import plan_labels
        from fkpinn.problem import catalogue

        found = find_problem(self.problem)
        problem = catalogue(found).problem if isinstance(found, str) else found
        progress = self.output.progress()
        try:
            return plan_labels(
                problem,
                seconds=self.seconds,
                n_points=self.points,
                seed=self.seed,
                progress=progress,
            )
        finally:
            progress.finish()

    def _command(self, plan: "LabelPlan") -> str:
        words = f"--points {plan.n_points} --paths {plan.n_paths} --dt {plan.dt:g}"
        return f"fkpinn labels {shlex.quote(self.problem)} {words} --seed {self.seed}"


def _print(plan: "LabelPlan", command: str) -> None:
    predicted = plan.predicted
    stderr, bias = predicted["rel_stderr"], predicted["rel_bias"]
    error = f"{predicted['rel_error']:.2%} (noise {stderr:.2%}, time step up to {bias:.2%})"
    if not plan.pilot["resolved"]:
        error += "; the pilot was too short to distinguish the time-step bias from noise"
    shown: dict[str, Any] = {
        "scheme": f"{plan.scheme} ({plan.reason})",
        "dt": "none" if plan.scheme == "spheres" else f"{plan.dt:g}",
        "n_paths": plan.n_paths,
        "n_points": plan.n_points,
        "t_max": plan.t_max,
        "predicted error": error,
        "predicted seconds": f"{predicted['seconds']:.3g}",
        "command": command,
    }
    for key, value in shown.items():
        print(f"{key:>18}  {value}")
