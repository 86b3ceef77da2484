"""Well-known equations by name; each is a `Problem` with its coefficients filled in."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..domain import AbstractDomain, known_domain
from ._boundary import AbstractCondition, Dirichlet, Neumann
from ._coefficient import accepts
from ._layout import Parameter
from ._problem import Problem


def poisson(
    domain: AbstractDomain | Callable[..., AbstractDomain],
    source: Any = 1.0,
    boundary: Any = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    name: str = "poisson",
) -> Problem:
    r"""$-\Delta u = f$.

    Args:
        domain: the domain, or a function of parameters that returns it.
        source: $f$, a number or a function of `x`.
        boundary: as in `Problem`; zero by default.
        parameters: parameters of a family of problems, as in `Problem`.
        name: a name for reports.
    """
    return Problem(
        domain, diffusion=2.0**0.5, source=source, boundary=boundary, parameters=parameters,
        name=name,
    )  # fmt: skip


def schrodinger(
    domain: AbstractDomain | Callable[..., AbstractDomain],
    potential: Any,
    source: Any,
    boundary: Any = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    name: str = "schrodinger",
) -> Problem:
    r"""$-\tfrac12\Delta\psi + V\psi = f$.

    Equation: [eq:schrodinger](../theory/equations.md).

    Args:
        domain: the domain, or a function of parameters that returns it.
        potential: $V$, a number or a function of `x`.
        source: $f$, a number or a function of `x`.
        boundary: as in `Problem`; zero by default.
        parameters: parameters of a family of problems, as in `Problem`.
        name: a name for reports.
    """
    return Problem(
        domain, diffusion=1.0, reaction=potential, source=source, boundary=boundary,
        parameters=parameters, name=name,
    )  # fmt: skip


def mean_exit_time(
    domain: AbstractDomain,
    potential: Callable[..., Any] | None = None,
    *,
    beta: Any = 1.0,
    boundary: Any = 0.0,
    name: str = "mean exit time",
) -> Problem:
    r"""Expected time to leave, for $dX = -\nabla U\,dt + \sqrt{2/\beta}\,dW$.

    Args:
        domain: the set to leave.
        potential: $U$, a function of `x`, or of `x, beta`; None means free diffusion.
        beta: inverse temperature, positive; or a range of them, `(2.0, 10.0)`, for a family of
            problems with this parameter.
        boundary: where paths end (`Dirichlet`, the default) or are reflected.
        name: a name for reports.
    """
    return Problem(
        domain,
        drift=_downhill(potential),
        **_noise(beta),
        source=1.0,
        boundary=boundary,
        name=name,
    )


def committor(
    domain: AbstractDomain,
    potential: Callable[..., Any] | None = None,
    *,
    beta: Any = 1.0,
    start: str = "A",
    target: str = "B",
    name: str = "committor",
) -> Problem:
    r"""Probability of reaching one boundary part before another one.

    For $dX = -\nabla U\,dt + \sqrt{2/\beta}\,dW$; all other parts reflect.

    Args:
        domain: the set between the two states, for example `box - ball_a - ball_b`.
        potential: $U$, a function of `x`, or of `x, beta`; None means free diffusion.
        beta: inverse temperature, positive; or a range of them, `(2.0, 10.0)`, for a family of
            problems with this parameter.
        start: name of the boundary part where the probability is 0.
        target: name of the boundary part where it is 1.
        name: a name for reports.
    """
    domain = known_domain(domain)
    for argument, part in (("start", start), ("target", target)):
        if part not in domain.parts:
            raise ValueError(
                f"`{argument}` must name a boundary part of the domain {domain.parts}; "
                f"got {part!r}. Name it where the shape is built: `Ball(..., name={part!r})`."
            )
    if start == target:
        raise ValueError(f"`start` and `target` must differ; got {start!r} for both.")
    boundary: dict[str, AbstractCondition] = {part: Neumann(0.0) for part in domain.parts}
    boundary |= {start: Dirichlet(0.0), target: Dirichlet(1.0)}
    return Problem(domain, drift=_downhill(potential), **_noise(beta), boundary=boundary, name=name)


def heat(
    domain: AbstractDomain | Callable[..., AbstractDomain],
    initial: Any,
    *,
    horizon: float,
    conductivity: Any = 1.0,
    source: Any = 0.0,
    boundary: Any = 0.0,
    parameters: Mapping[str, Any] | None = None,
    name: str = "heat",
) -> Problem:
    r"""$\partial_t u = \sum_i \kappa_i\,\partial_i^2 u + f$ from given initial values.

    Time runs forward: the solution at `t, x` is the temperature at time `t`.

    Args:
        domain: the domain, or a function of parameters that returns it.
        initial: temperature at time 0, a number or a function of `x`.
        horizon: final time.
        conductivity: $\kappa$: one positive number, or one for each axis.
        source: $f$, a number or a function of `t, x`.
        boundary: as in `Problem`, functions of `t, x`.
        parameters: parameters of a family of problems, as in `Problem`.
        name: a name for reports.
    """
    kappa = np.asarray(conductivity, dtype=float)
    d = domain.dim if isinstance(domain, AbstractDomain) else kappa.size
    if kappa.shape not in ((), (d,)) or not np.all(kappa > 0):
        raise ValueError(
            f"`conductivity` must be a positive number or {d} of them; got {conductivity!r}."
        )
    return Problem(
        domain,
        diffusion=np.sqrt(2.0 * kappa),
        source=source,
        boundary=boundary,
        horizon=horizon,
        initial=initial,
        parameters=parameters,
        name=name,
    )


def backward_kolmogorov(
    domain: AbstractDomain,
    terminal: Any,
    *,
    horizon: float,
    drift: Any = 0.0,
    diffusion: Any = 1.0,
    reaction: Any = 0.0,
    source: Any = 0.0,
    boundary: Any = 0.0,
    parameters: Mapping[str, Any] | None = None,
    name: str = "backward kolmogorov",
) -> Problem:
    r"""$\partial_t u + \mathcal{L}u - Vu + f = 0$, $u(T,x) = g(x)$: expected value at a horizon.

    Args:
        domain: the domain; paths that leave it before the horizon receive the boundary data.
        terminal: $g$, a number or a function of `x`.
        horizon: $T$.
        drift: as in `Problem`, a function of `t, x`.
        diffusion: as in `Problem`, a function of `t, x`.
        reaction: as in `Problem`, a function of `t, x` (for example an interest rate).
        source: as in `Problem`, a function of `t, x`.
        boundary: as in `Problem`, functions of `t, x`.
        parameters: parameters of a family of problems, as in `Problem`.
        name: a name for reports.
    """
    return Problem(
        domain,
        drift=drift,
        diffusion=diffusion,
        reaction=reaction,
        source=source,
        boundary=boundary,
        horizon=horizon,
        terminal=terminal,
        parameters=parameters,
        name=name,
    )


def _downhill(potential: Callable[..., Any] | None) -> Any:
    if potential is None:
        return 0.0
    if not callable(potential):
        raise TypeError(
            f"`potential` must be a function of one point `x`; got {potential!r}. "
            f"Leave it out for free diffusion."
        )

    # written with 0 - g so that a zero gradient gives 0, not -0
    slope = lambda at, x: 0.0 - jax.grad(lambda y: jnp.reshape(at(y), ()))(x)
    if accepts(potential, 1):
        return lambda x: slope(potential, x)
    return lambda x, beta: slope(lambda y: potential(y, beta=beta), x)


def _noise(beta: Any) -> dict[str, Any]:
    """The diffusion of an inverse temperature; of a range of them, and the parameter."""
    if isinstance(beta, tuple | list | Parameter):
        law = beta if isinstance(beta, Parameter) else Parameter(*beta)
        if law.lower <= 0:
            raise ValueError(f"`beta` must be positive; got a range from {law.lower:g}.")
        return {"diffusion": lambda x, beta: (2.0 / beta) ** 0.5, "parameters": {"beta": law}}
    if not (np.isfinite(beta) and beta > 0):
        raise ValueError(f"`beta` must be positive and finite; got {beta!r}.")
    return {"diffusion": float((2.0 / beta) ** 0.5)}
