"""The problems as a user of fkpinn writes them.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all
import jax.numpy as jnp

import fkpinn as fk


def solve(problem, seed):
    solution = fk.solve(problem, preset="quick", seed=seed)
    return solution, solution.certify()


# --- poisson
def poisson():
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))

    def source(x):
        wave = lambda j, k: jnp.sin(j * jnp.pi * x[0]) * jnp.sin(k * jnp.pi * x[1])
        return sum(a * jnp.pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in modes)

    return fk.poisson(fk.Box([0, 0], [1, 1]), source)


# --- schrodinger
def schrodinger():
    potential = lambda x: -5 * (jnp.cos(4 * jnp.pi * x[0]) + jnp.cos(4 * jnp.pi * x[1]))
    source = lambda x: 50 * jnp.sin(5 * x[0]) * jnp.sin(5 * x[1])
    return fk.schrodinger(fk.Box([-1, -1], [1, 1]), potential, source)


# --- met
def met():
    well = lambda x: 0.25 * (x[0] ** 2 - 1) ** 2 + 0.5 * x[1] ** 2
    return fk.mean_exit_time(fk.RegularPolygon(sides=6, circumradius=2.0), well, beta=5.0)


# --- committor
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def committor():
    def height(x):
        total = jnp.zeros_like(x[0])
        for h, a, b, c, p, q in HEIGHTS:
            dx, dy = x[0] - p, x[1] - q
            total = total + h * jnp.exp(a * dx**2 + b * dx * dy + c * dy**2)
        return total

    a, b = fk.Ball([-0.5582, 1.4417], 0.2, name="A"), fk.Ball([0.6235, 0.0281], 0.2, name="B")
    return fk.committor(fk.Box([-1.5, -0.2], [1.2, 2.0]) - a - b, height, beta=0.05)


# --- convection-layer
def convection_layer():
    low = jnp.exp(-50.0)

    def source(x):
        profile = x[0] - (jnp.exp(50 * (x[0] - 1)) - low) / (1 - low)
        return jnp.sin(jnp.pi * x[1]) * (1 + 0.02 * jnp.pi**2 * profile)

    square = fk.Box([0, 0], [1, 1])
    return fk.Problem(square, drift=[-1.0, 0.0], diffusion=0.04**0.5, source=source)


# --- heat2d-ms
def heat2d_ms():
    start = lambda x: jnp.sin(20 * jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
    spread = (1 / (500 * jnp.pi) ** 2, 1 / jnp.pi**2)
    return fk.heat(fk.Box([0, 0], [1, 1]), start, horizon=5.0, conductivity=spread)


# --- poisson-5d
def poisson_5d():
    data = lambda x: jnp.sum(jnp.sin(0.5 * jnp.pi * x))
    source = lambda x: 0.25 * jnp.pi**2 * data(x)
    return fk.poisson(fk.Box([0] * 5, [1] * 5), source, data)


# --- laplace-10d
def laplace_10d():
    data = lambda x: jnp.sum(x[0::2] * x[1::2])
    return fk.poisson(fk.Box([0] * 10, [1] * 10), 0.0, data)
