"""Poisson's equation with a source that oscillates (the first problem of the paper)."""

import fkpinn as fk


def main(picture: str = "poisson.png", preset: str = "quick") -> float:
    """Solve, draw, and return the relative L2 error that paths measure."""
    problem, exact = fk.catalogue("poisson")
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    certificate = solution.certify(seconds=20.0)
    print(f"poisson: {certificate}")
    print(f"at the middle {solution([0.0, 0.0]):.5f}, in truth {exact([0.0, 0.0]):.5f}")
    return certificate.l2_rel


if __name__ == "__main__":
    main()
