"""One network for a family: all temperatures of `met`, all sizes of a hole."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.problem import double_well
from fkpinn.sampling import sample_interior

from .._common import say, surroundings

_POINTS = 4000  # of each comparison
_SECONDS = 5.0  # of the certificate of a single problem


class _Case(NamedTuple):
    """A family with one parameter, values that are looked at, and where its slope is compared."""

    family: fk.Problem
    shown: tuple[float, ...]
    slope_at: float
    step: float  # of the differences that slopes are compared with


def _met() -> _Case:
    hexagon = fk.RegularPolygon(sides=6, circumradius=2.0)
    family = fk.mean_exit_time(hexagon, double_well, beta=(2.0, 10.0), name="met, beta 2 to 10")
    return _Case(family, (2.0, 4.0, 6.0, 8.0, 10.0), 6.0, 0.05)


def _hole() -> _Case:
    """A shape with a parameter."""
    family = fk.poisson(
        lambda radius: fk.Box([-1, -1], [1, 1]) - fk.Ball([0, 0], radius, name="hole"), 1.0,
        parameters={"radius": (0.1, 0.4)}, name="square with a hole, radius 0.1 to 0.4",
    )  # fmt: skip
    return _Case(family, (0.1, 0.2, 0.3, 0.4), 0.25, 0.01)


CASES = {"met": _met, "hole": _hole}


def run(
    problems: Sequence[str] = tuple(CASES),
    preset: str = "quick",
    seeds: int = 3,
    n_points: int = 20,
) -> dict[str, Any]:
    """Errors of networks for whole families, by their certificates and by finite elements.

    Args:
        problems: which of `CASES`.
        preset: of the training.
        seeds: how many networks.
        n_points: values of the parameter at which each has a certificate of its own.
    """
    unknown = [name for name in problems if name not in CASES]
    if unknown or seeds < 1 or n_points < 1:
        raise ValueError(
            f"`--problems` must be some of {tuple(CASES)}, `--seeds` and `--points` positive; got "
            f"{list(problems)}, {seeds}, {n_points}."
        )
    records = [_one(name, seed, preset, n_points) for name in problems for seed in range(seeds)]
    held = sum(pair["holds"] for record in records for pair in record["pairs"])
    return {
        "benchmark": "families", "preset": preset,
        "pairs": len(records) * n_points, "held": held, "records": records, **surroundings(),
    }  # fmt: skip


def _one(name: str, seed: int, preset: str, n: int) -> dict[str, Any]:
    case = CASES[name]()
    whole = case.family
    (parameter, law), *_ = whole.parameters.items()
    say(f"families: {name}, seed {seed}, {preset}")
    began = time.perf_counter()
    solution = fk.solve(whole, preset=preset, seed=seed, certify=True)
    trained = time.perf_counter() - began
    assert solution.certificate is not None
    say(f"families: relative error {solution.certificate['l2_rel']:.2e} in {trained:.0f} s")
    values = (Stream(seed) / "bench families").generator.uniform(law.lower, law.upper, n)
    pairs = []
    for value in values.tolist():
        at = {parameter: value}
        error, limits = _error(solution, whole, at), _limits(solution, at, seed)
        pairs.append(
            {**at, "error": error, "limits": limits, "holds": limits[0] <= error <= limits[1]}
        )
    shown = {f"{value:g}": _error(solution, whole, {parameter: value}) for value in case.shown}
    say(f"families: at {', '.join(f'{b}: {e:.1e}' for b, e in shown.items())}")
    return {
        "problem": name,
        "seed": seed,
        "range": [law.lower, law.upper],
        "certificate": solution.certificate,
        "stopped": solution.stopped,
        "errors": shown,
        "slope": _slope(solution, case, parameter),
        "pairs": pairs,
        "seconds": trained,
    }


def _points(problem: fk.Problem) -> np.ndarray:
    return np.asarray(sample_interior(problem, _POINTS, key=jax.random.key(1)))


def _exact(problem: fk.Problem, points: np.ndarray) -> np.ndarray:
    reference = fk.find_reference(problem)
    assert reference is not None
    return np.asarray(reference.values(points))


def _relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def _error(solution: fk.Solution, whole: fk.Problem, at: dict[str, float]) -> float:
    problem = whole.at(**at)
    points = _points(problem)
    return _relative(np.asarray(solution(points, **at)), _exact(problem, points))


def _limits(solution: fk.Solution, at: dict[str, float], seed: int) -> tuple[float, float]:
    found = solution.at(**at).certify(seconds=_SECONDS, seed=seed)
    return found.ci_low, found.ci_high


def _slope(solution: fk.Solution, case: _Case, parameter: str) -> float:
    """Relative error of the derivative by the parameter, beside central differences."""
    below, above = (
        case.family.at(**{parameter: case.slope_at + h}) for h in (-case.step, case.step)
    )
    points = _points(above)
    points = points[np.asarray(jax.vmap(below.domain.contains)(points))]
    found = jax.vmap(jax.grad(lambda value, x: solution(x, **{parameter: value})), (None, 0))
    exact = (_exact(above, points) - _exact(below, points)) / (2 * case.step)
    return _relative(np.asarray(found(case.slope_at, jnp.asarray(points))), exact)
