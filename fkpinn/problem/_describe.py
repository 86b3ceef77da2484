"""A problem as a plain record, for reports."""

from typing import Any

import numpy as np

from ..domain import Shapes
from ._boundary import AbstractCondition
from ._coefficient import Coefficient
from ._jumps import CompoundPoisson
from ._problem import Problem
from ._stable import Stable


def describe(problem: Problem) -> dict[str, Any]:
    """What the problem is, in numbers and words; functions are named, not shown.

    Args:
        problem: the boundary value problem.
    """
    lower, upper = problem.domain.bounding_box()
    return {
        "name": problem.name,
        "dim": problem.dim,
        "horizon": problem.horizon,
        "forward": problem.layout.forward,
        "parameters": [
            {"name": name, "lower": law.lower, "upper": law.upper, "log": law.log}
            for name, law in problem.layout.parameters
        ],
        "measure": problem.measure.describe(),
        "drift": _coefficient(problem.drift),
        "diffusion": _coefficient(problem.diffusion),
        "reaction": _coefficient(problem.reaction),
        "source": _coefficient(problem.source),
        "nonlinearity": _nonlinearity(problem),
        "jumps": _jumps(problem),
        "exterior": None if problem.exterior is None else _coefficient(problem.exterior),
        "terminal": None if problem.terminal is None else _coefficient(problem.terminal),
        "domain": _domain(problem),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "boundary": [
            {"part": part, **_condition(condition)} for part, condition in problem.boundary.items()
        ],
    }


def _nonlinearity(problem: Problem) -> list[str] | None:
    """What it reads, of value, gradient and second derivatives."""
    given = problem.nonlinearity
    return None if given is None else sorted(given.reads)


def _jumps(problem: Problem) -> dict[str, Any] | None:
    jumps = problem.jumps
    if isinstance(jumps, CompoundPoisson):
        law = type(jumps.law).__name__
        return {"kind": "CompoundPoisson", "rate": _coefficient(jumps.rate), "law": law}
    if isinstance(jumps, Stable):
        return {"kind": "Stable", "alpha": jumps.alpha, "scale": jumps.scale}
    return None if jumps is None else {"kind": type(jumps).__name__}


def _coefficient(given: Coefficient) -> dict[str, Any]:
    """The constant as a number or nested list, or None where it is a function."""
    constant = None if given.function is not None else np.asarray(given.constant).tolist()
    return {"constant": constant, "shape": list(given.shape)}


def _condition(condition: AbstractCondition) -> dict[str, Any]:
    data = condition.data().items()
    known = {k: _coefficient(v) for k, v in data if isinstance(v, Coefficient)}
    return {"kind": type(condition).__name__, **known}


def _domain(problem: Problem) -> str:
    parts = len(problem.domain.parts)
    middle = problem.domain.at(problem.layout.middle())
    found = f"{type(middle).__name__} in dimension {problem.dim} with {parts} boundary part"
    reads = problem.domain.reads if isinstance(problem.domain, Shapes) else ()
    also = f", its shape by {' and '.join(reads)}" if reads else ""
    return f"{found}{'s' * (parts != 1)}{also}"
