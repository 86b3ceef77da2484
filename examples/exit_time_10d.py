"""A mean exit time in ten dimensions, where no mesh goes."""

import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk


def main(picture: str = "exit_time_10d.png", preset: str = "quick") -> float:
    """Solve, draw, print the error that paths measure, and return the time from the center."""
    ball = fk.Ball([0.0] * 10, 1.0)
    problem = fk.mean_exit_time(ball, name="exit from a ball in ten dimensions")
    solution = fk.solve(problem, preset=preset, seed=0)
    draw(picture, solution)
    time = float(solution([0.0] * 10))
    print(f"{solution.certify(seconds=20.0)}; from the center {time:.5f}, in truth 0.05")
    return time


def draw(picture: str, solution) -> None:
    """The network at all distances from the center, in random directions, and the truth."""
    r = np.linspace(0.0, 1.0, 500)
    direction = np.random.default_rng(1).standard_normal((500, 10))
    points = r[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    axes.plot(r, solution(points), ".", alpha=0.5, label="network, in random directions")
    axes.plot(r, (1 - r**2) / 20, color="black", linewidth=1.0, label="$(1 - r^2)/20$")
    axes.set(
        xlabel="distance from the center, $r$", ylabel="mean exit time", title="ten dimensions"
    )
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
