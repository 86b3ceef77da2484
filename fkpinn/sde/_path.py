"""One step of one path: move, collect, reflect, stop."""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from .._types import Point, Scalar
from ..problem import Dirichlet, Neumann, Problem, Robin
from ._exit import AbstractExit, absorbing, spread_across
from ._random import Stream, uniforms
from ._stepper import AbstractStepper, join

_FLUSH = 64  # steps after which the running sum is added to the payoff
_FORGOTTEN = math.log(1e-7)  # a path with a smaller discount adds nothing any more


class Scheme(eqx.Module):
    """A stepper and an exit rule."""

    stepper: AbstractStepper
    exit: AbstractExit


class Lane(NamedTuple):
    """A path on its way."""

    point: UInt32[Array, ""]
    path: UInt32[Array, ""]
    step: UInt32[Array, ""]
    n_steps: UInt32[Array, ""]  # the path is cut after so many
    start: Scalar
    dt: Scalar
    x: Point
    log_discount: Scalar
    payoff: Scalar
    partial: Scalar  # of the payoff, since it was last added: keeps digits in single precision
    running: Bool[Array, ""]
    late: Bool[Array, ""]  # cut at the largest time

    def time(self) -> Scalar:
        """Time now, without the rounding of many small additions."""
        return self.start + self.step.astype(self.dt.dtype) * self.dt


def steps_per_block(noise_dim: int) -> int:
    """Steps that use up whole blocks of four normals."""
    return 4 // math.gcd(4, noise_dim)


def advance(
    problem: Problem, scheme: Scheme, lane: Lane, seed: tuple, numbers: tuple[Scalar, ...]
) -> Lane:
    """Take `steps_per_block` steps with the given normals; an ended path stays where it is."""
    of = Stream(seed, lane.point, lane.path)
    m, count = problem.noise_dim, steps_per_block(problem.noise_dim)
    for k in range(count):
        noise = jnp.stack(numbers[k * m : (k + 1) * m])
        lane = _step(problem, scheme, lane, of, noise)
    flush = lane.step % np.uint32(_FLUSH) == 0
    return lane._replace(
        payoff=jnp.where(flush, lane.payoff + lane.partial, lane.payoff),
        partial=jnp.where(flush, 0.0, lane.partial),
    )


def _step(problem: Problem, scheme: Scheme, lane: Lane, of: Stream, noise) -> Lane:
    stepper, dt = scheme.stepper, lane.dt
    z = join(problem, lane.time(), lane.x)
    partial, log_discount = _collect(problem, stepper, lane, z)
    signs = _signs(of, lane.step, stepper.n_signs(problem), dt.dtype)
    x = stepper.step(problem, z, dt, noise, signs)
    reflecting = not all(absorbing(problem))
    uniform = jnp.zeros_like(dt)
    if scheme.exit.uses_uniform or reflecting:
        uniform = uniforms(of, lane.step, 1, dt.dtype)[0]
    if reflecting:
        ended, x, wall, local_time, part = _meet_mixed_boundary(
            problem, scheme.exit, z, x, dt, uniform
        )
        at = join(problem, lane.time() + dt, wall)
        partial, log_discount = _collect_flux(problem, partial, log_discount, local_time, part, at)
    else:
        before = -problem.domain.signed_distance(lane.x) if scheme.exit.uses_uniform else uniform
        after = -problem.domain.signed_distance(x)
        spread = spread_across(problem, z, dt)
        ended = scheme.exit.reached(problem, before, after, spread, uniform)
    step = lane.step + np.uint32(1)
    late = ~ended & (step >= lane.n_steps)
    faded = log_discount < _FORGOTTEN
    moved = lane._replace(
        step=step,
        x=x,
        log_discount=log_discount,
        partial=partial,
        running=~(ended | late | faded | ~jnp.all(jnp.isfinite(x))),
        late=late,
    )
    keep = lambda new, old: jnp.where(lane.running, new, old)
    return Lane(*(keep(new, old) for new, old in zip(moved, lane, strict=True)))


def _collect(problem: Problem, stepper: AbstractStepper, lane: Lane, z) -> tuple[Scalar, Scalar]:
    """Source and reaction at the start of a step, by the left-end or the trapezoidal rule."""
    first = lane.step == 0
    reaction = problem.reaction(z) * lane.dt
    log_discount, weight = lane.log_discount, lane.dt
    if stepper.order > 1:
        log_discount = log_discount - jnp.where(first, 0.0, 0.5 * reaction)
        weight = jnp.where(first, 0.5, 1.0) * lane.dt
    gain = problem.source(z) * weight
    if not problem.reaction.is_zero or not all(absorbing(problem)):
        gain = jnp.exp(log_discount) * gain
    log_discount = log_discount - (0.5 * reaction if stepper.order > 1 else reaction)
    return lane.partial + gain, log_discount


