"""Diffusion along fibres: a diffusion matrix that rotates with position."""

import jax.numpy as jnp

import fkpinn as fk


def fibres(x):
    """Fast along the circles around the origin, slow across them."""
    angle = jnp.arctan2(x[1], x[0]) + 0.5 * jnp.pi
    along = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    across = jnp.stack([-jnp.sin(angle), jnp.cos(angle)])
    return jnp.stack([1.0 * along, 0.4 * across], axis=1)


def main(picture: str = "anisotropic.png", preset: str = "quick") -> float:
    """Solve, draw, and return the mean time to leave a quarter of a disk."""
    quarter = fk.Ball([0.0, 0.0], 2.0) & fk.Box([0.2, 0.2], [2.2, 2.2], name="sides")
    problem = fk.Problem(
        quarter, diffusion=fibres, source=1.0, boundary=0.0, name="mean exit time along fibres"
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    time = float(solution([0.8, 0.8]))
    print(f"mean exit time from (0.8, 0.8): {time:.3f}")
    return time


if __name__ == "__main__":
    main()
