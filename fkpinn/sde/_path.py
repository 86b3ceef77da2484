"""Paths that move in time steps: move, collect, reflect, stop."""

import math
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32

from .._types import Point, Scalar, SpaceTimePoint
from ..problem import CompoundPoisson, OfCandidate, Problem
from ._exit import AbstractExit, spread_across
from ._jump import jumped, stepped, until_jump, whole_time
from ._lane import FORGET, AbstractWalk, Control, Lane, Need, Numbers, absorbed_value
from ._reflect import Wall, collect_flux, discounted, meet_walls, nearest_end
from ._stepper import AbstractStepper

_UNTIL_JUMPS = 8  # steps after which paths jump that wait for it

Noise: TypeAlias = Float[Array, " m"]
Drawn: TypeAlias = Float[Array, " w"]


class Scheme(AbstractWalk):
    """A stepper and an exit rule; source and flux are evaluated once in `read_every` steps.

    With `read_every > 1` they are evaluated at one random step in this number, with a
    correspondingly larger weight: the same mean, more variance, less work if they are expensive. A
    path whose discount is below `forget` has ended. Steps are up to `refine` times shorter close to
    an absorbing wall, so that they reach only a fraction of the distance to it, and where the drift
    would carry a path further than the noise; not in problems with a horizon. Integrals along the
    path use the trapezoidal rule.
    """

    stepper: AbstractStepper
    exit: AbstractExit
    read_every: int = eqx.field(static=True, default=1)
    forget: float = eqx.field(static=True, default=FORGET)
    refine: int = eqx.field(static=True, default=1)

    def need(self, problem: Problem) -> Need:
        """Normals; and uniforms for exit, reflection, signs, and the pick of a step."""
        uniforms = self.stepper.n_signs(problem) + bool(self.exit.uses_uniform)
        uniforms += (not all(problem.absorbing())) + (self.read_every > 1)
        return Need(problem.dynamics.noise_dim, uniforms)

    def check(self, problem: Problem) -> None:
        """Any problem will do."""

    def together(self, problem: Problem) -> int:
        """Steps that share one look at the source; and after which paths jump that are to."""
        if self.read_every == 1 and isinstance(problem.jumps, CompoundPoisson):
            return _UNTIL_JUMPS
        return self.read_every

    def varies(self, problem: Problem) -> bool:
        """Next to walls, where no time counts; and where jumps cut steps short."""
        return (self.refine > 1 and not problem.timed) or problem.jumps is not None

    def fits_kernel(self, problem: Problem) -> bool:
        """Where steps are made of formulas, and networks are read between them if at all."""
        read = [problem.drift, problem.diffusion, problem.reaction]
        read += [problem.source] if self.read_every == 1 else []
        return not any(isinstance(data.function, OfCandidate) for data in read)

    def begin(self, problem: Problem, lane: Lane) -> Lane:
        """The trapezoidal rule halves the first term; where steps vary, none came before."""
        if self.stepper.order == 1 or lane.varying is not None:
            return lane
        z = lane.at(problem.layout, lane.x)
        lane = lane._replace(payoff=-0.5 * problem.source(z) * lane.dt)
        if lane.log_discount is None:
            return lane
        return lane._replace(log_discount=0.5 * problem.reaction(z) * lane.dt)

    def advance(self, problem: Problem, control: Control, lane: Lane, numbers: Numbers) -> Lane:
        """Take the steps the numbers are for; an ended path stays where it is."""
        need = self.need(problem)
        count = len(numbers.normals) // need.normals
        if self.read_every == 1:
            for k in range(count):
                lane = self.step(problem, control, lane, *numbers.of_step(k, need))
            return jumped(problem, lane)
        reading = self.choose_step_to_read(problem, lane, numbers.of_step(0, need).uniforms)
        for k in range(count):
            reading = self.step_and_read(problem, control, reading, *numbers.of_step(k, need))
        return self.add_what_was_read(problem, reading)

    def step(
        self, problem: Problem, control: Control, lane: Lane, noise: Noise, uniform: Drawn
    ) -> Lane:
        """Take one step, and read data at its beginning."""
        return _step(problem, self, control, lane, noise, uniform)[0]

    def choose_step_to_read(self, problem: Problem, lane: Lane, uniform: Drawn) -> "Reading":
        """Before the first of `read_every` steps: choose the one at which data are read."""
        step = (uniform[-1] * self.read_every).astype(jnp.uint32) + lane.step
        z, zero = lane.at(problem.layout, lane.x), jnp.zeros_like(lane.dt)
        met = None
        if not all(problem.absorbing()):
            met = Wall(z, zero, jnp.int32(0), lane.log_discount)
        paying = _Paying(z, zero, zero, lane.log_discount, met)
        return Reading(lane, step, paying, jnp.int32(0))

    def step_and_read(
        self,
        problem: Problem,
        control: Control,
        reading: "Reading",
        noise: Noise,
        uniform: Drawn,
    ) -> "Reading":
        """Take one step, and remember where it began if it is the one."""
        before = reading.lane
        lane, paying = _step(problem, self, control, before, noise, uniform)
        now = (before.step == reading.step) & (before.running > 0)
        if before.jumping is not None:
            now = now & (before.jumping.due == 0)
        keep = lambda new, old: jnp.where(now, new, old)
        paying = jax.tree.map(keep, paying, reading.paying)
        return Reading(lane, reading.step, paying, keep(jnp.int32(1), reading.found))

    def add_what_was_read(self, problem: Problem, reading: "Reading") -> Lane:
        """After the last of them: what was seen counts for all."""
        lane = reading.lane
        more = lane.partial + self.read_every * _income(problem, self, reading.paying)
        read = lane._replace(partial=jnp.where(reading.found > 0, more, lane.partial))
        return jumped(problem, read)

    def left(self, problem: Problem, lane: Lane) -> Point:
        """Where the exit rule says, or where a jump led."""
        x = self.exit.settle(lane.domain(problem), lane.x)
        if lane.jumping is not None:
            x = jnp.where(lane.jumping.out > 0, lane.x, x)
        return x if lane.late is None else jnp.where(lane.late > 0, lane.x, x)

    def finish(self, problem: Problem, lane: Lane) -> Scalar:
        """The rest of the integrals, and the boundary data."""
        x = self.exit.settle(lane.domain(problem), lane.x)
        cut = jnp.array(False) if lane.late is None else lane.late > 0
        if problem.timed:  # a parabolic path that was not stopped has reached the horizon
            x = jnp.where(cut, lane.x, x)
        z = lane.at(problem.layout, x)
        dt = lane.dt if lane.varying is None else lane.varying.last
        discount = _discount(problem, self, lane.log_discount, z, dt)
        payoff = lane.payoff + lane.partial
        if self.stepper.order > 1:
            payoff = payoff + 0.5 * discount * problem.source(z) * dt
        value = absorbed_value(problem, z)
        if lane.jumping is not None and problem.exterior is not None:
            out = lane.jumping.out > 0
            value = jnp.where(out, problem.exterior(lane.at(problem.layout, lane.x)), value)
        if problem.terminal is not None:
            value = jnp.where(cut, problem.terminal(problem.layout.without_time(z)), value)
        if lane.log_discount is not None:
            value = jnp.where(lane.log_discount < math.log(self.forget), 0.0, value)
        # a path that got lost has no payoff, even where all data are constant
        return jnp.where(jnp.all(jnp.isfinite(lane.x)), payoff + discount * value, jnp.nan)


