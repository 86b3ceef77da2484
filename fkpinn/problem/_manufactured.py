"""Problems made from their solution."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._types import ScalarField
from ..domain import AbstractDomain
from ._boundary import AbstractCondition, Dirichlet, Neumann, Robin
from ._coefficient import Coefficient
from ._operator import generator
from ._problem import Problem


def manufactured(
    domain: AbstractDomain,
    exact: Callable[..., Any],
    *,
    drift: Any = 0.0,
    diffusion: Any = 1.0,
    reaction: Any = 0.0,
    boundary: Mapping[str, type[AbstractCondition] | tuple[type[Robin], Any]] | None = None,
    horizon: float | None = None,
    name: str = "manufactured",
) -> Problem:
    """The problem that a chosen function solves: source and boundary data are derived from it.

    Args:
        domain: where.
        exact: the solution, a function of `x` (or `t, x` when `horizon` is given).
        drift: as in `Problem`.
        diffusion: as in `Problem`.
        reaction: as in `Problem`.
        boundary: kind of condition by part: `Dirichlet`, `Neumann`, or `(Robin, coefficient)`;
            Dirichlet where nothing is said.
        horizon: final time of a parabolic problem.
        name: a name for reports.

    Returns:
        A `Problem` whose solution is `exact`.

    Example:
        ```python
        import jax.numpy as jnp
        import fkpinn as fk

        disk = fk.Ball([0.0, 0.0], 1.0)
        problem = fk.manufactured(disk, lambda x: jnp.sin(x[0]) * x[1], diffusion=0.5)
        ```
    """
    timed = horizon is not None
    u = as_field(exact, timed)
    given = {"drift": drift, "diffusion": diffusion, "reaction": reaction, "horizon": horizon}
    terminal = (lambda x: exact(horizon, x)) if timed else None
    bare = Problem(domain, **given, boundary=0.0, terminal=terminal, check=False)

    def source_at(z):
        return bare.reaction(z) * u(z) - generator(bare, u, z)

    def slope_at(z):
        return jnp.dot(bare.space(jax.grad(u)(z)), domain.normal(bare.space(z)))

    conditions, kinds = {}, dict(boundary or {})
    if unknown := [part for part in kinds if part not in domain.parts]:
        raise ValueError(f"`boundary` names {unknown}; the domain's parts are {domain.parts}.")
    for part in domain.parts:
        kind: Any = kinds.get(part, Dirichlet)
        if kind is Dirichlet:
            conditions[part] = Dirichlet(exact)
        elif kind is Neumann:
            conditions[part] = Neumann(_spread(slope_at, timed))
        else:
            conditions[part] = _robin(kind[1], u, slope_at, part, bare)
    source = _spread(source_at, timed)
    return Problem(
        domain, **given, source=source, boundary=conditions, terminal=terminal, name=name
    )


def as_field(exact: Callable[..., Any], timed: bool) -> ScalarField:
    """A function of `x` (or `t, x`) as a function of one point of the problem."""
    return (lambda z: exact(z[0], z[1:])) if timed else exact


def _spread(field: ScalarField, timed: bool) -> Callable[..., Any]:
    """The reverse: a function of one point of the problem as a function of `x` (or `t, x`)."""
    if not timed:
        return field
    return lambda t, x: field(jnp.concatenate([jnp.reshape(t, (1,)), x]))


def _robin(coefficient: Any, u, slope_at, part: str, bare: Problem) -> Robin:
    alpha = Robin(coefficient).bound(part, bare.dim, bare.timed).coefficient
    assert isinstance(alpha, Coefficient)
    flux = _spread(lambda z: slope_at(z) + alpha(z) * u(z), bare.timed)
    return Robin(coefficient, flux)
