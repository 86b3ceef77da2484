r"""Jumps of a process: when, how far, and what they do to a function.

A process that jumps at the rate $\lambda$ by vectors $Z$ adds
$\lambda(x)\,\mathbb{E}[u(x + Z) - u(x)]$ to the equation.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Point, Scalar, SpaceTimePoint, Vector
from .._words import Words
from ..domain import AbstractDomain, Box, frozen
from ._coefficient import Coefficient, accepts, bind, spelled
from ._layout import Layout

_NODES = 20  # of Gauss's rule on a piece of the line
_HERMITE = {1: 32, 2: 12}  # nodes along an axis, by dimension
_SAMPLES = 64  # of laws without nodes
_REACH = 6.5  # deviations of a normal law: beyond lie 8e-11 of it
_JUMPS, _EXPECTED = 12, 4.0  # in one increment, at most and on average
_TAIL = 40.0  # mean sizes of an exponential law: beyond lie 4e-18 of it


def _numbers(given: Any) -> Any:
    """Numbers that can be compared and hashed; what is none is refused later, by name."""
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError):
        return given
    return given if given is None else frozen(array)


def _pair(given: Any) -> Any:
    return None if given is None else tuple(map(_numbers, given))


class AbstractJumpLaw(eqx.Module):
    """The distribution of jumps: how a jump is drawn, and means over jumps."""

    @abc.abstractmethod
    def jump(self, words: Words, dim: int, dtype: Any) -> tuple[Words, Vector]:
        """One jump, from a stream of random numbers, and the rest of the stream."""

    @abc.abstractmethod
    def checked(self, dim: int) -> "AbstractJumpLaw":
        """The same distribution, or an error if it does not fit the dimension."""

    def nodes(self, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Quadrature nodes, one jump per row, and weights; None if there are none."""
        return None

    def between(
        self, lower: Scalar, upper: Scalar
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]] | None:
        """On the line: nodes and weights for the part of the law between two jumps, if known."""
        return None