class _Paying(NamedTuple):
    """What the income of a step is read from: its beginning, and the wall it met if any."""

    z: SpaceTimePoint
    weight: Scalar  # time that it counts for
    dt: Scalar  # of which the discount lacks half
    log_discount: Scalar | None
    wall: Wall | None


class Reading(NamedTuple):
    """A path among steps of which one is read: number `step`, as soon as it is `found`."""

    lane: Lane
    step: UInt32[Array, ""]
    paying: _Paying
    found: Int32[Array, ""]


def _step(
    problem: Problem, scheme: Scheme, control, lane: Lane, noise, uniform
) -> tuple[Lane, _Paying]:
    stepper, z = scheme.stepper, lane.at(problem.layout, lane.x)
    dt, due = until_jump(problem, lane, _local_step(problem, scheme, z, lane))
    weight, lacking = dt, dt
    if lane.varying is not None and stepper.order > 1:
        weight, lacking = 0.5 * (lane.varying.last + dt), lane.varying.last
        if due is not None:  # the place before a jump is no part of the next step
            weight = weight + jnp.where(due, 0.5 * dt, 0.0)
    partial, log_discount, wall = lane.partial, lane.log_discount, None
    if control is not None:
        push = problem.dynamics.push(z, jnp.sqrt(dt) * noise)
        slope = problem.space(jax.grad(control)(z))
        discount = _discount(problem, scheme, lane.log_discount, z, lacking)
        partial = partial - discount * jnp.dot(slope, push)
    if log_discount is not None:
        log_discount = log_discount - problem.reaction(z) * weight
    n_signs = stepper.n_signs(problem)
    signs = jnp.where(uniform[:n_signs] < 0.5, -1.0, 1.0).astype(dt.dtype)
    x = stepper.step(problem, z, dt, noise, signs)
    of_exit = uniform[n_signs] if scheme.exit.uses_uniform else jnp.zeros_like(dt)
    if all(problem.absorbing()):
        domain = lane.domain(problem)
        before = -domain.level(lane.x) if scheme.exit.uses_uniform else of_exit
        after = -domain.level(x)
        ended = scheme.exit.reached(problem, before, after, spread_across(problem, z, dt), of_exit)
    else:
        of_wall = uniform[n_signs + bool(scheme.exit.uses_uniform)]
        met = meet_walls(problem, scheme.exit, z, x, dt, of_exit, of_wall)
        ended, x = met.ended, met.x
        at = lane._replace(step=lane.step + np.uint32(1)).at(problem.layout, met.wall)
        wall = Wall(at, met.local_time, met.part.astype(jnp.int32), log_discount)
        log_discount = discounted(problem, wall)
    paying = _Paying(z, weight, lacking, lane.log_discount, wall)
    if scheme.read_every == 1:
        partial = partial + _income(problem, scheme, paying)
    step = lane.step + np.uint32(1)
    moved = lane
    if lane.visit is not None:
        discount = _discount(problem, scheme, lane.log_discount, z, lacking)
        moved = lane.saw(lane.x, weight * discount)
    if lane.varying is not None:
        last = dt if due is None else jnp.where(due, 0.0, dt)
        moved = moved._replace(varying=lane.varying._replace(last=last))
    if due is not None:
        moved, x, ended = stepped(problem, moved, x, dt, due, ended)
    moved = moved._replace(step=step, x=x, log_discount=log_discount, partial=partial)
    running = ~ended
    if lane.n_steps is not None and moved.jumping is not None:
        late = running & (moved.jumping.elapsed >= whole_time(lane) * (1.0 - 1e-5))
        moved, running = moved._replace(late=late.astype(jnp.int32)), running & ~late
    elif lane.n_steps is not None:
        late = running & (step >= lane.n_steps)
        moved, running = moved._replace(late=late.astype(jnp.int32)), running & ~late
    if log_discount is not None:
        running = running & ~(log_discount < math.log(scheme.forget))
    return lane.then(moved._replace(running=running.astype(jnp.int32))), paying


