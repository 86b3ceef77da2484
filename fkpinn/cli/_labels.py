"""`fkpinn labels`: Monte Carlo values of a solution at points."""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fkpinn.cli._hardware import EVERY_DEVICE, HardwareOptions, speaks
from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import ProblemArgument, find_problem

if TYPE_CHECKING:
    from fkpinn.labels import Labels
    from fkpinn.reference import AbstractReference


@dataclasses.dataclass(frozen=True)
class LabelsCommand:
    """Estimate the solution at random points by Monte Carlo.

    Example: `fkpinn labels met --points 200 --paths 4000 --dt 1e-2`
    """

    problem: ProblemArgument
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    points: int = 200
    """Number of points, drawn from the measure of the problem."""
    paths: int = 500
    """Number of paths from each point."""
    dt: float | None = None
    """Time step; by default derived from the size of the domain."""
    scheme: str = "default"
    """How paths move and end: default, euler, euler-shifted, euler-bridge, heun, heun-bridge,
    platen, spheres."""
    t_max: float = float("inf")
    """Paths are cut at this time; cut paths are counted."""
    antithetic: bool = False
    """Run paths in pairs with opposite noise."""
    bias: bool = False
    """Also run with twice the step, and estimate the time-step bias."""
    out: Path | None = None
    """File for the labels; finished work is stored next to it, and after a crash the same command
    continues."""
    seed: int = 0
    """Seed of all random numbers."""
    hardware: HardwareOptions = EVERY_DEVICE
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Estimate, compare, print."""
        with self.output.reserved(), self.hardware.chosen():
            from fkpinn._together import own_copy

            with own_copy(self.out) as out:
                summary = self._estimate(out)
        if not speaks():
            return
        if self.output.json:
            print_json(summary)
        else:
            for key, value in summary.items():
                print(f"{key:>18}  {value}")

    def _estimate(self, out: Path | None) -> dict[str, Any]:
        import jax.numpy as jnp

        from fkpinn._streams import Stream
        from fkpinn.labels import estimate_labels
        from fkpinn.problem import catalogue
        from fkpinn.reference import catalogue_reference
        from fkpinn.sampling import sample_interior

        found = find_problem(self.problem)
        problem = catalogue(found).problem if isinstance(found, str) else found
        truth = catalogue_reference(found) if isinstance(found, str) else None
        stream = Stream(self.seed)
        key = (stream / "points").key
        points = sample_interior(problem, self.points, dtype=jnp.float32, key=key)
        progress = self.output.progress()
        begin = time.perf_counter()
        try:
            labels = estimate_labels(
                problem,
                points,
                n_paths=self.paths,
                dt=self.dt,
                scheme=self.scheme,
                seed=self.seed,
                t_max=self.t_max,
                antithetic=self.antithetic,
                bias=self.bias,
                throw=False,
                store=out,
                progress=progress,
            )
        finally:
            progress.finish()
        return _summary(labels, truth, time.perf_counter() - begin)


def _summary(labels: "Labels", truth: "AbstractReference | None", seconds: float) -> dict[str, Any]:
    import numpy as np

    made = labels.provenance
    summary = {
        "scheme": made["scheme"],
        "reason": made["reason"],
        "dt": made["dt"],
        "n_points": len(labels.points),
        "n_paths": labels.n_paths,
        "path_steps": made["path_steps"],
        "path_steps_per_s": made["path_steps"] / made["seconds"]["run"],
        "seconds": made["seconds"] | {"total": seconds},
        "unfinished": int(np.sum(labels.unfinished)),
        "heavy_points": made["heavy"]["points"],
        "mean_stderr": float(np.mean(labels.stderr)),
    }
    if "bias_share" in made:
        summary["bias_share"] = made["bias_share"]
        summary["bias_share_stderr"] = made["bias_share_stderr"]
    if np.any(labels.unfinished):
        summary["mean_truncation"] = float(np.mean(labels.truncation))
    if truth is not None:
        exact = truth.values(labels.points)
        error = np.asarray(labels.value, float) - exact
        size = float(np.sqrt(np.mean(exact**2)))
        summary["label_rel_err"] = float(np.sqrt(np.mean(error**2))) / size
        summary["label_rel_bias"] = float(np.mean(error)) / size
    return summary
