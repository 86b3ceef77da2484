"""`fkpinn diagnose`: why a training fails or works."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import find_problem


@dataclasses.dataclass(frozen=True)
class Diagnose:
    """Diagnose a problem or a run: curvature, condition numbers, landscape, theory.

    `spectrum`: eigenvalues of the Gauss-Newton matrix by term, and of the Hessian.
    `coverage`: the smallest curvature with labels and its bound; steps of gradient descent,
    measured and predicted.
    `conditioning`: condition numbers of PINN and FK-PINN against the number of points.
    `landscape`: the loss along two directions around both networks.
    `labels`: tails and bias of labels, compared with what the paper proves.
    `bounds`: the terms of the error bound, with all constants set to 1.

    Example: `fkpinn diagnose met --what landscape`
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="P|DIR")]
    """Name from `fkpinn problems`, a Python file that defines `problem`, or a run folder."""
    what: Literal["spectrum", "coverage", "conditioning", "landscape", "labels", "bounds"] = (
        "spectrum"
    )
    """Which diagnostic."""
    widths: tuple[int, ...] = (24, 24)
    """Widths of the hidden layers of the networks trained for the diagnostic."""
    points: int = 400
    """Number of collocation points."""
    boundary: int = 80
    """Number of boundary points."""
    labels: int = 50
    """Number of points with labels."""
    steps: int = 3000
    """Adam steps of each training."""
    sizes: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200)
    """Numbers of collocation points for `conditioning`."""
    seeds: int = 3
    """Trainings of each kind for `conditioning`."""
    grid: int = 51
    """Nodes per side of `landscape`, an odd number."""
    seed: int = 0
    """Seed of all random numbers."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder for record and figures; by default runs/diagnose-P, or `diagnose` in a run folder.
    Single results of `conditioning` are stored there; after an interruption, repeat the command."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Measure, draw, print."""
        with self.output.reserved():
            from fkpinn.diagnostics import Sizes, diagnose

            folder = Path(self.target)
            is_run = (folder / "config.toml").is_file()
            if folder.is_dir() and not is_run:
                raise ValueError(f"`{folder}` is not a run folder: it has no `config.toml`.")
            target = folder if is_run else find_problem(self.target)
            name = target if isinstance(target, str) else folder.stem
            out = self.out or (folder / "diagnose" if is_run else Path("runs") / f"diagnose-{name}")
            sizes = Sizes(
                widths=self.widths, n_interior=self.points, n_boundary=self.boundary,
                n_labels=self.labels, adam_steps=self.steps, sizes=self.sizes, seeds=self.seeds,
                grid=self.grid,
            )  # fmt: skip
            progress = self.output.progress()
            try:
                record = diagnose(
                    target, self.what, out=out, sizes=sizes, seed=self.seed, find=find_problem,
                    progress=progress,
                )  # fmt: skip
            finally:
                progress.finish()
        if self.output.json:
            print_json(record)
            return
        for line in summary(self.what, record):
            print(line)
        print(f"{'record':>12}  {out / (self.what + '.json')}")
        print(f"{'figure':>12}  {record['figure']}")


def summary(what: str, record: dict) -> list[str]:
    """What a record says, in a few lines."""
    row = lambda name, text: f"{name:>12}  {text}"
    if what == "spectrum":
        return [
            row(
                method,
                f"condition number {found['all']['condition']:.2e}, smallest positive eigenvalue "
                f"{found['all']['smallest_positive']:.2e}",
            )
            for method, found in record["gauss_newton"].items()
        ]
    if what == "coverage":
        found = record["coverage"]
        lines = [row(k, f"{found[k]:.3g}") for k in ("mu_data", "mu_perp", "rho", "least_weight")]
        for method, run in record["descent"].items():
            seen = "more than were run" if run["measured"] is None else str(run["measured"])
            text = f"gradient descent: {run['predicted']:.2g} steps predicted, needed {seen}"
            lines.append(row(method, text))
        return lines
    if what == "conditioning":
        return [record["verdict"]]
    if what == "landscape":
        return [
            row(method, f"{kind} directions, roughness {found['roughness']:.2f}")
            for kind, methods in record.items()
            if kind in ("random", "curved")
            for method, found in methods.items()
        ]
    if what == "labels":
        theory, tails = record["sub_exponential"], record["tails"]
        return [
            row("nu, b", f"{theory['nu']:.3g}, {theory['b']:.3g}"),
            row("coverage", f"Bernstein {tails['bernstein_coverage']:.3f} at 95 %"),
            *(
                row(scheme, f"bias of order {b['order']:.2f} ± {2 * b['order_stderr']:.2f}")
                for scheme, b in record["bias"].items()
            ),
            row("cut paths", f"bias decays as exp(-{record['truncation']['kappa']:.3g} T)"),
        ]
    lines = [row(name, f"{value:.3g}") for name, value in record["terms"].items()]
    return [*lines, row("meaning", record["meaning"])]
