"""Solutions where maps end: planes and lines through the center of the measure, and radii."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._field import AbstractField
from .._streams import Stream
from ..problem import Problem, Region
from ..sampling import sample_interior
from ..train import precision as precision_of

_DRAWN = 1 << 12  # points that tell the center of a measure
_CHANCE = 5.0  # standard errors of their mean
_CLOUD = 400  # points of a radial profile
_NODES = 200  # of a line
_MOMENTS = 9  # times between zero and the horizon
_LOOK = 4001  # nodes that tell where a line is inside


@quickly_compiled
def batched(function: Callable[..., Any], points: Float[Array, "n z"]) -> Array:
    """The function at every point."""
    return jax.vmap(lambda z: function(z))(points)


@quickly_compiled
def contained(region: Region, points: Float[Array, "n z"]) -> Array:
    """Whether points lie in the domain."""
    return jax.vmap(region.contains)(points)


@quickly_compiled
def in_closure(region: Region, points: Float[Array, "n z"]) -> Array:
    """Whether points lie in the domain or on its boundary, up to rounding; NaN does not."""
    return jax.vmap(region.signed_distance)(points) <= 1e-6 * region.domain.diameter()


def center(problem: Problem) -> np.ndarray:
    """The mean of the problem's measure, or where that is outside the point drawn next to it.

    A mean that chance cannot tell from the middle of the domain is taken to be the middle.
    """
    if (named := problem.measure.named_center()) is not None:
        return named
    key = (Stream(0) / "center").key
    drawn = problem.layout.space(np.asarray(sample_interior(problem, _DRAWN, key=key), np.float64))
    mean, chance = drawn.mean(axis=0), drawn.std(axis=0) / np.sqrt(_DRAWN)
    lower, upper = problem.domain.bounding_box()
    middle = 0.5 * (lower + upper)
    mean = np.where(np.abs(mean - middle) <= _CHANCE * chance, middle, mean)
    if _inside(problem, mean[None])[0]:
        return mean
    if problem.parameters:  # points of other sets of a family
        drawn = drawn[_inside(problem, drawn)]
    return drawn[np.argmin(np.sum((drawn - mean) ** 2, axis=1))]


def central_point(problem: Problem) -> np.ndarray:
    """A point at the center, far from the time of the data, with parameters in the middle."""
    layout = problem.layout
    return layout.points(layout.start, center(problem), layout.middle())


def _inside(problem: Problem, space: np.ndarray) -> np.ndarray:
    """Whether places lie in the domain, that of the middle of a family."""
    layout = problem.layout
    points = layout.points(layout.start, space, layout.middle())
    return np.asarray(contained(problem.region, jnp.asarray(points, float)))


class Section(NamedTuple):
    """A part of a domain that pictures and grids show.

    Args:
        axes: numbers of the axes of space that it spans.
        at: a place; the coordinates of the other axes count.
        time: when; of no meaning where there is no time.
    """

    axes: tuple[int, ...]
    at: np.ndarray
    time: float

    @property
    def names(self) -> list[str]:
        """Of its axes, as they are written."""
        return [f"$x_{{{axis + 1}}}$" for axis in self.axes]


def section(
    problem: Problem,
    axes: Sequence[int] | None = None,
    at: Mapping[int, float] | None = None,
    time: float | None = None,
    *,
    most: int = 2,
) -> Section:
    """What to show: through the center of the measure, far from the time of the data, if not told.

    Args:
        problem: the boundary value problem.
        axes: numbers of axes, from 0 on; the first ones if not given.
        at: coordinates along other axes, by their numbers.
        time: when.
        most: how many axes there may be.
    """
    dim, layout = problem.dim, problem.layout
    chosen = tuple(range(min(dim, most))) if axes is None else tuple(axes)
    whole = all(isinstance(axis, int | np.integer) and 0 <= axis < dim for axis in chosen)
    if not whole or len(set(chosen)) < len(chosen) or not 1 <= len(chosen) <= most:
        raise ValueError(
            f"`axes` must be 1 to {min(most, dim)} different numbers from 0 to {dim - 1}; got "
            f"{axes!r:.80}."
        )
    others = [axis for axis in range(dim) if axis not in chosen]
    place = center(problem) if others else np.zeros(dim)
    for axis, value in (at or {}).items():
        if axis not in others:
            raise ValueError(f"`at` must name axes that are not drawn, {others}; got {axis!r:.80}.")
        if not np.isfinite(value):
            raise ValueError(f"`at[{axis}]` must be a number; got {value!r:.80}.")
        place[axis] = value
    if time is None:
        return Section(chosen, place, layout.start)
    if layout.horizon is None:
        raise ValueError(
            f"`time` is for problems with a horizon; this problem has none, got {time!r:.80}."
        )
    if not 0 <= time <= layout.horizon:
        raise ValueError(f"`time` must lie between 0 and {layout.horizon:g}; got {time!r:.80}.")
    return Section(chosen, place, float(time))


def grid_over(problem: Problem, where: Section, nodes: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Coordinates along each axis of a section, and the places of space, one per row."""
    lower, upper = problem.domain.bounding_box()
    axes = [np.linspace(lower[axis], upper[axis], nodes) for axis in where.axes]
    space = np.tile(where.at, (nodes ** len(axes), 1))
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    space[:, list(where.axes)] = grid.reshape(-1, len(axes))
    return axes, space


