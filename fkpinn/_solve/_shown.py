"""What a notebook shows of a solution."""

from typing import Any

import jax
import numpy as np

from .._field import AbstractField
from ..problem import Problem
from ..report import NoPicture, solution_html
from ._cuts import slice_through

_NODES = {1: 300, 2: 96}  # of a slice, along each axis


def shown(
    problem: Problem | None,
    network: AbstractField,
    name: str,
    stopped: list[str],
    certificate: dict[str, Any] | None,
) -> str:
    """Its card: a slice, the error if that was measured, and how the training ended."""
    size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(network))
    words = f"{type(network).__name__} with {size:,} parameters"
    title = name or ("" if problem is None else problem.name)
    return solution_html(title, words, stopped, certificate, lambda: _cut(problem, network))


def _cut(
    problem: Problem | None, network: AbstractField
) -> tuple[list[np.ndarray], np.ndarray, str]:
    if problem is None:
        raise NoPicture("the solution was loaded without its problem, so the domain is unknown.")
    if not problem.domain.is_bounded():
        raise NoPicture("the domain is unbounded.")
    nodes = _NODES[min(problem.dim, 2)]
    axes, values, _ = slice_through(problem, network, None, nodes)
    where = [f"at t = {problem.layout.start:g}"] if problem.timed else []
    where += ["through the center of the measure"] if problem.dim > 2 else []
    return axes, values, ", ".join(["network", *where])
