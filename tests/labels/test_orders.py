"""Orders of the schemes, fitted over four step sizes or more where the solution is known.

The step sizes are where the error is far above the noise; where it pays, the exact solution as
control takes most of the noise away and none of the bias.
"""

import functools
from typing import Any, NamedTuple

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk

ONE_WIDTH = helpers.lanes(
    (1024,), 1 << 16, 2
)  # one width compiles once; labels do not depend on it


class Order(NamedTuple):
    """A fitted order, its standard error, and the errors it was fitted to."""

    value: float
    stderr: float
    errors: np.ndarray
    noise: np.ndarray


def fitted_order(
    problem, exact, point: list[float], scheme: str, steps: list[float], n_paths: int,
    *, control: Any = None, seed: int = 100,
) -> Order:  # fmt: skip
    """Slope of log error over log step; each error weighs by its own relative noise."""
    points = jnp.asarray([point], jnp.float32)
    truth = float(jax.vmap(exact)(jnp.asarray([point]))[0])
    errors, noise = [], []
    for k, dt in enumerate(steps):
        labels = fk.estimate_labels(
            problem, points, n_paths=n_paths, dt=dt, scheme=scheme, seed=seed + k,
            control=control, compute=ONE_WIDTH,
        )  # fmt: skip
        errors.append(abs(float(labels.value[0]) - truth))
        noise.append(float(labels.stderr[0]))
    x, weight = np.log(steps), (np.array(errors) / np.array(noise)) ** 2
    off = x - np.sum(weight * x) / np.sum(weight)
    spread = np.sum(weight * off**2)
    slope = float(np.sum(weight * off * np.log(errors)) / spread)
    return Order(slope, float(spread**-0.5), np.array(errors), np.array(noise))


def halved(first: float, count: int = 4) -> list[float]:
    """Step sizes, each half of the one before."""
    return [first / 2**k for k in range(count)]


interval = fk.Problem(fk.Interval(-1.0, 1.0), source=1.0, check=False)


@pytest.mark.parametrize(
    ("steps", "n_paths"),
    [
        pytest.param(halved(0.16, 5), 40_000, id="quick"),
        pytest.param(halved(0.02, 5), 200_000, id="fine", marks=pytest.mark.slow),
    ],
)
def test_plain_exit_has_order_one_half(steps, n_paths, record_property):
    """Exit time of an interval: late by about 2 * 0.5826 * sqrt(dt) (Broadie, Glasserman, Kou)."""
    exact = lambda x: 1.0 - x[0] ** 2
    order = fitted_order(interval, exact, [0.0], "euler", steps, n_paths)
    record_property("order", order[:2])
    assert abs(order.value - 0.5) <= 0.15
    # E[N dt] = E[X_N^2] (Wald), and |X_N| is 1 plus an overshoot whose mean is 0.5826 sqrt(dt)
    # and whose mean square is (1/4 + 0.5826^2) dt
    h = np.array(steps)
    expected = 2 * 0.5826 * np.sqrt(h) + (0.25 + 0.5826**2) * h
    assert np.all(np.abs(order.errors - expected) <= 4 * order.noise)


disk = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0, check=False)


def disk_exact(x):
    """Mean exit time of the unit disk."""
    return 0.5 * (1.0 - jnp.sum(x**2))


@pytest.mark.parametrize(
    ("first", "n_paths"),
    [
        pytest.param(0.12, 100_000, id="quick"),
        pytest.param(0.02, 2_000_000, id="fine", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "scheme", ["euler-shifted", pytest.param("euler-bridge", marks=pytest.mark.slow)]
)
@pytest.mark.broad
def test_shifted_and_bridge_exit_have_order_one(scheme, first, n_paths, record_property):
    """Without drift the step is exact: what is left is the curvature of the boundary."""
    order = fitted_order(
        disk, disk_exact, [0.0, 0.0], scheme, halved(first), n_paths, control=disk_exact
    )
    record_property("order", order[:2])
    assert order.value >= 0.9
    assert order.stderr <= 0.05


def ou_exact(t, x):
    """Mean of cos(2 x) under an Ornstein-Uhlenbeck process of rate 1 and noise 0.8."""
    left = 1.0 - t
    variance = 0.32 * (1.0 - jnp.exp(-2.0 * left))
    return jnp.exp(-2.0 * variance) * jnp.cos(2.0 * jnp.exp(-left) * x[0])


# no path comes near this boundary: 30 is more than 35 standard deviations away
far = fk.Interval(-30.0, 30.0)
ou = fk.Problem(
    far, drift=lambda t, x: -x, diffusion=0.8, boundary=ou_exact, horizon=1.0,
    terminal=lambda x: ou_exact(1.0, x), check=False,
)  # fmt: skip


def bent_exact(t, x):
    """A solution that moves."""
    return jnp.sin(x[0] + t) + 0.5 * jnp.cos(2.0 * x[0])


@functools.cache
def bent():
    return fk.manufactured(
        far, bent_exact, drift=lambda t, x: -2.0 * jnp.sin(x) * (1.0 + t), diffusion=0.7,
        reaction=lambda t, x: 1.0 + 0.5 * jnp.cos(x[0]), horizon=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "exact", "first", "n_paths"),
    [
        pytest.param(
            lambda: ou, ou_exact, 0.5, 400_000, id="ornstein-uhlenbeck", marks=pytest.mark.slow
        ),
        pytest.param(
            bent, bent_exact, 0.25, 200_000, id="drift-reaction-source", marks=pytest.mark.slow
        ),
        pytest.param(
            bent, bent_exact, 0.125, 4_000_000, id="drift-reaction-source-fine",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_heun_has_order_two_in_the_interior(problem, exact, first, n_paths, record_property):
    u = lambda z: exact(z[0], z[1:])
    order = fitted_order(problem(), u, [0.0, 0.3], "heun", halved(first), n_paths, control=u)
    record_property("order", order[:2])
    assert order.value >= 1.8
    assert order.stderr <= 0.1


def wall_exact(x):
    """A solution without symmetry."""
    return jnp.cos(2.0 * x[0]) * jnp.exp(0.5 * x[1]) + x[0]


@functools.cache
def wall():
    return fk.manufactured(
        fk.Ball([0.0, 0.0], 1.0), wall_exact, drift=lambda x: jnp.stack([-2.0 * x[1], 2.0 * x[0]]),
        reaction=lambda x: 1.0 + x[0] ** 2, boundary={"outer": (fk.Robin, 1.0)},
    )  # fmt: skip


def slab_exact(x):
    """A solution with slopes at both ends."""
    return jnp.cos(x[0]) + x[0] ** 2


@functools.cache
def slab():
    return fk.manufactured(
        fk.Interval(0.0, 1.0), slab_exact, drift=lambda x: -2.0 * x, reaction=1.0,
        boundary={"outer": fk.Neumann},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "exact", "point", "first", "n_paths"),
    [
        pytest.param(
            wall, wall_exact, [0.2, 0.1], 0.2, 40_000, id="robin-disk", marks=pytest.mark.slow
        ),
        pytest.param(
            slab, slab_exact, [0.7], 0.1, 40_000, id="neumann-interval", marks=pytest.mark.slow
        ),
        pytest.param(
            wall, wall_exact, [0.2, 0.1], 0.05, 1_000_000, id="robin-disk-fine",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_reflection_has_order_one(problem, exact, point, first, n_paths, record_property):
    order = fitted_order(
        problem(), exact, point, "euler-shifted", halved(first), n_paths, control=exact
    )
    record_property("order", order[:2])
    assert order.value >= 0.9
    assert order.stderr <= 0.05
