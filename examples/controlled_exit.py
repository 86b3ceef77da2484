"""Leave a room quickly and cheaply: a controlled exit problem and its optimal control."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fkpinn as fk

ROOM = fk.Box([-1.0, -1.0], [1.0, 1.0], name="wall") - fk.Ball([0.35, 0.2], 0.3, name="door")


def main(picture: str = "controlled_exit.png", preset: str = "quick") -> float:
    """Solve, draw cost and control, and return the cost from the far corner."""
    problem = fk.hjb(
        ROOM,
        drift=lambda x, a: a,
        cost=lambda x, a: 1.0 + 0.5 * jnp.sum(a**2),  # time, and effort
        controls=fk.Box([-2.0, -2.0], [2.0, 2.0]),
        diffusion=0.7,
        boundary={"wall": fk.Neumann(0.0), "door": 0.0},
        name="controlled exit",
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    control = jax.jit(jax.vmap(fk.optimal_control(problem, solution.network)))
    inside = jax.vmap(ROOM.contains)
    axis = np.linspace(-0.999, 0.999, 161)
    x, y = np.meshgrid(axis, axis)
    points = jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1), jnp.float32)
    there = np.asarray(inside(points))
    cost = np.full(x.size, np.nan)
    cost[there] = np.asarray(solution(points[there]))
    figure, panel = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    image = panel.pcolormesh(x, y, cost.reshape(x.shape), cmap="viridis", rasterized=True)
    figure.colorbar(image, ax=panel, label="least expected cost")
    few = np.linspace(-0.9, 0.9, 15)
    at = jnp.asarray(np.stack(np.meshgrid(few, few), axis=-1).reshape(-1, 2), jnp.float32)
    at = at[np.asarray(inside(at))]
    arrows = np.asarray(control(at))
    panel.quiver(*np.asarray(at).T, *arrows.T, color="white", scale=25, width=0.005)
    panel.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal", title="where to go, and how fast")
    figure.savefig(picture, dpi=150)
    far = float(solution([-0.95, -0.95]))
    print(f"least expected cost from the far corner: {far:.3f}")
    return far


if __name__ == "__main__":
    main()
