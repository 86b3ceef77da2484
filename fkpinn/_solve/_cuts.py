"""Solutions where maps end: planes and lines through the center of the measure, and radii."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._field import AbstractField
from .._streams import Stream
from ..domain import AbstractDomain
from ..problem import Problem
from ..sampling import sample_interior
from ..train import precision as precision_of

_DRAWN = 1 << 12  # points that tell the center of a measure
_CHANCE = 5.0  # standard errors of their mean
_CLOUD = 400  # points of a radial profile
_NODES = 200  # of a line
_LOOK = 4001  # nodes that tell where a line is inside


@quickly_compiled
def batched(function: Callable[..., Any], points: Float[Array, "n z"]) -> Array:
    """The function at every point."""
    return jax.vmap(lambda z: function(z))(points)


@quickly_compiled
def _contained(domain: AbstractDomain, x: Float[Array, "n d"]) -> Array:
    return jax.vmap(domain.contains)(x)


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
    if bool(_contained(problem.domain, jnp.asarray(mean[None], float))[0]):
        return mean
    return drawn[np.argmin(np.sum((drawn - mean) ** 2, axis=1))]


def slice_through(problem: Problem, network: AbstractField, truth: Any, nodes: int | None = None):
    """The network and the reference on a grid over the first two axes, NaN outside."""
    lower, upper = problem.domain.bounding_box()
    n = nodes or (160 if problem.dim > 1 else 400)
    axes = [np.linspace(lower[i], upper[i], n) for i in range(min(problem.dim, 2))]
    grid = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, len(axes))
    rest = center(problem)[len(axes) :] if problem.dim > len(axes) else np.zeros(0)
    space = np.concatenate([grid, np.tile(rest, (len(grid), 1))], axis=1)
    values, exact = _values(problem, network, truth, space)
    shape = (n,) * len(axes)
    return axes, values.reshape(shape), None if exact is None else exact.reshape(shape)


def profile(problem: Problem, network: AbstractField, truth: Any) -> dict[str, np.ndarray]:
    """The network and the reference along two lines through the center, and by radius.

    `line_0` is parallel to the first axis, `line_1` to the diagonal, `cloud` are points of the
    measure; each has `at`, the distance from the center (with a sign on lines), `network`, and
    `exact` where there is a reference. Where time runs, all are far from the time of the data.
    """
    middle, found = center(problem), {}
    diagonal = np.full(problem.dim, problem.dim**-0.5)
    for k, direction in enumerate((np.eye(problem.dim)[0], diagonal)):
        at = _inside(problem, middle, direction)
        found |= _curve(f"line_{k}", at, problem, network, truth, middle + at[:, None] * direction)
    key = (Stream(0) / "cloud").key
    drawn = problem.layout.space(np.asarray(sample_interior(problem, _CLOUD, key=key), np.float64))
    at = np.linalg.norm(drawn - middle, axis=1)
    return {"center": middle, **found, **_curve("cloud", at, problem, network, truth, drawn)}


def _inside(problem: Problem, middle: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Distances along a line through `middle`, from where it enters the domain to where it ends."""
    lower, upper = problem.domain.bounding_box()
    moving = direction != 0
    ends = np.stack([lower - middle, upper - middle])[:, moving] / direction[moving]
    at = np.linspace(np.max(ends.min(axis=0)), np.min(ends.max(axis=0)), _LOOK)
    space = jnp.asarray(middle + at[:, None] * direction, float)
    within = np.append(at[np.asarray(_contained(problem.domain, space))], 0.0)
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
    problem: Problem, network: AbstractField, truth: Any, space: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Of the network and the reference at places, where the equation has had all its time."""
    with precision(precision_of(network)):
        places = jnp.asarray(space, float)
        inside = np.asarray(_contained(problem.domain, places))
        points = problem.layout.point(problem.layout.start, places)[inside]

        def spread(found) -> np.ndarray:
            full = np.full(len(space), np.nan)
            full[inside] = np.asarray(found)
            return full

        values = spread(batched(network, points))
        return values, None if truth is None else spread(truth.values(points))
