"""Parameters of trained families from synthetic data, whose true values are known."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._streams import Stream

from .._common import say, surroundings
from ._field import run_field

_LEVEL, _SEED = 0.95, 0
_INNER = 0.1  # of the ranges, at both ends, where no true value is


class _Case(NamedTuple):
    family: fk.Problem
    exact: Callable[..., Any]  # of points without parameters, and parameters by name
    points: np.ndarray
    noise: float  # over the largest value


def _rod() -> _Case:
    """Heat sources in a rod of unknown conductivity."""
    family = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda x, kappa: (2 * kappa) ** 0.5, source=1.0,
        parameters={"kappa": (0.5, 2.0)},
    )  # fmt: skip
    exact = lambda z, kappa: z[:, 0] * (1 - z[:, 0]) / (2 * kappa)
    return _Case(family, exact, np.linspace(0.05, 0.95, 20)[:, None], 0.02)


def _screened() -> _Case:
    """The same with losses: two parameters."""
    family = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda x, kappa: (2 * kappa) ** 0.5,
        reaction=lambda x, rate: rate, source=1.0,
        parameters={"kappa": (0.02, 0.2), "rate": (0.5, 4.0)},
    )  # fmt: skip

    def exact(z, kappa, rate):
        root = np.sqrt(rate / kappa)
        return (1 - np.cosh(root * (z[:, 0] - 0.5)) / np.cosh(0.5 * root)) / rate

    return _Case(family, exact, np.linspace(0.02, 0.98, 40)[:, None], 0.01)


def _cooling() -> _Case:
    """A rod that cools: measurements in space and time."""
    family = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda t, x, kappa: (2 * kappa) ** 0.5, horizon=1.0,
        initial=lambda x: jnp.sin(jnp.pi * x[0]), parameters={"kappa": (0.02, 0.2)},
    )  # fmt: skip
    exact = lambda z, kappa: np.exp(-kappa * np.pi**2 * z[:, 0]) * np.sin(np.pi * z[:, 1])
    grid = np.stack(np.meshgrid(np.linspace(0.2, 1.0, 5), np.linspace(0.1, 0.9, 5)), axis=-1)
    return _Case(family, exact, grid.reshape(-1, 2), 0.02)


CASES = {"rod": _rod, "screened": _screened, "cooling": _cooling}


NAMES = (*CASES, "field")


def run(
    problems: Sequence[str] = NAMES, repeats: int = 100, preset: str = "quick"
) -> dict[str, Any]:
    """How often 95 % limits hold the true parameters, for networks trained as users do.

    Args:
        problems: which of `NAMES`; of an unknown field a fifth of the repeats is made.
        repeats: sets of data, each with true values and noise of its own.
        preset: of the training of each family.
    """
    unknown = [name for name in problems if name not in NAMES]
    if unknown or repeats < 1:
        raise ValueError(
            f"`--problems` must be some of {NAMES} and `--repeats` positive; got "
            f"{unknown}, {repeats}."
        )
    records = [
        run_field(-(-repeats // 5), preset, _LEVEL, _SEED)
        if name == "field"
        else _one(name, repeats, preset)
        for name in problems
    ]
    return {
        "benchmark": "inverse", "level": _LEVEL, "seed": _SEED, "preset": preset,
        "records": records, **surroundings(),
    }  # fmt: skip


def _one(name: str, repeats: int, preset: str) -> dict[str, Any]:
    case, stream = CASES[name](), Stream(_SEED) / "bench inverse" / name
    say(f"inverse: {name}, training the family")
    began = time.perf_counter()
    solution = fk.solve(case.family, preset=preset, seed=_SEED, certify=True)
    trained = time.perf_counter() - began
    names = list(case.family.parameters)
    held, scores, solver, notes = {n: 0 for n in names}, {n: [] for n in names}, [], 0
    began = time.perf_counter()
    for number in range(repeats):
        rng = (stream / number).generator
        true = {
            key: float(rng.uniform(law.lower + _INNER * (law.upper - law.lower),
                                   law.upper - _INNER * (law.upper - law.lower)))
            for key, law in case.family.parameters.items()
        }  # fmt: skip
        clean = case.exact(case.points, **true)
        noise = case.noise * float(np.max(np.abs(clean)))
        data = fk.Observations.of(case.points, clean + noise * rng.normal(size=len(clean)), noise)
        found = fk.infer(solution, data, n_samples=1000, seed=(stream / number / "infer").seed)
        limits = found.interval(_LEVEL)
        for key in names:
            low, high = limits[key]
            held[key] += int(low <= true[key] <= high)
            scores[key].append((found.mean[key] - true[key]) / found.std[key])
        solver.append(found.solver)
        notes += bool(found.notes)
        if (number + 1) % 10 == 0:
            say(f"inverse: {name}, {number + 1} of {repeats}, held {held}")
    return {
        "problem": name,
        "repeats": repeats,
        "held": held,
        "rms_score": {key: float(np.sqrt(np.mean(np.square(s)))) for key, s in scores.items()},
        "solver_over_noise": float(np.median(solver)),
        "with_notes": notes,
        "certificate": solution.certificate,
        "seconds": {"training": trained, "inference": time.perf_counter() - began},
    }
