"""Poisson's equation with a source that oscillates (the first problem of the paper)."""

import jax.numpy as jnp

import fkpinn as fk


def main(picture: str = "poisson.png", preset: str = "quick") -> float:
    """Solve, draw, print the error measured by paths, and return a value."""
    problem, exact = fk.catalogue("poisson")
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    print(f"poisson: {solution.certify(seconds=20.0)}")
    point = jnp.array([0.3, 0.2])
    value = float(solution(point))
    print(f"at {point}: {value:.5f}, in truth {float(exact(point)):.5f}")
    return value


if __name__ == "__main__":
    main()
