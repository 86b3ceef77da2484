"""Random numbers as a function of (seed, point, path, step).

Philox4x32-10, a published counter-based generator (Salmon, Moraes, Dror, Shaw: Parallel random
numbers: as easy as 1, 2, 3, SC 2011), and Box-Muller for normals. Whatever the order in which
paths are run, and on however many devices, each path sees the same numbers.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

Word = UInt32[Array, "..."]


class Stream(NamedTuple):
    """What tells the random numbers of one path from those of all others."""

    seed: tuple[Word, Word]
    point: Word
    path: Word


def stream(seed: int, point: Word, path: Word) -> Stream:
    """The stream of one path; seeds of up to 64 bits are told apart."""
    low, high = seed_words(seed)
    return Stream((jnp.asarray(low), jnp.asarray(high)), point, path)


def seed_words(seed: int) -> tuple[np.uint32, np.uint32]:
    """A seed as two words, or an error that says what came."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise ValueError(f"`seed` must be an integer from 0 to 2**64 - 1; got {seed!r}.")
    return np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)


def philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, ...]:
    """Four random words from a counter of four words and a key of two."""
    state = (*counter, *key)
    for _ in range(_ROUNDS):
        state = _round(state)
    return state[:4]


def _round(state: tuple[Word, ...]) -> tuple[Word, ...]:
    c0, c1, c2, c3, k0, k1 = state
    high0, low0 = _multiply(_MULTIPLIERS[0], c0)
    high1, low1 = _multiply(_MULTIPLIERS[1], c2)
    c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3, k0 + np.uint32(_WEYL[0]), k1 + np.uint32(_WEYL[1])


def _multiply(factor: int, word: Word) -> tuple[Word, Word]:
    """High and low word of a product of two 32-bit words."""
    if jnp.result_type(float) == jnp.float64:  # 64-bit integers are at hand
        product = word.astype(jnp.uint64) * np.uint64(factor)
        return (product >> np.uint64(32)).astype(jnp.uint32), product.astype(jnp.uint32)
    half, sixteen = np.uint32(0xFFFF), np.uint32(16)
    low, high = np.uint32(factor & 0xFFFF), np.uint32(factor >> 16)
    cross = high * (word & half) + ((low * (word & half)) >> sixteen)
    other = low * (word >> sixteen) + (cross & half)
    return high * (word >> sixteen) + (cross >> sixteen) + (other >> sixteen), word * np.uint32(
        factor
    )


def normals(of: Stream, block: Word, count: int, ahead: int, dtype) -> tuple[Array, ...]:
    """Normals of many paths for some blocks ahead: `count` arrays of shape `(ahead, paths)`.

    With `m` normals a step, step `n` takes numbers `n * m` to `n * m + m - 1` of the path's
    sequence; a block is `count` consecutive ones, a multiple of 4.
    """
    found: list[Array] = []
    for part in range(count // 4):
        blocks = block[None] + jnp.arange(ahead, dtype=jnp.uint32)[:, None]
        position = blocks * np.uint32(count // 4) + np.uint32(part)
        spread = lambda word, like=position: jnp.broadcast_to(word, like.shape)
        counter = (
            position,
            spread(of.path[None]),
            spread(of.point[None]),
            jnp.zeros_like(position),
        )
        # a loop the compiler cannot look through: unrolled, it would redo the rounds for each use
        rounds = lambda _, state: _round(state)
        a, b, c, d, *_ = jax.lax.fori_loop(0, _ROUNDS, rounds, (*counter, *of.seed))
        found += [*box_muller(a, b, dtype), *box_muller(c, d, dtype)]
    return tuple(found)


def uniforms(of: Stream, block: Word, use: int, dtype) -> tuple[Float[Array, "..."], ...]:
    """Four uniforms in (0, 1) of the given block, independent of the normals (`use` > 0)."""
    counter = (block, of.path, of.point, jnp.full_like(block, use))
    return tuple(_uniform(word, dtype) for word in philox(counter, of.seed))


def _uniform(word: Word, dtype) -> Float[Array, "..."]:
    """A uniform in the open interval, from the 23 high bits plus one half."""
    return ((word >> np.uint32(9)).astype(dtype) + 0.5) * 2.0**-23


def box_muller(a: Word, b: Word, dtype) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two independent normals from two words."""
    # 32 bits for the radius reach 6.6 standard deviations; half an ulp keeps log finite
    radius = jnp.sqrt(-2.0 * jnp.log((a.astype(dtype) + 0.5) * 2.0**-32))
    sine, cosine = _sine_cosine(b)
    return radius * cosine.astype(dtype), radius * sine.astype(dtype)


def _sine_cosine(word: Word) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Sine and cosine of a uniform angle: a quarter turn from two bits, the rest by series.

    Library functions are three times slower here; on an eighth of a turn either way these
    short series are exact to rounding in single precision.
    """
    quarter = word >> np.uint32(30)
    rest = (word << np.uint32(2)) >> np.uint32(9)  # 23 bits
    r = (rest.astype(jnp.float32) * 2.0**-23 + (2.0**-24 - 0.5)) * np.float32(math.pi / 2)
    square = r * r
    sine = r * (1.0 + square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5040))))
    cosine = 1.0 + square * (-0.5 + square * (1 / 24 + square * (-1 / 720 + square * (1 / 40320))))
    swap = (quarter & np.uint32(1)) == 1
    s, c = jnp.where(swap, cosine, sine), jnp.where(swap, sine, cosine)
    negative_sine = quarter >= 2
    negative_cosine = (quarter == 1) | (quarter == 2)
    return jnp.where(negative_sine, -s, s), jnp.where(negative_cosine, -c, c)
