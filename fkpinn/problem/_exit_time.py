"""Mean exit times from boxes, which many solutions in many dimensions resemble."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from .._types import Scalar

_RATIO = 3.0  # of one time to the next
_SHORTEST = 1e-3  # of these times, over that in which noise goes as far as a wall mostly is
_LEFT = 1e-4  # chance to be still inside after the longest, from the center
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
    y = (x - jnp.asarray(center, x.dtype)) / jnp.asarray(half_width, x.dtype)
    size = n / np.sum(np.asarray(half_width, float) ** -2)
    times = size * _times(n, ratio, shortest / n**2, left)
    stays = _stays(y[None], times[:, None] / np.asarray(half_width, float) ** 2)
    return jnp.dot(jnp.asarray(times, x.dtype), jnp.prod(stays, axis=1)) * math.log(ratio)


def _times(n: int, ratio: float, shortest: float, left: float) -> np.ndarray:
    """In squared half-widths, for a cube of so many dimensions."""
    tried = np.geomspace(40.0, shortest, 1000)
    stays = 4 / math.pi * np.exp(-(math.pi**2) / 8 * tried)
    longest = float(tried[np.argmax(n * np.log(np.minimum(stays, 1.0)) > math.log(left))])
    count = math.ceil(math.log(longest / shortest) / math.log(ratio))
    return longest * ratio ** -np.arange(float(count))


def _stays(y: Float[Array, "1 n"], times: np.ndarray) -> Float[Array, "t n"]:
    """Chances that a Brownian motion from `y` has not left (-1, 1) on each axis."""
    like = lambda values: jnp.asarray(values, y.dtype)
    scale = like(1.0 / np.sqrt(2.0 * np.minimum(times, _SWITCH)))
    walls = erfc((1 - y) * scale) + erfc((1 + y) * scale)
    images = 1.0 - walls + erfc((3 - y) * scale) + erfc((3 + y) * scale)
    if np.all(times < _SWITCH):
        return images
    wave = jnp.cos(0.5 * math.pi * y)
    waves = [wave, (4 * wave**2 - 3) * wave, ((16 * wave**2 - 20) * wave**2 + 5) * wave]
    late, cosines = np.maximum(times, _SWITCH), jnp.zeros_like(images)
    for k, (sign, each) in enumerate(zip((1, -1, 1), waves, strict=True)):
        m = 2 * k + 1
        cosines += like(sign * 4 / (math.pi * m) * np.exp(-(math.pi**2) / 8 * m**2 * late)) * each
    return jnp.where(times < _SWITCH, images, cosines)
