"""Draw from maps of the unit cube that reject some of their points."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._compute import few_sizes, is_traced
from .._streams import fold
from ..domain import Shapes
from ..problem import Region

_MAX_ROUNDS = 1000
_TOO_THIN = (
    f"Fewer points than asked for were found in {_MAX_ROUNDS} rounds: the domain, or the boundary "
    "part asked for, is empty or far too thin for its bounding box."
)

Draw = Callable[[Any, Float[Array, " q"]], tuple[Any, Bool[Array, ""]]]


def fill_random(
    draw: Draw, where: Any, n_coords: int, n: int, key: PRNGKeyArray, dtype: DTypeLike
) -> Any:
    """The first `n` kept draws at random points of the unit cube.

    Args:
        draw: maps `where` and coordinates in the unit cube to a pytree of arrays and whether to
            keep it; a function of a module, so that it is compiled once.
        where: what it draws from.
        n_coords: number of coordinates.
        n: how many to return.
        key: random key.
        dtype: precision of the coordinates.
    """
    tried = max(n, 64)  # in a round
    if is_traced(where, key):
        return _fill_compiled(draw, where, n_coords, n, tried, key, dtype)
    kept: list[Any] = []
    found, room = 0, few_sizes(tried)
    for number in range(_MAX_ROUNDS):
        # what is drawn in a place does not depend on the room around it
        u = jr.uniform(fold(key, "round", number), (room, n_coords), dtype)
        drawn, keep = _batched(draw, where, u)
        chosen = np.flatnonzero(np.asarray(keep)[:tried])
        kept.append(jax.tree.map(lambda a, chosen=chosen: np.asarray(a)[chosen], drawn))
        found += len(chosen)
        if found >= n:
            return jax.tree.map(lambda *c: jax.device_put(np.concatenate(c)[:n]), *kept)
    raise RuntimeError(_TOO_THIN)


def _fill_compiled(
    draw: Draw, where: Any, n_coords: int, n: int, tried: int, key: PRNGKeyArray, dtype: DTypeLike
) -> Any:
    """The same as part of something that is compiled."""
    place = functools.partial(draw, where)
    shapes = jax.eval_shape(lambda u: place(u)[0], jax.ShapeDtypeStruct((n_coords,), dtype))
    empty = jax.tree.map(lambda s: jnp.zeros((n, *s.shape), s.dtype), shapes)

    def more(state):
        _, count, rounds = state
        return (count < n) & (rounds < _MAX_ROUNDS)

    def one_round(state):
        kept, count, rounds = state
        u = jr.uniform(fold(key, "round", rounds), (tried, n_coords), dtype)
        drawn, keep = jax.vmap(place)(u)
        # rejected draws get a slot past the end and are dropped, and so do those beyond `n`
        slot = jnp.where(keep, count + jnp.cumsum(keep, dtype=jnp.int32) - 1, n)
        kept = jax.tree.map(lambda old, new: old.at[slot].set(new, mode="drop"), kept, drawn)
        count = jnp.minimum(count + jnp.sum(keep, dtype=jnp.int32), n)
        return kept, count, rounds + 1

    kept, count, _ = jax.lax.while_loop(more, one_round, (empty, jnp.int32(0), jnp.array(0)))
    return eqx.error_if(kept, count < n, _TOO_THIN)


def in_each(region: Region, place: Any, u: Float[Array, " q"]) -> tuple[Any, Bool[Array, ""]]:
    """A draw that is made again, with the same parameters and time, until it is kept.

    Only where shapes depend on parameters: there, to drop draws would favor parameters for which
    more of them are kept.

    Args:
        region: the points of the problem.
        place: maps coordinates in the unit cube to something and whether to keep it.
        u: the coordinates of the first try; the others are made from them.
    """
    if not isinstance(region.domain, Shapes):
        return place(u)
    held = jnp.arange(u.shape[0]) < region.layout.n_ahead
    key = jr.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="threefry2x32")
    for word in (u * 2.0**23).astype(jnp.uint32):
        key = fold(key, "in each", word)

    def again(state):
        tries, _, _ = state
        fresh = jr.uniform(fold(key, "try", tries), u.shape, u.dtype)
        return tries + 1, *place(jnp.where(held, u, fresh))

    more = lambda state: ~state[2] & (state[0] < _MAX_ROUNDS)
    return jax.lax.while_loop(more, again, (jnp.int32(0), *place(u)))[1:]


@eqx.filter_jit
def _batched(draw: Callable[..., Any], where: Any, u: Float[Array, "n q"]) -> Any:
    return jax.vmap(lambda row: draw(where, row))(u)


def fill_sobol(
    draw: Callable[..., Any], where: Any, n_coords: int, n: int, seed: int, dtype
) -> Any:
    """The first `n` kept draws at scrambled Sobol points of the unit cube; not under jit.

    Args:
        draw: as for `fill_random`.
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
