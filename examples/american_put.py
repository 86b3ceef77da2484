"""When to exercise: an American put, its exercise boundary, and bounds of its price."""

import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk
from fkpinn.evaluate import stopping_bounds

STRIKE = 100.0


def main(picture: str = "american_put.png", preset: str = "quick", n_paths: int = 4000) -> float:
    """Solve, draw value and boundary, and return the mean of both bounds of the price."""
    problem = fk.catalogue("american-put").problem
    solution = fk.solve(problem, preset=preset, seed=0)
    times, prices = np.linspace(0.0, 0.99, 100), np.linspace(70.0, 130.0, 601)
    t, x = np.meshgrid(times, prices, indexing="ij")
    values = np.asarray(solution(np.stack([t.ravel(), x.ravel()], axis=1))).reshape(t.shape)
    waits = values > np.maximum(STRIKE - prices, 0.0)[None] + 1e-9
    boundary = prices[np.argmax(waits, axis=1)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    left.plot(prices, values[0], label="network, today")
    left.plot(prices, np.maximum(STRIKE - prices, 0.0), "k--", lw=1, label="payoff")
    left.set(xlabel="price", ylabel="value of the put")
    left.legend(frameon=False)
    right.fill_between(times, 70.0, boundary, alpha=0.25, label="exercise")
    right.plot(times, boundary, lw=1.5)
    right.text(0.1, 110.0, "wait")
    right.set(xlabel="time", ylabel="price", ylim=(70.0, 130.0))
    right.legend(frameon=False, loc="lower right")
    figure.savefig(picture, dpi=150)
    found = stopping_bounds(problem, solution.network, [0.0, STRIKE], n_paths=n_paths, n_steps=200)
    print(f"price of the put: between {found.low:.3f} and {found.high:.3f}")
    return 0.5 * (found.lower + found.upper)


if __name__ == "__main__":
    main()
