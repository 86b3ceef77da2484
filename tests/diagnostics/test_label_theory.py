"""Tails and biases of labels, on payoffs whose law is known and on paths."""

import math

import numpy as np
import pytest

import fkpinn as fk
from fkpinn.diagnostics import (
    SubExponential,
    fit_subexponential,
    payoffs,
    step_bias,
    tails,
    truncation_bias,
)


def test_normal_payoffs_have_their_own_variance():
    """log E exp(t Z) = s² t² / 2 for all t: nu is the standard deviation."""
    sample = 3.0 + 2.0 * np.random.default_rng(0).normal(size=200_000)
    found = fit_subexponential(sample)
    assert found.nu == pytest.approx(2.0, rel=0.05)


def test_exponential_payoffs():
    """E exp(t Z) is infinite from t = 1 on: b must be above 1, and nu above the deviation."""
    found = fit_subexponential(np.random.default_rng(1).exponential(size=200_000))
    assert found.b > 1.0 and found.nu > 1.0
    z = np.linspace(-0.999, 0.999, 41) / found.b
    exact = -np.log(1 - z) - z  # of the centered exponential, to compare with the bound
    assert np.all(exact <= 1.03 * found.nu**2 * z**2 / 2 + 1e-12)


def test_tails_stay_below_the_bound():
    """prop:fk-concentration-fixed-dt on fresh payoffs, and its interval covers at its level."""
    rng = np.random.default_rng(2)
    theory = fit_subexponential(rng.exponential(size=100_000))
    record = tails(rng.exponential(size=400_000), 40, theory)
    seen, bound = np.asarray(record["observed"]), np.asarray(record["bound"])
    noise = np.sqrt(np.maximum(seen * (1 - seen), 1e-9) / record["groups"])
    assert np.all(seen - 3 * noise <= bound)
    assert record["bernstein_coverage"] >= 0.95
    assert record["bernstein_half_width"] > record["normal_half_width"]
    assert abs(record["normal_coverage"] - 0.95) < 0.02


def test_two_regimes():
    """rem:fk-regimes: quadratic up to nu²/b, linear beyond."""
    theory = SubExponential(nu=1.0, b=2.0)
    t = np.array([0.25, 0.5, 1.0, 2.0])
    rate = -np.log(theory.tail(t, 1000) / 2) / 500
    np.testing.assert_allclose(rate, [0.0625, 0.25, 0.5, 1.0], rtol=1e-9)
    half = theory.half_width(100, 0.95)
    assert theory.tail(np.array([half]), 100)[0] == pytest.approx(0.05, rel=1e-9)
    with pytest.raises(ValueError, match=r"`level` in \(0, 1\)"):
        theory.half_width(100, 1.0)


INTERVAL = fk.Problem(fk.Interval(-1, 1), diffusion=1.0, source=1.0, check=False)  # u = 1 - x²


@pytest.mark.broad
def test_payoffs_are_exit_times():
    sample = payoffs(INTERVAL, [0.0], n_paths=20_000, dt=4e-3, scheme="euler-shifted", seed=1)
    stderr = sample.std() / math.sqrt(len(sample))
    # E tau = 1, E tau² = 5/3 for Brownian motion from the middle of (-1, 1)
    assert abs(sample.mean() - 1.0) < 4 * stderr + 2e-3
    assert abs((sample**2).mean() - 5 / 3) < 0.06
    with pytest.raises(ValueError, match=r"`point` must lie inside the domain"):
        payoffs(INTERVAL, [2.0], n_paths=10, dt=1e-3)
    with pytest.raises(ValueError, match=r"`point` must have 1 coordinates"):
        payoffs(INTERVAL, [0.0, 0.0], n_paths=10, dt=1e-3)


@pytest.mark.broad
def test_bias_of_plain_paths_is_a_root_of_the_step():
    """thm:fk-Gobet: order one half, and the constant of this problem.

    Paths leave at 0.5826 sqrt(dt) beyond the wall on average, so u_dt - u is 2 * 0.5826 sqrt(dt).
    """
    points = np.linspace(-0.6, 0.6, 7)[:, None]
    truth = 1 - points[:, 0] ** 2
    found = step_bias(
        INTERVAL, points, truth, steps=[0.04, 0.02, 0.01, 0.005], n_paths=6000, seed=3
    )
    assert abs(found["order"] - 0.5) < 0.08
    assert found["c_bias"] == pytest.approx(2 * 0.5826, rel=0.12)


@pytest.mark.slow
def test_cut_paths_lack_what_the_first_eigenvalue_says():
    """lem:fk-truncation-bias: kappa is pi²/8, the slowest decay on (-1, 1)."""
    found = truncation_bias(
        INTERVAL, np.array([[0.0], [0.4]]), times=[0.5, 1.0, 1.5, 2.0], dt=2e-3, n_paths=40_000,
        scheme="euler-shifted", seed=4,
    )  # fmt: skip
    assert found["kappa"] == pytest.approx(math.pi**2 / 8, rel=0.05)
    with pytest.raises(ValueError, match=r"`times` are longer than the longest path"):
        truncation_bias(INTERVAL, np.array([[0.0]]), times=[50.0, 60.0, 70.0], dt=1e-2, n_paths=100)


def test_poor_samples_are_refused():
    with pytest.raises(ValueError, match=r"at least 100 payoffs that differ"):
        fit_subexponential(np.ones(1000))
    with pytest.raises(ValueError, match=r"at least 20 groups"):
        tails(np.arange(100.0), 50, SubExponential(1.0, 1.0))
