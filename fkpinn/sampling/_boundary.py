"""Points on the boundary, with their normals and parts."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..domain import AbstractDomain, Mixture
from ..problem import Layout, Problem, Region
from ._fill import fill_random, fill_sobol, in_each


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
    fair: bool = False,
    outward: bool = False,
    dtype: DTypeLike | None = None,
    key: PRNGKeyArray,
) -> BoundaryPoints:
    """Independent uniform points of the boundary, with uniform times in parabolic problems.

    Args:
        where: a domain, or a problem.
        n: number of points.
        part: name of one boundary part; the whole boundary if not given.
        fair: give comparatively small surfaces, such as a hole in high dimension, more points than
            their share of the area; if there are none, the points are the same.
        outward: give more points of a family parameters next to the ends of their ranges.
        dtype: precision; that of the current default if not given.
        key: random key.
    """
    region, mixture = _surface(where, n, part, fair)
    region = region.outward() if outward else region
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_random(_draw, (region, mixture), _n_coords(region), n, key, dtype)


def sobol_boundary(
    where: Problem | AbstractDomain,
    n: int,
    *,
    part: str | None = None,
    fair: bool = False,
    seed: int = 0,
    dtype: DTypeLike | None = None,
) -> BoundaryPoints:
    """Scrambled Sobol points of the boundary: more even than random ones. Not under jit.

    Args:
        where: a domain, or a problem.
        n: number of points.
        part: name of one boundary part; the whole boundary if not given.
        fair: give small surfaces more points than their share of the area.
        seed: seed of the scrambling.
        dtype: precision; that of the current default if not given.
    """
    region, mixture = _surface(where, n, part, fair)
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_sobol(_draw, (region, mixture), _n_coords(region), n, seed, dtype)


def _surface(
    where: Problem | AbstractDomain, n: int, part: str | None, fair: bool
) -> tuple[Region, Mixture]:
    """Where points are drawn, and how much of each surface is wanted."""
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")
    domain = isinstance(where, AbstractDomain)
    region = Region(where, Layout(where.dim)) if domain else where.region
    if part is None:
        return region, region.domain.fair_mixture() if fair else ((None, 1.0),)
    if part not in region.domain.parts:
        raise ValueError(f"`part` must be one of {region.domain.parts}; got {part!r}.")
    if fair:
        raise ValueError(f"`fair` is for the whole boundary; got `part` {part!r} as well.")
    return region, region.domain.part_mixture(part)


def _n_coords(region: Region) -> int:
    return region.domain.n_boundary_coords + region.layout.n_ahead


def _draw(
    surface: tuple[Region, Mixture], u: Float[Array, " q"]
) -> tuple[BoundaryPoints, Bool[Array, ""]]:
    region, mixture = surface

    def place(u):
        ahead, rest = region.layout.from_cube(u)
        domain = region.at(ahead)
        x, normal, index, keep = domain.mixed_map(rest[: domain.n_boundary_coords], mixture)
        return BoundaryPoints(region.layout.placed(ahead, x), normal, index), keep

    return in_each(region, place, u)
