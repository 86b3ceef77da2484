"""A path on its way, and what a walk must say for itself."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32

from .._types import Point, Scalar, SpaceTimePoint
from .._words import Words
from ..domain import AbstractDomain
from ..problem import Layout, Problem

Control: TypeAlias = Callable[..., Any] | None  # of one point; its gradient makes a martingale
NEAR = 4.0  # ways to a wall over the reach of a step, where steps become shorter
FORGET = 1e-7  # a path with a smaller discount adds nothing any more


class Visit(NamedTuple):
    """One place of a path, drawn from its occupation measure while it goes on.

    A reservoir of one (Efraimidis and Spirakis, Inf. Process. Lett. 97, 2006): a place of weight
    `w` replaces the one that is kept with probability `w / total`. Instead of a random number at
    every step there is one at every replacement, which tells the `total` at which the next is due.
    """

    x: Point
    step: UInt32[Array, ""]
    total: Scalar  # time so far, discounted
    due: Scalar
    word: UInt32[Array, ""]  # state of a generator of Marsaglia's (xorshift), not zero

    def after(self, x: Point, step: UInt32[Array, ""], weight: Scalar) -> "Visit":
        """One more place."""
        total = self.total + weight
        word = self.word ^ (self.word << np.uint32(13))
        word = word ^ (word >> np.uint32(17))
        word = word ^ (word << np.uint32(5))
        uniform = ((word >> np.uint32(8)).astype(total.dtype) + 0.5) * 2.0**-24
        moved = Visit(x, step, total, total / uniform, word)
        taken = total > self.due
        kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, self)
        return kept._replace(total=total)


class Varying(NamedTuple):
    """Of a path whose steps are shorter next to walls."""

    near: Scalar  # ways to a wall over the reach of a step: below, steps are shorter
    last: Scalar  # the time step before, 0 at first


class Jumping(NamedTuple):
    """Of a path that jumps: its steps end at jumps, so it carries its time along."""

    words: Words
    clock: Scalar  # time until the next jump
    elapsed: Scalar
    out: Int32[Array, ""]  # 1 if the last jump led outside
    due: Int32[Array, ""]  # 1 if it waits where it jumps


class Lane(NamedTuple):
    """A path on its way. What a problem has no use for is None."""

    point: UInt32[Array, ""]
    path: UInt32[Array, ""]
    step: UInt32[Array, ""]
    n_steps: UInt32[Array, ""] | None  # the path is cut after so many
    start: Scalar | None  # time of the problem at the first step
    dt: Scalar
    x: Point
    log_discount: Scalar | None
    payoff: Scalar
    partial: Scalar  # of the payoff, since it was last added: keeps digits in single precision
    running: Int32[Array, ""]  # 1 or 0
    late: Int32[Array, ""] | None  # 1 if cut
    visit: Visit | None = None
    varying: Varying | None = None
    jumping: Jumping | None = None
    values: tuple[Scalar, ...] = ()  # of the parameters of a family

    def saw(self, x: Point, weight: Scalar) -> "Lane":
        """The path after a place that counts so much."""
        if self.visit is None:
            return self
        return self._replace(visit=self.visit.after(x, self.step, weight))

    def at(self, layout: Layout, x: Point) -> SpaceTimePoint:
        """The point of the problem at `x` now, without the rounding of many small additions."""
        values = jnp.stack(self.values) if self.values else ()
        if self.start is None:
            return layout.point(None, x, values)
        if self.jumping is not None:
            gone = self.jumping.elapsed
        else:
            gone = self.step.astype(self.dt.dtype) * self.dt
        return layout.point(self.start + layout.pace * gone, x, values)

    def domain(self, problem: Problem) -> AbstractDomain:
        """The set the path is in."""
        return problem.domain.at(jnp.stack(self.values)) if self.values else problem.domain

    def then(self, moved: "Lane") -> "Lane":
        """The path after a step, or as it was if it had ended before, or waits for a jump."""
        moves = self.running > 0
        if self.jumping is not None:
            moves = moves & (self.jumping.due == 0)
        kept = jax.tree.map(lambda new, old: jnp.where(moves, new, old), moved, self)
        if self.jumping is None:
            return kept
        return kept._replace(step=jnp.where(self.running > 0, moved.step, self.step))


class Numbers(NamedTuple):
    """Random numbers of some steps: normals, and what decides about walls and signs."""

    normals: Float[Array, " m"]
    uniforms: Float[Array, " w"]

    def of_step(self, k: int, need: "Need") -> "Numbers":
        """Those of the `k`-th step."""
        m, w = need.normals, need.uniforms
        return Numbers(self.normals[k * m : (k + 1) * m], self.uniforms[k * w : (k + 1) * w])


class Need(NamedTuple):
    """Random numbers a step takes."""

    normals: int
    uniforms: int


class AbstractWalk(eqx.Module):
    """How paths of a problem go from a point to their payoff."""

    @abc.abstractmethod
    def need(self, problem: Problem) -> Need:
        """Random numbers of one step."""

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse a problem this walk does not solve."""

    @abc.abstractmethod
    def begin(self, problem: Problem, lane: Lane) -> Lane:
        """Prepare a path that has not moved yet."""

    @abc.abstractmethod
    def advance(self, problem: Problem, control: Control, lane: Lane, numbers: Numbers) -> Lane:
        """Take the steps the numbers are for; an ended path stays where it is."""

    @abc.abstractmethod
    def finish(self, problem: Problem, lane: Lane) -> Scalar:
        """Payoff of a path that has ended."""

    def left(self, problem: Problem, lane: Lane) -> Point:
        """Where a path that has ended left the domain."""
        return lane.domain(problem).project(lane.x)

    def discounts(self, problem: Problem) -> bool:
        """Whether paths carry a discount."""
        return not problem.reaction.is_zero or any(c.discounts for c in problem.conditions())

    @property
    def stepped(self) -> bool:
        """Whether paths move in time steps."""
        return True

    @property
    def short(self) -> bool:
        """Whether paths end after some ten steps."""
        return False

    def varies(self, problem: Problem) -> bool:
        """Whether time steps of a path differ."""
        return False

    def fits_kernel(self, problem: Problem) -> bool:
        """Whether paths are worth a kernel, which takes long to compile."""
        return True

    def together(self, problem: Problem) -> int:
        """Steps that `advance` takes at a time."""
        return 1

    def round(self, problem: Problem) -> int:
        """Steps, at most, before running sums are added to payoffs and ended paths replaced."""
        return 64


def absorbed_value(problem: Problem, z: SpaceTimePoint) -> Scalar:
    """What the part nearest to the point pays to a path that ends there."""
    value = jnp.zeros((), z.dtype)
    conditions = problem.conditions()
    if not conditions:
        return value
    if len(conditions) == 1:
        return conditions[0].payoff(z)
    part = problem.domain_at(z).part_at(problem.space(z))
    for index, condition in enumerate(conditions):
        if condition.absorbs:
            value = jnp.where(part == index, condition.payoff(z), value)
    return value