def _local_step(problem: Problem, scheme: Scheme, z: SpaceTimePoint, lane: Lane) -> Scalar:
    """The time step there: shorter near absorbing walls and in strong drift, if so chosen."""
    dt = lane.dt
    if lane.varying is None or scheme.refine == 1:
        return dt
    x, ends, spread = problem.space(z), problem.absorbing(), spread_across(problem, z, dt)
    share = jnp.ones_like(dt)
    if any(ends):
        if all(ends):
            depth = -lane.domain(problem).level(x)
        else:
            depth = nearest_end(problem, lane.domain(problem).part_distance(x))
        share = jnp.maximum(depth / (lane.varying.near * spread), 0.0) ** 2
    if not problem.drift.is_zero:
        carried = jnp.sum((problem.drift(z) * dt) ** 2)
        share = jnp.minimum(share, spread**2 / jnp.maximum(carried, spread**2))
    return dt * jnp.clip(share, 1.0 / scheme.refine, 1.0)


def _income(problem: Problem, scheme: Scheme, paying: _Paying) -> Scalar:
    """What source and walls pay in a step."""
    income = jnp.zeros_like(paying.dt)
    if not problem.source.is_zero:
        gain = problem.source(paying.z) * paying.weight
        income = _discount(problem, scheme, paying.log_discount, paying.z, paying.dt) * gain
    return income if paying.wall is None else income + collect_flux(problem, paying.wall)


def _discount(problem: Problem, scheme: Scheme, log_discount: Scalar | None, z, dt) -> Scalar:
    """Discount at the start of a step; the log of order 2 still lacks half of `dt`."""
    if log_discount is None:
        return jnp.ones_like(dt)
    half = 0.5 if scheme.stepper.order > 1 else 0.0
    return jnp.exp(log_discount - half * problem.reaction(z) * dt)
