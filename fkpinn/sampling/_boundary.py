"""Points on the boundary, with their normals and parts."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..domain import AbstractDomain
from ..problem import Problem
from ._fill import Draw, fill_random, fill_sobol


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
    draw, n_coords = _draw_on(where, n, part)
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_random(draw, n_coords, n, key, dtype)


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
    draw, n_coords = _draw_on(where, n, part)
    return fill_sobol(draw, n_coords, n, seed, jnp.dtype(dtype or jnp.result_type(float)))


def _draw_on(where: Problem | AbstractDomain, n: int, part: str | None) -> tuple[Draw, int]:
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")
    domain = where if isinstance(where, AbstractDomain) else where.domain
    horizon = None if isinstance(where, AbstractDomain) else where.horizon
    if part is not None and part not in domain.parts:
        raise ValueError(f"`part` must be one of {domain.parts}; got {part!r}.")

    def on_surface(u):
        x, normal, index, keep = domain.boundary_map(u)
        if part is not None:
            keep = keep & (index == domain.parts.index(part))
        return BoundaryPoints(x, normal, index), keep

    if horizon is None:
        return on_surface, domain.n_boundary_coords

    def in_time_and_space(u):
        drawn, keep = on_surface(u[1:])
        return drawn._replace(points=jnp.concatenate([horizon * u[:1], drawn.points])), keep

    return in_time_and_space, 1 + domain.n_boundary_coords
