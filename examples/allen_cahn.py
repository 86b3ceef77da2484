"""A moving front: Allen-Cahn on a square, where a disk shrinks by its curvature."""

import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

TIMES = (0.0, 0.5, 1.0)


def main(picture: str = "allen_cahn.png", preset: str = "quick") -> float:
    """Solve, draw the field at three times, and return the radius of the disk at the end."""
    problem = fk.catalogue("allen-cahn-2d").problem
    solution = fk.solve(problem, preset=preset, seed=0)
    axis = np.linspace(-1.0, 1.0, 121)
    x, y = np.meshgrid(axis, axis)
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained", sharey=True)
    for panel, t in zip(panels, TIMES, strict=True):
        points = np.stack([np.full(x.size, t), x.ravel(), y.ravel()], axis=1)
        values = np.asarray(solution(points)).reshape(x.shape)
        image = panel.pcolormesh(x, y, values, cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True)
        panel.contour(x, y, values, levels=[0.0], colors="black", linewidths=1.2)
        panel.set(title=f"time {t:g}", xlabel="$x_1$", aspect="equal")
    panels[0].set_ylabel("$x_2$")
    figure.colorbar(image, ax=panels, label="u")
    figure.savefig(picture, dpi=150)
    radius = np.linspace(0.0, 0.9, 901)
    along = np.stack([np.full(901, 1.0), radius, np.zeros(901)], axis=1)
    last = float(radius[np.argmin(np.abs(np.asarray(solution(along))))])
    print(f"the disk of radius 0.60 has radius {last:.2f} after 1 (sharp fronts: 0.40)")
    return last


if __name__ == "__main__":
    main()
