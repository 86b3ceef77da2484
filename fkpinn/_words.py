"""Random words of 32 bits, and numbers made of them."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

_WEYL = np.uint32(0x9E3779B9)
_SINE = (
    0.9999999957158399, -0.16666657969904713, 0.008333050617328103,
    -0.0001980904635739699, 2.6051662760628754e-06,
)  # fmt: skip
_COSINE = (
    0.9999999997799042, -0.49999999356955876, 0.04166663620891113,
    -0.0013888360842345025, 2.476013550753356e-05, -2.605107619580745e-07,
)  # fmt: skip

Word = UInt32[Array, "..."]


class Words(eqx.Module):
    """A short stream of random words: a hash (Wellons' `lowbias32`) of a Weyl sequence.

    For few numbers at a time that not every step of a path needs; it starts from a word of the
    path's own sequence.

    Args:
        state: a word that tells this stream from others.
    """

    state: Word

    def first(self) -> "Words":
        """Of many streams, the first."""
        return Words(self.state[0])

    def next(self) -> "tuple[Words, UInt32[Array, '']]":
        """The stream after its next word, and this."""
        state = self.state + _WEYL
        word = state ^ (state >> np.uint32(16))
        word = word * np.uint32(0x7FEB352D)
        word = word ^ (word >> np.uint32(15))
        word = word * np.uint32(0x846CA68B)
        return Words(state), word ^ (word >> np.uint32(16))

    def uniform(self, dtype: Any) -> "tuple[Words, Float[Array, '']]":
        """The next number in (0, 1)."""
        words, word = self.next()
        return words, uniform(word, dtype)

    def uniforms(self, count: int, dtype: Any) -> "tuple[Words, Float[Array, ' k']]":
        """The next numbers in (0, 1)."""
        words, found = self, []
        for _ in range(count):
            words, one = words.uniform(dtype)
            found.append(one)
        return words, jnp.stack(found)

    def normals(self, count: int, dtype: Any) -> "tuple[Words, Float[Array, ' k']]":
        """The next independent normals."""
        words, found = self, []
        while len(found) < count:
            words, first = words.next()
            words, second = words.next()
            found += box_muller(first, second, dtype)
        return words, jnp.stack(found[:count])


def uniform(word: Word, dtype) -> Float[Array, "..."]:
    """A uniform in the open interval, from the 23 high bits plus one half."""
    return ((word >> np.uint32(9)).astype(dtype) + 0.5) * 2.0**-23


def box_muller(a: Word, b: Word, dtype) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two independent normals from two words."""
    # 32 bits for the radius reach 6.6 standard deviations; half an ulp keeps log finite
    radius = jnp.sqrt(-2.0 * jnp.log((a.astype(dtype) + 0.5) * 2.0**-32))
    sine, cosine = _sine_cosine(b, dtype)
    return radius * cosine, radius * sine


def _sine_cosine(word: Word, dtype) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Sine and cosine of a uniform angle: half a turn from 31 bits, the side from one.

    Library functions are three times slower here. The polynomials, fitted at Chebyshev points of
    the squared angle, are exact to 5e-9 and 3e-10.
    """
    t = (word << np.uint32(1)).astype(dtype) * (math.pi * 2.0**-32) + (
        math.pi * 2.0**-32 - math.pi / 2
    )
    square = t * t
    sine = t * _polynomial(square, _SINE)
    cosine = _polynomial(square, _COSINE)
    return sine, jnp.where(word >> np.uint32(31) == 1, -cosine, cosine)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value
