"""Heat in a plate with two holes, one cold, one insulated, until a final time."""

import jax.numpy as jnp

import fkpinn as fk


def main(picture: str = "heat_with_holes.png", preset: str = "quick") -> float:
    """Solve, draw the temperature at the final time, and return it at a point."""
    plate = (
        fk.Box([-1, -1], [1, 1], name="edge")
        - fk.Ball([-0.4, 0.0], 0.3, name="cold")
        - fk.Ball([0.5, 0.3], 0.2, name="isolated")
    )
    problem = fk.heat(
        plate,
        initial=lambda x: jnp.exp(-4 * ((x[0] - 0.4) ** 2 + (x[1] + 0.4) ** 2)),
        horizon=0.2,
        conductivity=0.5,
        boundary={
            "edge": fk.Neumann(0.0),
            "cold": fk.Dirichlet(0.0),
            "isolated": fk.Neumann(0.0),
        },
        name="temperature of a plate at the end",
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)  # after the whole time
    warm = float(solution([problem.horizon, 0.4, -0.4]))
    print(f"where it was hottest, it is {warm:.3f} after {problem.horizon}")
    return warm


if __name__ == "__main__":
    main()
