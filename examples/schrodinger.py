"""A stationary Schrödinger equation (the second problem of the paper)."""

import jax.numpy as jnp

import fkpinn as fk


def main(picture: str = "schrodinger.png", preset: str = "quick") -> float:
    """Solve, draw, and return the relative L2 error against a reference."""
    problem = fk.catalogue("schrodinger").problem
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    truth = fk.find_reference(problem)
    points = fk.sobol_interior(problem, 500)
    found, exact = solution(points), truth.values(points)
    error = float(jnp.linalg.norm(found - exact) / jnp.linalg.norm(exact))
    print(f"schrodinger: relative L2 error {error:.1e} against a spectral reference")
    return error


if __name__ == "__main__":
    main()