def finish(problem: Problem, scheme: Scheme, lane: Lane) -> Scalar:
    """Payoff of a path that has ended: the rest of the integrals, and the boundary data."""
    x = scheme.exit.settle(problem, lane.x)
    # a parabolic path that was not stopped has reached the horizon
    if problem.timed:
        x = jnp.where(lane.late, lane.x, x)
    z = join(problem, lane.time(), x)
    payoff, log_discount = lane.payoff + lane.partial, lane.log_discount
    if scheme.stepper.order > 1:
        log_discount = log_discount - 0.5 * problem.reaction(z) * lane.dt
        payoff = payoff + 0.5 * jnp.exp(log_discount) * problem.source(z) * lane.dt
    value = absorbed_value(problem, z)
    if problem.terminal is not None:
        value = jnp.where(lane.late, problem.terminal(problem.space(z)), value)
    faded = log_discount < _FORGOTTEN
    return payoff + jnp.where(faded, 0.0, jnp.exp(log_discount) * value)


def absorbed_value(problem: Problem, z) -> Scalar:
    """Dirichlet data of the part nearest to the point."""
    value = jnp.zeros_like(z[0])
    conditions = problem.conditions()
    if len(conditions) == 1 and isinstance(conditions[0], Dirichlet):
        return conditions[0].value(z)
    part = problem.domain.part_at(problem.space(z))
    for index, condition in enumerate(conditions):
        if isinstance(condition, Dirichlet):
            value = jnp.where(part == index, condition.value(z), value)
    return value


def _meet_mixed_boundary(problem, exit_rule, z, x, dt, uniform):
    """Stop at absorbing parts; at reflecting ones push back by a sampled local time.

    Across a flat wall the least depth of a Brownian bridge between the two ends of a step has a
    known law; by Skorokhod's construction the local time is how far that least depth lies
    beyond the wall. Exact for constant coefficients and a flat wall.
    """
    domain, ends = problem.domain, jnp.asarray(absorbing(problem))
    old = problem.space(z)
    spread = spread_across(problem, z, dt)
    distances, depth = domain.part_distance(x), -domain.signed_distance(x)
    part = jnp.argmin(distances)
    if any(absorbing(problem)):
        to_end = jnp.min(jnp.where(ends, distances, jnp.inf))
        before = jnp.min(jnp.where(ends, domain.part_distance(old), jnp.inf))
        after = jnp.where((depth < 0) & ends[part], -to_end, to_end)
        ended = exit_rule.reached(problem, before, after, spread, uniform)
    else:
        ended = jnp.array(False)
    depth_before = -domain.signed_distance(old)
    bridge = jnp.sqrt((depth_before - depth) ** 2 - 2.0 * spread**2 * jnp.log(uniform))
    lowest = 0.5 * (depth_before + depth - bridge)
    local_time = jnp.where(ended | ends[part], 0.0, jnp.maximum(-lowest, 0.0))
    normal = domain.normal(x)
    wall = x + depth * normal
    pushed = x - local_time * normal
    # next to a corner the push may leave the set by another wall: put the path just inside that
    excess = jnp.maximum(domain.signed_distance(pushed), 0.0)
    pushed = pushed - (1.0 + 1e-3) * excess * domain.normal(pushed)
    return ended, jnp.where(local_time > 0, pushed, x), wall, local_time, part


def _collect_flux(problem, partial, log_discount, local_time, part, at):
    """Neumann and Robin data, weighed by the local time on their part."""
    for index, condition in enumerate(problem.conditions()):
        if not isinstance(condition, (Neumann, Robin)):
            continue
        here = jnp.where(part == index, local_time, 0.0)
        weight = here
        if isinstance(condition, Robin):  # mean discount over the local time of this step
            rate = condition.coefficient(at) * here
            weight = here * jnp.where(rate > 1e-4, -jnp.expm1(-rate) / jnp.maximum(rate, 1e-4), 1.0)
            partial = partial + jnp.exp(log_discount) * condition.flux(at) * weight
            log_discount = log_discount - rate
        else:
            partial = partial + jnp.exp(log_discount) * condition.flux(at) * weight
    return partial, log_discount


def _signs(of: Stream, step, count: int, dtype) -> Float[Array, " s"]:
    """Independent random signs."""
    found: list[Scalar] = []
    for use in range((count + 3) // 4):
        found += [jnp.where(u < 0.5, -1.0, 1.0) for u in uniforms(of, step, 2 + use, dtype)]
    return jnp.stack(found[:count]).astype(dtype) if count else jnp.zeros(0, dtype)
