"""The volatility implied by noisy option prices, with confidence limits."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import fkpinn as fk

RATE = 0.02


def main(
    picture: str = "implied_volatility.png", preset: str = "quick", n_paths: int = 256
) -> float:
    """Solve for all volatilities, infer one from nine prices, and return it."""
    family = fk.Problem(
        fk.Space(1),  # the logarithm of the price of the stock over the strike
        drift=lambda t, x, sigma: jnp.stack([RATE - 0.5 * sigma**2]),
        diffusion=lambda t, x, sigma: sigma,
        reaction=RATE,
        horizon=1.0,
        terminal=lambda x: jnp.maximum(jnp.exp(x[0]) - 1.0, 0.0),
        measure=fk.Along([0.0], spread=0.2),
        parameters={"sigma": (0.1, 0.5)},
        name="calls",
    )
    solution = fk.solve(family, preset=preset, seed=0)
    moneyness = np.linspace(-0.3, 0.3, 9)
    noise = 0.001 * np.random.default_rng(0).standard_normal(9)
    points = np.stack([np.zeros(9), moneyness], axis=1)  # today, and the price of the stock
    quotes = fk.Observations.of(points, black_scholes(moneyness, 0.23) + noise, 0.001)
    found = fk.infer(solution, quotes, n_paths=n_paths)
    low, high = found.interval()["sigma"]
    draw(picture, solution, moneyness, quotes, found)
    print(f"quoted with 23 %, found {found.best['sigma']:.2%}, between {low:.2%} and {high:.2%}")
    return found.best["sigma"]


def black_scholes(x, sigma: float):
    """Prices of a call against its strike."""
    up = (x + RATE + 0.5 * sigma**2) / sigma
    return np.exp(x) * norm.cdf(up) - np.exp(-RATE) * norm.cdf(up - sigma)


def draw(picture: str, solution, moneyness, quotes, found) -> None:
    """Quotes, and prices by the posterior samples."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
    axes[0].errorbar(moneyness, quotes.values, 2e-3, fmt="o", label="quotes, 95 %")
    points = np.stack([np.zeros(61), np.linspace(-0.3, 0.3, 61)], axis=1)
    axes[0].plot(points[:, 1], solution(points, **found.best), color="black", label="network")
    axes[0].set(xlabel="log of price over strike", ylabel="price of the call over strike")
    axes[0].legend(frameon=False)
    axes[1].hist(100 * found.samples[:, 0], bins=40, color="tab:blue", alpha=0.7)
    axes[1].axvline(23.0, color="black", linewidth=1.0, label="true")
    axes[1].set(xlabel="volatility in %", ylabel="samples")
    axes[1].legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
