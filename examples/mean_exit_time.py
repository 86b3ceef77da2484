"""Mean time to leave a hexagon with a double well (the third problem of the paper)."""

import fkpinn as fk


def main(picture: str = "mean_exit_time.png", preset: str = "quick") -> float:
    """Solve, draw, print the mean exit time from the saddle with its interval, and return it."""
    well = lambda x: 0.25 * (x[0] ** 2 - 1) ** 2 + 0.5 * x[1] ** 2
    hexagon = fk.RegularPolygon(sides=6, circumradius=2.0)
    problem = fk.mean_exit_time(hexagon, potential=well, beta=5.0, name="mean exit time")
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    found = solution.value_with_interval([[0.0, 0.0]], n_paths=2000)
    value, low, high = (float(part[0]) for part in (found.value, found.low, found.high))
    print(f"mean exit time from the saddle: {value:.2f}, between {low:.2f} and {high:.2f}")
    return value


if __name__ == "__main__":
    main()
