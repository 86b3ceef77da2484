"""Which well is reached first? The committor of the Müller-Brown potential (the paper's fourth)."""

import fkpinn as fk


def main(picture: str = "committor.png", preset: str = "quick") -> float:
    """Solve, draw, and return the probability to reach B before A from between them."""
    problem = fk.catalogue("committor").problem
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    chance = float(solution([-0.05, 0.45]))
    print(f"committor between the wells: {chance:.3f}")
    return chance


if __name__ == "__main__":
    main()
