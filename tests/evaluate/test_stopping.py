"""Bounds of stopping problems: an American put between a stopping rule and a martingale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import fkpinn as fk
from fkpinn.evaluate import stopping_bounds
from fkpinn.reference import find_reference

RATE, NOISE, HORIZON = 0.05, 0.2, 1.0
put = lambda x: jnp.maximum(1.0 - jnp.exp(x[0]), 0.0)  # of the log of the price over the strike


def american_put(**more):
    return fk.optimal_stopping(
        fk.Interval(-1.0, 1.0), put, horizon=HORIZON, drift=[RATE - 0.5 * NOISE**2],
        diffusion=NOISE, reaction=RATE, name="american put", **more,
    )  # fmt: skip


def binomial(n: int = 2000) -> float:
    """The tree of Cox, Ross and Rubinstein, price and strike 1."""
    dt = HORIZON / n
    up = np.exp(NOISE * np.sqrt(dt))
    q = (np.exp(RATE * dt) - 1 / up) / (up - 1 / up)
    value = np.maximum(1.0 - up ** np.arange(n, -n - 1.0, -2), 0.0)
    for k in range(n - 1, -1, -1):
        value = np.exp(-RATE * dt) * (q * value[:-1] + (1 - q) * value[1:])
        value = np.maximum(value, 1.0 - up ** np.arange(k, -k - 1.0, -2))
    return float(value[0])


def european(z):
    """The price of Black and Scholes, without early exercise."""
    left = jnp.maximum(HORIZON - z[0], 1e-9)
    spread = NOISE * jnp.sqrt(left)
    far = (z[1] + (RATE + 0.5 * NOISE**2) * left) / spread
    kept = jnp.exp(-RATE * left) * norm.cdf(spread - far)
    return kept - jnp.exp(z[1]) * norm.cdf(-far)


@pytest.mark.broad
def test_an_american_put_lies_between_its_bounds():
    """Who stops when the European price is below the reward loses little; limits hold the tree."""
    found = stopping_bounds(
        american_put(), european, [0.0, 0.0], n_paths=1 << 13, n_steps=100, seed=1
    )
    tree, plain = binomial(), float(european(jnp.zeros(2)))
    assert tree == pytest.approx(0.0609, abs=1e-4) and plain == pytest.approx(0.0557352, abs=1e-6)
    assert found.low < tree < found.high
    assert plain < found.lower < tree + 3 * found.lower_stderr
    assert tree < found.upper < 1.1 * tree
    rough = 0.08 / np.sqrt(found.n_paths)  # the deviation of a payoff itself
    assert found.lower_stderr < 0.5 * rough  # the martingale takes most of the noise away


@pytest.mark.slow
def test_a_network_bounds_an_american_put_to_three_parts_in_a_thousand():
    problem = fk.catalogue("american-put").problem
    solution = fk.solve(problem, preset="quick", seed=0)
    found = stopping_bounds(problem, solution.network, [0.0, 100.0], n_paths=4000, n_steps=200)
    tree = 100 * binomial()  # strike 1
    assert found.low < tree < found.high
    assert found.high - found.low < 3e-3 * tree


@pytest.mark.broad
def test_the_source_that_holds_values_up_changes_them_little():
    """The grid has the value of the tree; where one stops, the source is what waiting costs."""
    assert float(find_reference(american_put()).values([[0.0, 0.0]])[0]) == pytest.approx(
        binomial(), rel=1e-3
    )
    line = np.linspace(-1, 1, 4001)[:, None]
    typical = np.sqrt(np.mean(np.asarray(jax.vmap(put)(jnp.asarray(line))) ** 2))
    assert american_put().nonlinearity.function.width == pytest.approx(0.01 * typical, rel=0.05)
    given, where = american_put(width=0.02).nonlinearity, jnp.asarray([-0.5])
    pull = lambda x, lack: float(given(jnp.asarray([0.0, x]), put([x]) - lack, where, None))
    assert pull(-0.5, 0.01) == pytest.approx(RATE, rel=1e-5)
    assert pull(-0.5, 0.02) == pytest.approx(1.5 * RATE, rel=1e-5)
    assert pull(-0.5, 0.2) == pytest.approx(2 * RATE, rel=1e-5)
    assert pull(-0.5, -0.01) == pytest.approx(0.0, abs=1e-8)
    assert pull(0.5, 0.01) == 0.0  # where there is nothing to gain by stopping


@pytest.mark.broad
def test_bad_candidates_make_wide_bounds():
    """Still right: whoever never stops gets the European price, and no martingale helps."""
    never = lambda z: jnp.asarray(2.0, z.dtype) + 0.0 * z[0]
    found = stopping_bounds(american_put(), never, [0.0, 0.0], n_paths=1 << 13, n_steps=50, seed=2)
    assert abs(found.lower - float(european(jnp.zeros(2)))) < 4 * found.lower_stderr
    assert found.low < binomial(500) < found.high and found.upper > 1.2 * found.lower


@pytest.mark.broad
def test_two_paths_and_one_time_are_the_least():
    problem, least = american_put(), {"n_paths": 2, "n_steps": 1}
    found = stopping_bounds(problem, european, [0.0, 0.0], **least)
    assert found.low <= found.lower and found.upper <= found.high
    for wrong in ({"n_paths": 1}, {"n_steps": 0}, {"level": 0.0}, {"level": 1.0}):
        with pytest.raises(ValueError, match=r"`n_paths` must be at least 2, `n_steps` at least 1"):
            stopping_bounds(problem, european, [0.0, 0.0], **(least | wrong))


def test_what_cannot_be_stopped():
    with pytest.raises(ValueError, match="must be created by `optimal_stopping`"):
        stopping_bounds(fk.catalogue("fisher-kpp").problem, lambda z: z[0], [0.0, 0.0])
    with pytest.raises(ValueError, match="`point` must be 2 finite numbers"):
        stopping_bounds(american_put(), lambda z: z[0], [0.0])
    with pytest.raises(ValueError, match="`width` must be positive"):
        american_put(width=-1.0)
    with pytest.raises(TypeError, match="`reward` must be a function"):
        fk.optimal_stopping(fk.Space(1), 1.0, horizon=1.0, measure=fk.Along([0.0]))


def discounted_exit(rate):
    """What 1 at the ends of [-1, 1] is worth from 0, paid before time 1: without end, less waves.

    The waves are those of the value without end, which decay until the time is up.
    """
    a, k = np.sqrt(2 * rate), np.arange(50)
    b = (k + 0.5) * np.pi
    waves = (-1.0) ** k * 2 * b / (a**2 + b**2) * np.exp(-0.5 * b**2 - rate)
    return float(1 / np.cosh(a) - np.sum(waves))


@pytest.mark.broad
def test_walls_pay_whoever_leaves():
    """No reward inside: the discounted chance to reach the wall in time, from both sides."""
    problem = fk.optimal_stopping(
        fk.Interval(-1.0, 1.0), lambda x: 0.0 * x[0], horizon=1.0, diffusion=1.0, reaction=0.1,
        boundary=1.0,
    )  # fmt: skip
    found = stopping_bounds(
        problem, lambda z: 0.5 + 0.0 * z[1], [0.0, 0.0], n_paths=1 << 11, n_steps=200, seed=0
    )
    late = 0.08  # leaving is seen at grid times only
    assert found.lower == pytest.approx(discounted_exit(0.1), abs=late)
    assert found.upper == pytest.approx(found.lower, abs=1e-9)
    with pytest.raises(ValueError, match="with absorbing"):
        stopping_bounds(american_put(boundary=fk.Neumann(0.0)), european, [0.0, 0.0])
