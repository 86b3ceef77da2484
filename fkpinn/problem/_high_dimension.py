"""Problems in many dimensions whose solutions are known, each with the law of its points."""

import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from .._streams import fold
from .._types import Point, Scalar, ScalarField
from ..domain import Ball, Box
from ._exit_time import box_exit_time
from ._measure import Radial, Sampler
from ._problem import Problem
from ._recipes import committor, mean_exit_time, poisson

_NODES = 20_001  # of the tables of one-dimensional integrals


def ou_exit(dim: int, beta: float, radius: float = 2.0) -> tuple[Problem, ScalarField]:
    r"""Mean exit time of an Ornstein-Uhlenbeck process from a ball; points of uniform radius.

    It depends on the radius only, with slope
    $-\beta\, r^{1-d} e^{\beta r^2/2}\int_0^r s^{d-1} e^{-\beta s^2/2}\,ds$.
    """
    well = lambda x: 0.5 * jnp.sum(x**2)
    ball = Ball([0.0] * dim, radius)
    problem = mean_exit_time(ball, well, beta=beta, name=f"ou-exit-{dim}d")
    measure = Radial([0.0] * dim, radius)
    table = _exit_times(dim, beta, radius)
    exact = lambda x: _read(table, 0.0, radius, jnp.sqrt(jnp.sum(x**2)))
    return problem.with_measure(measure), exact


def _exit_times(dim: int, beta: float, radius: float) -> np.ndarray:
    """Values and slopes at equally spaced radii."""
    r = np.linspace(0.0, radius, _NODES)
    # inside the integral s = r t: no power of r is left that could overflow
    t, weight = np.polynomial.legendre.leggauss(400)
    t, weight = 0.5 * (t + 1.0), 0.5 * weight
    slope = np.zeros_like(r)
    for at in range(0, len(r), 1000):
        rows = r[at : at + 1000, None]
        inner = np.exp((dim - 1) * np.log(t) + 0.5 * beta * rows**2 * (1.0 - t**2))
        slope[at : at + 1000] = -beta * rows[:, 0] * (inner @ weight)
    return _integrated(slope, r[1] - r[0], from_the_right=True)


def exit_box(dim: int) -> tuple[Problem, ScalarField]:
    r"""Mean exit time of a Brownian motion from the cube $(-1, 1)^d$; points uniform.

    $\tfrac12\int_0^\infty \prod_i S(x_i, t)\,dt$, with the chance $S$ that one coordinate with
    generator $\tfrac12\partial^2$ has not left the interval.
    """
    problem = mean_exit_time(Box([-1.0] * dim, [1.0] * dim), beta=1.0, name=f"exit-box-{dim}d")
    middle, half = np.zeros(dim), np.ones(dim)
    how = {"ratio": 1.2, "shortest": 1e-7, "left": 1e-12}
    return problem, lambda x: 0.5 * box_exit_time(x, middle, half, **how)


def double_well_committor(beta: float, dim: int = 10) -> tuple[Problem, ScalarField]:
    """From one face of a box to the other through a double well, reflecting elsewhere.

    The committor depends on the first coordinate only. Points follow the Boltzmann law.
    """
    wide = 2.5
    names = ("A", "B", *(["wall"] * (2 * dim - 2)))
    box = Box([-1.0] + [-wide] * (dim - 1), [1.0] + [wide] * (dim - 1), name=names)

    def potential(x: Point) -> Scalar:
        return (x[0] ** 2 - 1.0) ** 2 + 0.3 * jnp.sum(x[1:] ** 2)

    name = f"double-well-committor-{dim}d" + ("" if beta == 5 else f"-beta{beta:g}")
    problem = committor(box, potential, beta=beta, name=name)
    nodes = np.linspace(-1.0, 1.0, _NODES)
    well = (nodes**2 - 1.0) ** 2
    table = _integrated(np.exp(beta * (well - 1.0)), nodes[1] - nodes[0])
    table = table / table[0, -1]
    exact = lambda x: _read(table, -1.0, 1.0, x[0])
    below = _integrated(np.exp(-beta * well), nodes[1] - nodes[0])[0]
    below = below / below[-1]
    spread = math.sqrt(1.0 / (0.6 * beta))

    def draw(key):
        along = jnp.interp(jr.uniform(fold(key, "along")), jnp.asarray(below), jnp.asarray(nodes))
        limit = wide / spread
        across = spread * jr.truncated_normal(fold(key, "across"), -limit, limit, (dim - 1,))
        return jnp.concatenate([along[None].astype(across.dtype), across])

    return problem.with_measure(Sampler(draw)), exact


def two_body(dim: int) -> tuple[Problem, ScalarField]:
    """Poisson on the unit ball with a solution in which neighbouring coordinates interact."""
    c = np.random.default_rng(0).standard_normal(dim - 1)

    def parts(x: Point) -> tuple[Scalar, Scalar, Scalar]:
        """The sum, its slope along `x`, and its Laplacian."""
        a, b = x[:-1], x[1:]
        amplitude = jnp.asarray(c, x.dtype)
        phase = a + jnp.cos(b) + b * jnp.cos(a)
        by_a, by_b = 1.0 - b * jnp.sin(a), jnp.cos(a) - jnp.sin(b)
        sine, cosine = amplitude * jnp.sin(phase), amplitude * jnp.cos(phase)
        along = jnp.sum(cosine * (a * by_a + b * by_b))
        bend = -jnp.sum(cosine * (b * jnp.cos(a) + jnp.cos(b)) + sine * (by_a**2 + by_b**2))
        return jnp.sum(sine), along, bend

    def exact(x):
        return (1.0 - jnp.sum(x**2)) * parts(x)[0]

    def source(x):
        value, along, bend = parts(x)
        return 2.0 * dim * value + 4.0 * along - (1.0 - jnp.sum(x**2)) * bend

    ball = Ball([0.0] * dim, 1.0)
    problem = poisson(ball, source, name=f"two-body-{dim}d")
    return problem.with_measure(Radial([0.0] * dim, 1.0)), exact


def _integrated(slope: np.ndarray, step: float, from_the_right: bool = False) -> np.ndarray:
    """Integral of a tabulated function and the function itself, two rows; zero at one end."""
    from scipy.interpolate import CubicSpline

    nodes = step * np.arange(len(slope))
    value = CubicSpline(nodes, slope).antiderivative()(nodes)
    return np.stack([value - value[-1] if from_the_right else value, slope])


@functools.partial(jax.jit, static_argnums=(1, 2))
def _hermite(table, low: float, high: float, x: Scalar) -> Scalar:
    n = table.shape[1] - 1
    step = (high - low) / n
    place = jnp.clip((x - low) / step, 0.0, n)
    left = jnp.minimum(place.astype(jnp.int32), n - 1)
    t = place - left.astype(x.dtype)
    (v0, s0), (v1, s1) = table[:, left], table[:, left + 1]
    rise = (1.0 + 2.0 * t) * (1.0 - t) ** 2 * v0 + t**2 * (3.0 - 2.0 * t) * v1
    return rise + step * (t * (1.0 - t) ** 2 * s0 - t**2 * (1.0 - t) * s1)


def _read(table: np.ndarray, low: float, high: float, x: Scalar) -> Scalar:
    """A table of values and slopes, read between its nodes by cubic polynomials."""
    return _hermite(jnp.asarray(table, x.dtype), low, high, x)
