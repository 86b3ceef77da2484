"""Problems by name, with their solutions where these are known in closed form."""

import difflib
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from .._types import Point, Scalar, ScalarField
from ..domain import Ball, Box, Polygon, RegularPolygon
from ._boundary import Neumann, Robin
from ._high_dimension import double_well_committor, exit_box, ou_exit, two_body
from ._levy import fractional_composite, jump_exit, merton_call, stable_exit
from ._manufactured import as_field, manufactured
from ._nonlinear import (
    american_put,
    black_scholes_barenblatt,
    bratu,
    butterfly,
    fisher_kpp,
    fully_nonlinear,
    linear_quadratic,
    radial,
    shrinking_disk,
)
from ._problem import Problem
from ._recipes import backward_kolmogorov, committor, heat, mean_exit_time, poisson, schrodinger


class Entry(NamedTuple):
    """A problem of the catalogue; `exact` is a function of one point, or None."""

    problem: Problem
    exact: ScalarField | None


def catalogue(name: str) -> Entry:
    """The catalogue problem of that name; `fkpinn problems` lists them.

    Example:
        ```python
        import fkpinn as fk

        problem, exact = fk.catalogue("poisson")
        ```
    """
    if name not in _BUILDERS:
        close = difflib.get_close_matches(name, _BUILDERS, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(
            f"`name` must be a problem of the catalogue {tuple(_BUILDERS)}; got {name!r}.{hint}"
        )
    return _build(name)


@functools.cache  # the same object each time, so that nothing is compiled twice
def _build(name: str) -> Entry:
    return _BUILDERS[name]()


def _poisson() -> Entry:
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))  # amplitude, frequencies

    def wave(x: Point, j: int, k: int) -> Scalar:
        return jnp.sin(j * jnp.pi * x[0]) * jnp.sin(k * jnp.pi * x[1])

    def exact(x):
        return jnp.sum(jnp.stack([a * wave(x, j, k) for a, j, k in modes]))

    def source(x):
        terms = [a * (j**2 + k**2) * wave(x, j, k) for a, j, k in modes]
        return jnp.pi**2 * jnp.sum(jnp.stack(terms))

    return Entry(poisson(Box([0, 0], [1, 1]), source), exact)


def _schrodinger() -> Entry:
    def potential(x):
        return -5.0 * (jnp.cos(4 * jnp.pi * x[0]) + jnp.cos(4 * jnp.pi * x[1]))

    def source(x):
        return 50.0 * jnp.sin(5 * x[0]) * jnp.sin(5 * x[1])

    return Entry(schrodinger(Box([-1, -1], [1, 1]), potential, source), None)


def double_well(x: Point) -> Scalar:
    """The potential of the mean-exit-time problem."""
    return 0.25 * (x[0] ** 2 - 1.0) ** 2 + 0.5 * x[1] ** 2


def _met() -> Entry:
    hexagon = RegularPolygon(sides=6, circumradius=2.0)
    return Entry(mean_exit_time(hexagon, double_well, beta=5.0, name="met"), None)


