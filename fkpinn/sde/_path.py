"""Paths that move in time steps: move, collect, reflect, stop."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from .._types import Scalar
from ..problem import Problem
from ._exit import AbstractExit, absorbing, spread_across
from ._lane import FORGOTTEN, AbstractWalk, Lane, Need, Numbers, absorbed_value
from ._reflect import collect_flux, meet_walls
from ._stepper import AbstractStepper, kick


class Scheme(AbstractWalk):
    """A stepper and an exit rule; the source is read once in every `every` steps.

    With `every > 1` the source is read at one step picked at random among each `every`, and
    counts for all of them: the same mean, more variance, less work where the source is dear.
    """

    stepper: AbstractStepper
    exit: AbstractExit
    every: int = eqx.field(static=True, default=1)

    def need(self, problem: Problem) -> Need:
        """Normals; and uniforms for exit, reflection, signs, and the pick of a step."""
        uniforms = self.stepper.n_signs(problem) + bool(self.exit.uses_uniform)
        uniforms += (not all(absorbing(problem))) + (self.every > 1)
        return Need(problem.noise_dim, uniforms)

    def check(self, problem: Problem) -> None:
        """Any problem will do."""

    def together(self, problem: Problem) -> int:
        """Steps that share one look at the source."""
        return self.every

    def begin(self, problem: Problem, lane: Lane) -> Lane:
        """The trapezoidal rule halves the first term."""
        if self.stepper.order == 1:
            return lane
        z = lane.at(lane.x)
        lane = lane._replace(payoff=-0.5 * problem.source(z) * lane.dt)
        if lane.log_discount is None:
            return lane
        return lane._replace(log_discount=0.5 * problem.reaction(z) * lane.dt)

    def advance(self, problem: Problem, control, lane: Lane, numbers: Numbers) -> Lane:
        """Take the steps the numbers are for; an ended path stays where it is."""
        need = self.need(problem)
        count = len(numbers.normals) // need.normals
        picked = None
        if self.every > 1:
            share = numbers.of_step(0, need)[1][-1]
            picked = _Picked((share * count).astype(jnp.uint32) + lane.step, lane, jnp.int32(0))
        for k in range(count):
            if picked is not None:
                picked = picked.look(lane)
            lane = _step(problem, self, control, lane, *numbers.of_step(k, need))
        if picked is not None:
            gain = _gain(problem, self, picked.lane, picked.lane.at(picked.lane.x))
            more = lane.partial + count * gain
            lane = lane._replace(partial=jnp.where(picked.found > 0, more, lane.partial))
        return lane

    def finish(self, problem: Problem, lane: Lane) -> Scalar:
        """The rest of the integrals, and the boundary data."""
        x = self.exit.settle(problem, lane.x)
        cut = jnp.array(False) if lane.late is None else lane.late > 0
        if problem.timed:  # a parabolic path that was not stopped has reached the horizon
            x = jnp.where(cut, lane.x, x)
        z = lane.at(x)
        discount = _discount(problem, self, lane, z)
        payoff = lane.payoff + lane.partial
        if self.stepper.order > 1:
            payoff = payoff + 0.5 * discount * problem.source(z) * lane.dt
        value = absorbed_value(problem, z)
        if problem.terminal is not None:
            value = jnp.where(cut, problem.terminal(problem.space(z)), value)
        if lane.log_discount is not None:
            value = jnp.where(lane.log_discount < FORGOTTEN, 0.0, value)
        # a path that got lost has no payoff, even where all data are constant
        return jnp.where(jnp.all(jnp.isfinite(lane.x)), payoff + discount * value, jnp.nan)


class _Picked(NamedTuple):
    """The step at which the source is read, and the path as it was then."""

    step: UInt32[Array, ""]
    lane: Lane
    found: Int32[Array, ""]

    def look(self, lane: Lane) -> "_Picked":
        now = (lane.step == self.step) & (lane.running > 0)
        keep = lambda new, old: jnp.where(now, new, old)
        held = jax.tree.map(keep, lane, self.lane)
        return _Picked(self.step, held, jnp.where(now, 1, self.found))


def _step(problem: Problem, scheme: Scheme, control, lane: Lane, noise, uniform) -> Lane:
    stepper, dt, z = scheme.stepper, lane.dt, lane.at(lane.x)
    partial, log_discount = lane.partial, lane.log_discount
    if scheme.every == 1:
        partial = partial + _gain(problem, scheme, lane, z)
    if control is not None:
        push = kick(problem, z, jnp.sqrt(dt) * noise)
        slope = problem.space(jax.grad(control)(z))
        partial = partial - _discount(problem, scheme, lane, z) * jnp.dot(slope, push)
    if log_discount is not None:
        log_discount = log_discount - problem.reaction(z) * dt
    n_signs = stepper.n_signs(problem)
    signs = [jnp.where(u < 0.5, -1.0, 1.0).astype(dt.dtype) for u in uniform[:n_signs]]
    x = stepper.step(problem, z, dt, noise, jnp.stack(signs) if signs else jnp.zeros(0, dt.dtype))
    of_exit = uniform[n_signs] if scheme.exit.uses_uniform else jnp.zeros_like(dt)
    if all(absorbing(problem)):
        before = -problem.domain.level(lane.x) if scheme.exit.uses_uniform else of_exit
        after = -problem.domain.level(x)
        ended = scheme.exit.reached(problem, before, after, spread_across(problem, z, dt), of_exit)
    else:
        of_wall = uniform[n_signs + bool(scheme.exit.uses_uniform)]
        met = meet_walls(problem, scheme.exit, z, x, dt, of_exit, of_wall)
        ended, x = met.ended, met.x
        at = lane._replace(step=lane.step + np.uint32(1)).at(met.wall)
        partial, log_discount = collect_flux(problem, partial, log_discount, met, at)
    step = lane.step + np.uint32(1)
    moved = lane._replace(step=step, x=x, log_discount=log_discount, partial=partial)
    running = ~ended
    if lane.n_steps is not None:
        late = running & (step >= lane.n_steps)
        moved, running = moved._replace(late=late.astype(jnp.int32)), running & ~late
    if log_discount is not None:
        running = running & ~(log_discount < FORGOTTEN)
    return lane.then(moved._replace(running=running.astype(jnp.int32)))


def _discount(problem: Problem, scheme: Scheme, lane: Lane, z) -> Scalar:
    """Discount at the start of a step; the log of order 2 still lacks half a step."""
    if lane.log_discount is None:
        return jnp.ones_like(lane.dt)
    half = 0.5 if scheme.stepper.order > 1 else 0.0
    return jnp.exp(lane.log_discount - half * problem.reaction(z) * lane.dt)


def _gain(problem: Problem, scheme: Scheme, lane: Lane, z) -> Scalar:
    """What the source pays in a step."""
    if problem.source.is_zero:
        return jnp.zeros_like(lane.dt)
    gain = problem.source(z) * lane.dt
    return gain if lane.log_discount is None else _discount(problem, scheme, lane, z) * gain
