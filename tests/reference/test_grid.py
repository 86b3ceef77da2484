"""Finite differences against closed forms, a tree, and themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import fkpinn as fk
from fkpinn.reference import fem_reference, find_reference, grid_reference

ROOT = 6.0**0.5
LINE = fk.Interval(-3.0, 5.0)


def wave(t, x):
    """Of Ablowitz and Zeppetella."""
    return 1.0 / (1.0 + jnp.exp((x[0] - 5.0 / ROOT * t) / ROOT)) ** 2


def fisher():
    return fk.reaction_diffusion(
        LINE, lambda u: u * (1 - u), lambda x: wave(0.0, x), horizon=1.0, boundary=wave
    )


def call(price, strike, noise, rate=0.05, horizon=1.0):
    """The price of Black and Scholes."""
    spread = noise * np.sqrt(horizon)
    far = (np.log(price / strike) + (rate + 0.5 * noise**2) * horizon) / spread
    return price * norm.cdf(far) - strike * np.exp(-rate * horizon) * norm.cdf(far - spread)


@pytest.mark.broad
def test_errors_fall_with_the_square_of_the_distance():
    points = np.asarray(fk.sobol_interior(fisher(), 256))
    truth = np.asarray(jax.vmap(lambda z: wave(z[0], z[1:]))(jnp.asarray(points)))
    errors = []
    for h, n_steps in ((0.2, 16), (0.1, 32)):
        found = grid_reference(fisher(), h, n_steps)
        errors.append(np.sqrt(np.mean((found.values(points) - truth) ** 2) / np.mean(truth**2)))
        assert 0.3 * errors[-1] < found.error_estimate < 4 * errors[-1]
    order = np.log2(errors[0] / errors[1])
    assert 1.7 < order < 2.5 and errors[1] < 8e-4
    assert found.provenance["method"] == "finite differences"


def test_gradients_count_without_time():
    """u'' - (u')^2 + 1 = 0 on (0, 1), zero at both ends: the log of a hyperbolic cosine."""
    problem = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=2**0.5, source=1.0,
        nonlinearity=lambda x, u, p: -jnp.sum(p**2),
    )  # fmt: skip
    found = find_reference(problem)
    x = np.linspace(0.05, 0.95, 7)
    truth = -np.log(np.cosh(x - 0.5) / np.cosh(0.5))
    np.testing.assert_allclose(found.values(x[:, None]), truth, rtol=2e-6)
    np.testing.assert_allclose(fem_reference(problem).values(x[:, None]), truth, rtol=1e-5)


@pytest.mark.broad
@pytest.mark.parametrize(("sign", "noise"), [(1.0, 0.2), (-1.0, 0.1)])
def test_what_bends_one_way_has_one_volatility(sign, noise):
    """A call bought takes the larger one, a call sold the smaller."""
    far = lambda t, x: sign * (x[0] - 100.0 * jnp.exp(-0.05 * (1.0 - t)))
    price = lambda t, x: jnp.where(x[0] > 100.0, far(t, x), 0.0)
    problem = fk.uncertain_volatility(
        fk.Interval(20.0, 340.0), lambda x: sign * jnp.maximum(x[0] - 100.0, 0.0), low=0.1,
        high=0.2, rate=0.05, horizon=1.0, boundary=price,
    )  # fmt: skip
    found = grid_reference(problem, 0.3125, 128)
    truth = sign * call(np.array([90.0, 100.0, 115.0]), 100.0, noise)
    points = [[0.0, 90.0], [0.0, 100.0], [0.0, 115.0]]
    np.testing.assert_allclose(found.values(points), truth, rtol=1e-3, atol=1e-3)


@pytest.mark.broad
def test_a_butterfly_costs_more_than_at_any_one_volatility():
    problem, _ = fk.catalogue("uncertain-volatility")
    coarse, fine = (grid_reference(problem, 160 / n, n // 4) for n in (512, 1024))
    value = float(fine.values([[0.0, 100.0]])[0])
    before = float(coarse.values([[0.0, 100.0]])[0])
    assert value == pytest.approx(4.25095, abs=3e-4)  # 2,048 and 4,096 nodes agree on that
    assert 3.0 < (before - 4.25095) / (value - 4.25095) < 6.0  # order two
    assert fine.error_estimate < 2e-4
    for noise in (0.1, 0.15, 0.2):
        plain = call(100.0, 90.0, noise) - 2 * call(100.0, 100.0, noise) + call(100.0, 110.0, noise)
        assert plain < 0.9 * value


def test_what_it_is_not_for():
    flat = fk.Problem(
        LINE, diffusion=1.0, nonlinearity=lambda x, u, p: -u, boundary=fk.Neumann(0.0), check=False
    )
    with pytest.raises(ValueError, match="and the problem has reflecting boundary parts"):
        grid_reference(flat)
    with pytest.raises(ValueError, match="and the problem has dimension 2"):
        grid_reference(fk.catalogue("bratu").problem)
    with pytest.raises(ValueError, match="and the domain is not bounded"):
        grid_reference(fk.catalogue("fisher-kpp").problem)
    with pytest.raises(ValueError, match="`h` must be a positive length"):
        grid_reference(fisher(), -1.0)
    steep = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=2**0.5, nonlinearity=lambda x, u, p: 9.0 * jnp.exp(u)
    )
    with pytest.raises(ValueError, match="finite differences did not converge"):
        grid_reference(steep)
