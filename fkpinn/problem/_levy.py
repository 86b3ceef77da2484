"""Equations of processes that jump, by name, and those of the catalogue."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr, xlogy

from .._types import Scalar, ScalarField
from ..domain import AbstractDomain, Ball, Interval, Space
from ._jumps import (
    AbstractJumpLaw,
    AbstractJumps,
    CompoundPoisson,
    DoubleExponentialJump,
    NormalJump,
)
from ._manufactured import as_field
from ._measure import AbstractMeasure, Along
from ._problem import Problem
from ._stable import Stable

_TERMS = 40  # of Merton's series: more jumps than that are not expected in its lifetime


def jump_exit_time(
    domain: AbstractDomain,
    jumps: AbstractJumps,
    *,
    drift: Any = None,
    diffusion: Any = None,
    name: str = "exit time with jumps",
) -> Problem:
    """Expected time to leave a set, by a jump or through the boundary.

    Args:
        domain: the set to leave.
        jumps: `CompoundPoisson(rate, law)` or `Stable(alpha)`.
        drift: as in `Problem`.
        diffusion: as in `Problem`.
        name: a name for reports.
    """
    return Problem(
        domain, drift=drift, diffusion=diffusion, source=1.0, jumps=jumps, exterior=0.0, name=name
    )


def fractional_poisson(
    domain: AbstractDomain,
    source: Any = 1.0,
    exterior: Any = 0.0,
    *,
    alpha: float,
    name: str = "fractional poisson",
) -> Problem:
    r"""$(-\Delta)^{\alpha/2}u = f$, with $u$ given outside.

    Args:
        domain: the domain.
        source: $f$, a number or a function of `x`.
        exterior: $u$ outside the domain, a number or a function of `x`.
        alpha: the power, in (0, 2).
        name: a name for reports.
    """
    return Problem(domain, source=source, jumps=Stable(alpha), exterior=exterior, name=name)


def merton(
    payoff: Callable[..., Any],
    *,
    spot: float,
    volatility: float,
    interest: float,
    horizon: float,
    rate: float,
    mean: float,
    std: float,
    measure: AbstractMeasure | None = None,
    name: str = "merton",
) -> Problem:
    r"""Price of a European option on an asset with lognormal jumps (Merton, 1976).

    In the logarithm $x$ of the price:
    $\partial_t u + \tfrac12\sigma^2u'' + (r - \tfrac12\sigma^2 - \lambda\kappa)u' - ru
    + \lambda\,\mathbb{E}[u(x + Z) - u(x)] = 0$, $\kappa = \mathbb{E}[e^Z] - 1$.

    Args:
        payoff: what is paid at the end, a function of the price.
        spot: the price now.
        volatility: $\sigma$, without the jumps.
        interest: $r$.
        horizon: time to the end.
        rate: $\lambda$, jumps per unit of time.
        mean: of $Z$, the jump of the logarithm.
        std: standard deviation of $Z$.
        measure: where the answer is wanted, in $(t, x)$; by default along paths from `spot`.
        name: a name for reports.
    """
    grows = math.exp(mean + 0.5 * std**2) - 1.0
    law = NormalJump(mean, std)
    return _option(payoff, law, grows, spot, volatility, interest, horizon, rate, measure, name)


def kou(
    payoff: Callable[..., Any],
    *,
    spot: float,
    volatility: float,
    interest: float,
    horizon: float,
    rate: float,
    up: float,
    mean_up: float,
    mean_down: float,
    measure: AbstractMeasure | None = None,
    name: str = "kou",
) -> Problem:
    """Price of a European option on an asset with double exponential jumps of its logarithm.

    The equation is that of `merton` with the jumps of Kou (2002).

    Args:
        payoff: what is paid at the end, a function of the price.
        spot: the price now.
        volatility: without the jumps.
        interest: the rate of interest.
        horizon: time to the end.
        rate: jumps in a unit of time.
        up: probability of a jump upwards.
        mean_up: mean size of jumps upwards, below 1, so that prices have a mean.
        mean_down: mean size of jumps downwards.
        measure: where the answer is wanted; by default along paths from `spot`.
        name: a name for reports.
    """
    if not mean_up < 1.0:
        raise ValueError(
            f"`mean_up` must be below 1, or prices have no mean after a jump; got {mean_up!r}."
        )
    law = DoubleExponentialJump(up, mean_up, mean_down)
    grows = up / (1.0 - mean_up) + (1.0 - up) / (1.0 + mean_down) - 1.0
    return _option(payoff, law, grows, spot, volatility, interest, horizon, rate, measure, name)


def _option(
    payoff: Callable[..., Any],
    law: AbstractJumpLaw,
    grows: float,
    spot: float,
    volatility: float,
    interest: float,
    horizon: float,
    rate: float,
    measure: AbstractMeasure | None,
    name: str,
) -> Problem:
    """The price in the logarithm of that of the asset, which `grows` by a jump on average."""
    for argument, given in (("spot", spot), ("volatility", volatility)):
        if not 0.0 < given < math.inf:
            raise ValueError(f"`{argument}` must be positive and finite; got {given!r}.")
    return Problem(
        Space(1),
        drift=np.array([interest - 0.5 * volatility**2 - rate * grows]),
        diffusion=volatility,
        reaction=interest,
        horizon=horizon,
        terminal=lambda x: payoff(jnp.exp(x[0])),
        measure=measure or Along([math.log(spot)]),
        jumps=CompoundPoisson(rate, law),
        name=name,
    )


def merton_call() -> tuple[Problem, ScalarField]:
    """A call at the money, with a jump a year on average."""
    strike, sigma, r, horizon, rate, mean, std = 100.0, 0.2, 0.05, 1.0, 1.0, -0.1, 0.15
    problem = merton(
        lambda s: jnp.maximum(s - strike, 0.0), spot=100.0, volatility=sigma, interest=r,
        horizon=horizon, rate=rate, mean=mean, std=std,
    )  # fmt: skip

    def exact(t: Scalar, x: Any) -> Scalar:
        return merton_price(
            jnp.exp(x[0]), horizon - t, strike, volatility=sigma, interest=r, rate=rate,
            mean=mean, std=std,
        )  # fmt: skip

    return problem, as_field(exact, problem.layout)


def merton_price(
    spot: Scalar,
    time: Scalar,
    strike: float,
    *,
    volatility: float,
    interest: float,
    rate: float,
    mean: float,
    std: float,
) -> Scalar:
    """Merton's price of a call: a sum of Black–Scholes prices over the number of jumps.

    Args:
        spot: price of the asset.
        time: time to maturity.
        strike: strike of the call.
        volatility: without the jumps.
        interest: the rate of interest.
        rate: jumps in a unit of time.
        mean: mean of a jump of the logarithm.
        std: its standard deviation.
    """
    time = jnp.maximum(time, 1e-12)
    n = jnp.arange(_TERMS, dtype=spot.dtype)
    grows = math.exp(mean + 0.5 * std**2)
    often = rate * grows * time
    log_weight = xlogy(n, often) - often - gammaln(n + 1.0)
    variance = volatility**2 * time + n * std**2
    gain = (interest - rate * (grows - 1.0)) * time + n * (mean + 0.5 * std**2)
    d1 = (jnp.log(spot / strike) + gain + 0.5 * variance) / jnp.sqrt(variance)
    d2 = d1 - jnp.sqrt(variance)
    prices = spot * ndtr(d1) - strike * jnp.exp(-gain) * ndtr(d2)
    return jnp.sum(jnp.exp(log_weight) * prices)


def jump_exit() -> Problem:
    """Mean exit time from an interval of a diffusion with normal jumps."""
    jumps = CompoundPoisson(2.0, NormalJump(0.0, 0.5))
    return jump_exit_time(Interval(-1.0, 1.0), jumps, diffusion=1.0, name="jump-exit")


def stable_exit(dim: int, alpha: float = 1.5) -> tuple[Problem, ScalarField]:
    r"""Mean exit time of a stable process from the unit ball: $(1 - |x|^2)^{\alpha/2} / K$."""
    jumps = Stable(alpha)
    problem = jump_exit_time(Ball([0.0] * dim, 1.0), jumps, name=f"stable-exit-{dim}d")
    time = jumps.ball_time(dim)
    inside = lambda x: jnp.maximum(1.0 - jnp.sum(x**2), 0.0)
    return problem, lambda x: time * inside(x) ** (0.5 * alpha)


def fractional_composite(dim: int, alpha: float = 1.5) -> tuple[Problem, ScalarField]:
    r"""$(-\Delta)^{\alpha/2}u = f$ in the unit ball, $f$ of several parts that differ in symmetry.

    $(1 - |x|^2)^{\alpha/2}\,V(x)\,P(2|x|^2 - 1)$, with a harmonic polynomial $V$ of degree $l$ and
    Jacobi's polynomial $P = P_n^{(\alpha/2,\,d/2+l-1)}$, has the source $\mu_{nl}\,V\,P$ (Dyda,
    Kuznetsov and Kwasnicki, Constr. Approx. 45, 2017).
    """
    half = 0.5 * alpha
    signs = np.resize([1.0, -1.0], dim)
    last = dim - dim % 2
    radial = lambda x: 1.0 + half - (half + 0.5 * dim + 1.0) * (1.0 - jnp.sum(x**2))
    parts = (  # size, degrees l and n, and the polynomial
        (1.0, 0, 0, lambda x: jnp.ones((), x.dtype)),
        (0.5, 1, 0, lambda x: jnp.sum(jnp.asarray(signs, x.dtype) * x)),
        (3.0, 2, 0, lambda x: jnp.sum(x[0:last:2] * x[1:last:2])),
        (0.5, 0, 1, radial),
    )

    def weighted(sizes: list[float]) -> ScalarField:
        by = lambda x: jnp.stack([part[3](x) for part in parts])
        return lambda x: jnp.dot(jnp.asarray(np.asarray(sizes), x.dtype), by(x))

    jumps = Stable(alpha)
    polynomial = weighted([size for size, *_ in parts])
    source = weighted([s * jumps.ball_eigenvalue(dim, *degrees) for s, *degrees, _ in parts])
    ball = Ball([0.0] * dim, 1.0)
    problem = fractional_poisson(ball, source, alpha=alpha, name=f"fractional-poisson-{dim}d")
    inside = lambda x: jnp.maximum(1.0 - jnp.sum(x**2), 0.0)
    return problem, lambda x: inside(x) ** half * polynomial(x)
