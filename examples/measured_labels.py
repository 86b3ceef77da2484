"""Labels from measurements, with error bars, in place of Monte Carlo averages."""

import jax.random as jr
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
    solution.plot(picture)
    test = fk.sobol_interior(problem, 500)
    truth = np.array([float(exact(p)) for p in test])
    error = float(np.linalg.norm(np.asarray(solution(test)) - truth) / np.linalg.norm(truth))
    print(f"measured with noise 0.05, solved with a relative L2 error of {error:.1e}")
    return error


if __name__ == "__main__":
    main()
