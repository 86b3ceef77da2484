"""A call on the geometric mean of five prices: a kink in five dimensions, and a closed form."""

import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import fkpinn as fk

ASSETS, INTEREST, VOLATILITY, STRIKE = 5, 0.05, 0.2, 100.0


def closed_form(points: np.ndarray) -> np.ndarray:
    """The geometric mean is lognormal itself, so this is the formula of Black."""
    left, mean = 1.0 - points[:, 0], np.exp(np.mean(np.log(points[:, 1:]), axis=1))
    deviation = VOLATILITY * np.sqrt(left / ASSETS)
    growth = (INTEREST - 0.5 * VOLATILITY**2) * left + 0.5 * deviation**2
    d = (np.log(mean / STRIKE) + growth) / deviation + 0.5 * deviation
    forward = mean * np.exp(growth)
    return np.exp(-INTEREST * left) * (forward * norm.cdf(d) - STRIKE * norm.cdf(d - deviation))


def today(spots: np.ndarray) -> np.ndarray:
    """Points at the initial time, with all prices equal."""
    return np.c_[np.zeros(len(spots)), np.repeat(spots[:, None], ASSETS, axis=1)]


def main(picture: str = "basket_option.png", preset: str = "quick", n_paths: int = 2000) -> float:
    """Solve, draw prices with limits, and return the relative L2 error along paths."""
    problem = fk.Problem(
        fk.Space(ASSETS),
        drift=lambda t, x: INTEREST * x,
        diffusion=lambda t, x: VOLATILITY * jnp.diag(x),
        reaction=INTEREST,
        horizon=1.0,
        terminal=lambda x: jnp.maximum(jnp.exp(jnp.mean(jnp.log(x))) - STRIKE, 0.0),
        measure=fk.Along(np.full(ASSETS, 100.0), spread=5.0),  # wanted from spots near 100
    )
    solution = fk.solve(problem, preset=preset, certify=True, seed=0)
    points = np.asarray(fk.sample_interior(problem, 4000, key=jr.key(1)), np.float64)
    true = closed_form(points)
    error = float(np.linalg.norm(np.asarray(solution(points)) - true) / np.linalg.norm(true))

    spots, fine = np.linspace(90.0, 110.0, 9), np.linspace(88.0, 112.0, 100)
    found = solution.value_with_interval(today(spots), n_paths=n_paths)
    value, low, high = (np.asarray(a) for a in (found.value, found.low, found.high))
    price, line = closed_form(today(spots)), closed_form(today(fine))
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    panels[0].plot(fine, line, color="0.7", lw=5, label="closed form")
    panels[0].errorbar(spots, value, [value - low, high - value], fmt="k.", label="95 % limits")
    panels[0].plot(fine, np.maximum(fine - STRIKE, 0.0), ":", color="C0", label="at the end")
    panels[0].set(xlabel="all five prices today", ylabel="price of the call")
    panels[0].legend(frameon=False)
    off = np.abs(np.asarray(solution(points)) - true)
    panels[1].semilogy(points[:, 0], off, ".", color="k", markersize=2, alpha=0.5)
    panels[1].set(xlabel="time", ylabel="error along paths", ylim=(1e-6, 1.0))
    figure.savefig(picture, dpi=150)
    certificate = solution.certificate
    assert certificate is not None
    limits = f"{certificate['ci_low']:.1e} to {certificate['ci_high']:.1e}"
    inside = int(np.sum((low <= price) & (price <= high)))
    print(
        f"relative L2 error {error:.1e} (95% interval {limits}); limits hold {inside} of 9 prices"
    )
    return error


if __name__ == "__main__":
    main()
