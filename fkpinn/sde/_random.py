"""Random numbers as a function of (seed, point, path, step).

Philox4x32-10, a published counter-based generator (Salmon, Moraes, Dror, Shaw: Parallel random
numbers: as easy as 1, 2, 3, SC 2011), and Box-Muller for normals. Whatever the order in which
paths are run, and on however many devices, each path sees the same numbers.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._streams import Stream
from .._words import Word, box_muller, uniform

_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_HALF = np.uint64(32)
_ROUNDS = 10


class PathStream(NamedTuple):
    """What tells the random numbers of one path from those of all others."""

    seed: tuple[Word, Word]
    point: Word
    path: Word


def seed_words(seed: int) -> tuple[np.uint32, np.uint32]:
    """A seed as two words, or an error that says what came."""
    Stream(seed)  # refuses what is no seed
    return np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)


def philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, ...]:
    """Four random words from a counter of four words and a key of two.

    Words travel in pairs, as the halves of 64-bit integers: the product of one pair's upper
    half is at once both new words of the other, up to an exclusive or.
    """
    with precision("float64"):  # 64-bit integers, whatever the precision of the paths
        wide = lambda word: word.astype(jnp.uint64)
        upper = lambda word: wide(word) << _HALF
        a = upper(counter[0]) | wide(counter[1])
        b = upper(counter[2]) | wide(counter[3])
        k, j = key
        for _ in range(_ROUNDS):
            next_a = (b >> _HALF) * _FACTORS[1] ^ (a << _HALF) ^ upper(k)
            next_b = (a >> _HALF) * _FACTORS[0] ^ (b << _HALF) ^ upper(j)
            a, b, k, j = next_a, next_b, k + _WEYL[0], j + _WEYL[1]
        low = lambda pair: pair.astype(jnp.uint32)
        return low(a >> _HALF), low(a), low(b >> _HALF), low(b)


def words(of: PathStream, position: Word, use: int) -> tuple[Word, ...]:
    """Four words of a path's sequence for one use (0: normals, others: uniforms)."""
    like = lambda word: jnp.broadcast_to(word, position.shape)
    counter = (position, like(of.path), like(of.point), jnp.full_like(position, use))
    return philox(counter, of.seed)


def normals(of: PathStream, unit: Word, each: int, dtype) -> list[Array]:
    """Normals of one unit of steps: those of the first step, of the second, and so on.

    Step `n` takes numbers `n * each` and following of the path's sequence. They come in blocks
    of four; a unit is `whole_blocks(each)` steps.
    """
    return _of_unit(lambda at: _four_normals(of, at, dtype), unit, each)


def uniforms(of: PathStream, unit: Word, each: int, dtype) -> list[Array]:
    """Uniforms in (0, 1), independent of the normals, in the same arrangement."""
    return _of_unit(lambda at: _four_uniforms(of, at, dtype), unit, each)


def normal_rows(
    of: PathStream, first: Word, each: int, steps: int, dtype
) -> Float[Array, "paths steps each"]:
    """What `normals` draws, of many steps, as one array."""
    return _rows(lambda at: _four_normals(of, at, dtype), first, each, steps, dtype)


def uniform_rows(
    of: PathStream, first: Word, each: int, steps: int, dtype
) -> Float[Array, "paths steps each"]:
    """What `uniforms` draws, of many steps, as one array."""
    return _rows(lambda at: _four_uniforms(of, at, dtype), first, each, steps, dtype)


def _four_normals(of: PathStream, position: Word, dtype) -> list[Array]:
    a, b, c, d = words(of, position, 0)
    return [*box_muller(a, b, dtype), *box_muller(c, d, dtype)]


def _four_uniforms(of: PathStream, position: Word, dtype) -> list[Array]:
    return [uniform(word, dtype) for word in words(of, position, 1)]


def whole_blocks(each: int) -> int:
    """Steps after which whole blocks of four numbers are used up."""
    return 4 // math.gcd(4, each)


def ahead(draw: Callable[[Word], list[Array]], first: Word, each: int, steps: int) -> list[Array]:
    """What `normals` or `uniforms` draw for many steps: `each` arrays of shape `(steps, paths)`.

    `first`, the number of the first step, and `steps` must be whole units.
    """
    if each == 0:
        return []
    unit = whole_blocks(each)
    units = first[None] // np.uint32(unit) + jnp.arange(steps // unit, dtype=jnp.uint32)[:, None]
    found = draw(units)
    rows = [found[j::each] for j in range(each)]
    return [r[0] if unit == 1 else jnp.stack(r, axis=1).reshape(steps, -1) for r in rows]


def _of_unit(draw: Callable[[Word], list[Array]], unit: Word, each: int) -> list[Array]:
    blocks = each * whole_blocks(each) // 4
    return [n for k in range(blocks) for n in draw(unit * np.uint32(blocks) + np.uint32(k))]


def _rows(
    draw: Callable[[Word], list[Array]], first: Word, each: int, steps: int, dtype
) -> Float[Array, "paths steps each"]:
    if each == 0:
        return jnp.zeros((len(first), steps, 0), dtype)
    unit = whole_blocks(each)
    blocks = each * unit // 4
    start = first // np.uint32(unit) * np.uint32(blocks)
    count = np.arange(steps // unit * blocks, dtype=np.uint32)
    # each of the four words' normals once; fused with what follows they would be drawn four times
    four = jax.lax.optimization_barrier(draw(start[:, None] + count[None]))
    return jnp.stack(four, axis=2).reshape(len(first), steps, each)
