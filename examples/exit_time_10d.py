"""A mean exit time in ten dimensions, where no mesh is possible and no formula is known."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

STIFFNESS = np.linspace(0.5, 2.0, 10)  # of springs along the axes


def main(picture: str = "exit_time_10d.png", preset: str = "quick") -> float:
    """Solve, draw, print the error measured by paths, and return the time from the center."""
    ball = fk.Ball([0.0] * 10, 1.0)
    springs = lambda x: 0.5 * jnp.sum(jnp.asarray(STIFFNESS, x.dtype) * x**2)
    problem = fk.mean_exit_time(ball, springs, beta=8.0, name="springs in ten dimensions")
    solution = fk.solve(problem, preset=preset, seed=0, certify=True)
    draw(picture, solution)
    found = solution.value_with_interval(np.zeros((1, 10)), n_paths=4000)
    value, low, high = (float(np.asarray(a)[0]) for a in (found.value, found.low, found.high))
    limits = solution.certificate
    assert limits is not None
    print(
        f"relative L2 error {limits['l2_rel']:.1e} (95% interval {limits['ci_low']:.1e} to "
        f"{limits['ci_high']:.1e}); from the center {value:.4f}, between {low:.4f} and {high:.4f}"
    )
    return value


def draw(picture: str, solution) -> None:
    """The network at all distances from the center, along two axes and in random directions."""
    r = np.linspace(0.0, 1.0, 500)
    direction = np.random.default_rng(1).standard_normal((500, 10))
    points = r[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
    axes.plot(r, solution(points), ".", color="0.7", label="in random directions")
    for axis, name in ((0, "softest"), (9, "stiffest")):
        along = solution(r[:, None] * np.eye(10)[axis])
        axes.plot(r, along, linewidth=1.5, label=f"along the {name} spring")
    axes.set(
        xlabel="distance from the center, $r$", ylabel="mean exit time", title="ten dimensions"
    )
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


if __name__ == "__main__":
    main()
