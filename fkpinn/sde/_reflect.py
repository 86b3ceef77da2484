"""Walls that push back: reflection with local time on Neumann and Robin parts."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from .._types import Point, Scalar
from ..problem import Neumann, Problem, Robin
from ._exit import AbstractExit, absorbing, spread_across


class Met(NamedTuple):
    """What happened at the boundary in one step."""

    ended: Bool[Array, ""]
    x: Point
    wall: Point
    local_time: Scalar
    part: Int[Array, ""]


def meet_walls(
    problem: Problem, exit_rule: AbstractExit, z, x: Point, dt, of_exit: Scalar, of_wall: Scalar
) -> Met:
    """Stop at absorbing parts; at reflecting ones push back by a sampled local time.

    Across a flat wall the least depth of a Brownian bridge between the two ends of a step has a
    known law; by Skorokhod's construction the local time is how far that least depth lies
    beyond the wall. Exact for constant coefficients and a flat wall.
    """
    domain, ends = problem.domain, np.asarray(absorbing(problem))
    old = problem.space(z)
    spread = spread_across(problem, z, dt)
    distances, depth = domain.part_distance(x), -domain.signed_distance(x)
    part = jnp.argmin(distances)
    at_end = jnp.any(jnp.asarray(ends) & (part == jnp.arange(len(ends))))
    ended = ~jnp.all(jnp.isfinite(x))
    if any(absorbing(problem)):
        to_end = jnp.min(jnp.where(jnp.asarray(ends), distances, jnp.inf))
        before = jnp.min(jnp.where(jnp.asarray(ends), domain.part_distance(old), jnp.inf))
        after = jnp.where((depth < 0) & at_end, -to_end, to_end)
        ended = ended | exit_rule.reached(problem, before, after, spread, of_exit)
    depth_before = -domain.signed_distance(old)
    bridge = jnp.sqrt((depth_before - depth) ** 2 - 2.0 * spread**2 * jnp.log(of_wall))
    lowest = 0.5 * (depth_before + depth - bridge)
    local_time = jnp.where(ended | at_end, 0.0, jnp.maximum(-lowest, 0.0))
    normal = domain.normal(x)
    pushed = x - local_time * normal
    # next to a corner the push may leave the set by another wall: put the path just inside that
    excess = jnp.maximum(domain.signed_distance(pushed), 0.0)
    pushed = pushed - (1.0 + 1e-3) * excess * domain.normal(pushed)
    where = jnp.where(local_time > 0, pushed, x)
    return Met(ended, where, x + depth * normal, local_time, part)


def collect_flux(
    problem: Problem, partial: Scalar, log_discount: Scalar | None, met: Met, at
) -> tuple[Scalar, Scalar | None]:
    """Neumann and Robin data, weighed by the local time on their part."""
    discount = 1.0 if log_discount is None else jnp.exp(log_discount)
    for index, condition in enumerate(problem.conditions()):
        if not isinstance(condition, (Neumann, Robin)):
            continue
        here = jnp.where(met.part == index, met.local_time, 0.0)
        weight = here
        if isinstance(condition, Robin):  # mean discount over the local time of this step
            rate = condition.coefficient(at) * here
            weight = here * jnp.where(rate > 1e-4, -jnp.expm1(-rate) / jnp.maximum(rate, 1e-4), 1.0)
            log_discount = log_discount - rate
        if not condition.flux.is_zero:
            partial = partial + discount * condition.flux(at) * weight
    return partial, log_discount
