"""Lines through points, as far as walls let them go, and what values on them say of slopes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._compute import few_sizes, precision, quickly_compiled
from ..problem import Problem
from ..sde import absorbed_value

NODES = 4  # of a line, evenly spread from end to end
_LOOKS = 64  # on the way to a wall, at most
_REACHED = 1e-4  # rest of the way, over the way, that counts as none
_ACROSS = 1e-6  # share of noise across a wall, at least, where paths take its value
_INSIDE = 0.99  # of the way to a wall, for paths whose values nobody asks for
_WITHIN = 0.95  # the same for paths from the wall side of a line


class Lines(NamedTuple):
    """Pieces of lines through points: positions of `NODES` nodes, and values known at walls.

    Nodes are measured from the point in units of the direction; at a wall where paths end, `known`
    says so and `data` what is lacking there.
    """

    directions: Float[np.ndarray, "*lines d"]
    nodes: Float[np.ndarray, "*lines k"]
    starts: Float[np.ndarray, "*lines k"]  # nodes, those at walls a little inside
    known: Bool[np.ndarray, "*lines k"]
    data: Float[np.ndarray, "*lines k"]

    def slopes(self, values: Float[np.ndarray, "*lines k"]) -> tuple[np.ndarray, np.ndarray]:
        """Slopes at the points along each line: by all nodes, and what one degree less changes."""
        return slopes_on(self.nodes, np.where(self.known, self.data, values))


def slopes_on(
    nodes: Float[np.ndarray, "*lines k"], values: Float[np.ndarray, "*lines k"]
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes at zero of polynomials through values at nodes, and what one degree less changes."""
    length = np.ptp(nodes, axis=-1)
    at = nodes / length[..., None]
    best = np.sum(_weights(at) * values, axis=-1)
    less = [np.sum(_weights(at[..., some]) * values[..., some], axis=-1) for some in _LESS]
    return best / length, (np.mean(less, axis=0) - best) / length


_LESS = ([0, 1, 3], [0, 2, 3])  # nodes of polynomials of one degree less


def _weights(at: Float[np.ndarray, "*lines k"]) -> Float[np.ndarray, "*lines k"]:
    """With which values at these nodes make the derivative at zero of their polynomial."""
    powers = at[..., None, :] ** np.arange(at.shape[-1])[:, None]
    first = np.zeros((*at.shape, 1))
    first[..., 1, 0] = 1.0
    return np.linalg.solve(powers, first)[..., 0]


def lines_through(
    problem: Problem,
    points: Float[np.ndarray, "n z"],
    directions: Float[np.ndarray, "n ... d"],
    reach: Float[np.ndarray, " n"],
    way: Float[np.ndarray, " n"],
    *,
    walls: bool,
) -> Lines:
    """Both ways from each point along directions of length one at most, as far as `reach`.

    Args:
        problem: whose walls cut the lines, and whose data are known there.
        points: inside, one per row.
        directions: of lines through each of them.
        reach: of the lines of each point, to both sides.
        way: from each point to the nearest wall.
        walls: whether values at walls where paths end are those of the data.
    """
    shape = directions.shape[:-1]
    most = np.broadcast_to(reach.reshape(-1, *[1] * (len(shape) - 1)), shape)
    close = np.flatnonzero(way < reach)
    ends, known, data = [], [], []
    for sign in (-1.0, 1.0):
        far, met, value = most.copy(), np.zeros(shape, bool), np.zeros(shape)
        if len(close):
            own = sign * directions[close].reshape(-1, directions.shape[-1])
            rows = np.repeat(points[close], len(own) // len(close), axis=0)
            found = _to_walls(problem, rows, own, most[close].reshape(-1))
            hit, at_end, lack = (array.reshape(far[close].shape) for array in found)
            at_end = at_end & walls
            far[close] = np.where(at_end, hit, np.where(hit < most[close], _WITHIN * hit, hit))
            met[close], value[close] = at_end, np.where(at_end, lack, 0.0)
        ends.append(sign * far)
        known.append(met)
        data.append(value)
    share = np.linspace(0.0, 1.0, NODES)
    nodes = ends[0][..., None] + (ends[1] - ends[0])[..., None] * share
    inner = np.zeros((*shape, NODES - 2))
    stacked = [
        np.concatenate([a[..., None], inner.astype(a.dtype), b[..., None]], axis=-1)
        for a, b in (known, data)
    ]
    starts = np.where(stacked[0], _INSIDE * nodes, nodes)
    return Lines(directions, nodes, starts, *stacked)


def _to_walls(
    problem: Problem,
    points: Float[np.ndarray, "m z"],
    directions: Float[np.ndarray, "m d"],
    most: Float[np.ndarray, " m"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far lines go, whether paths end there, and the data at that place."""
    count = len(points)
    pad = lambda a: np.concatenate([a, np.repeat(a[:1], few_sizes(count) - count, axis=0)])
    with precision("float64"):
        given = (jnp.asarray(pad(array)) for array in (points, directions, most))
        far, ends, data = (np.asarray(array)[:count] for array in _marched(problem, *given))
    return far, ends, data


@quickly_compiled
def _marched(
    problem: Problem,
    points: Float[Array, "m z"],
    directions: Float[Array, "m d"],
    most: Float[Array, " m"],
) -> tuple[Array, Array, Array]:
    """Step by step, each as long as the way to the nearest wall."""
    layout = problem.layout
    ends = jnp.asarray(problem.absorbing())

    def one(z, v, most):
        domain = problem.domain_at(z)
        x, speed = layout.space(z), jnp.sqrt(jnp.sum(v**2))
        rest = lambda t: jnp.maximum(-domain.signed_distance(x + t * v), 0.0) / speed
        far = jax.lax.fori_loop(0, _LOOKS, lambda _, t: jnp.minimum(t + rest(t), most), 0.0 * most)
        wall = domain.project(x + far * v)
        near = (far < most) & (rest(far) <= _REACHED * far)
        there = layout.placed(layout.ahead(z), wall)
        normal, variance = domain.normal(wall), problem.covariance(there)
        near = near & (normal @ variance @ normal > _ACROSS * jnp.trace(variance))
        near = near & ends[domain.part_at(wall)] if len(ends) else near & False
        return far, near, absorbed_value(problem, there)

    return jax.vmap(one)(points, directions, most)
