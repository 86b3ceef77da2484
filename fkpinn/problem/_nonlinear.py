"""Nonlinear problems whose solutions are known, most of them in many dimensions."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Scalar, ScalarField
from ..domain import Ball, Box, Space
from ._control import reaction_diffusion, uncertain_volatility
from ._manufactured import as_field
from ._measure import Along
from ._problem import Problem
from ._stopping import optimal_stopping

_NODES, _TIMES = 96, 160  # of the tables of radial solutions
_TOLERANCE = 1e-11


def bratu(strength: float = 1.0) -> tuple[Problem, ScalarField]:
    r"""$\Delta u + \lambda e^u = 0$ on the unit disk: the smaller of its two solutions.

    $u = 2\log\frac{1+b}{1+b|x|^2}$ with $8b = \lambda(1+b)^2$.
    """
    b = (4.0 - strength - math.sqrt(16.0 - 8.0 * strength)) / strength
    exact = lambda x: 2.0 * jnp.log((1.0 + b) / (1.0 + b * jnp.sum(x**2)))
    problem = Problem(
        Ball([0.0, 0.0], 1.0), diffusion=2.0**0.5,
        nonlinearity=lambda x, u, p: strength * jnp.exp(u), name="bratu",
    )  # fmt: skip
    return problem, exact


def radial(
    name: str, dim: int, reaction: Callable[..., Any], *, laplacian: float = 1.0
) -> tuple[Problem, ScalarField]:
    r"""$\partial_t u + \nu\Delta u + f(u) = 0$, $u(T,x) = 1/(2 + 0.4|x|^2)$, $T = 0.3$.

    Args:
        name: of the problem.
        dim: dimension.
        reaction: $f$, a function of a number.
        laplacian: $\nu$.
    """
    horizon = 0.3
    data = lambda s: 1.0 / (2.0 + 0.4 * s)
    problem = Problem(
        Space(dim), diffusion=math.sqrt(2.0 * laplacian), horizon=horizon,
        terminal=lambda x: data(jnp.sum(x**2)), measure=Along([0.0] * dim),
        nonlinearity=lambda t, x, u, p: reaction(u), name=name,
    )  # fmt: skip
    table = _radial_table(dim, laplacian, horizon, data, reaction)
    exact = lambda t, x: _read(table, dim, horizon, horizon - t, jnp.sum(x**2))
    return problem, as_field(exact, problem.layout)


def linear_quadratic(dim: int) -> tuple[Problem, ScalarField]:
    r"""$\partial_t u + \Delta u - |\nabla u|^2 = 0$, $u(1,x) = \log\frac{1+|x|^2}{2}$.

    $e^{-u}$ solves the heat equation, with data $2/(1+|x|^2)$.
    """
    horizon = 1.0
    problem = Problem(
        Space(dim), diffusion=2.0**0.5, horizon=horizon,
        terminal=lambda x: jnp.log(0.5 * (1.0 + jnp.sum(x**2))), measure=Along([0.0] * dim),
        nonlinearity=lambda t, x, u, p: -jnp.sum(p**2), name=f"hjb-lq-{dim}d",
    )  # fmt: skip
    table = _radial_table(dim, 1.0, horizon, lambda s: 2.0 / (1.0 + s), None)
    exact = lambda t, x: -jnp.log(_read(table, dim, horizon, horizon - t, jnp.sum(x**2)))
    return problem, as_field(exact, problem.layout)


def black_scholes_barenblatt(dim: int = 100) -> tuple[Problem, ScalarField]:
    r"""$\partial_t u + \tfrac12\sup_\sigma\sigma^2\sum_i x_i^2u_{ii} - r(u - x\cdot\nabla u) = 0$.

    With $u(1,x) = |x|^2$, convex, the largest volatility is right everywhere.
    """
    high, rate, horizon = 0.4, 0.05, 1.0
    start = [1.0 if k % 2 == 0 else 0.5 for k in range(dim)]
    problem = uncertain_volatility(
        Space(dim), lambda x: jnp.sum(x**2), low=0.1, high=high, rate=rate, horizon=horizon,
        measure=Along(start), name=f"bsb-{dim}d",
    )  # fmt: skip
    exact = lambda t, x: jnp.exp((rate + high**2) * (horizon - t)) * jnp.sum(x**2)
    return problem, as_field(exact, problem.layout)


def butterfly() -> Problem:
    r"""The dearest price of a butterfly, strikes 90, 100 and 110, between two volatilities.

    It is convex in some places and concave in others, so that neither volatility is right alone.
    """

    def payoff(x):
        pays = lambda strike: jnp.maximum(x[0] - strike, 0.0)
        return pays(90.0) - 2.0 * pays(100.0) + pays(110.0)

    return uncertain_volatility(
        Box([40.0], [200.0]), payoff, low=0.1, high=0.2, rate=0.05, horizon=1.0,
        measure=Along([100.0]), name="uncertain-volatility",
    )  # fmt: skip


def american_put() -> Problem:
    """A put with strike 100 that may be exercised at any time up to a year."""
    return optimal_stopping(
        Box([40.0], [200.0]), lambda x: jnp.maximum(100.0 - x[0], 0.0), horizon=1.0,
        drift=lambda t, x: 0.05 * x, diffusion=lambda t, x: 0.2 * x, reaction=0.05,
        measure=Along([100.0]), name="american-put",
    )  # fmt: skip


def shrinking_disk() -> Problem:
    r"""$\partial_t u = \kappa(\Delta u + (u - u^3)/\varepsilon^2)$: a front that moves inwards.

    The edge of a disk of radius 0.6 follows $R^2 = 0.36 - 2\kappa t$, up to the width
    $\varepsilon$ of the front (motion by curvature).
    """
    rate, width = 0.1, 0.15

    def initial(x):
        radius = jnp.sqrt(jnp.sum(x**2) + 1e-6)
        return jnp.tanh((0.6 - radius) / (math.sqrt(2.0) * width))

    return reaction_diffusion(
        Box([-1, -1], [1, 1]), lambda u: rate / width**2 * (u - u**3), initial, horizon=1.0,
        conductivity=rate, boundary=lambda t, x: initial(x), name="allen-cahn-2d",
    )  # fmt: skip


def fully_nonlinear(dim: int) -> tuple[Problem, ScalarField]:
    r"""$\partial_t u + \tfrac12\Delta u + \tfrac14\sum_i|u_{ii}| = s$ with two plane waves."""
    horizon, rng = 1.0, np.random.default_rng(0)
    w, v = rng.standard_normal((2, dim)) / math.sqrt(dim), rng.standard_normal(2)

    def parts(t, x):
        waves, sizes = jnp.asarray(w, x.dtype), jnp.asarray(v, x.dtype)
        phase = t + waves @ x
        return waves, sizes * jnp.sin(phase), sizes * jnp.cos(phase)

    exact = lambda t, x: jnp.sum(parts(t, x)[1])

    def source(t, x):
        waves, sine, cosine = parts(t, x)
        bend = -(sine @ waves**2)
        return -(jnp.sum(cosine) + 0.5 * jnp.sum(bend) + 0.25 * jnp.sum(jnp.abs(bend)))

    problem = Problem(
        Space(dim), diffusion=1.0, source=source, horizon=horizon,
        terminal=lambda x: exact(jnp.asarray(horizon, x.dtype), x), measure=Along([0.0] * dim),
        nonlinearity=lambda t, x, u, p, Q: 0.25 * jnp.sum(jnp.abs(jnp.diag(Q))),
        name=f"fully-nonlinear-{dim}d",
    )  # fmt: skip
    return problem, as_field(exact, problem.layout)


def fisher_kpp(dim: int) -> tuple[Problem, ScalarField]:
    r"""$\partial_t u + \tfrac12\Delta u + u^2 - u = 0$: a wave that travels along the diagonal.

    $1 - u$ is the wave of Ablowitz and Zeppetella (Bull. Math. Biol. 41, 1979), of speed
    $5/(2\sqrt3)$.
    """
    horizon = 1.0

    def exact(t, x):
        along = jnp.sum(x) / math.sqrt(dim)
        phase = (math.sqrt(2.0) * along - 5.0 / math.sqrt(6.0) * (horizon - t)) / math.sqrt(6.0)
        return 1.0 - 1.0 / (1.0 + jnp.exp(phase)) ** 2

    problem = Problem(
        Space(dim), diffusion=1.0, horizon=horizon,
        terminal=lambda x: exact(jnp.asarray(horizon, x.dtype), x), measure=Along([0.0] * dim),
        nonlinearity=lambda t, x, u, p: u**2 - u,
        name="fisher-kpp" if dim == 1 else f"fisher-kpp-{dim}d",
    )  # fmt: skip
    return problem, as_field(exact, problem.layout)


# ---- solutions that depend on time and radius only


@functools.cache
def _radial_table(
    dim: int,
    laplacian: float,
    horizon: float,
    data: Callable[..., Any],
    reaction: Callable[..., Any] | None,
) -> np.ndarray:
    r"""Chebyshev coefficients of a radial solution, by time and by $y = (s-L)/(s+L)$, $s = |x|^2$.

    $u_\tau = \nu(4su_{ss} + 2du_s) + f(u)$ needs no condition at $s = 0$, nor at infinity, where
    $y = 1$ and derivatives by $s$ vanish. Collocation in $y$, an implicit Runge-Kutta method in
    time.
    """
    from numpy.polynomial import chebyshev
    from scipy.integrate import solve_ivp

    scale = _scale(dim, horizon)
    nodes = -np.cos(np.pi * np.arange(_NODES) / (_NODES - 1))
    fit = np.linalg.inv(chebyshev.chebvander(nodes, _NODES - 1))
    by_y = chebyshev.chebvander(nodes, _NODES - 2) @ chebyshev.chebder(np.eye(_NODES)) @ fit
    pace = (1.0 - nodes) ** 2 / (2.0 * scale)  # dy/ds
    s = np.append(scale * (1.0 + nodes[:-1]) / (1.0 - nodes[:-1]), 0.0)  # times nothing, at the end
    by_s = pace[:, None] * by_y
    operator = laplacian * (4.0 * s[:, None] * (by_s @ by_s) + 2.0 * dim * by_s)
    operator[-1] = 0.0
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        source = (lambda u: 0.0) if reaction is None else jax.jit(jax.vmap(reaction))
        slope = jax.jit(jax.vmap(jax.grad(reaction))) if reaction is not None else None
        first = np.append(np.asarray(data(s[:-1])), 0.0)
        times = 0.5 * horizon * (1.0 - np.cos(np.pi * np.arange(_TIMES) / (_TIMES - 1)))
        times[-1] = horizon
        bend = lambda u: 0.0 if slope is None else np.diag(np.asarray(slope(jnp.asarray(u))))
        found = solve_ivp(
            lambda _, u: operator @ u + np.asarray(source(jnp.asarray(u))), (0.0, horizon), first,
            method="Radau", t_eval=times, rtol=_TOLERANCE, atol=_TOLERANCE,
            jac=lambda _, u: operator + bend(u),
        )  # fmt: skip
    if not found.success:
        raise RuntimeError(f"The radial reference was not found: {found.message}")
    at = 2.0 * times / horizon - 1.0
    return np.linalg.solve(chebyshev.chebvander(at, _TIMES - 1), (fit @ found.y).T)


def _scale(dim: int, horizon: float) -> float:
    """Squared radii that paths reach."""
    return max(2.0 * dim * horizon, 2.0)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _chebyshev(table, dim: int, horizon: float, time: Scalar, s: Scalar) -> Scalar:
    scale = _scale(dim, horizon)
    by_radius = _series(table.T, (s - scale) / (s + scale))
    return _series(by_radius, 2.0 * time / horizon - 1.0)


def _series(coefficients, y: Scalar):
    """A sum of Chebyshev polynomials, by Clenshaw's recursion."""

    def step(carry, row):
        one, two = carry
        return (row + 2.0 * y * one - two, one), None

    zero = jnp.zeros_like(coefficients[0])
    (one, two), _ = jax.lax.scan(step, (zero, zero), coefficients[:0:-1])
    return coefficients[0] + y * one - two


def _read(table: np.ndarray, dim: int, horizon: float, time: Scalar, s: Scalar) -> Scalar:
    return _chebyshev(jnp.asarray(table, s.dtype), dim, horizon, time, s)
