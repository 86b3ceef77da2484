"""The paper's four problems, changed by a tenth, from scratch and from the solution before."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

import fkpinn as fk
from fkpinn.problem import double_well, muller_brown_committor

from .._common import say, surroundings


def _met(beta: float) -> fk.Problem:
    return fk.mean_exit_time(fk.RegularPolygon(sides=6, circumradius=2.0), double_well, beta=beta)


def _schrodinger(strength: float) -> fk.Problem:
    def potential(x):
        return -strength * (jnp.cos(4 * jnp.pi * x[0]) + jnp.cos(4 * jnp.pi * x[1]))

    def source(x):
        return 50.0 * jnp.sin(5 * x[0]) * jnp.sin(5 * x[1])

    return fk.schrodinger(fk.Box([-1, -1], [1, 1]), potential, source)


def _poisson(side: float) -> fk.Problem:
    source = fk.catalogue("poisson").problem.source
    return fk.poisson(fk.Box([0, 0], [side, side]), lambda x: source(x))


# a number that each problem depends on, before and after
CASES: dict[str, tuple[Callable[[float], fk.Problem], float, float]] = {
    "met": (_met, 5.0, 5.5),
    "committor": (muller_brown_committor, 0.05, 0.055),
    "schrodinger": (_schrodinger, 5.0, 5.5),
    "poisson": (_poisson, 1.0, 1.1),
}


def run(problems: Sequence[str] = tuple(CASES), preset: str = "quick") -> dict[str, Any]:
    """Time and certificate of both starts; compiling counts, as for a user who does it once.

    Args:
        problems: which of `CASES`.
        preset: of all trainings.
    """
    unknown = [name for name in problems if name not in CASES]
    if unknown:
        raise ValueError(f"`--problems` must be some of {tuple(CASES)}; got {unknown}.")
    records = [_one(name, preset) for name in problems]
    return {"benchmark": "warm", "preset": preset, "records": records, **surroundings()}


def _one(name: str, preset: str) -> dict[str, Any]:
    build, before, after = CASES[name]
    say(f"warm: {name}, the solution to start from")
    first, _ = _timed(build(before), preset, None)
    changed = build(after)
    scratch, long = _timed(changed, preset, None)
    near, short = _timed(changed, preset, first)
    record = {
        "problem": name, "changed": [before, after], "scratch": scratch.certificate,
        "warm": near.certificate, "stopped": near.stopped,
        "seconds": {"scratch": long, "warm": short, "ratio": short / long},
    }  # fmt: skip
    say(
        f"warm: {name}, {record['scratch']['l2_rel']:.1e} in {long:.0f} s from scratch, "
        f"{record['warm']['l2_rel']:.1e} in {short:.0f} s from the solution before"
    )
    return record


def _timed(
    problem: fk.Problem, preset: str, start: fk.Solution | None
) -> tuple[fk.Solution, float]:
    began = time.perf_counter()
    solution = fk.solve(problem, preset=preset, seed=0, start=start, certify=True)
    return solution, time.perf_counter() - began
