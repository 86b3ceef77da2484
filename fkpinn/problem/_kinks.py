"""Kinks and jumps of terminal data in one dimension, and how the diffusion smooths them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from .._compute import precision
from .._types import Scalar, SpaceTimePoint, Vector
from ._layout import Layout
from ._problem import Problem

_ORDERS = 4  # of derivatives whose jumps are smoothed, from the value on
_CELLS = 4096  # among which kinks are looked for
_HALVINGS = 45  # of a cell with a kink
_STANDS_OUT = 8.0  # change over a cell with a kink, over those beside it
_STAYS = 0.3  # of a change, when cells are halved; that of a smooth function goes to zero
_COUNTS = 1e-6  # of the largest value, or slope; less is what a smooth function changes by
_LEAST = 0.1  # of the noise at a kink, where a straight line would end below
_LARGE = 1e8  # second derivatives, in units of slopes over lengths, next to which others vanish
_SOON = 1e-12  # times in units of the horizon that count as the end


_Pair: TypeAlias = Float[Array, " 2"]


class Kink(NamedTuple):
    """A point where data are not smooth, with the jumps of value and first derivatives.

    `drift` and `noise` are those of paths at this point, each with its derivative: mean and
    standard deviation of the change of a path per unit of time.
    """

    place: float
    leaps: tuple[float, ...]
    drift: tuple[float, float] = (0.0, 0.0)
    noise: tuple[float, float] = (1.0, 0.0)


class Smoothing(eqx.Module):
    r"""Smoothing of kinks of terminal data by a diffusion in a short time: $G(t, x) - g(x)$.

    Near $k$, where the $n$-th derivative of $g$ jumps by $c_n$, the solution is approximately $g$
    plus $\sum_n c_n\,(s^nI_n(y) - ((x - k)^+)^n/n!)$, with $y = (x + b\tau - k)/s$, $s^2 = a\tau$
    the variance of a path in the remaining time $\tau$, and $I_n$ the $n$-th integral of the normal
    distribution function: a jump becomes $\Phi(y)$, a kink $s\,(y\,\Phi(y) + \varphi(y))$. Drift
    $b$ and variance $a$ are evaluated halfway to the kink. The residual is then bounded, while for
    $g$ itself it is a point mass.

    Args:
        kinks: kinks of data in one dimension.
        layout: of the points, with a time.
    """

    kinks: tuple[Kink, ...] = eqx.field(static=True)
    layout: Layout

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """What is added to the data."""
        rows = [jnp.asarray(row, z.dtype) for row in zip(*self.kinks, strict=True)]
        one = lambda place, leaps, drift, noise: self._one(place, leaps, drift, noise, z)
        return jnp.sum(jax.vmap(one)(*rows))

    def _one(
        self, place: Scalar, leaps: Vector, drift: _Pair, noise: _Pair, z: SpaceTimePoint
    ) -> Scalar:
        layout = self.layout
        assert layout.horizon is not None
        gone = layout.pace * (layout.time(z) - layout.end)
        # a time of zero, too, has a derivative
        left = jnp.where(gone > 0.0, gone, -gone) + _SOON * layout.horizon
        x = jnp.sum(layout.space(z))
        halfway = 0.5 * (x - place)
        ahead = x - place + (drift[0] + drift[1] * halfway) * left
        deviation = jnp.maximum(noise[0] + noise[1] * halfway, _LEAST * noise[0])
        square = deviation**2 * left
        spread = jnp.sqrt(square)
        y = ahead / spread
        up, above = y > 0.0, x > place
        over = jnp.where(above, x - place, 0.0)
        # I_n(y) is a polynomial where y > 0, but for I_n(-y); without it most digits would cancel
        y = jnp.where(up, -y, y)
        power, before, now = jnp.ones_like(x), norm.pdf(y), norm.cdf(y)
        lower, plain = jnp.zeros_like(x), jnp.ones_like(x)
        total = jnp.zeros_like(x)
        for n in range(_ORDERS):
            tail = power * now
            smooth = jnp.where(up, plain + (tail if n % 2 else -tail), tail)
            sharp = jnp.where(above, over**n / math.factorial(n), 0.0)
            total = total + leaps[n] * (smooth - sharp)
            before, now = now, (y * now + before) / (n + 1)
            lower, plain = plain, (ahead * plain + square * lower) / (n + 1)
            power = power * spread
        return total


def smoothing(problem: Problem) -> Smoothing | None:
    """The smoothing of kinks of a one-dimensional problem; None if it has none, or no noise.

    Also None for a family: its kinks may move with the parameters.
    """
    if problem.dim != 1 or problem.parameters:
        return None
    if problem.terminal is None or problem.diffusion.is_zero:
        return None
    with precision("float64"):
        found = find_kinks(problem.terminal, *_range(problem))
        kinks = tuple(_moving(problem, kink) for kink in found)
    noisy = all(kink.noise[0] > 0.0 for kink in kinks)
    return Smoothing(kinks, problem.layout) if kinks and noisy else None


def _moving(problem: Problem, kink: Kink) -> Kink:
    """The kink with drift and noise of paths there, where second derivatives are those of it."""
    given, data, place = problem.nonlinearity, problem.terminal, jnp.asarray(kink.place)
    assert data is not None
    bend = kink.leaps[1] or 1.0

    def drift(x):
        return jnp.sum(problem.drift(problem.layout.at_end(x[None])))

    def noise(x):
        z = problem.layout.at_end(x[None])
        variance = jnp.sum(problem.sigma(z) ** 2)
        if given is not None and given.second:
            value = data(x[None])
            adds = lambda q, given=given: given(z, value, jnp.zeros(1), jnp.full((1, 1), q))
            variance = variance + 2.0 * (adds(_LARGE * bend) - adds(0.0)) / (_LARGE * bend)
        return jnp.sqrt(jnp.maximum(variance, 0.0))

    both = lambda function: tuple(
        float(a) for a in jax.jvp(function, (place,), (jnp.ones_like(place),))
    )
    return kink._replace(drift=both(drift), noise=both(noise))


def _range(problem: Problem) -> tuple[float, float]:
    """Where answers are wanted and as much on both sides, within the domain."""
    low, high = (float(np.asarray(a)[0]) for a in problem.box())
    least, most = (float(np.asarray(a)[0]) for a in problem.domain.bounding_box())
    return max(low - (high - low), least), min(high + (high - low), most)


def find_kinks(data: Callable[..., Any], low: float, high: float) -> tuple[Kink, ...]:
    """Points at which a function of one variable, or its slope, jumps.

    Args:
        data: the function; called with arrays of one number.
        low: start of the search interval.
        high: end of the search interval.
    """
    derivatives = [_jitted(data)]
    for _ in range(1, _ORDERS):
        data = _derivative(data)
        derivatives.append(_jitted(data))
    places = sorted({*_leaps(derivatives[0], low, high), *_leaps(derivatives[1], low, high)})
    apart = (high - low) * 1e-9
    kept = [p for i, p in enumerate(places) if i == 0 or p - places[i - 1] > 2 * apart]
    if not kept:
        return ()
    grid = np.linspace(low, high, _CELLS + 1)
    sides = np.asarray(kept, np.float64)[:, None] + np.asarray([[-apart, apart]])

    def leaps(function):
        found = np.diff(function(sides.ravel()).reshape(-1, 2), axis=1)[:, 0]
        return np.where(np.abs(found) > _COUNTS * np.max(np.abs(function(grid))), found, 0.0)

    rows = zip(kept, np.stack([leaps(f) for f in derivatives], axis=1).tolist(), strict=True)
    return tuple(Kink(place, tuple(row)) for place, row in rows)


def _derivative(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: jax.grad(lambda x: jnp.reshape(function(x), ()))(x)[0]


def _jitted(function: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    many = jax.jit(jax.vmap(lambda x: jnp.asarray(function(x))))
    return lambda x: np.asarray(many(jnp.asarray(x, jnp.float64)[:, None]), np.float64)


def _leaps(function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> list[float]:
    """Places at which a function of many numbers is not continuous."""
    grid = np.linspace(low, high, _CELLS + 1) + (high - low) * 1e-7 / np.pi  # kinks lie on grids
    change = np.abs(np.diff(function(grid)))
    beside = np.maximum(np.roll(change, 1), np.roll(change, -1))
    beside[[0, -1]] = change[[1, -2]]
    noise = 1e-9 * np.max(np.abs(function(grid)), initial=0.0)
    (cells,) = np.nonzero(change > _STANDS_OUT * beside + noise)
    left, right, first = grid[cells], grid[cells + 1], change[cells]
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        lower = np.abs(function(middle) - function(left))
        upper = np.abs(function(right) - function(middle))
        in_upper = upper > lower
        left, right = np.where(in_upper, middle, left), np.where(in_upper, right, middle)
    stays = np.abs(function(right) - function(left)) > _STAYS * first
    return [float(x) for x in 0.5 * (left + right)[stays]]
