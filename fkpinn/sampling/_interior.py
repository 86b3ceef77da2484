"""Points of a problem, by the law it states; or of a domain, uniform."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..domain import AbstractDomain
from ..problem import AbstractMeasure, Layout, Problem, Region, Uniform
from ._fill import fill_random, fill_sobol, in_each


def sample_interior(
    where: Problem | AbstractDomain,
    n: int,
    *,
    measure: AbstractMeasure | None = None,
    outward: bool = False,
    dtype: DTypeLike | None = None,
    key: PRNGKeyArray,
) -> Float[Array, "n z"]:
    """Independent points of a domain, uniform; or of a problem, from its `measure`.

    Args:
        where: a domain, or a problem.
        n: number of points.
        measure: another distribution of points.
        outward: give more points of a family parameters next to the ends of their ranges.
        dtype: precision; that of the current default if not given.
        key: random key.
    """
    region, law = _law(where, n, measure)
    region = region.outward() if outward else region
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_random(_draw, (region, law), law.n_coords(region), n, key, dtype)


def sobol_interior(
    where: Problem | AbstractDomain,
    n: int,
    *,
    measure: AbstractMeasure | None = None,
    seed: int = 0,
    dtype: DTypeLike | None = None,
) -> Float[Array, "n z"]:
    """Scrambled Sobol points of the domain: more even than random ones. Not under jit.

    Args:
        where: a domain, or a problem.
        n: number of points; powers of two give the most even points.
        measure: another distribution of points.
        seed: seed of the scrambling.
        dtype: precision; that of the current default if not given.
    """
    region, law = _law(where, n, measure)
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    return fill_sobol(_draw, (region, law), law.n_coords(region), n, seed, dtype)


def sample_terminal(
    problem: Problem, n: int, *, dtype: DTypeLike | None = None, key: PRNGKeyArray
) -> Float[Array, "n z"]:
    """Independent points at the time at which data are given: uniform, or where paths end."""
    if problem.horizon is None:
        raise ValueError("`problem` is elliptic and has no final time; use `sample_interior`.")
    dtype = jnp.dtype(dtype or jnp.result_type(float))
    if problem.domain.parts:
        still, law = Region(problem.domain, problem.layout.timeless), Uniform()
        places = fill_random(_draw, (still, law), law.n_coords(still), n, key, dtype)
        return problem.layout.at_end(places)
    region, law = problem.region, problem.measure
    return fill_random(_draw_at_end, (region, law), law.n_coords(region), n, key, dtype)


def _law(
    where: Problem | AbstractDomain, n: int, measure: AbstractMeasure | None
) -> tuple[Region, AbstractMeasure]:
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")
    if isinstance(where, AbstractDomain):
        region, law = Region(where, Layout(where.dim)), measure or Uniform()
    else:
        region, law = where.region, measure or where.measure
    return region, law.checked(region) if measure is not None else law


def _draw(law: tuple[Region, AbstractMeasure], u: Float[Array, " q"]):
    region, measure = law
    return in_each(region, lambda u: measure.draw(region, u), u)


def _draw_at_end(law: tuple[Region, AbstractMeasure], u: Float[Array, " q"]):
    region, measure = law
    return in_each(region, lambda u: measure.at_end(region, u), u)
