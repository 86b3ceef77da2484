"""Labels from measurements, with error bars, instead of Monte Carlo averages."""

import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk


def main(picture: str = "measured_labels.png", preset: str = "quick") -> float:
    """Solve with measured values, draw, and return the relative L2 error."""
    problem, exact = fk.catalogue("poisson")
    points = fk.sample_interior(problem, 60, key=jr.key(1))
    noise = 0.05 * np.random.default_rng(1).standard_normal(60)
    measured = np.array([float(exact(p)) for p in points]) + noise
    labels = fk.Labels.from_data(points, measured, 0.05)
    solution = fk.solve(problem, preset=preset, labels=labels, seed=0)
    draw(picture, measured - noise, noise, np.asarray(solution(points)) - (measured - noise))
    test = fk.sobol_interior(problem, 500)
    truth = np.array([float(exact(p)) for p in test])
    error = float(np.linalg.norm(np.asarray(solution(test)) - truth) / np.linalg.norm(truth))
    print(f"measured with noise 0.05, solved with a relative L2 error of {error:.1e}")
    return error


def draw(picture: str, truth, noise, off) -> None:
    """Errors of the measurements and of the network, at the same points."""
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    axes.errorbar(truth, noise, 0.1, fmt="o", capsize=3, alpha=0.5, label="measured, 95 %")
    axes.plot(truth, off, ".", color="black", label="network")
    axes.axhline(0.0, color="gray", linewidth=0.8)
    axes.set(xlabel="true value", ylabel="error", title="60 measurements and what becomes of them")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
