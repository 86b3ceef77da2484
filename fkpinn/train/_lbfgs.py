"""L-BFGS that runs its budget."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from .._types import Scalar
from ._objective import AbstractOptimizer, Objective, Parameters, Report

_DECREASE = 1e-4  # share of the decrease along the tangent that is asked for
_FLATTER = 0.9  # share of the slope at the start that may be left
_APART = 0.1  # of a bracket, that the next try keeps from both ends
_CURVED = 1e-14  # cosine between step and change of slope, below which a pair is left out


class Point(NamedTuple):
    """What is known of the loss at some parameters; an infinite loss is one not yet known."""

    loss: Scalar
    terms: dict[str, Scalar]
    slope: Parameters


class Memory(NamedTuple):
    """The last steps and changes of slope, latest last; rows not yet used are zero.

    `cross[i, j]` is step i times change j, of which the upper half is used; `gram` are the products
    of changes.
    """

    steps: Float[Array, "m p"]
    changes: Float[Array, "m p"]
    cross: Float[Array, "m m"]
    gram: Float[Array, "m m"]


class State(NamedTuple):
    """The memory, the loss where we are, and how many steps in a row came to nothing."""

    memory: Memory
    here: Point
    failures: Int[Array, ""]


class LBFGS(AbstractOptimizer):
    """Limited-memory BFGS with a Wolfe line search, in double precision.

    The loss at the end of a line search is reused by the next step, so that most steps evaluate it
    once. If the line search fails, the memory is cleared and the next step follows steepest
    descent; only if that fails too, the optimizer stops and reports it. The first step, and the
    first one after a draw of new points, only evaluates the loss.

    Args:
        memory: number of stored pairs of steps and gradient changes.
        searches: maximum number of evaluations per line search.
        tolerance: the optimizer stops when no entry of the gradient is larger than this.
    """

    reasons: ClassVar[tuple[str, ...]] = (
        "",
        "the gradient vanishes",
        "the line search failed, also along steepest descent",
    )
    dtype: ClassVar[str | None] = "float64"

    memory: int = eqx.field(static=True, default=50)
    searches: int = eqx.field(static=True, default=25)
    tolerance: float = eqx.field(static=True, default=1e-12)

    def __check_init__(self) -> None:
        if self.memory < 1 or self.searches < 1:
            raise ValueError(
                f"`memory` and `searches` must be at least 1; got {self.memory}, {self.searches}."
            )

    def init(self, objective: Objective, parameters: Parameters) -> State:
        """Nothing remembered, nothing known."""
        terms = jax.eval_shape(objective.terms, parameters)[1]
        zeros = {name: jnp.zeros(s.shape, s.dtype) for name, s in terms.items()}
        here = Point(jnp.asarray(jnp.inf, parameters.dtype), zeros, jnp.zeros_like(parameters))
        return State(self._nothing(parameters), here, jnp.zeros((), jnp.int32))

    def redrawn(self, state: State) -> State:
        """The memory stays; the loss is no longer known."""
        unknown = state.here._replace(loss=jnp.full_like(state.here.loss, jnp.inf))
        return state._replace(here=unknown)

    def step(
        self, objective: Objective, parameters: Parameters, state: State
    ) -> tuple[Parameters, State, Report]:
        """Direction from the memory, length from the line search."""

        def evaluate(at: Parameters) -> Point:
            (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(at)
            return Point(loss, terms, slope)

        here = evaluate(parameters) if objective.changing else state.here
        known = jnp.isfinite(here.loss)
        towards = jnp.where(known, direction(state.memory, here.slope), 0.0)
        length, found = search(evaluate, parameters, towards, here, self.searches)
        moved = parameters + length * towards
        lower = found.loss < here.loss
        there = jax.tree.map(lambda new, old: jnp.where(lower, new, old), found, here)
        remembered = remember(state.memory, length * towards, found.slope - here.slope, known)
        memory = jax.tree.map(
            lambda new, old: jnp.where(lower, new, old), remembered, self._nothing(parameters)
        )
        failures = jnp.where(lower, 0, state.failures + 1).astype(jnp.int32)
        flat = jnp.max(jnp.abs(there.slope)) <= self.tolerance
        why = jnp.where(flat, 1, jnp.where(failures > 1, 2, 0)).astype(jnp.int32)
        before = jax.tree.map(lambda old, new: jnp.where(known, old, new), here, found)
        report = Report(before.loss, before.terms, why)
        return jnp.where(lower, moved, parameters), State(memory, there, failures), report

    def _nothing(self, parameters: Parameters) -> Memory:
        m, p, dtype = self.memory, parameters.size, parameters.dtype
        pairs, products = jnp.zeros((m, p), dtype), jnp.zeros((m, m), dtype)
        return Memory(pairs, pairs, products, products)


def direction(memory: Memory, slope: Parameters) -> Parameters:
    """Minus the inverse Hessian of the memory times the slope.

    The products of all pairs at once (Byrd, Nocedal and Schnabel, 1994), in place of one pair after
    the other: the same up to rounding, and a few large operations.

    Args:
        memory: pairs of steps and changes.
        slope: the gradient.
    """
    steps, changes, cross, gram = memory
    diagonal = jnp.diagonal(cross)
    upper = jnp.triu(cross) + jnp.diag((diagonal == 0).astype(slope.dtype))
    first = 1 / jnp.maximum(jnp.linalg.norm(slope), 1.0)  # a step of length one at most
    last = jnp.where(gram[-1, -1] > 0, gram[-1, -1], 1.0)
    scale = jnp.where(diagonal[-1] > 0, diagonal[-1] / last, first)
    inner = solve_triangular(upper, steps @ slope)
    outer = diagonal * inner + scale * (gram @ inner - changes @ slope)
    outer = solve_triangular(upper, outer, trans=1)
    found = -(scale * slope + outer @ steps - scale * (inner @ changes))
    downhill = jnp.dot(found, slope) < 0
    return jnp.where(downhill, found, -first * slope)


def remember(
    memory: Memory, step: Parameters, change: Parameters, known: Bool[Array, ""]
) -> Memory:
    """The memory with one more pair in place of its oldest, if the pair is curved upwards."""
    product = jnp.dot(step, change)
    sizes = jnp.linalg.norm(step) * jnp.linalg.norm(change)
    good = known & (product > _CURVED * sizes) & jnp.isfinite(sizes)
    shifted = lambda rows, row: jnp.concatenate([rows[1:], row[None]])
    steps, changes = shifted(memory.steps, step), shifted(memory.changes, change)
    smaller = lambda products: jnp.pad(products[1:, 1:], ((0, 1), (0, 1)))
    cross = smaller(memory.cross).at[:, -1].set(steps @ change)
    column = changes @ change
    gram = smaller(memory.gram).at[:, -1].set(column).at[-1].set(column)
    new = Memory(steps, changes, cross, gram)
    return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, memory)


class _End(NamedTuple):
    """One end of a bracket: how far, the loss there, and its derivative along the line."""

    at: Scalar
    loss: Scalar
    rise: Scalar


class _Search(NamedTuple):
    trial: Scalar
    near: _End
    far: _End
    length: Scalar  # of the best so far
    best: Point
    tries: Int[Array, ""]
    done: Bool[Array, ""]


def search(
    evaluate: Callable[[Parameters], Point],
    parameters: Parameters,
    towards: Parameters,
    here: Point,
    tries: int,
) -> tuple[Scalar, Point]:
    """A length along a line that lowers the loss and leaves less slope (Wolfe's conditions).

    Tries one first; then a bracket shrinks around such a length, or moves out to find one. What is
    seen last is the lowest if none is found. With an unknown loss, the first try is taken.

    Args:
        evaluate: the loss and its gradient.
        parameters: where the line begins.
        towards: its direction.
        here: what is known at its beginning.
        tries: evaluations at most.
    """
    number = lambda value: jnp.asarray(value, parameters.dtype)
    start = _End(number(0.0), here.loss, jnp.dot(here.slope, towards))
    nowhere = _End(number(jnp.inf), number(jnp.inf), number(0.0))
    either = lambda case, a, b: jax.tree.map(lambda x, y: jnp.where(case, x, y), a, b)

    def go_on(s: _Search) -> Array:
        return ~s.done & (s.tries < tries)

    def one(s: _Search) -> _Search:
        found = evaluate(parameters + s.trial * towards)
        end = _End(s.trial, found.loss, jnp.dot(found.slope, towards))
        finite = jnp.isfinite(end.loss) & jnp.isfinite(end.rise)
        enough = finite & (end.loss <= start.loss + _DECREASE * s.trial * start.rise)
        done = (enough & (end.rise >= _FLATTER * start.rise)) | ~jnp.isfinite(start.loss)
        near, far = either(enough, end, s.near), either(enough, s.far, end)
        better = done | (finite & (found.loss < s.best.loss))
        best = either(better, found, s.best)
        trial = jnp.where(jnp.isfinite(far.at), _between(near, far), 2 * s.trial)
        length = jnp.where(better, s.trial, s.length)
        return _Search(trial, near, far, length, best, s.tries + 1, done)

    first = _Search(
        number(1.0), start, nowhere, number(0.0), here,
        jnp.zeros((), jnp.int32), jnp.zeros((), bool),
    )  # fmt: skip
    last = jax.lax.while_loop(go_on, one, first)
    return last.length, last.best


def _between(near: _End, far: _End) -> Scalar:
    """Where the cubic through both ends is lowest, not too near to either."""
    width = far.at - near.at
    bend = near.rise + far.rise - 3 * (near.loss - far.loss) / (near.at - far.at)
    root = jnp.sqrt(bend**2 - near.rise * far.rise)
    share = 1 - (far.rise + root - bend) / (far.rise - near.rise + 2 * root)
    share = jnp.where(jnp.isfinite(share), share, 0.5)
    return near.at + width * jnp.clip(share, _APART, 1 - _APART)
