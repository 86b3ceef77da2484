"""A mean exit time in ten dimensions, where no mesh goes."""

import fkpinn as fk


def main(picture: str = "exit_time_10d.png", preset: str = "quick") -> float:
    """Solve, draw a slice, print the error by paths, and return the time from the center."""
    ball = fk.Ball([0.0] * 10, 1.0)
    problem = fk.mean_exit_time(ball, name="exit from a ball in ten dimensions")
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    time = float(solution([0.0] * 10))
    print(f"{solution.certify(seconds=20.0)}; from the center {time:.5f}, in truth 0.05")
    return time


if __name__ == "__main__":
    main()
