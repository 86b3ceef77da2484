"""A call on an asset that jumps: prices with error bars, and the smile they imply."""

import math

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import fkpinn as fk
from fkpinn.problem import merton_price


def black_scholes(strike: float, volatility: float) -> float:
    """Price of a call on an asset at 100, one year before maturity, at 5 % interest."""
    d = (math.log(100.0 / strike) + 0.05) / volatility + 0.5 * volatility
    return 100.0 * norm.cdf(d) - strike * math.exp(-0.05) * norm.cdf(d - volatility)


def implied(price: float, strike: float) -> float:
    """The volatility that gives this price without jumps."""
    return brentq(lambda sigma: black_scholes(strike, sigma) - price, 1e-3, 2.0)


def main(picture: str = "jump_option.png", preset: str = "quick", n_paths: int = 4000) -> float:
    """Solve, correct at twenty strikes, draw, and return the largest relative error of a price."""
    model = {"volatility": 0.2, "interest": 0.05, "rate": 1.0, "mean": -0.1, "std": 0.15}
    problem = fk.merton(
        lambda s: jnp.maximum(s - 100.0, 0.0), spot=100.0, horizon=1.0, **model,
        measure=fk.Along([math.log(100.0)], spread=0.15),  # the answer is wanted from many spots
    )  # fmt: skip
    solution = fk.solve(problem, preset=preset, seed=0)
    strikes = np.linspace(80.0, 125.0, 20)  # prices scale with the strike
    points = np.stack([np.zeros(20), np.log(100.0 * 100.0 / strikes)], axis=1)
    found = solution.value_with_interval(points, n_paths=n_paths, dt=0.02)
    scale = strikes / 100.0
    price, low, high = (scale * np.asarray(a) for a in (found.value, found.low, found.high))
    spots = [jnp.asarray(100.0 * 100.0 / strike) for strike in strikes]
    series = [float(merton_price(s, jnp.asarray(1.0), 100.0, **model)) for s in spots]
    true = scale * np.array(series)
    smile = [implied(p, k) for p, k in zip(true, strikes, strict=True)]
    middle, below, above = (
        np.array([implied(p, k) for p, k in zip(prices, strikes, strict=True)])
        for prices in (price, low, high)
    )
    figure, panel = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    panel.plot(strikes, smile, color="0.7", lw=5, label="Merton's series")
    panel.errorbar(strikes, middle, [middle - below, above - middle], fmt="k.", label="95 % limits")
    panel.axhline(0.2, ls=":", color="C0", label="volatility between jumps")
    panel.set(xlabel="strike, asset at 100", ylabel="implied volatility")
    panel.legend(frameon=False)
    figure.savefig(picture, dpi=150)
    worst = float(np.max(np.abs(price / true - 1.0)))
    inside = int(np.sum((low <= true) & (true <= high)))
    print(f"twenty strikes: prices within {worst:.1e} of Merton's, limits hold {inside} of 20")
    return worst


if __name__ == "__main__":
    main()