def muller_brown(x: Point) -> Scalar:
    """The Müller–Brown potential, parameters as in tab:muller_params."""
    terms = (
        (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0),
        (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
        (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5),
        (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
    )
    total = jnp.zeros_like(x[0])
    for height, a, b, c, x0, y0 in terms:
        dx, dy = x[0] - x0, x[1] - y0
        total = total + height * jnp.exp(a * dx**2 + b * dx * dy + c * dy**2)
    return total


def muller_brown_committor(beta: float = 0.05) -> Problem:
    """The committor between the two main wells, outer boundary reflecting.

    The paper leaves the inverse temperature and the outer boundary unsaid; these are ours.
    """
    domain = (
        Box([-1.5, -0.2], [1.2, 2.0])
        - Ball([-0.5582, 1.4417], 0.2, name="A")
        - Ball([0.6235, 0.0281], 0.2, name="B")
    )
    return committor(domain, muller_brown, beta=beta)


def _heat2d_ms() -> Entry:
    horizon = 5.0
    kappa = (1.0 / (500 * math.pi) ** 2, 1.0 / math.pi**2)
    decay = kappa[0] * (20 * math.pi) ** 2 + kappa[1] * math.pi**2

    def initial(x):
        return jnp.sin(20 * jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    problem = heat(
        Box([0, 0], [1, 1]), initial, horizon=horizon, conductivity=kappa, name="heat2d-ms"
    )
    exact = lambda t, x: jnp.exp(-decay * t) * initial(x)
    return Entry(problem, as_field(exact, problem.layout))


def _poisson_5d() -> Entry:
    def exact(x):
        return jnp.sum(jnp.sin(0.5 * jnp.pi * x))

    def source(x):
        return 0.25 * jnp.pi**2 * exact(x)

    box = Box([0] * 5, [1] * 5)
    return Entry(poisson(box, source, exact, name="poisson-5d"), exact)


def _laplace_10d() -> Entry:
    def exact(x):
        return jnp.sum(x[0::2] * x[1::2])

    return Entry(poisson(Box([0] * 10, [1] * 10), 0.0, exact, name="laplace-10d"), exact)


def _square(dim: int) -> Entry:
    def exact(x):
        return jnp.sum(x**2)

    box = Box([0] * dim, [1] * dim)
    return Entry(poisson(box, -2.0 * dim, exact, name=f"poisson-{dim}d"), exact)


def _variable_diffusion() -> Entry:
    star = Polygon([(-1, -1), (1, -1), (0.6, 0), (1, 1), (0, 0.4), (-1, 1)])

    def exact(x):
        return jnp.sin(2 * x[0] + x[1]) + jnp.exp(0.5 * x[0] * x[1])

    def diffusion(x):
        row = jnp.stack([1.0 + 0.3 * jnp.sin(x[1]), 0.4 * x[0]])
        return jnp.stack([row, jnp.stack([0.2 * x[1], 0.8 + 0.2 * jnp.cos(x[0])])])

    problem = manufactured(
        star,
        exact,
        drift=lambda x: jnp.stack([x[1] - 0.5, -x[0] + 0.3 * x[1] ** 2]),
        diffusion=diffusion,
        reaction=lambda x: 1.0 + x[0] ** 2,
        name="variable-diffusion",
    )
    return Entry(problem, exact)


def _robin() -> Entry:
    ring = Ball([0, 0], 1.0) - Ball([0.2, 0.1], 0.35, name="hole")

    def exact(x):
        return jnp.cos(2 * x[0]) * jnp.exp(0.5 * x[1]) + x[0]

    problem = manufactured(
        ring,
        exact,
        drift=lambda x: jnp.stack([-x[1], x[0]]),
        diffusion=lambda x: 1.0 + 0.25 * x[0],
        boundary={"outer": (Robin, lambda x: 1.0 + 0.5 * x[1] ** 2), "hole": Neumann},
        name="robin",
    )
    return Entry(problem, exact)


def _exit_ball(dim: int) -> Entry:
    def exact(x):  # sigma is sqrt(2), so the generator is the Laplacian
        return (1.0 - jnp.sum(x**2)) / (2 * dim)

    problem = mean_exit_time(Ball([0.0] * dim, 1.0), beta=1.0, name=f"exit-ball-{dim}d")
    return Entry(problem, exact)


def _ornstein_uhlenbeck() -> Entry:
    rate, noise, horizon, wave = 1.0, 0.8, 1.0, (2.0, 1.0)

    def exact(t, x):
        left = horizon - t
        mean = jnp.exp(-rate * left) * x
        variance = noise**2 / (2 * rate) * (1.0 - jnp.exp(-2 * rate * left))
        k = jnp.asarray(wave, x.dtype)
        return jnp.exp(-0.5 * variance * jnp.sum(k**2)) * jnp.cos(jnp.dot(k, mean))

    problem = backward_kolmogorov(
        Box([-2, -2], [2, 2]),
        lambda x: exact(horizon, x),
        horizon=horizon,
        drift=lambda t, x: -rate * x,
        diffusion=noise,
        boundary=exact,
        name="ornstein-uhlenbeck",
    )
    return Entry(problem, as_field(exact, problem.layout))


def _bistable(u: Scalar) -> Scalar:
    return u - u**3


def _saturating(u: Scalar) -> Scalar:
    return (1.0 - u**2) / (1.0 + u**2)


_BUILDERS: dict[str, Callable[[], Entry]] = {
    "poisson": _poisson,
    "schrodinger": _schrodinger,
    "met": _met,
    "committor": lambda: Entry(muller_brown_committor(), None),
    "heat2d-ms": _heat2d_ms,
    "poisson-5d": _poisson_5d,
    "laplace-10d": _laplace_10d,
    "poisson-50d": lambda: _square(50),
    "poisson-100d": lambda: _square(100),
    "variable-diffusion": _variable_diffusion,
    "robin": _robin,
    "exit-ball-3d": lambda: _exit_ball(3),
    "exit-ball-10d": lambda: _exit_ball(10),
    "exit-box-10d": lambda: Entry(*exit_box(10)),
    "ornstein-uhlenbeck": _ornstein_uhlenbeck,
    "ou-exit-10d": lambda: Entry(*ou_exit(10, 8.0)),
    "ou-exit-50d": lambda: Entry(*ou_exit(50, 20.0)),
    "double-well-committor-10d": lambda: Entry(*double_well_committor(5.0)),
    "two-body-100d": lambda: Entry(*two_body(100)),
    "two-body-1000d": lambda: Entry(*two_body(1000)),
    "bratu": lambda: Entry(*bratu()),
    "allen-cahn-2d": lambda: Entry(shrinking_disk(), None),
    "allen-cahn-20d": lambda: Entry(*radial("allen-cahn-20d", 20, _bistable, laplacian=0.5)),
    "allen-cahn-100d": lambda: Entry(*radial("allen-cahn-100d", 100, _bistable)),
    "sine-gordon-10d": lambda: Entry(*radial("sine-gordon-10d", 10, jnp.sin)),
    "sine-gordon-100d": lambda: Entry(*radial("sine-gordon-100d", 100, jnp.sin)),
    "semilinear-heat-10d": lambda: Entry(*radial("semilinear-heat-10d", 10, _saturating)),
    "semilinear-heat-100d": lambda: Entry(*radial("semilinear-heat-100d", 100, _saturating)),
    "hjb-lq-20d": lambda: Entry(*linear_quadratic(20)),
    "hjb-lq-100d": lambda: Entry(*linear_quadratic(100)),
    "fully-nonlinear-20d": lambda: Entry(*fully_nonlinear(20)),
    "fully-nonlinear-100d": lambda: Entry(*fully_nonlinear(100)),
    "bsb-100d": lambda: Entry(*black_scholes_barenblatt(100)),
    "uncertain-volatility": lambda: Entry(butterfly(), None),
    "american-put": lambda: Entry(american_put(), None),
    "fisher-kpp": lambda: Entry(*fisher_kpp(1)),
    "fisher-kpp-10d": lambda: Entry(*fisher_kpp(10)),
    "merton": lambda: Entry(*merton_call()),
    "jump-exit": lambda: Entry(jump_exit(), None),
    "stable-exit-2d": lambda: Entry(*stable_exit(2)),
    "stable-exit-10d": lambda: Entry(*stable_exit(10)),
    "fractional-poisson-20d": lambda: Entry(*fractional_composite(20)),
}
