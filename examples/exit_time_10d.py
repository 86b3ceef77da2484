"""A mean exit time in ten dimensions, where no mesh goes."""

import fkpinn as fk


def main(picture: str = "exit_time_10d.png", preset: str = "quick") -> float:
    """Solve, draw a slice, and return the relative L2 error that paths measure."""
    ball = fk.Ball([0.0] * 10, 1.0)
    problem = fk.mean_exit_time(ball, name="exit from a ball in ten dimensions")
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    certificate = solution.certify(seconds=20.0)
    print(f"{certificate}; from the middle {solution([0.0] * 10):.5f}")
    return certificate.l2_rel


if __name__ == "__main__":
    main()
