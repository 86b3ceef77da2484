"""Leaving a disk by jumps or by diffusion: how long it takes, and where paths end."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk
from fkpinn.labels import visited_places

DISK = fk.Ball([0.0, 0.0], 1.0)
PROCESSES = {
    "Brownian": fk.Problem(DISK, diffusion=2.0**0.5, source=1.0),
    "stable, 1.5": fk.jump_exit_time(DISK, fk.Stable(1.5)),
    "stable, 1.0": fk.jump_exit_time(DISK, fk.Stable(1.0)),
}


def main(picture: str = "stable_exit.png", n_paths: int = 20_000) -> float:
    """Label, compare with closed forms, return the largest difference in standard errors."""
    radii = np.linspace(0.05, 0.95, 10)
    points = jnp.asarray(np.stack([radii, np.zeros(10)], axis=1))
    line = np.linspace(0.0, 1.0, 200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.9), layout="constrained")
    apart = []
    for color, (name, problem) in zip(("C0", "C1", "C3"), PROCESSES.items(), strict=True):
        power = 1.0 if problem.jumps is None else 0.5 * problem.jumps.alpha
        top = 0.25 if problem.jumps is None else problem.jumps.ball_time(2)
        labels = fk.estimate_labels(problem, points, n_paths=n_paths, seed=0)
        left.plot(line, top * (1.0 - line**2) ** power, color=color, lw=1)
        error = 3 * np.asarray(labels.stderr)
        left.errorbar(radii, labels.value, error, fmt=".", color=color, label=name)
        lack = np.asarray(labels.value) - top * (1.0 - radii**2) ** power
        apart.append(np.max(np.abs(lack) / np.asarray(labels.stderr)))
        ends = visited_places(problem, points[5:6], n_paths=400, seed=1).exit
        right.plot(*ends.T, ".", ms=3, color=color)
    left.set(xlabel="distance from the center", ylabel="mean exit time")
    right.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.6"))
    right.plot([radii[5]], [0.0], "k+")
    right.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title="where paths from + end")
    left.legend(frameon=False, loc="lower left")
    figure.savefig(picture, dpi=150)
    print(f"labels are at most {max(apart):.1f} standard errors from the closed forms")
    return float(max(apart))


if __name__ == "__main__":
    main()
