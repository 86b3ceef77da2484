"""The network of a run: what it reads, and the data that are built in."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._compute import FEW_DIMENSIONS, precision, quickly_compiled
from .._field import AbstractField
from .._streams import Stream
from .._types import Points
from ..domain import Box
from ..nn import (
    MLP,
    EndData,
    ExitTime,
    HardDirichlet,
    HardTerminal,
    Input,
    Size,
    SquaredDistance,
)
from ..problem import AbstractCondition, Coefficient, Problem, Stable
from ..sampling import sample_interior
from ._end import smoothed_end
from ._settings import Settings

_MOST_CENTERS = 8  # of balls whose distance is an input
_LOOKS = 1024  # points that tell the range of an input


def make_network(
    problem: Problem, settings: Settings, size: Size, *, dtype, key: PRNGKeyArray
) -> AbstractField:
    """A network for the problem, with its boundary data built in if the settings say so."""
    network = MLP(
        *problem.bounds(),
        settings.network.widths,
        frequencies=settings.network.frequencies,
        further=data_inputs(problem) if settings.network.data_inputs else (),
        output_scale=size,
        dtype=dtype,
        key=key,
    )
    return harden(problem, network) if settings.network.hard else network


def harden(problem: Problem, network: AbstractField) -> AbstractField:
    """The network with the Dirichlet data built in, or those of the end.

    Those of the end are where they have kinks that time smooths in a known way, or no others.
    """
    data = {
        part: _datum(condition) for part, condition in problem.boundary.items() if condition.absorbs
    }
    smooths = smoothed_end(problem)
    if problem.terminal is not None and (smooths is not None or not data):
        return HardTerminal(network, problem.terminal, problem.layout, smoothing=smooths)
    if not data:
        raise ValueError("`network.hard` needs a Dirichlet part, and the problem has none.")
    power = 1.0
    if isinstance(problem.jumps, Stable) and problem.diffusion.is_zero:
        power = 0.5 * problem.jumps.alpha  # as solutions vanish at the wall
    return HardDirichlet(network, problem.domain, data, layout=problem.layout, power=power)


def input_functions(problem: Problem) -> list[Callable[..., Any]]:
    """What a network may read beside the coordinates, which it would take long to make of them.

    The data at the end of time, squares of distances to the centers of balls, and in many
    dimensions mean times to leave boxes. Not data on walls: what these are inside is an accident of
    how they were written.
    """
    found: list[Callable[..., Any]] = []
    if problem.terminal is not None and problem.terminal.function is not None:
        found.append(EndData(problem.terminal, problem.layout, smoothed_end(problem)))
    centers = problem.domain.centers()
    if len(centers) <= _MOST_CENTERS:
        found += [SquaredDistance(center, problem.layout) for center in centers]
    return found + list(exit_times(problem))


def exit_times(problem: Problem) -> tuple[ExitTime, ...]:
    """Of boxes on whose walls, of several axes, numbers are given, in more than a few dimensions.

    Where functions are given on walls, solutions need not change towards all of these.
    """
    if problem.dim <= FEW_DIMENSIONS:
        return ()
    given = (_exit_time(problem, box) for box in problem.domain.boxes())
    return tuple(time for time in given if time is not None)


def _exit_time(problem: Problem, box: Box) -> ExitTime | None:
    """None where fewer than two axes have walls that end paths, or data there are functions."""
    ends = [problem.boundary[box.parts[k]].absorbs for k in box.face_parts]
    walls = {box.parts[k] for k, end in zip(box.face_parts, ends, strict=True) if end}
    if any(callable(_datum(problem.boundary[part])) for part in walls):
        return None
    (lower, upper), axes, middles, halves = box.bounding_box(), [], [], []
    for axis, (low, high) in enumerate(zip(ends[::2], ends[1::2], strict=True)):
        if not (low or high):
            continue
        # paths turn back at a wall that does not end them, as in the middle of twice the interval
        a = float(lower[axis] if low else 2 * lower[axis] - upper[axis])
        b = float(upper[axis] if high else 2 * upper[axis] - lower[axis])
        axes.append(axis)
        middles.append(0.5 * (a + b))
        halves.append(0.5 * (b - a))
    if len(axes) < 2:
        return None
    return ExitTime(tuple(axes), tuple(middles), tuple(halves), problem.layout)


def data_inputs(problem: Problem) -> tuple[Input, ...]:
    """These functions with their range, but for those that vary nowhere."""
    functions = input_functions(problem)
    if not functions:
        return ()
    with precision("float64"):
        points = sample_interior(problem, _LOOKS, key=(Stream(0) / "inputs").key)
        values = np.asarray(_values(tuple(functions), points))
    mean, spread = np.mean(values, axis=0), 2.0 * np.std(values, axis=0)
    return tuple(
        Input(function, float(center), float(width))
        for function, center, width in zip(functions, mean, spread, strict=True)
        if 1e-12 * abs(center) < width < np.inf
    )


@quickly_compiled
def _values(functions: tuple[Callable[..., Any], ...], points: Points) -> Array:
    return jax.vmap(lambda z: jnp.stack([function(z) for function in functions]))(points)


def _datum(condition: AbstractCondition) -> float | Callable[..., Any]:
    given = condition.data().get("value", condition.payoff)
    constant = isinstance(given, Coefficient) and given.function is None
    return float(np.asarray(given.constant)) if constant else given
