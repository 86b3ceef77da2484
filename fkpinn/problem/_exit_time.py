"""Mean exit times from boxes, which many solutions in many dimensions resemble."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from .._types import Scalar

_RATIO = 3.0  # of one time to the next
_SHORTEST = 1e-3  # of these times, over that in which noise goes as far as a wall mostly is
_LEFT = 1e-4  # chance to be still inside after the longest, from the center
_ALONE = 0.05  # time, up to which images count for nothing
_SWITCH = 0.3  # time, in squared half-widths, from which on few cosines say as much as images


def box_exit_time(
    x: Float[Array, " n"],
    center: np.ndarray,
    half_width: np.ndarray,
    *,
    ratio: float = _RATIO,
    shortest: float = _SHORTEST,
    left: float = _LEFT,
) -> Scalar:
    r"""The mean time in which a Brownian motion from `x` leaves a box, up to a few percent.

    $\int_0^\infty \prod_i S(y_i, t / h_i^2)\,dt$, with the chance $S$ to be still between the two
    walls of an axis, as a sum over times.

    Args:
        x: a point inside.
        center: of the box.
        half_width: $h_i$ of each axis.
        ratio: of one time of the sum to the next.
        shortest: of these times, over the squared half-width divided by the squared dimension.
        left: chance to be still inside after the longest time.
    """
    n = len(half_width)
    half = np.asarray(half_width, float)
    size = n / np.sum(half**-2)
    times = size * _times(n, ratio, shortest / n**2, left)
    of_axes = times[:, None] / half**2
    weights = math.log(ratio) * times
    y = (x - jnp.asarray(center, x.dtype)) / jnp.asarray(half, x.dtype)

    # nested forward derivatives of products and of `erfc` would cost fifty times as much
    @jax.custom_jvp
    def value(y):
        return _sum(weights, jnp.prod(_stays(y[None], of_axes)[0], axis=1))

    @jax.custom_jvp
    def slopes(y):
        stays, first, _ = _stays(y[None], of_axes)
        rates = _over(first, stays)
        return jnp.asarray(weights, y.dtype) @ (jnp.prod(stays, axis=1)[:, None] * rates)

    @value.defjvp
    def _(at, along):
        return value(*at), jnp.dot(slopes(*at), along[0])

    @slopes.defjvp
    def _(at, along):
        (y,), (v,) = at, along
        stays, first, second = _stays(y[None], of_axes)
        rates = _over(first, stays)
        each = rates * v[None]
        others = jnp.sum(each, axis=1)[:, None] - each
        whole = jnp.prod(stays, axis=1)[:, None]
        bends = whole * rates * others + whole * _over(second, stays) * v[None]
        return slopes(y), jnp.asarray(weights, y.dtype) @ bends

    return value(y)


def _sum(weights: np.ndarray, values: Float[Array, " t"]) -> Scalar:
    return jnp.dot(jnp.asarray(weights, values.dtype), values)


def _over(a: Float[Array, "t n"], b: Float[Array, "t n"]) -> Float[Array, "t n"]:
    """The quotient; where the second is zero, on a wall, something finite."""
    least = 1e-30
    return a / jnp.where(jnp.abs(b) < least, least, b)


def _times(n: int, ratio: float, shortest: float, left: float) -> np.ndarray:
    """In squared half-widths, for a cube of so many dimensions."""
    tried = np.geomspace(40.0, shortest, 1000)
    stays = 4 / math.pi * np.exp(-(math.pi**2) / 8 * tried)
    longest = float(tried[np.argmax(n * np.log(np.minimum(stays, 1.0)) > math.log(left))])
    count = math.ceil(math.log(longest / shortest) / math.log(ratio))
    return longest * ratio ** -np.arange(float(count))


def _stays(y: Float[Array, "1 n"], times: np.ndarray) -> tuple[Float[Array, "t n"], ...]:
    """Chances that a Brownian motion from `y` has not left (-1, 1) on an axis, and derivatives."""
    late = np.max(times, axis=1) >= _SWITCH  # the first rows
    n_late = int(np.sum(late))
    parts = [_by_images(y, np.minimum(times, _SWITCH))]
    if n_late == 0:
        return parts[0]
    cosines = _by_cosines(y, np.maximum(times[:n_late], _SWITCH))
    chosen = times[:n_late] >= _SWITCH
    return tuple(
        jnp.concatenate([jnp.where(chosen, wave, image[:n_late]), image[n_late:]])
        for image, wave in zip(parts[0], cosines, strict=True)
    )


def _by_images(y: Float[Array, "1 n"], times: np.ndarray) -> tuple[Float[Array, "t n"], ...]:
    """For short times: both walls, and in the first rows the image of each in the other."""
    value, *slopes = _errors(y, times, 1.0, -1.0)
    walls = (1.0 + value, *slopes)
    n_far = int(np.sum(np.max(times, axis=1) >= _ALONE))
    if n_far == 0:
        return walls
    images = _errors(y, times[:n_far], 3.0, 1.0)
    return tuple(
        jnp.concatenate([wall[:n_far] + image, wall[n_far:]])
        for wall, image in zip(walls, images, strict=True)
    )


def _errors(
    y: Float[Array, "1 n"], times: np.ndarray, wall: float, sign: float
) -> tuple[Float[Array, "t n"], ...]:
    """Sum of the error functions of distances to walls at both sides, and its derivatives."""
    scale = jnp.asarray(1.0 / np.sqrt(2.0 * times), y.dtype)
    value = first = second = jnp.zeros(times.shape, y.dtype)
    for side in (-1.0, 1.0):
        far = (wall + side * y) * scale
        bell = (-sign * side * 2.0 / math.pi**0.5) * scale * jnp.exp(-(far**2))
        value = value + sign * erfc(far)
        first = first + bell
        second = second - 2.0 * side * far * scale * bell
    return value, first, second


def _by_cosines(y: Float[Array, "1 n"], times: np.ndarray) -> tuple[Float[Array, "t n"], ...]:
    """For long times."""
    like = lambda values: jnp.asarray(values, y.dtype)
    turn = 0.5 * math.pi
    found = [jnp.zeros(times.shape, y.dtype)] * 3
    for k, sign in enumerate((1.0, -1.0, 1.0)):
        m = 2 * k + 1
        size = like(sign * 4 / (math.pi * m) * np.exp(-(math.pi**2) / 8 * m**2 * times))
        wave, slope = jnp.cos(m * turn * y), jnp.sin(m * turn * y)
        terms = size * wave, -m * turn * size * slope, -((m * turn) ** 2) * size * wave
        found = [a + b for a, b in zip(found, terms, strict=True)]
    return tuple(found)
