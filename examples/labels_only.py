"""Values with error bars at some points, without a network."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk


def main(picture: str = "labels_only.png", n_paths: int = 4000) -> float:
    """Label points on a line, draw values with their 95% intervals, return the middle one."""
    problem = fk.catalogue("met").problem
    line = jnp.stack([jnp.linspace(-1.8, 1.8, 19), jnp.zeros(19)], axis=1)
    labels = fk.estimate_labels(problem, line, n_paths=n_paths, dt=1e-2, seed=0)
    low, high = labels.interval(0.95)
    value = np.asarray(labels.value)
    fine = jnp.stack([jnp.linspace(-1.8, 1.8, 181), jnp.zeros(181)], axis=1)
    truth = fk.find_reference(problem).values(fine)  # to compare with; nothing above needs it
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    bars = [value - low, high - value]
    axes.errorbar(line[:, 0], value, bars, fmt="o", capsize=3, label=f"{n_paths} paths, 95 %")
    axes.plot(fine[:, 0], truth, color="black", linewidth=1.0, label="finite elements")
    axes.set(xlabel="$x_1$ (at $x_2 = 0$)", ylabel="mean exit time", title="labels, no network")
    axes.legend(frameon=False, loc="lower center")
    figure.savefig(picture, dpi=140)
    plt.close(figure)
    print(f"from the saddle: {value[9]:.2f}, between {low[9]:.2f} and {high[9]:.2f}")
    return float(value[9])


if __name__ == "__main__":
    main()