class NormalJump(AbstractJumpLaw):
    """Normally distributed jumps.

    Args:
        mean: one number for all axes, or one per axis.
        std: standard deviation, one positive number for all axes, or one per axis.
    """

    mean: Any = eqx.field(static=True, default=0.0, converter=_numbers)
    std: Any = eqx.field(static=True, default=1.0, converter=_numbers)

    def jump(self, words: Words, dim: int, dtype: Any) -> tuple[Words, Vector]:
        """From normals."""
        mean, std = (jnp.asarray(np.asarray(a), dtype) for a in self._axes(dim))
        words, found = words.normals(dim, dtype)
        return words, mean + std * found

    def checked(self, dim: int) -> "NormalJump":
        """With finite means and positive deviations."""
        for name, given in (("mean", self.mean), ("std", self.std)):
            array = np.asarray(given, float)
            if array.shape not in ((), (dim,)) or not np.all(np.isfinite(array)):
                raise ValueError(
                    f"`NormalJump({name}=...)` must be a finite number, or {dim} of them; got "
                    f"{given!r}."
                )
        if not np.all(np.asarray(self.std, float) > 0):
            raise ValueError(f"`NormalJump(std=...)` must be positive; got {self.std!r}.")
        own = lambda given: tuple(np.broadcast_to(np.asarray(given, float), (dim,)).tolist())
        return NormalJump(own(self.mean), own(self.std))

    def nodes(self, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Gauss and Hermite's in one and two dimensions."""
        if dim not in _HERMITE:
            return None
        at, weight = np.polynomial.hermite_e.hermegauss(_HERMITE[dim])
        weight = weight / weight.sum()
        grid = np.stack(np.meshgrid(*[at] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
        weights = np.prod(np.stack(np.meshgrid(*[weight] * dim, indexing="ij"), -1), axis=-1)
        mean, std = (np.asarray(a) for a in self._axes(dim))
        return mean + std * grid, weights.reshape(-1)

    def between(
        self, lower: Scalar, upper: Scalar
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Gauss's rule times the density."""
        (mean,), (std,) = self._axes(1)
        at, weight = _gauss(
            jnp.clip(lower, mean - _REACH * std, mean + _REACH * std),
            jnp.clip(upper, mean - _REACH * std, mean + _REACH * std),
        )
        density = jnp.exp(-0.5 * ((at - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))
        return at, weight * density

    def _axes(self, dim: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return tuple(  # pyright: ignore[reportReturnType]
            tuple(np.broadcast_to(np.asarray(a, float), (dim,)).tolist())
            for a in (self.mean, self.std)
        )


class DoubleExponentialJump(AbstractJumpLaw):
    """Jumps in one dimension, up or down, with exponential sizes (Kou's model).

    Args:
        up: probability of a jump upwards.
        mean_up: mean size of jumps upwards.
        mean_down: mean size of jumps downwards, a positive number.
    """

    up: float = eqx.field(static=True)
    mean_up: float = eqx.field(static=True)
    mean_down: float = eqx.field(static=True)

    def jump(self, words: Words, dim: int, dtype: Any) -> tuple[Words, Vector]:
        """By the inverse of the distribution."""
        words, u = words.uniforms(1, dtype)
        down = self.mean_down * jnp.log(jnp.maximum(u / max(1.0 - self.up, 1e-30), 1e-30))
        above = jnp.maximum((1.0 - u) / max(self.up, 1e-30), 1e-30)
        return words, jnp.where(u < 1.0 - self.up, down, -self.mean_up * jnp.log(above))

    def checked(self, dim: int) -> "DoubleExponentialJump":
        """On the line, with a probability and positive means."""
        if dim != 1:
            raise ValueError(
                f"`DoubleExponentialJump` is for one dimension; the domain has {dim}. Try "
                f"`NormalJump` or `SampledJump`."
            )
        if not 0.0 <= self.up <= 1.0:
            raise ValueError(f"`up` must be a probability; got {self.up!r}.")
        for name, given in (("mean_up", self.mean_up), ("mean_down", self.mean_down)):
            if not 0.0 < given < math.inf:
                raise ValueError(f"`{name}` must be positive and finite; got {given!r}.")
        return self

    def nodes(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Gauss and Laguerre's on both sides."""
        at, weight = np.polynomial.laguerre.laggauss(20)
        both = np.concatenate([-self.mean_down * at[::-1], self.mean_up * at])
        share = np.concatenate([(1.0 - self.up) * weight[::-1], self.up * weight])
        return both[:, None], share

    def between(
        self, lower: Scalar, upper: Scalar
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Gauss's rule times the density, on both sides of zero."""
        below, above = -_TAIL * self.mean_down, _TAIL * self.mean_up
        left, left_weight = _gauss(jnp.clip(lower, below, 0.0), jnp.clip(upper, below, 0.0))
        right, right_weight = _gauss(jnp.clip(lower, 0.0, above), jnp.clip(upper, 0.0, above))
        falling = (1.0 - self.up) / self.mean_down * jnp.exp(left / self.mean_down)
        rising = self.up / self.mean_up * jnp.exp(-right / self.mean_up)
        weights = [left_weight * falling, right_weight * rising]
        return jnp.concatenate([left, right]), jnp.concatenate(weights)


class DiscreteJump(AbstractJumpLaw):
    """One of finitely many jumps.

    Args:
        jumps: one per row; on the line, numbers.
        probabilities: one per jump, with sum one; all equal by default.
    """

    jumps: Any = eqx.field(static=True, converter=_numbers)
    probabilities: Any = eqx.field(static=True, default=None, converter=_numbers)

    def jump(self, words: Words, dim: int, dtype: Any) -> tuple[Words, Vector]:
        """The first whose distribution function is above a uniform number."""
        rows, weights = self.nodes(dim)
        words, uniform = words.uniform(dtype)
        found = jnp.asarray(rows[-1], dtype)
        above = np.cumsum(weights)
        for row, limit in reversed(list(zip(rows[:-1], above[:-1], strict=True))):
            found = jnp.where(uniform < limit, jnp.asarray(row, dtype), found)
        return words, found

    def checked(self, dim: int) -> "DiscreteJump":
        """Finite rows, and probabilities."""
        rows = np.asarray(self.jumps, float)
        rows = rows[:, None] if rows.ndim == 1 and dim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != dim or len(rows) == 0:
            raise ValueError(
                f"`jumps` must be an array with rows of {dim} numbers; got shape "
                f"{np.shape(self.jumps)}."
            )
        if not np.all(np.isfinite(rows)):
            raise ValueError(f"`jumps` must be finite; got {self.jumps!r}.")
        n = len(rows)
        given = np.full(n, 1.0 / n) if self.probabilities is None else self.probabilities
        weights = np.asarray(given, float)
        if weights.shape != (n,) or np.any(weights < 0) or abs(weights.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"`probabilities` must be {n} nonnegative numbers with sum one; got {given!r}."
            )
        return DiscreteJump(tuple(map(tuple, rows.tolist())), tuple(weights.tolist()))

    def nodes(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The jumps themselves."""
        return np.asarray(self.jumps), np.asarray(self.probabilities)


class SampledJump(AbstractJumpLaw):
    """Jumps computed from uniform random numbers by your own function.

    Without quadrature nodes, means are estimated by random jumps, new ones at every point:
    unbiased, but residuals are noisy.

    Args:
        function: a function of a vector of independent uniform numbers in (0, 1) that returns one
            jump.
        n_numbers: length of that vector.
        quadrature: quadrature nodes, one jump per row, and weights; optional.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    n_numbers: int = eqx.field(static=True)
    quadrature: Any = eqx.field(static=True, default=None, converter=_pair)

    def jump(self, words: Words, dim: int, dtype: Any) -> tuple[Words, Vector]:
        """What the function says."""
        words, numbers = words.uniforms(self.n_numbers, dtype)
        return words, jnp.reshape(jnp.asarray(self.function(numbers), dtype), (dim,))

    def checked(self, dim: int) -> "SampledJump":
        """With finite jumps of the right length, in samples."""
        if not callable(self.function) or not accepts(self.function, 1):
            raise TypeError(
                f"`function` must be a function of one vector of numbers in (0, 1); got "
                f"{spelled(self.function)}."
            )
        if self.n_numbers < 1:
            raise ValueError(f"`n_numbers` must be at least 1; got {self.n_numbers!r}.")
        numbers = jnp.asarray(np.random.default_rng(0).random((512, self.n_numbers)))
        found = np.asarray(jax.vmap(self.function)(numbers))
        if found.size != 512 * dim:
            raise ValueError(
                f"`function` must return one jump of shape ({dim},); got shape {found.shape[1:]}."
            )
        if not np.all(np.isfinite(found)):
            bad = np.asarray(numbers)[
                int(np.argmin(np.all(np.isfinite(found.reshape(512, -1)), 1)))
            ]
            raise ValueError(
                f"`function` of `SampledJump` must return finite jumps; it does not for the "
                f"numbers {bad}. Check for a division by zero or a logarithm of zero."
            )
        if self.quadrature is None:
            return self
        rows, weights = (np.asarray(a, float) for a in self.quadrature)
        rows = rows[:, None] if rows.ndim == 1 and dim == 1 else rows
        if rows.shape != (len(weights), dim) or abs(weights.sum() - 1.0) > 1e-6:
            raise ValueError(
                f"`quadrature` must be rows of {dim} numbers, and one weight per row, with sum "
                f"one; got shapes {rows.shape} and {weights.shape}, sum {weights.sum():.6g}."
            )
        fixed = tuple(map(tuple, rows.tolist())), tuple(weights.tolist())
        return SampledJump(self.function, self.n_numbers, fixed)

    def nodes(self, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Those that were given."""
        if self.quadrature is None:
            return None
        rows, weights = self.quadrature
        return np.asarray(rows), np.asarray(weights)


class AbstractJumps(eqx.Module):
    """The jumps of a process."""

    @abc.abstractmethod
    def checked(self, layout: Layout) -> "AbstractJumps":
        """The same, its data checked and wrapped."""

    @abc.abstractmethod
    def generator(self, u: Callable[..., Any], around: "Around", z: SpaceTimePoint) -> Scalar:
        """What jumps add to the equation at a point."""

    @abc.abstractmethod
    def increment(
        self, words: Words, z: SpaceTimePoint, dt: Scalar, dim: int
    ) -> tuple[Words, Vector]:
        """What jumps add to a path from `z` in a time step."""

    def pieces(self, time: float) -> int:
        """Into how many increments so long a time is cut."""
        return 1

    @abc.abstractmethod
    def fingerprint(self, z: SpaceTimePoint) -> Float[Array, " k"]:
        """Numbers that tell these jumps from others."""

    @abc.abstractmethod
    def strength(self, z: SpaceTimePoint) -> Scalar:
        """What a function of size one may change by in a unit of time, about."""


class Around(eqx.Module):
    """Where a function is that of the domain, and what it is elsewhere.

    Args:
        domain: the set the equation holds in.
        layout: of the points.
        exterior: values outside; None where there is no outside.
    """

    domain: AbstractDomain
    layout: Layout
    exterior: Coefficient | None

    def value(self, u: Callable[..., Any], z: SpaceTimePoint, x: Point) -> Scalar:
        """At another place and the time of `z`: the function's own, or what is given outside."""
        if self.exterior is None:
            return u(self.at(z, x))
        inside = self.domain.contains(x)
        here = self.layout.space(z)
        return jnp.where(
            inside, u(self.at(z, jnp.where(inside, x, here))), self.exterior(self.at(z, x))
        )

    def at(self, z: SpaceTimePoint, x: Point) -> SpaceTimePoint:
        """The point of the place `x` at the time of `z`."""
        return self.layout.placed(self.layout.ahead(z), x)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of a domain that is one piece of the line."""
        if self.exterior is None or not isinstance(self.domain, Box) or self.domain.dim != 1:
            return None
        lower, upper = self.domain.bounding_box()
        return float(lower[0]), float(upper[0])


class CompoundPoisson(AbstractJumps):
    r"""Jumps at random times: adds $\lambda(x)\,\mathbb{E}[u(x + Z) - u(x)]$ to the equation.

    Args:
        rate: $\lambda$, jumps per unit of time: a number, or a function of one point (`x`, or `t,
            x`).
        law: distribution of the jumps $Z$: `NormalJump`, `DoubleExponentialJump`, `DiscreteJump` or
            `SampledJump`.
        bound: an upper bound of the rate, required if the rate is a function.
    """

    rate: Any
    law: AbstractJumpLaw
    largest: float | None = eqx.field(static=True, default=None)

    def __init__(self, rate: Any, law: Any, bound: float | None = None):
        if not isinstance(law, AbstractJumpLaw):
            raise TypeError(
                f"`law` must be a distribution of jumps such as `NormalJump(mean, std)`; got "
                f"{law!r}."
            )
        self.rate, self.law, self.largest = rate, law, bound

    def checked(self, layout: Layout) -> "CompoundPoisson":
        """With a rate that is not negative, and a law of jumps in this dimension."""
        rate = bind("rate", self.rate, ((),), layout)
        largest = self.largest
        if rate.function is None:
            constant = float(np.asarray(rate.constant))
            if constant < 0:
                raise ValueError(f"`rate` must not be negative; got {constant!r}.")
            largest = constant if largest is None else largest
        if largest is None:
            raise ValueError(
                "`bound` is required if `rate` is a function: it must be a number that `rate` "
                "never exceeds, since jump times are drawn at that rate. Try "
                "`CompoundPoisson(rate, law, bound=...)`."
            )
        if not 0 <= largest < math.inf:
            raise ValueError(f"`bound` must be a finite number, not negative; got {largest!r}.")
        return CompoundPoisson(rate, self.law.checked(layout.dim), float(largest))

    @property
    def highest(self) -> float:
        """The rate at which jumps are proposed."""
        assert self.largest is not None
        return self.largest

    def generator(self, u: Callable[..., Any], around: Around, z: SpaceTimePoint) -> Scalar:
        """By quadrature where the law has nodes, else by random jumps."""
        return self.rate(z) * (self._mean(u, around, z) - u(z))

    def increment(
        self, words: Words, z: SpaceTimePoint, dt: Scalar, dim: int
    ) -> tuple[Words, Vector]:
        """At the rate of the start; of more jumps than a few, the first."""
        clock, total = jnp.zeros((), z.dtype), jnp.zeros(dim, z.dtype)
        for _ in range(_JUMPS):
            words, uniform = words.uniform(z.dtype)
            words, jump = self.law.jump(words, dim, z.dtype)
            clock = clock - jnp.log(uniform)
            total = total + jnp.where(clock < self.rate(z) * dt, jump, 0.0)
        return words, total

    def pieces(self, time: float) -> int:
        """Few enough jumps in each that `increment` has them all, but for 3 in 10,000."""
        return max(1, math.ceil(self.highest * time / _EXPECTED))

    def fingerprint(self, z: SpaceTimePoint) -> Float[Array, " k"]:
        """The rate, and one jump."""
        dim = self.rate.layout.dim
        jump = self.law.jump(words_at(z, 1).first(), dim, z.dtype)[1]
        return jnp.concatenate([self.rate(z)[None], jump])

    def strength(self, z: SpaceTimePoint) -> Scalar:
        """The rate."""
        return self.rate(z)

    def _mean(self, u: Callable[..., Any], around: Around, z: SpaceTimePoint) -> Scalar:
        x, dim = around.layout.space(z), around.layout.dim
        at = lambda nodes: jax.vmap(lambda jump: around.value(u, z, x + jump))(nodes)
        ends = around.interval
        if ends is not None and (own := self.law.between(ends[0] - x[0], ends[1] - x[0])):
            nodes, weights = own
            inside = jax.vmap(lambda jump: u(around.at(z, x + jump)))(nodes[:, None])
            return jnp.sum(weights * inside) + self._outside(around, z, ends)
        if (known := self.law.nodes(dim)) is not None:
            nodes, weights = (jnp.asarray(a, z.dtype) for a in known)
            return jnp.sum(weights * at(nodes))
        return jnp.mean(at(self._random(z, dim)))

    def _outside(self, around: Around, z: SpaceTimePoint, ends: tuple[float, float]) -> Scalar:
        """What jumps out of the interval bring."""
        outside = around.exterior
        assert outside is not None
        if outside.is_zero:
            return jnp.zeros((), z.dtype)
        x, total = around.layout.space(z), jnp.zeros((), z.dtype)
        far = jnp.asarray(1e30, z.dtype)
        for lower, upper in ((-far, ends[0] - x[0]), (ends[1] - x[0], far)):
            found = self.law.between(lower, upper)
            assert found is not None
            nodes, weights = found
            values = jax.vmap(lambda jump: outside(around.at(z, x + jump)))(nodes[:, None])
            total = total + jnp.sum(weights * values)
        return total

    def _random(self, z: SpaceTimePoint, dim: int) -> Float[Array, "n d"]:
        """Jumps that differ from point to point."""
        draw = lambda words: self.law.jump(words, dim, z.dtype)[1]
        return jax.vmap(draw)(words_at(z, _SAMPLES))


def words_at(z: SpaceTimePoint, count: int) -> Words:
    """Streams of random numbers that depend on all digits of a point."""
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(z).astype(jnp.float32), jnp.uint32)
    word = jnp.zeros((), jnp.uint32)
    for k in range(len(z)):
        word = (word ^ bits[k]) * np.uint32(0x01000193)
        word = word ^ (word >> np.uint32(15))
    return Words(word + jnp.arange(count, dtype=jnp.uint32) * np.uint32(0x85EBCA6B))


def _gauss(lower: Scalar, upper: Scalar) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Gauss and Legendre's nodes and weights on a piece of the line."""
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    dtype = jnp.result_type(lower)
    half = 0.5 * (upper - lower)
    return lower + half * jnp.asarray(1.0 + at, dtype), half * jnp.asarray(weight, dtype)
