"""Fisher-KPP in two ways: by a network, and by branching particles without one."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk


def main(picture: str = "branching.png", preset: str = "quick", n_paths: int = 4000) -> float:
    """Solve, label by branching, draw both, return their largest difference in standard errors."""
    problem, exact = fk.catalogue("fisher-kpp")
    solution = fk.solve(problem, preset=preset, seed=0)
    at = np.stack([np.zeros(13), np.linspace(-2.0, 2.0, 13)], axis=1).astype(np.float32)
    labels = fk.estimate_labels(
        problem, jnp.asarray(at), n_paths=n_paths, scheme="branching", seed=0
    )
    line = np.stack([np.zeros(201), np.linspace(-2.2, 2.2, 201)], axis=1).astype(np.float32)
    figure, panel = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    panel.plot(line[:, 1], jax.vmap(exact)(line), color="0.7", lw=5, label="closed form")
    panel.plot(line[:, 1], np.asarray(solution(line)), label="network")
    panel.errorbar(
        at[:, 1], labels.value, 2 * np.asarray(labels.stderr), fmt="k.", label="branching, 2 s.e."
    )
    panel.set(xlabel="$x$", ylabel="$u(0, x)$")
    panel.legend(frameon=False)
    figure.savefig(picture, dpi=150)
    apart = np.abs(np.asarray(solution(at)) - np.asarray(labels.value)) / np.asarray(labels.stderr)
    print(f"network and branching particles: at most {apart.max():.1f} standard errors apart")
    return float(apart.max())


if __name__ == "__main__":
    main()
