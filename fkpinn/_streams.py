"""One tree of random streams, so that no two purposes share random numbers.

A stream is a number of 64 bits. Its children are named, and a child's number is a hash of its
parent's and of the name: `Stream(7) / "labels" / "coarse"`. The root is the user's seed. On the way
through compiled code a stream is a `jax` key, whose children `fold` names in the same way. Nothing
else in the package derives one seed or key from another; a test reads every file for that.
"""

import dataclasses
import hashlib

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Integer, Key, PRNGKeyArray

_WORD = 0xFFFFFFFF


@dataclasses.dataclass(frozen=True)
class Stream:
    """A named place in the tree of random numbers.

    Args:
        seed: a whole number from 0 to 2**64 - 1; for the root, what the user gave.
    """

    seed: int

    def __post_init__(self) -> None:
        given = self.seed
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**64:
            raise ValueError(f"`seed` must be an integer from 0 to 2**64 - 1; got {given!r}.")

    def __truediv__(self, name: str | int) -> "Stream":
        """The child of that name; `"labels/coarse"` is the child `coarse` of the child `labels`."""
        found = self
        for part in str(name).split("/"):
            found = Stream(_hash64(found.seed.to_bytes(8, "little") + part.encode()))
        return found

    @property
    def key(self) -> PRNGKeyArray:
        """A key for `jax.random`, the same whatever the precision."""
        words = np.array([self.seed >> 32, self.seed & _WORD], np.uint32)
        return jr.wrap_key_data(jnp.asarray(words), impl="threefry2x32")

    @property
    def generator(self) -> np.random.Generator:
        """A generator of NumPy."""
        return np.random.default_rng(self.seed)


def fold(key: PRNGKeyArray, name: str, *numbers: int | Integer[Array, ""]) -> PRNGKeyArray:
    """The child of a key: for a purpose, and maybe for a step, an index, a part of a step.

    Args:
        key: the parent; under `jit` too.
        name: what the numbers are for.
        numbers: which of many such children.
    """
    child = jr.fold_in(key, np.uint32(_hash64(name.encode()) & _WORD))
    for number in numbers:
        child = jr.fold_in(child, number)
    return child


def fold_each(key: PRNGKeyArray, name: str, count: int) -> Key[Array, " n"]:
    """So many children of a key, an array of keys."""
    return jax.vmap(lambda number: fold(key, name, number))(jnp.arange(count, dtype=jnp.uint32))


def _hash64(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
