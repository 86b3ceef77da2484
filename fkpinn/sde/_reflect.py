"""Walls that push back: reflection with local time on Neumann and Robin parts."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from .._types import Point, Scalar, SpaceTimePoint
from ..problem import Problem
from ._exit import AbstractExit, spread_across


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
    domain, ends = problem.domain_at(z), np.flatnonzero(problem.absorbing())
    old = problem.space(z)
    spread = spread_across(problem, z, dt)
    distances, depth = domain.part_distance(x), -domain.signed_distance(x)
    part = jnp.argmin(distances)
    at_end = functools.reduce(jnp.logical_or, [part == k for k in ends], jnp.array(False))
    ended = ~jnp.all(jnp.isfinite(x))
    if len(ends):
        to_end = nearest_end(problem, distances)
        before = nearest_end(problem, domain.part_distance(old))
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


def nearest_end(problem: Problem, distances: Float[Array, " parts"]) -> Scalar:
    """The least of the distances to parts at which paths end; there must be one."""
    return functools.reduce(
        jnp.minimum, [distances[k] for k in np.flatnonzero(problem.absorbing())]
    )


class Wall(NamedTuple):
    """A wall that was met: where and when, for how long, which part, at what discount."""

    at: SpaceTimePoint
    local_time: Scalar
    part: Int32[Array, ""]
    log_discount: Scalar | None


def discounted(problem: Problem, wall: Wall) -> Scalar | None:
    """The discount after the wall has taken its share of it."""
    log_discount = wall.log_discount
    for index, condition in enumerate(problem.conditions()):
        if condition.discounts and log_discount is not None:
            here = jnp.where(wall.part == index, wall.local_time, 0.0)
            log_discount = log_discount - condition.rate(wall.at) * here
    return log_discount


def collect_flux(problem: Problem, wall: Wall) -> Scalar:
    """What reflecting parts pay, weighed by the local time there."""
    discount = 1.0 if wall.log_discount is None else jnp.exp(wall.log_discount)
    total = jnp.zeros_like(wall.local_time)
    for index, condition in enumerate(problem.conditions()):
        if not condition.pays():
            continue
        here = jnp.where(wall.part == index, wall.local_time, 0.0)
        weight = here
        if condition.discounts:  # mean discount over the local time of this step
            lost = condition.rate(wall.at) * here
            weight = here * jnp.where(lost > 1e-4, -jnp.expm1(-lost) / jnp.maximum(lost, 1e-4), 1.0)
        total = total + discount * condition.income(wall.at) * weight
    return total
