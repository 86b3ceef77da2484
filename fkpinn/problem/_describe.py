"""A problem as a plain record, for reports."""

from typing import Any

import numpy as np

from ._boundary import AbstractCondition, Neumann, Robin
from ._coefficient import Coefficient
from ._problem import Problem


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
        "drift": _coefficient(problem.drift),
        "diffusion": _coefficient(problem.diffusion),
        "reaction": _coefficient(problem.reaction),
        "source": _coefficient(problem.source),
        "terminal": None if problem.terminal is None else _coefficient(problem.terminal),
        "domain": _domain(problem),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "boundary": [
            {"part": part, **_condition(condition)} for part, condition in problem.boundary.items()
        ],
    }


def _coefficient(given: Coefficient) -> dict[str, Any]:
    """The constant as a number or nested list, or None where it is a function."""
    constant = None if given.function is not None else np.asarray(given.constant).tolist()
    return {"constant": constant, "shape": list(given.shape)}


def _condition(condition: AbstractCondition) -> dict[str, Any]:
    if isinstance(condition, Robin):
        data = {"coefficient": condition.coefficient, "flux": condition.flux}
    elif isinstance(condition, Neumann):
        data = {"flux": condition.flux}
    else:
        data = {"value": getattr(condition, "value", None)}
    known = {k: _coefficient(v) for k, v in data.items() if isinstance(v, Coefficient)}
    return {"kind": type(condition).__name__, **known}


def _domain(problem: Problem) -> str:
    parts = len(problem.domain.parts)
    shape = type(problem.domain).__name__
    return f"{shape} in dimension {problem.dim} with {parts} boundary part{'s' * (parts > 1)}"
