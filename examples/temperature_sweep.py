"""Mean exit times from a double well at all temperatures, and the slope of the Arrhenius plot."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

WELL = [1.0, 0.0]  # where paths start: the bottom of one of the two


def potential(x):
    """Two wells side by side."""
    return 0.25 * (x[0] ** 2 - 1) ** 2 + 0.5 * x[1] ** 2


def main(
    picture: str = "temperature_sweep.png", preset: str = "quick", n_paths: int = 400
) -> float:
    """Solve for all inverse temperatures from 2 to 6; return the slope of log time at the end."""
    hexagon = fk.RegularPolygon(sides=6, circumradius=2.0)
    family = fk.mean_exit_time(hexagon, potential, beta=(2.0, 6.0), name="temperatures")
    solution = fk.solve(family, preset=preset, seed=0)
    betas = np.linspace(2.0, 6.0, 9)
    times = solution.value_with_interval([[beta, *WELL] for beta in betas], n_paths=n_paths)
    slopes = solution.gradient_with_interval([[6.0, *WELL]], by="parameters", n_paths=n_paths)
    last = float(times.value[-1])
    slope, low, high = (float(a[0, 0]) / last for a in (slopes.value, slopes.low, slopes.high))
    barrier = lowest(hexagon)
    draw(picture, betas, times, last, slope, barrier)
    print(
        f"at beta = 6 the exit time is {last:.2f} ({times.low[-1]:.2f} to {times.high[-1]:.2f}), "
        f"its logarithm rises by {slope:.3f} ({low:.3f} to {high:.3f}); "
        f"the barrier is {barrier:.3f}"
    )
    return slope


def lowest(domain) -> float:
    """The lowest potential on the boundary: the barrier that paths have to cross."""
    one = fk.mean_exit_time(domain, potential, beta=2.0)
    wall = fk.sample_boundary(one, 4000, key=jax.random.key(0)).points
    return float(np.min(jax.vmap(potential)(wall)))


def draw(picture: str, betas, times, last: float, slope: float, barrier: float) -> None:
    """Exit times on a logarithmic scale, with the tangent and the line of the barrier."""
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    bars = [times.value - times.low, times.high - times.value]
    axes.errorbar(
        betas, times.value, bars, fmt="o", markersize=4, capsize=3, label="by paths, 95 %"
    )
    axes.plot(betas, last * np.exp(slope * (betas - 6.0)), label="tangent of the family")
    axes.plot(betas, last * np.exp(barrier * (betas - 6.0)), "--", label="slope of the barrier")
    axes.set(yscale="log", xlabel="inverse temperature", ylabel="mean exit time from a well")
    axes.set_yticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
    axes.minorticks_off()
    axes.set_title("an Arrhenius line")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
