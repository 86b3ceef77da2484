"""A body that loses heat through its surface: a Robin condition."""

import fkpinn as fk


def main(picture: str = "robin.png", preset: str = "quick") -> float:
    """Solve, draw, and return the temperature in the middle of the heated disk."""
    disk = fk.Ball([0.0, 0.0], 1.0, name="surface")
    problem = fk.poisson(
        disk,
        source=1.0,
        boundary={"surface": fk.Robin(coefficient=2.0, flux=0.0)},
        name="temperature of a heated disk",
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    middle = float(solution([0.0, 0.0]))
    print(f"in the middle {middle:.4f}, in truth 0.5")  # (1 - r^2) / 4 + 1 / 4
    return middle


if __name__ == "__main__":
    main()
