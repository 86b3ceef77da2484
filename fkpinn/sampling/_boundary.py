"""Points on the boundary, with their normals and parts."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..domain import AbstractDomain
from ..problem import Layout, Problem, Region
from ._fill import fill_random, fill_sobol, room_for


class BoundaryPoints(NamedTuple):
    """Boundary points, outward normals, and the index of each point's part."""

    points: Float[Array, "n z"]
    normals: Float[Array, "n d"]
    parts: Int[Array, " n"]


def sample_boundary(
    where: Problem | AbstractDomain,
    n: int,
    *,
    part: str | None = None,
    dtype: DTypeLike | None = None,
    key: PRNGKeyArray,
) -> BoundaryPoints:
    """Independent uniform points of the boundary, with uniform times if there are any.

    Args:
        where: a domain, or a problem.
        n: how many.
        part: name of one boundary part; the whole boundary if not given.
        dtype: precision; that of the current default if not given.
        key: random key.
    """
    region, index = _surface(where, n, part)
    dtype = str(jnp.dtype(dtype or jnp.result_type(float)))
    found = _random(region, index, room_for(n, key), jnp.asarray(n, jnp.int32), dtype, key)
    return jax.tree.map(lambda rows: rows[:n], found)


def sobol_boundary(
    where: Problem | AbstractDomain,
    n: int,
    *,
    part: str | None = None,
    seed: int = 0,
    dtype: DTypeLike | None = None,
) -> BoundaryPoints:
    """Scrambled Sobol points of the boundary: more even than random ones. Not under jit.

    Args:
        where: a domain, or a problem.
        n: how many.
        part: name of one boundary part; the whole boundary if not given.
        seed: seed of the scrambling.
        dtype: precision; that of the current default if not given.
    """
    region, index = _surface(where, n, part)
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_sobol(_draw, (region, index), _n_coords(region), n, seed, dtype)


def _surface(
    where: Problem | AbstractDomain, n: int, part: str | None
) -> tuple[Region, int | None]:
    """Where points are drawn, and the index of the part that is wanted, if it is one."""
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")
    domain = isinstance(where, AbstractDomain)
    region = Region(where, Layout(where.dim)) if domain else where.region
    parts = region.domain.parts
    if part is not None and part not in parts:
        raise ValueError(f"`part` must be one of {parts}; got {part!r}.")
    return region, None if part is None else parts.index(part)


def _n_coords(region: Region) -> int:
    return region.domain.n_boundary_coords + region.layout.timed


def _draw(
    surface: tuple[Region, int | None], u: Float[Array, " q"]
) -> tuple[BoundaryPoints, Bool[Array, ""]]:
    (domain, layout), wanted = surface
    time, rest = layout.from_cube(u)
    x, normal, index, keep = domain.boundary_map(rest)
    if wanted is not None:
        keep = keep & (index == wanted)
    return BoundaryPoints(layout.point(time, x), normal, index), keep


# compiled once for a domain, whatever the problem
@eqx.filter_jit
def _random(
    region: Region, part: int | None, room: int, n: Int[Array, ""], dtype: str, key: PRNGKeyArray
) -> BoundaryPoints:
    draw = lambda u: _draw((region, part), u)
    return fill_random(draw, _n_coords(region), room, n, key, jnp.dtype(dtype))
