"""Nonlinear equations by name: control, reaction and diffusion, uncertain volatility."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Matrix, Scalar, Vector
from ..domain import AbstractDomain, Box, known_domain
from ._coefficient import Coefficient, accepts, bind, spelled
from ._layout import Layout
from ._measure import AbstractMeasure
from ._nonlinearity import derivatives
from ._problem import Problem

_SWEEPS = 16  # over the coordinates of a control in a box, each time half as wide
_WIDEST_SET = 4096  # controls of a finite set


def semilinear(
    domain: AbstractDomain,
    nonlinearity: Callable[..., Any],
    *,
    name: str = "semilinear",
    **data: Any,
) -> Problem:
    r"""$[\partial_t u +]\ \mathcal{L}u - Vu + f + F(x, u, \nabla u) = 0$.

    Args:
        domain: the domain; `Space(d)` needs a horizon and a measure.
        nonlinearity: $F$, a function of `x, u, p`, or of `t, x, u, p`.
        name: a name for reports.
        data: as for `Problem`.
    """
    made = Problem(domain, nonlinearity=nonlinearity, name=name, **data)
    if made.nonlinearity is not None and made.nonlinearity.second:
        raise ValueError(
            "`nonlinearity` takes second derivatives, so the equation is not semilinear. Use "
            "`Problem(..., nonlinearity=...)`."
        )
    return made


def reaction_diffusion(
    domain: AbstractDomain,
    reaction: Callable[..., Any],
    initial: Any,
    *,
    horizon: float,
    conductivity: float = 1.0,
    boundary: Any = 0.0,
    measure: AbstractMeasure | None = None,
    name: str = "reaction-diffusion",
) -> Problem:
    r"""$\partial_t u = \kappa\Delta u + f(u)$, forward in time.

    Args:
        domain: where.
        reaction: $f$, a function of a number.
        initial: $u(0, x)$, a number or a function of `x`.
        horizon: length of the time interval.
        conductivity: $\kappa$, positive.
        boundary: as in `Problem`; zero by default.
        measure: where the answer is wanted.
        name: a name for reports.
    """
    if not (np.ndim(conductivity) == 0 and np.isfinite(conductivity) and conductivity > 0):
        raise ValueError(f"`conductivity` must be a positive number; got {conductivity!r}.")
    return Problem(
        domain, diffusion=(2.0 * conductivity) ** 0.5, horizon=horizon, initial=initial,
        boundary=boundary, measure=measure, nonlinearity=lambda t, x, u, p: reaction(u), name=name,
    )  # fmt: skip


def uncertain_volatility(
    domain: AbstractDomain,
    payoff: Any,
    *,
    low: float,
    high: float,
    rate: float = 0.0,
    horizon: float,
    boundary: Any = 0.0,
    measure: AbstractMeasure | None = None,
    name: str = "uncertain volatility",
) -> Problem:
    r"""The highest price of a claim on assets whose volatilities lie between two bounds.

    $\partial_t u + \tfrac12\sup_{\sigma\in[\sigma_-,\sigma_+]}\sigma^2\sum_i x_i^2u_{ii}
    + r\,x\cdot\nabla u - ru = 0$ (Black-Scholes-Barenblatt), $u(T, x)$ the payoff.

    Args:
        domain: prices, away from zero.
        payoff: a function of `x`.
        low: $\sigma_-$.
        high: $\sigma_+$.
        rate: $r$.
        horizon: $T$.
        boundary: as in `Problem`.
        measure: where the answer is wanted.
        name: a name for reports.
    """
    if not 0 < low <= high < np.inf:
        raise ValueError(f"`low` and `high` must satisfy 0 < low <= high; got {low!r}, {high!r}.")

    def less_noise(t, x, u, p, Q):
        return -0.5 * (high**2 - low**2) * jnp.sum(x**2 * jnp.minimum(jnp.diag(Q), 0.0))

    return Problem(
        domain, drift=lambda t, x: rate * x, diffusion=lambda t, x: high * x, reaction=rate,
        horizon=horizon, terminal=payoff, boundary=boundary, measure=measure,
        nonlinearity=less_noise, name=name,
    )  # fmt: skip


def hjb(
    domain: AbstractDomain,
    *,
    drift: Callable[..., Any],
    cost: Callable[..., Any],
    controls: Any,
    diffusion: Any = 1.0,
    noise: Callable[..., Any] | None = None,
    maximize: bool = False,
    name: str = "hjb",
    **data: Any,
) -> Problem:
    r"""The minimal expected cost of a controlled diffusion, $dX = b(X,a)\,dt + \sigma\,dW$.

    $[\partial_t u +]\ \tfrac12\mathrm{tr}(\sigma\sigma^\top D^2u) + \min_a\{b(x,a)\cdot\nabla u +
    c(x,a)\} - Vu = 0$, with the final cost of a path as $u$ on the boundary and at the horizon.
    `optimal_control(problem, u)` is the minimizer as a function.

    Args:
        domain: where.
        drift: $b$, a function of `x, a` (`t, x, a` with a horizon).
        cost: $c$, the cost per unit of time, a function of the same arguments.
        controls: an array of controls, one per row; a `Box`; or a formula, a function of `x, p`
            (`t, x, p`) that returns the optimal control.
        diffusion: $\sigma$, as in `Problem`; with `noise`, the largest value that occurs.
        noise: diagonal of a controlled diffusion, a function of the same arguments as `drift`; the
            equation then contains `Q`, and a formula for the controls takes it as its last
            argument.
        maximize: maximize gains instead of minimizing costs.
        name: a name for reports.
        data: as for `Problem`.
    """
    timed = data.get("horizon") is not None
    n = 2 + timed
    for argument, given in (("drift", drift), ("cost", cost), ("noise", noise)):
        if given is not None and (not callable(given) or not accepts(given, n)):
            raise TypeError(
                f"`{argument}` must be a function of `{'t, ' if timed else ''}x, a`; got "
                f"{spelled(given)}."
            )
    chosen = _controls(controls, n + (noise is not None))
    own = None
    if noise is not None:
        layout = Layout(known_domain(domain).dim, data.get("horizon"))
        own = bind("diffusion", diffusion, ((), (domain.dim,)), layout)
    made = Hamiltonian(drift, cost, noise, chosen, own, maximize)
    return Problem(
        domain, diffusion=diffusion, nonlinearity=_KEPT[timed, noise is not None](made), name=name,
        **data,
    )  # fmt: skip


def optimal_control(problem: Problem, u: Callable[..., Any]) -> Callable[..., Any]:
    """The optimal control as a function of one point (`x`, or time followed by `x`).

    Args:
        problem: created by `hjb`.
        u: its solution, a network or `Solution.network`, a function of one point.
    """
    given = problem.nonlinearity
    if given is None or not isinstance(given.function, _Kept):
        raise ValueError("`problem` must be created by `hjb`.")
    made = given.function.made

    def control(z: Array) -> Float[Array, " m"]:
        _, p, q = derivatives(given, u, z)
        return made.best(*problem.layout.arguments(z), p, *(() if q is None else (q,)))

    return control


class Hamiltonian(eqx.Module):
    """The best of drift and cost over all controls."""

    drift: Callable[..., Any]
    cost: Callable[..., Any]
    noise: Callable[..., Any] | None
    controls: Any
    diffusion: Coefficient | None  # where the noise is controlled
    maximize: bool = eqx.field(static=True)

    def first(self, *arguments: Any) -> Scalar:
        """Of `[t,] x, u, p`."""
        *z, _, p = arguments
        best = jax.lax.stop_gradient(self.best(*z, p))
        return self.at(best, z, p, None)

    def second(self, *arguments: Any) -> Scalar:
        """Of `[t,] x, u, p, Q`."""
        *z, _, p, q = arguments
        best = jax.lax.stop_gradient(self.best(*z, p, q))
        return self.at(best, z, p, q)

    def at(self, a: Vector, z: list[Any], p: Vector, q: Matrix | None) -> Scalar:
        """What one control makes of it."""
        total = jnp.dot(jnp.asarray(self.drift(*z, a), p.dtype), p) + self.cost(*z, a)
        if self.noise is None or self.diffusion is None or q is None:
            return jnp.asarray(total, p.dtype)
        own = self.diffusion(self.diffusion.layout.joined(*z))
        own = jnp.broadcast_to(own**2, p.shape)
        more = jnp.broadcast_to(jnp.asarray(self.noise(*z, a), p.dtype) ** 2, p.shape) - own
        return jnp.asarray(total + 0.5 * jnp.dot(more, jnp.diag(q)), p.dtype)

    def best(self, *arguments: Any) -> Float[Array, " m"]:
        """The control, of `[t,] x, p` or `[t,] x, p, Q`."""
        if callable(self.controls):
            return jnp.atleast_1d(jnp.asarray(self.controls(*arguments)))
        split = -2 if self.noise is not None else -1
        z, p = list(arguments[:split]), arguments[split]
        q = arguments[-1] if self.noise is not None else None
        sign = -1.0 if self.maximize else 1.0
        value = lambda a: sign * self.at(a, z, p, q)
        if isinstance(self.controls, Box):
            return _in_box(value, self.controls, p.dtype)
        rows = jnp.asarray(self.controls, p.dtype)
        return rows[jnp.argmin(jax.vmap(value)(rows))]


class _Kept(eqx.Module):
    """The nonlinearity of a control problem, which remembers where it comes from."""

    made: Hamiltonian


class _Static(_Kept):
    def __call__(self, x: Any, u: Any, p: Any) -> Scalar:
        return self.made.first(x, u, p)


class _Timed(_Kept):
    def __call__(self, t: Any, x: Any, u: Any, p: Any) -> Scalar:
        return self.made.first(t, x, u, p)


class _StaticSecond(_Kept):
    def __call__(self, x: Any, u: Any, p: Any, q: Any) -> Scalar:
        return self.made.second(x, u, p, q)


class _TimedSecond(_Kept):
    def __call__(self, t: Any, x: Any, u: Any, p: Any, q: Any) -> Scalar:
        return self.made.second(t, x, u, p, q)


# by whether there is a time, and whether the noise is controlled
_KEPT = {
    (False, False): _Static, (True, False): _Timed,
    (False, True): _StaticSecond, (True, True): _TimedSecond,
}  # fmt: skip


def _controls(given: Any, n: int) -> Any:
    if isinstance(given, Box):
        return given
    if callable(given):
        if not accepts(given, n):
            raise TypeError(
                f"`controls` as a formula must take {n} arguments, point and derivatives; got "
                f"{spelled(given)}."
            )
        return given
    rows = np.asarray(given, dtype=float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not 1 <= len(rows) <= _WIDEST_SET or not np.all(np.isfinite(rows)):
        raise ValueError(
            f"`controls` must be finite numbers, one control per row, at most {_WIDEST_SET}; a "
            f"`Box`; or a function. Got shape {rows.shape}."
        )
    return rows


def _in_box(value: Callable[..., Any], box: Box, dtype: Any) -> Float[Array, " m"]:
    """The least value over a box of controls, one coordinate after the other.

    Each takes the least of a parabola through three values, exact where costs are quadratic; where
    that bends the other way, the better end. Steps become narrower, for costs that are neither.
    """
    lower, upper = (jnp.asarray(np.asarray(corner), dtype) for corner in (box.lower, box.upper))
    m = len(box.lower)

    def sweep(k, a):
        half = 0.5 * (upper - lower) * 0.5 ** k.astype(dtype)
        for j in range(m):
            left = jnp.clip(a[j] - half[j], lower[j], upper[j] - half[j])
            at = left + half[j] * jnp.arange(3, dtype=dtype)
            at = jnp.clip(at, lower[j], upper[j])
            y = jnp.stack([value(a.at[j].set(place)) for place in at])
            bend = y[0] - 2.0 * y[1] + y[2]
            least = at[1] - 0.5 * half[j] * (y[2] - y[0]) / jnp.where(bend > 0, bend, 1.0)
            places = jnp.append(at, jnp.clip(jnp.where(bend > 0, least, at[1]), lower[j], upper[j]))
            places = jnp.append(places, a[j])
            values = jnp.stack([value(a.at[j].set(place)) for place in places])
            a = a.at[j].set(places[jnp.argmin(values)])
        return a

    return jax.lax.fori_loop(0, _SWEEPS, sweep, 0.5 * (lower + upper))
