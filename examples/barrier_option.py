"""A call on two assets with barriers, by the Black-Scholes equation on a box."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

RATE, VOLATILITY, CORRELATION, STRIKE = 0.03, 0.25, 0.4, 100.0


def main(picture: str = "barrier_option.png", preset: str = "quick") -> float:
    """Solve, draw today's price, print it at the money with its interval, and return it."""
    # in the logarithms of the prices the coefficients are constant
    low, high = jnp.log(60.0), jnp.log(160.0)
    mixing = jnp.array([[1.0, 0.0], [CORRELATION, (1 - CORRELATION**2) ** 0.5]])
    payoff = lambda x: jnp.maximum(jnp.mean(jnp.exp(x)) / STRIKE - 1.0, 0.0)
    problem = fk.Problem(
        fk.Box([low, low], [high, high]),
        drift=[RATE - 0.5 * VOLATILITY**2] * 2,
        diffusion=VOLATILITY * mixing,
        reaction=RATE,
        boundary=lambda t, x: payoff(x),  # paid at once when an asset gets there
        horizon=1.0,
        terminal=payoff,
        name="basket call settled at barriers",
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    draw(picture, solution)
    money = [0.0, jnp.log(STRIKE), jnp.log(STRIKE)]
    found = solution.value_with_interval([money], n_paths=4000)
    value, least, most = (STRIKE * float(p[0]) for p in (found.value, found.low, found.high))
    print(f"price at the money {value:.3f}, between {least:.3f} and {most:.3f}")
    return value


def draw(picture: str, solution) -> None:
    """Today's price against the prices of the two assets."""
    price = np.linspace(60.1, 159.9, 120)
    first, second = np.meshgrid(price, price)
    logs = np.log(np.stack([first, second], axis=-1)).reshape(-1, 2)
    value = STRIKE * np.asarray(solution(np.pad(logs, ((0, 0), (1, 0)))))  # at time zero
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    image = axes.pcolormesh(price, price, value.reshape(first.shape), rasterized=True)
    figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set(xlabel="first asset", ylabel="second asset", title="a call settled at barriers")
    axes.set_aspect("equal")
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
