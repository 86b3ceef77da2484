"""Jumps of a path: steps end where one is due, and then it is made."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32

from .._types import Point, Scalar
from .._words import Words
from ..problem import CompoundPoisson, Problem, Stable
from ._lane import Jumping, Lane


def start_jumping(problem: Problem, word: UInt32[Array, ""], zero: Scalar) -> Jumping:
    """What a path that jumps carries along, from a random word."""
    words, uniform = Words(word).uniform(zero.dtype)
    none, jumps = jnp.zeros((), jnp.int32), problem.jumps
    wait = _waiting(jumps, uniform) if isinstance(jumps, CompoundPoisson) else zero
    return Jumping(words, wait, zero, none, none)


def _waiting(jumps: CompoundPoisson, uniform: Scalar) -> Scalar:
    """Time until the next jump; an exponential law."""
    return -jnp.log(uniform) / max(jumps.highest, 1e-30)


def whole_time(lane: Lane) -> Scalar:
    """From the start of a path to where it is cut."""
    assert lane.n_steps is not None
    return lane.n_steps.astype(lane.dt.dtype) * lane.dt


def until_jump(problem: Problem, lane: Lane, dt: Scalar) -> tuple[Scalar, Bool[Array, ""] | None]:
    """A step that ends at the next jump or at the end of time, and whether it ends with a jump.

    Times between jumps are exponential, so that nothing is lost where steps are cut.
    """
    jumping, jumps = lane.jumping, problem.jumps
    if jumping is None:
        return dt, None
    if lane.n_steps is not None:
        dt = jnp.minimum(dt, jnp.maximum(whole_time(lane) - jumping.elapsed, 0.0))
    if not isinstance(jumps, CompoundPoisson):
        return dt, jnp.ones((), bool)
    return jnp.minimum(jumping.clock, dt), jumping.clock <= dt


def stepped(
    problem: Problem,
    lane: Lane,
    x: Point,
    dt: Scalar,
    due: Bool[Array, ""],
    ended: Bool[Array, ""],
) -> tuple[Lane, Point, Bool[Array, ""]]:
    """The path after a step, waiting where a jump is due; what jumps in every step has done so.

    Args:
        problem: the boundary value problem.
        lane: the path.
        x: where its step ended.
        dt: the time that the step took.
        due: whether a jump is.
        ended: whether it has left in this step.
    """
    jumping, jumps = lane.jumping, problem.jumps
    assert jumping is not None
    elapsed = jumping.elapsed + dt
    if isinstance(jumps, CompoundPoisson):
        waits = (due & ~ended).astype(jnp.int32)
        state = jumping._replace(clock=jumping.clock - dt, elapsed=elapsed, due=waits)
        return lane._replace(jumping=state), x, ended
    assert isinstance(jumps, Stable)
    moved = lane._replace(jumping=jumping._replace(elapsed=elapsed))
    words, gain = jumps.increment(jumping.words, moved.at(problem.layout, x), dt, problem.dim)
    y = jnp.where(ended, x, x + gain)
    out = ~ended & _outside(problem, y)
    state = Jumping(words, jumping.clock, elapsed, out.astype(jnp.int32), jumping.due)
    return moved._replace(jumping=state), y, ended | out


def jumped(problem: Problem, lane: Lane) -> Lane:
    """The path after its jump, if it waits for one.

    Few paths jump in a step, and all would have to draw one; so they wait for some steps.
    """
    jumping, jumps = lane.jumping, problem.jumps
    if jumping is None or not isinstance(jumps, CompoundPoisson):
        return lane
    clock, y, words = _proposed(jumps, problem, lane, lane.x, jumping.words)
    now = (jumping.due > 0) & (lane.running > 0)
    x = jnp.where(now, y, lane.x)
    out = now & _outside(problem, x)
    keep = lambda new, old: jnp.where(now, new, old)
    state = Jumping(
        Words(keep(words.state, jumping.words.state)), keep(clock, jumping.clock),
        jumping.elapsed, keep(out.astype(jnp.int32), jumping.out), jnp.zeros_like(jumping.due),
    )  # fmt: skip
    running = jnp.where(out, 0, lane.running)
    return lane._replace(x=x, running=running, jumping=state)


def _outside(problem: Problem, x: Point) -> Bool[Array, ""]:
    """Whether a jump led where data are given outside."""
    if problem.exterior is None:
        return jnp.zeros((), bool)
    return ~(problem.domain.level(x) < 0)  # NaN is out too


def _proposed(
    jumps: CompoundPoisson, problem: Problem, lane: Lane, x: Point, words: Words
) -> tuple[Scalar, Point, Words]:
    """A new clock, and where the jump leads; rates below their bound let some proposals pass."""
    dtype, dim = x.dtype, problem.dim
    words, uniform = words.uniform(dtype)
    clock = _waiting(jumps, uniform)
    words, jump = jumps.law.jump(words, dim, dtype)
    y = x + jump
    if jumps.rate.function is None and float(np.asarray(jumps.rate.constant)) == jumps.highest:
        return clock, y, words
    rate = jumps.rate(lane.at(problem.layout, x))
    words, chance = words.uniform(dtype)
    y = jnp.where(chance * jumps.highest < rate, y, x)
    # a rate above its bound would be cut in silence: the path is lost instead, and looked at
    return clock, jnp.where(rate <= jumps.highest * (1 + 1e-6), y, jnp.nan), words
