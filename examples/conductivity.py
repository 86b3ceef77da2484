"""Conductivity and heat loss of a rod from noisy temperatures, with a confidence band."""

import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

KAPPA, LOSS = 0.06, 1.8  # what the measurements were made with


def main(picture: str = "conductivity.png", preset: str = "quick", n_paths: int = 256) -> float:
    """Solve for all rods, infer one from 30 measurements, and return its conductivity."""
    family = fk.Problem(
        fk.Interval(0.0, 1.0),
        diffusion=lambda x, kappa: (2 * kappa) ** 0.5,
        reaction=lambda x, loss: loss,
        source=1.0,
        parameters={"kappa": (0.02, 0.2), "loss": (0.5, 4.0)},
        name="rods",
    )
    solution = fk.solve(family, preset=preset, seed=0)
    rng = np.random.default_rng(1)
    places = np.sort(rng.uniform(0.02, 0.98, 30))
    data = fk.Observations.of(places, exact(places) + 0.01 * rng.standard_normal(30), 0.01)
    found = fk.infer(solution, data, n_paths=n_paths)
    limits = found.interval()
    draw(picture, solution, data, found)
    said = [f"{name} between {low:.3g} and {high:.3g}" for name, (low, high) in limits.items()]
    print(f"true kappa = {KAPPA}, loss = {LOSS}; found {', '.join(said)}")
    return found.best["kappa"]


def exact(x):
    """The temperature of the rod."""
    root = (LOSS / KAPPA) ** 0.5
    return (1 - np.cosh(root * (x - 0.5)) / np.cosh(0.5 * root)) / LOSS


def draw(picture: str, solution, data, found) -> None:
    """Measurements, and temperature profiles of the posterior distribution."""
    x = np.linspace(0.0, 1.0, 101)
    draws = [
        np.asarray(solution(x[:, None], kappa=kappa, loss=loss))
        for kappa, loss in found.samples[::20]
    ]
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    axes.fill_between(x, low, high, alpha=0.4, label="95 % of the profiles")
    axes.plot(x, exact(x), color="black", linewidth=1.0, label="true")
    axes.errorbar(data.points[:, 0], data.values, 0.02, fmt=".", alpha=0.6, label="measured, 95 %")
    axes.set(xlabel="place", ylabel="temperature", title="a rod that loses heat")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
