"""Points in the domain; in time and space for parabolic problems."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..domain import AbstractDomain
from ..problem import Problem
from ._fill import Draw, fill_random, fill_sobol


def sample_interior(
    where: Problem | AbstractDomain, n: int, *, dtype: DTypeLike | None = None, key: PRNGKeyArray
) -> Float[Array, "n z"]:
    """Independent uniform points of the domain, with uniform times if the problem has any.

    Args:
        where: a domain, or a problem.
        n: how many.
        dtype: precision; that of the current default if not given.
        key: random key.
    """
    _check_count(n)
    draw, n_coords = _draw_inside(where)
    return fill_random(draw, n_coords, n, key, jnp.dtype(dtype or jnp.result_type(float)))


def sobol_interior(
    where: Problem | AbstractDomain, n: int, *, seed: int = 0, dtype: DTypeLike | None = None
) -> Float[Array, "n z"]:
    """Scrambled Sobol points of the domain: more even than random ones. Not under jit.

    Args:
        where: a domain, or a problem.
        n: how many; powers of two are the most even.
        seed: seed of the scrambling.
        dtype: precision; that of the current default if not given.
    """
    _check_count(n)
    draw, n_coords = _draw_inside(where)
    return fill_sobol(draw, n_coords, n, seed, jnp.dtype(dtype or jnp.result_type(float)))


def sample_terminal(
    problem: Problem, n: int, *, dtype: DTypeLike | None = None, key: PRNGKeyArray
) -> Float[Array, "n z"]:
    """Independent uniform points of the domain at the final time of a parabolic problem."""
    if problem.horizon is None:
        raise ValueError("`problem` is elliptic and has no final time; use `sample_interior`.")
    inside = sample_interior(problem.domain, n, dtype=dtype, key=key)
    return jnp.concatenate([jnp.full_like(inside[:, :1], problem.horizon), inside], axis=1)


def _check_count(n: int) -> None:
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")


def _draw_inside(where: Problem | AbstractDomain) -> tuple[Draw, int]:
    if isinstance(where, AbstractDomain):
        return where.interior_map, where.n_interior_coords
    domain, horizon = where.domain, where.horizon
    if horizon is None:
        return _draw_inside(domain)

    def in_time_and_space(u):
        x, keep = domain.interior_map(u[1:])
        return jnp.concatenate([horizon * u[:1], x]), keep

    return in_time_and_space, 1 + domain.n_interior_coords
