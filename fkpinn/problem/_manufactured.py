"""Problems made from their solution."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._types import ScalarField
from ..domain import AbstractDomain, known_domain
from ._boundary import AbstractCondition, Dirichlet, matching
from ._layout import Layout
from ._operator import generator
from ._problem import Problem


def manufactured(
    domain: AbstractDomain,
    exact: Callable[..., Any],
    *,
    drift: Any = 0.0,
    diffusion: Any = 1.0,
    reaction: Any = 0.0,
    boundary: Mapping[str, Any] | None = None,
    horizon: float | None = None,
    name: str = "manufactured",
) -> Problem:
    """A problem with a chosen solution: source and boundary data are derived from it.

    Args:
        domain: the domain.
        exact: the solution, a function of `x` (or `t, x` when `horizon` is given).
        drift: as in `Problem`.
        diffusion: as in `Problem`.
        reaction: as in `Problem`.
        boundary: kind of condition by part: `Dirichlet`, `Neumann`, or `(Robin, coefficient)`; or a
            condition whose right-hand side is replaced. Dirichlet by default.
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
    given = {"drift": drift, "diffusion": diffusion, "reaction": reaction, "horizon": horizon}
    terminal = (lambda x: exact(horizon, x)) if timed else None
    bare = Problem(known_domain(domain), **given, boundary=0.0, terminal=terminal, check=False)
    layout, u = bare.layout, as_field(exact, bare.layout)

    def source(*at):
        z = layout.joined(*at)
        return bare.reaction(z) * u(z) - generator(bare, u, z)

    def slope(z):
        return jnp.dot(layout.space(jax.grad(u)(z)), bare.domain_at(z).normal(layout.space(z)))

    kinds = dict(boundary or {})
    if unknown := [part for part in kinds if part not in domain.parts]:
        raise ValueError(f"`boundary` names {unknown}; the domain's parts are {domain.parts}.")
    conditions = {}
    for part in domain.parts:
        homogeneous = _homogeneous(kinds.get(part, Dirichlet)).bound(part, layout)
        if homogeneous.absorbs:
            conditions[part] = homogeneous.with_datum(exact)
        else:
            lack = lambda z, c=homogeneous: c.residual(u(z), slope(z), z)
            conditions[part] = matching(homogeneous, layout, lack)
    return Problem(
        domain, **given, source=source, boundary=conditions, terminal=terminal, name=name
    )


def _homogeneous(kind: Any) -> AbstractCondition:
    """A condition of that kind whose right-hand side is zero."""
    if isinstance(kind, AbstractCondition):
        return kind.with_datum(0.0)
    return kind[0](*kind[1:]) if isinstance(kind, tuple) else kind()


def as_field(exact: Callable[..., Any], layout: Layout) -> ScalarField:
    """A function of `x` (or `t, x`) as a function of one point of the problem."""
    return lambda z: exact(*layout.arguments(z))
