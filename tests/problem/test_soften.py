"""Choices in data, smoothed: exact where things are linear, with bounded residuals elsewhere."""

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import fkpinn as fk
from fkpinn.problem import Softened, chooses, residual

WEIGHTS = np.array([0.5, -1.0, 2.0])
DRIFT = np.array([0.3, 0.1, -0.2])
NOISE = np.array([[0.4, 0.1, 0.0], [0.0, 0.3, 0.0], [0.1, 0.0, 0.2]])


def moving(terminal, forward=False, **more):
    """A problem with constant drift and noise in three dimensions."""
    end = {"initial": terminal} if forward else {"terminal": terminal}
    return fk.Problem(
        fk.Space(3), drift=lambda t, x: jnp.asarray(DRIFT, x.dtype), horizon=2.0, check=False,
        diffusion=lambda t, x: jnp.asarray(NOISE, x.dtype), measure=fk.Along(np.zeros(3)),
        **end, **more,
    )  # fmt: skip


def level(x):
    return x @ jnp.asarray(WEIGHTS, x.dtype) - 0.2


def law(z, forward=False):
    """Mean and deviation of the level at the end, which is normal."""
    left = z[:, 0] if forward else 2.0 - z[:, 0]
    mean = z[:, 1:] @ WEIGHTS - 0.2 + left * (DRIFT @ WEIGHTS)
    return mean, np.sqrt(left) * np.linalg.norm(NOISE.T @ WEIGHTS)


def call(mean, s):
    return mean * norm.cdf(mean / s) + s * norm.pdf(mean / s)


def now(z):
    return z[:, 1:] @ WEIGHTS - 0.2


def points(n=12):
    rng = np.random.default_rng(3)
    return np.c_[rng.uniform(0.0, 1.99, n), rng.normal(size=(n, 3))]


# what the data are, what their mean is, and how much of the way of the drift a smooth part lacks
CASES = {
    "maximum": (lambda x: jnp.maximum(level(x), 0.0), lambda m, s: call(m, s), 0.0),
    "relu": (lambda x: jax.nn.relu(level(x)), lambda m, s: call(m, s), 0.0),
    "minimum": (lambda x: jnp.minimum(level(x), 0.0), lambda m, s: m - call(m, s), 1.0),
    "put": (lambda x: jnp.maximum(-level(x), 0.0), lambda m, s: call(-m, s), 0.0),
    "where": (lambda x: jnp.where(level(x) > 0, level(x), 0.0), lambda m, s: call(m, s), 0.0),
    "less": (lambda x: jnp.where(level(x) < 0, 0.0, level(x)), lambda m, s: call(m, s), 1.0),
    "jump": (lambda x: jnp.where(level(x) >= 0, 2.0, 0.0), lambda m, s: 2 * norm.cdf(m / s), 0.0),
    "sign": (lambda x: jnp.sign(level(x)), lambda m, s: 2 * norm.cdf(m / s) - 1, 0.0),
    "clip": (
        lambda x: jnp.maximum(level(x), 0.0) - jnp.maximum(level(x) - 1.0, 0.0),
        lambda m, s: call(m, s) - call(m - 1.0, s),
        0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("forward", helpers.of_which_fast([False, True], True))
@pytest.mark.parametrize("name", helpers.of_which_fast(CASES, "maximum", "clip", "jump"))
def test_means_of_what_moves_along_a_line_are_exact(name, forward):
    """Of choices by a linear function of Brownian motion with drift, for any time."""
    data, mean, lacks = CASES[name]
    problem = moving(data, forward)
    z = points()
    soft = Softened(problem)
    found = jax.jit(jax.vmap(lambda z: soft(z) + problem.terminal(problem.space(z))))(z)
    m, s = law(z, forward)
    known = mean(m, s)
    if lacks:  # of what is not chosen the drift is left to the network
        known = known - lacks * (m - now(z))
    np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-12)


@pytest.mark.broad
def test_the_larger_of_two_is_exact_too():
    """Clark's formula for two normal variables, and its fold for three, roughly."""
    problem = moving(lambda x: jnp.max(x[:2]))
    z = points(6)
    soft = Softened(problem)
    found = jax.jit(jax.vmap(lambda z: soft(z) + problem.terminal(problem.space(z))))(z)
    left = 2.0 - z[:, 0]
    gap = (z[:, 2] - z[:, 1]) + left * (DRIFT[1] - DRIFT[0])
    s = np.sqrt(left) * np.linalg.norm(NOISE[1] - NOISE[0])
    np.testing.assert_allclose(found, z[:, 1] + call(gap, s), rtol=1e-9)
    three = moving(lambda x: jnp.max(x))
    z[:, 0] = 1.9
    z[:, 1:] *= 0.1
    found = jax.jit(jax.vmap(lambda z: Softened(three)(z) + three.terminal(three.space(z))))(z)
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(200_000, 3)) @ NOISE.T * 0.1**0.5
    sampled = [np.mean(np.max(row + steps, axis=1)) for row in z[:, 1:]]
    raw = np.max(z[:, 1:], axis=1)
    drift = 0.1 * np.max(np.abs(DRIFT))  # what is chosen last has none
    np.testing.assert_allclose(found, sampled, atol=drift + 5e-3)
    assert np.max(np.abs(raw - sampled)) > 0.02


