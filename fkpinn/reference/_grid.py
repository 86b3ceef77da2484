"""Finite differences on an interval: control, obstacles and other nonlinear equations in 1-D."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._types import Scalar
from ..problem import Problem, Stable
from ._base import evaluate
from ._cells import Mesh
from ._march import INNER
from ._p2 import P2Space, space_of

_MOST = 60  # iterations of a stage
_JUMPS = 1000  # the same with jumps, of which Newton's matrix has the diagonal only
_SETTLED = 1e-12  # change over size
_ENOUGH = 1e-7
_FIRST, _SHORT = 2, 8  # steps at the beginning, and backward Euler steps that each is made of

Row = Float[Array, " _"]


def why_no_grid(problem: Problem) -> str:
    """What keeps finite differences from a problem, in words; empty where they apply."""
    if problem.dim != 1:
        return f"the problem has dimension {problem.dim}"
    if not problem.domain.parts or not problem.domain.is_bounded():
        return "the domain is not bounded"
    if isinstance(problem.jumps, Stable):
        return "it has `Stable` jumps"
    return "" if all(problem.absorbing()) else "the problem has reflecting boundary parts"


def solve_on_grid(problem: Problem, mesh: Mesh, n_steps: int | None) -> tuple[P2Space, np.ndarray]:
    """Values at the nodes of an interval, one row for each time.

    Central differences; in time TR-BDF2, as for finite elements. Each stage is solved by Newton's
    iteration, which for control problems is Howard's and for penalties looks for the free boundary.

    Args:
        problem: in one dimension, with Dirichlet data at both ends.
        mesh: of its interval; nodes are the ends and the middles of its cells.
        n_steps: time steps, None for elliptic problems.
    """
    if len(mesh.facets) != 2:
        raise ValueError("`problem` must live on one interval for finite differences.")
    space, layout = space_of(mesh), problem.layout
    order = np.argsort(space.nodes[:, 0])
    x = space.nodes[order]
    if n_steps is None or problem.horizon is None or problem.terminal is None:
        first, stages = np.zeros(len(x)), np.zeros((1, 2))
    else:
        times = np.linspace(layout.end, problem.horizon - layout.end, n_steps + 1)
        stages = np.stack([times[:-1] + INNER * np.diff(times), times[1:]], axis=1)
        first = evaluate(problem.terminal, x)
        first[[0, -1]] = _at_ends(problem, mesh, times[:1])[0]
    ends = _at_ends(problem, mesh, stages.ravel()).reshape(len(stages), 2, 2)
    with precision("float64"):
        given = (jnp.asarray(a) for a in (x[:, 0], first, stages, ends))
        found, change = (
            _march(problem, *given) if n_steps is not None else _at_once(problem, *given)
        )
    fields, worst = np.asarray(found), float(np.max(np.asarray(change)))
    if not (np.all(np.isfinite(fields)) and worst < _ENOUGH):
        raise ValueError(
            f"Newton's method for finite differences did not converge on {len(x)} nodes (its last "
            f"change is {worst:.1e} of the solution). The problem may have no solution, or "
            f"several."
        )
    if n_steps is not None:
        fields = np.concatenate([first[None], fields])
        fields = fields if layout.forward else fields[::-1]
    placed = np.empty_like(fields)
    placed[:, order] = fields
    return space, placed


def _at_ends(problem: Problem, mesh: Mesh, times: np.ndarray) -> np.ndarray:
    """Data at the left and at the right end, `(k, 2)`."""
    x = mesh.vertices[mesh.facets[:, 0], 0]
    columns = []
    for i in np.argsort(x):
        payoff = problem.conditions()[mesh.facet_parts[i]].payoff
        columns.append(
            evaluate(payoff, problem.layout.points(times, np.full((len(times), 1), x[i])))
        )
    return np.stack(columns, axis=1)


@eqx.filter_jit
def _at_once(problem: Problem, x: Row, first: Row, stages: Array, ends: Array) -> tuple:
    """An elliptic problem."""
    inside = jnp.zeros_like(x)[1:-1]
    u, change = _settle(problem, x, stages[0, 1], first, inside, ends[0, 1], 0.0, 1.0)
    return u[None], change


@eqx.filter_jit
def _march(problem: Problem, x: Row, first: Row, stages: Array, ends: Array) -> tuple:
    """From where data are given; rows of values after each step."""
    layout = problem.layout
    step = jnp.abs(stages[0, 1] - layout.end)
    weight = 0.5 * INNER * step
    scale = 1.0 / (INNER * (2.0 - INNER))

    def begin(u, given):
        (_, end), (_, at_end) = given
        short = step / _SHORT

        def once(k, state):
            u, change = state
            time = end + layout.pace * (step - (k + 1) * short)
            u, new = _settle(problem, x, time, u, u[1:-1], at_end, 1.0, short)
            return u, jnp.maximum(change, new)

        u, change = jax.lax.fori_loop(0, _SHORT, once, (u, jnp.zeros((), x.dtype)))
        return u, (u, change)

    def advance(u, given):
        (inner, end), (at_inner, at_end) = given
        start = end + layout.pace * step
        rate = _rates(problem, x, start, u)[0]
        middle, one = _settle(
            problem, x, inner, u, u[1:-1] + weight * rate, at_inner, 1.0, weight
        )  # fmt: skip
        mixed = scale * middle - scale * (1.0 - INNER) ** 2 * u
        new, two = _settle(problem, x, end, middle, mixed[1:-1], at_end, 1.0, weight)
        return new, (new, jnp.maximum(one, two))

    u, early = jax.lax.scan(begin, first, (stages[:_FIRST], ends[:_FIRST]))
    late = jax.lax.scan(advance, u, (stages[_FIRST:], ends[_FIRST:]))[1]
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), early, late)


def _settle(
    problem: Problem,
    x: Row,
    time: Scalar,
    guess: Row,
    right: Row,
    ends: Float[Array, " 2"],
    mass: float,
    weight: Scalar | float,
) -> tuple[Row, Scalar]:
    """Solve `mass * u - weight * rates(u) = right`; also the last change over the size."""
    h = x[1] - x[0]
    u = guess.at[0].set(ends[0]).at[-1].set(ends[1])

    def once(state):
        u, _, k = state
        rate, (by_u, by_p, by_q) = _rates(problem, x, time, u)
        lower = -weight * (by_q / h**2 - by_p / (2.0 * h))
        upper = -weight * (by_q / h**2 + by_p / (2.0 * h))
        middle = mass - weight * (by_u - 2.0 * by_q / h**2)
        lack = right - mass * u[1:-1] + weight * rate
        zero = jnp.zeros(1, x.dtype)
        move = jax.lax.linalg.tridiagonal_solve(
            jnp.concatenate([zero, lower[1:]]), middle, jnp.concatenate([upper[:-1], zero]),
            lack[:, None],
        )[:, 0]  # fmt: skip
        change = jnp.max(jnp.abs(move)) / jnp.maximum(jnp.max(jnp.abs(u)), 1e-300)
        return u.at[1:-1].add(move), change, k + 1

    most = _MOST if problem.jumps is None else _JUMPS
    goes_on = lambda state: (state[1] > _SETTLED) & (state[2] < most)
    u, change, _ = jax.lax.while_loop(goes_on, once, (u, jnp.asarray(jnp.inf, x.dtype), 0))
    return u, change


def _rates(problem: Problem, x: Row, time: Scalar, u: Row) -> tuple[Row, tuple[Row, Row, Row]]:
    """The equation without its time derivative inside, and its derivatives by `u, p, Q`."""
    h, given = x[1] - x[0], problem.nonlinearity
    slope, bend = (u[2:] - u[:-2]) / (2.0 * h), (u[2:] - 2.0 * u[1:-1] + u[:-2]) / h**2

    def one(x, u, p, q):
        z = problem.layout.point(time, x[None])
        total = problem.drift(z)[0] * p + 0.5 * problem.covariance(z)[0, 0] * q
        total = total - problem.reaction(z) * u + problem.source(z)
        return total if given is None else total + given(z, u, p[None], q[None, None])

    found = jax.vmap(jax.value_and_grad(one, argnums=(1, 2, 3)))(x[1:-1], u[1:-1], slope, bend)
    if problem.jumps is None:
        return found
    rate, (by_u, by_p, by_q) = found
    more, less = _jumps(problem, x, time, u)
    return rate + more, (by_u - less, by_p, by_q)


def _jumps(problem: Problem, x: Row, time: Scalar, u: Row) -> tuple[Row, Row]:
    """What jumps add inside, of the function that is straight between nodes; and their rates."""
    jumps, layout = problem.jumps, problem.layout
    assert jumps is not None
    straight = lambda z: jnp.interp(layout.space(z)[0], x, u)
    at = lambda y: layout.point(time, y[None])
    more = jax.vmap(lambda y: jumps.generator(straight, problem.around, at(y)))(x[1:-1])
    return more, jax.vmap(lambda y: jumps.strength(at(y)))(x[1:-1])
