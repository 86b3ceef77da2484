"""Mean exit times of `met` for all inverse temperatures between 2 and 10, by one network."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.problem import double_well
from fkpinn.sampling import sample_interior

from .._common import say, surroundings

RANGE = (2.0, 10.0)
_SHOWN = (2.0, 4.0, 6.0, 8.0, 10.0)
_SLOPE_AT, _STEP = 6.0, 0.05  # where derivatives by the parameter are compared, with which step
_POINTS = 4000  # of each comparison
_SECONDS = 5.0  # of the certificate of a single problem


def family() -> fk.Problem:
    """All its problems."""
    hexagon = fk.RegularPolygon(sides=6, circumradius=2.0)
    return fk.mean_exit_time(hexagon, double_well, beta=RANGE, name="met, beta 2 to 10")


def run(preset: str = "quick", seeds: int = 3, n_points: int = 20) -> dict[str, Any]:
    """Errors of networks for the whole family, by their certificates and by finite elements.

    Args:
        preset: of the training.
        seeds: how many networks.
        n_points: values of the parameter at which each has a certificate of its own.
    """
    if seeds < 1 or n_points < 1:
        raise ValueError(f"`--seeds` and `--points` must be positive; got {seeds}, {n_points}.")
    records = [_one(seed, preset, n_points) for seed in range(seeds)]
    held = sum(pair["holds"] for record in records for pair in record["pairs"])
    return {
        "benchmark": "families", "preset": preset, "range": RANGE,
        "pairs": seeds * n_points, "held": held, "records": records, **surroundings(),
    }  # fmt: skip


def _one(seed: int, preset: str, n: int) -> dict[str, Any]:
    whole = family()
    say(f"families: seed {seed}, {preset}")
    began = time.perf_counter()
    solution = fk.solve(whole, preset=preset, seed=seed, certify=True)
    trained = time.perf_counter() - began
    assert solution.certificate is not None
    say(f"families: relative error {solution.certificate['l2_rel']:.2e} in {trained:.0f} s")
    values = (Stream(seed) / "bench families").generator.uniform(*RANGE, n)
    pairs = []
    for beta in values:
        error, limits = _error(solution, whole, float(beta)), _limits(solution, float(beta), seed)
        pairs.append(
            {
                "beta": float(beta),
                "error": error,
                "limits": limits,
                "holds": limits[0] <= error <= limits[1],
            }
        )
    shown = {f"{beta:g}": _error(solution, whole, beta) for beta in _SHOWN}
    say(f"families: at {', '.join(f'{b}: {e:.1e}' for b, e in shown.items())}")
    return {
        "seed": seed,
        "certificate": solution.certificate,
        "stopped": solution.stopped,
        "errors": shown,
        "slope": _slope(solution, whole),
        "pairs": pairs,
        "seconds": trained,
    }


def _points(problem: fk.Problem) -> np.ndarray:
    return np.asarray(sample_interior(problem, _POINTS, key=jax.random.key(1)))


def _exact(whole: fk.Problem, beta: float, points: np.ndarray) -> np.ndarray:
    reference = fk.find_reference(whole.at(beta=beta))
    assert reference is not None
    return np.asarray(reference.values(points))


def _relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


def _error(solution: fk.Solution, whole: fk.Problem, beta: float) -> float:
    points = _points(whole.at(beta=beta))
    return _relative(np.asarray(solution(points, beta=beta)), _exact(whole, beta, points))


def _limits(solution: fk.Solution, beta: float, seed: int) -> tuple[float, float]:
    found = solution.at(beta=beta).certify(seconds=_SECONDS, seed=seed)
    return found.ci_low, found.ci_high


def _slope(solution: fk.Solution, whole: fk.Problem) -> float:
    """Relative error of the derivative by the parameter, beside central differences."""
    points = _points(whole.at(beta=_SLOPE_AT))
    above, below = (_exact(whole, _SLOPE_AT + h, points) for h in (_STEP, -_STEP))
    slope = jax.grad(lambda beta, x: solution(x, beta=beta))
    found = jax.vmap(slope, in_axes=(None, 0))(_SLOPE_AT, jnp.asarray(points))
    return _relative(np.asarray(found), (above - below) / (2 * _STEP))