@pytest.mark.broad
def test_at_the_end_data_are_themselves():
    for data, _, _ in CASES.values():
        problem = moving(data)
        z = points(5)
        z[:, 0] = 2.0
        found = jax.vmap(Softened(problem))(jnp.asarray(z))
        np.testing.assert_allclose(found, 0.0, atol=1e-5)


@pytest.mark.parametrize("time", helpers.of_which_fast([1.9, 1.999, 1.99999], 1.999))
def test_residuals_next_to_kinks_are_bounded(time):
    """Prices that move in proportion to themselves, and a call on their mean: no longer linear."""
    problem = fk.Problem(
        fk.Space(2), drift=lambda t, x: 0.05 * x, diffusion=lambda t, x: 0.2 * jnp.diag(x),
        reaction=0.05, horizon=2.0, terminal=lambda x: jnp.maximum(jnp.mean(x) - 1.0, 0.0),
        measure=fk.Along(np.ones(2)), check=False,
    )  # fmt: skip
    soft = Softened(problem)
    u = lambda z: soft(z) + problem.terminal(problem.space(z))
    width = 0.2 * (2.0 - time) ** 0.5
    across = np.linspace(-2.0, 2.0, 9) * width
    z = np.stack([np.full(9, time), 1.1 + across, 0.9 + across], axis=1)
    found = np.asarray(jax.jit(jax.vmap(lambda z: residual(problem, u, z)))(z))
    assert np.max(np.abs(found)) < 0.06  # as the source 0.05 of a price


def test_whole_numbers_and_loops_are_left_as_they_are():
    """Choices of indices, and what a loop does, are no data that move."""
    data = lambda x: x[jnp.maximum(0, 1)] + jax.lax.fori_loop(0, 2, lambda k, s: s * x[0], 1.0)
    problem = moving(data)
    z = jnp.asarray(points(1)[0])
    assert float(Softened(problem)(z)) == pytest.approx(0.0, abs=1e-12)


def test_branches_that_are_no_numbers_are_not_looked_at():
    data = lambda x: jnp.where(jnp.sum(x**2) > 0, jnp.sin(level(x)) / jnp.sum(x**2), 1.0)
    problem = moving(data)
    z = jnp.array([1.0, 0.0, 0.0, 0.0])
    assert float(Softened(problem)(z)) == 0.0


def test_what_can_be_smoothed():
    assert chooses(moving(lambda x: jnp.maximum(x[0], 0.0)))
    assert chooses(moving(lambda x: jax.jit(jnp.abs)(x[0])))
    assert not chooses(moving(lambda x: jnp.sum(x**2)))
    assert not chooses(
        moving(lambda x: jnp.max(x), nonlinearity=lambda t, x, u, p, q: jnp.trace(q))
    )
    assert not chooses(fk.catalogue("met").problem)