def slice_through(
    problem: Problem,
    network: AbstractField,
    truth: Any,
    nodes: int | None = None,
    where: Section | None = None,
    values: np.ndarray | None = None,
):
    """The network and the reference on a grid over one or two axes, NaN outside.

    Rows belong to the second axis, as pictures have them. Parameters of a family have these values,
    or those in the middle.
    """
    where = where or section(problem)
    nodes = nodes or (160 if len(where.axes) > 1 else 400)
    axes, space = grid_over(problem, where, nodes)
    found, exact = _values(problem, network, truth, space, where.time, values)
    shaped = lambda found: found.reshape((nodes,) * len(axes)).T
    return axes, shaped(found), None if exact is None else shaped(exact)


def moments(problem: Problem, network: AbstractField) -> dict[str, np.ndarray]:
    """The slice of a report at several times: `moment_time`, and `moment_values` of each.

    Of a family without time, at several values of its first parameter.
    """
    if problem.horizon is None and problem.parameters:
        return _first_parameter(problem, network)
    if problem.horizon is None:
        return {}
    times = np.linspace(0.0, problem.horizon, _MOMENTS)
    at = [section(problem, time=float(time)) for time in times]
    values = [slice_through(problem, network, None, where=where)[1] for where in at]
    return {"moment_time": times, "moment_values": np.stack(values)}


def _first_parameter(problem: Problem, network: AbstractField) -> dict[str, np.ndarray]:
    (_, law), *_ = problem.layout.parameters
    seen = np.linspace(law.lower, law.upper, _MOMENTS)
    found = []
    for value in seen:
        given = problem.layout.middle()
        given[0] = value
        found.append(slice_through(problem, network, None, values=given)[1])
    return {"moment_time": seen, "moment_values": np.stack(found)}


def profile(problem: Problem, network: AbstractField, truth: Any) -> dict[str, np.ndarray]:
    """The network and the reference along two lines through the center, and by radius.

    `line_0` is parallel to the first axis, `line_1` to the diagonal, `cloud` are points of the
    measure; each has `at`, the distance from the center (with a sign on lines), `network`, and
    `exact` where there is a reference. Where time runs, all are far from the time of the data.
    """
    middle, found = center(problem), {}
    diagonal = np.full(problem.dim, problem.dim**-0.5)
    for k, direction in enumerate((np.eye(problem.dim)[0], diagonal)):
        at = _along(problem, middle, direction)
        found |= _curve(f"line_{k}", at, problem, network, truth, middle + at[:, None] * direction)
    key = (Stream(0) / "cloud").key
    drawn = problem.layout.space(np.asarray(sample_interior(problem, _CLOUD, key=key), np.float64))
    at = np.linalg.norm(drawn - middle, axis=1)
    return {"center": middle, **found, **_curve("cloud", at, problem, network, truth, drawn)}


def _along(problem: Problem, middle: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Distances along a line through `middle`, from where it enters the domain to where it ends."""
    lower, upper = problem.domain.bounding_box()
    moving = direction != 0
    ends = np.stack([lower - middle, upper - middle])[:, moving] / direction[moving]
    at = np.linspace(np.max(ends.min(axis=0)), np.min(ends.max(axis=0)), _LOOK)
    within = np.append(at[_inside(problem, middle + at[:, None] * direction)], 0.0)
    return np.linspace(within.min(), within.max(), _NODES)


def _curve(
    name: str,
    at: np.ndarray,
    problem: Problem,
    network: AbstractField,
    truth: Any,
    space: np.ndarray,
) -> dict[str, np.ndarray]:
    values, exact = _values(problem, network, truth, space)
    found = {f"{name}_at": at, f"{name}_network": values}
    return found if exact is None else found | {f"{name}_exact": exact}


def _values(
    problem: Problem,
    network: AbstractField,
    truth: Any,
    space: np.ndarray,
    time: float | None = None,
    values: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Of the network and the reference at places; by default the equation has had all its time."""
    with precision(precision_of(network)):
        when = problem.layout.start if time is None else time
        given = problem.layout.middle() if values is None else values
        points = problem.layout.point(when, jnp.asarray(space, float), given)
        inside = np.asarray(contained(problem.region, points))
        points = points[inside]

        def spread(found) -> np.ndarray:
            full = np.full(len(space), np.nan)
            full[inside] = np.asarray(found)
            return full

        own = spread(batched(network, points))
        return own, None if truth is None else spread(truth.values(points))
