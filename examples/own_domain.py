"""Your own domain, built from shapes, each with its own part of the boundary."""

import fkpinn as fk


def keyhole():
    """A plate with a keyhole: the union of a polygon and a ball, cut out of a box."""
    slot = fk.Polygon([[-0.12, -0.6], [0.12, -0.6], [0.12, 0.3], [-0.12, 0.3]], name="hole")
    plate = fk.Box([-1, -1], [1, 1], name="rim") - (fk.Ball([0, 0.3], 0.25, name="hole") | slot)
    return plate


def main(picture: str = "own_domain.png", preset: str = "quick") -> float:
    """Solve for the probability to reach the keyhole first, draw, and return it at a point."""
    problem = fk.Problem(
        keyhole(),
        boundary={"rim": fk.Dirichlet(0.0), "hole": fk.Dirichlet(1.0)},
        name="chance to reach the keyhole",
    )
    solution = fk.solve(problem, preset=preset, seed=0)
    solution.plot(picture)
    chance = float(solution([0.5, -0.5]))
    print(f"chance to reach the keyhole first from (0.5, -0.5): {chance:.3f}")
    return chance


if __name__ == "__main__":
    main()
