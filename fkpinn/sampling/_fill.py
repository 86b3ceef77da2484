"""Draw from maps of the unit cube that reject some of their points."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._streams import fold

_MAX_ROUNDS = 1000

Draw = Callable[[Float[Array, " q"]], tuple[Any, Bool[Array, ""]]]


def room_for(n: int, key: PRNGKeyArray) -> int:
    """Rows to compile `fill_random` for: few numbers, or just so many where it is compiled in."""
    if isinstance(key, Tracer):
        return n
    return 1 << 3 * max(4, -(-(n - 1).bit_length() // 3))  # 4096, 32768, ...


def fill_random(
    draw: Draw, n_coords: int, room: int, n: Int[Array, ""] | int, key: PRNGKeyArray, dtype
) -> Any:
    """The first `n` kept draws at random points of the unit cube; works under jit.

    Args:
        draw: maps coordinates in the unit cube to a pytree of arrays and whether to keep it.
        n_coords: number of coordinates.
        room: rows to return.
        n: how many of them are wanted, the others are zero; what is drawn does not depend on
            `room`.
        key: random key.
        dtype: precision of the coordinates.
    """
    batch = max(room, 64)
    n = jnp.asarray(n, jnp.int32)
    tried = jnp.arange(batch, dtype=jnp.int32) < jnp.maximum(n, 64)
    shapes = jax.eval_shape(lambda u: draw(u)[0], jax.ShapeDtypeStruct((n_coords,), dtype))
    empty = jax.tree.map(lambda s: jnp.zeros((room, *s.shape), s.dtype), shapes)

    def more(state):
        _, count, rounds = state
        return (count < n) & (rounds < _MAX_ROUNDS)

    def one_round(state):
        kept, count, rounds = state
        u = jr.uniform(fold(key, "round", rounds), (batch, n_coords), dtype)
        drawn, keep = jax.vmap(draw)(u)
        keep = keep & tried
        # rejected draws get a slot past the end and are dropped, and so do those beyond `n`
        slot = jnp.where(keep, count + jnp.cumsum(keep, dtype=jnp.int32) - 1, n)
        slot = jnp.where(slot < n, slot, room)
        kept = jax.tree.map(lambda old, new: old.at[slot].set(new, mode="drop"), kept, drawn)
        count = jnp.minimum(count + jnp.sum(keep, dtype=jnp.int32), n)
        return kept, count, rounds + 1

    kept, count, _ = jax.lax.while_loop(more, one_round, (empty, jnp.int32(0), jnp.array(0)))
    return eqx.error_if(
        kept,
        count < n,
        f"Fewer points than asked for were found in {_MAX_ROUNDS} rounds: the domain, or the "
        "boundary part asked for, is empty or far too thin for its bounding box.",
    )


@eqx.filter_jit
def _batched(draw: Callable[..., Any], where: Any, u: Float[Array, "n q"]) -> Any:
    return jax.vmap(lambda row: draw(where, row))(u)


def fill_sobol(
    draw: Callable[..., Any], where: Any, n_coords: int, n: int, seed: int, dtype
) -> Any:
    """The first `n` kept draws at scrambled Sobol points of the unit cube; not under jit.

    Args:
        draw: as for `fill_random`, with `where` as its first argument; a function of a module, so
            that it is compiled once.
        where: what it draws from.
        n_coords: number of coordinates.
        n: how many to return.
        seed: of the scrambling.
        dtype: precision of the coordinates.
    """
    from scipy.stats import qmc

    sequence = qmc.Sobol(n_coords, scramble=True, rng=np.random.default_rng(seed))
    chunks: list[Any] = []
    found, log2 = 0, max(6, int(np.ceil(np.log2(max(n, 1)))))
    while True:
        drawn, keep = _batched(draw, where, jnp.asarray(sequence.random_base2(log2), dtype))
        chosen = np.flatnonzero(np.asarray(keep))
        chunks.append(jax.tree.map(lambda a, chosen=chosen: np.asarray(a)[chosen], drawn))
        found += len(chosen)
        if found >= n:
            return jax.tree.map(lambda *c: jnp.asarray(np.concatenate(c)[:n]), *chunks)
        log2 = int(np.log2(sequence.num_generated))  # doubling keeps the points balanced
        if log2 > max(20, 6 + int(np.log2(n))):
            break
    raise ValueError(
        f"Only {found} of {n} Sobol points were found: the domain, or the boundary part asked "
        f"for, is empty or far too thin for its bounding box."
    )
