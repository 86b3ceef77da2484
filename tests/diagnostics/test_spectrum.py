"""Lanczos against dense eigenvalues; what counts as zero; decay of known spectra."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.diagnostics import (
    Curvature,
    decay_exponent,
    fit_line,
    gauss_newton_spectrum,
    hessian_spectrum,
    lanczos,
    matrix_spectrum,
    spectral_density,
)
from fkpinn.diagnostics._spectrum import by_polar_factor
from fkpinn.loss import make_loss
from fkpinn.nn import MLP


def problem():
    return fk.catalogue("poisson").problem


def symmetric(values, key):
    q, _ = jnp.linalg.qr(jr.normal(key, (len(values), len(values))))
    return (q * jnp.asarray(values)[None]) @ q.T


def test_lanczos_with_all_steps_finds_all_eigenvalues():
    """Also where they are degenerate, which ends the first subspace early."""
    values = np.array([-2.0, 0.0, 0.0, 1.0, 1.0, 1.0, 3.0, 5.0])
    matrix = symmetric(values, jr.key(0))
    found = lanczos(lambda v: matrix @ v, 8, 8, key=jr.key(1))
    np.testing.assert_allclose(found.values, values, atol=1e-10)
    vectors = np.asarray(found.vectors)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(8), atol=1e-10)
    np.testing.assert_allclose(np.asarray(matrix) @ vectors[-1], 5.0 * vectors[-1], atol=1e-9)
    assert found.weights.sum() == pytest.approx(1.0)


def curvature_of(widths, n):
    network = MLP(*problem().bounds(), widths, key=jr.key(0))
    return Curvature(network, make_loss(problem(), n, 20, None, dtype=jnp.float64, key=jr.key(1)))


@pytest.mark.parametrize(
    ("widths", "n"),
    [
        pytest.param((12,), 20, marks=pytest.mark.broad),
        pytest.param((36, 36, 36), 300, marks=pytest.mark.slow),
    ],
)
def test_lanczos_extremes_are_those_of_the_whole_matrix(widths, n):
    curvature = curvature_of(widths, n)
    p = len(curvature.parameters)
    assert p < 3000
    dense = np.linalg.eigvalsh(np.asarray(curvature.hessian()))
    found = lanczos(curvature.hessian_product, p, min(p, 150), key=jr.key(2)).values
    assert abs(found[-1] - dense[-1]) <= 1e-4 * abs(dense[-1])
    assert abs(found[0] - dense[0]) <= 1e-4 * abs(dense[0])
    squares = np.linalg.eigvalsh(np.asarray(curvature.gauss_newton()))
    found = lanczos(curvature.gauss_newton_product, p, min(p, 150), key=jr.key(2)).values
    assert abs(found[-1] - squares[-1]) <= 1e-4 * squares[-1]


def test_density_has_the_moments_of_the_spectrum():
    """The mean of the density is the trace over the dimension, up to the noise of the probes."""
    values = np.linspace(1.0, 3.0, 400)
    matrix = symmetric(values, jr.key(0))
    nodes, weights = spectral_density(lambda v: matrix @ v, 400, steps=20, probes=20, key=jr.key(3))
    assert weights.sum() == pytest.approx(1.0)
    # a probe's mean has variance 2 var(values) / dim
    noise = np.sqrt(2 * values.var() / 400 / 20)
    assert abs(weights @ nodes - values.mean()) < 4 * noise
    share = weights[nodes < 2.0].sum()
    assert abs(share - 0.5) < 0.05


def test_gauss_newton_keeps_small_eigenvalues():
    """Singular values from 1 to 1e-9: squares down to 1e-18, which J^T J would lose."""
    s = np.geomspace(1.0, 1e-9, 10)
    u, _ = np.linalg.qr(np.asarray(jr.normal(jr.key(0), (30, 10))))
    v, _ = np.linalg.qr(np.asarray(jr.normal(jr.key(1), (10, 10))))
    spectrum = gauss_newton_spectrum(jnp.asarray((u * s) @ v.T))
    assert spectrum.smallest_positive == pytest.approx(1e-18, rel=1e-5)
    assert spectrum.condition == pytest.approx(1e18, rel=1e-5)
    assert spectrum.rank == pytest.approx(10)
    assert matrix_spectrum(jnp.asarray((v * s**2) @ v.T)).smallest_positive > 1e-17


def test_singular_values_by_the_polar_factor():
    """As exact as the usual way, down to 1e-13 of the largest."""
    s = np.geomspace(1.0, 1e-12, 40)
    u, _ = np.linalg.qr(np.asarray(jr.normal(jr.key(0), (60, 40))))
    v, _ = np.linalg.qr(np.asarray(jr.normal(jr.key(1), (40, 40))))
    for matrix in ((u * s) @ v.T, (v * s) @ u.T):
        found = np.sort(np.asarray(by_polar_factor(jnp.asarray(matrix))))[::-1]
        np.testing.assert_allclose(found, s, rtol=1e-9, atol=1e-15)


def test_what_rounding_leaves_of_a_zero_is_zero():
    jacobian = jr.normal(jr.key(0), (12, 5)) @ jr.normal(jr.key(1), (5, 40))  # rank 5
    spectrum = gauss_newton_spectrum(jacobian)
    assert spectrum.rank == pytest.approx(5)
    assert spectrum.dim == 40 and spectrum.exact


@pytest.mark.slow
def test_hessian_spectrum_small_and_large():
    curvature = curvature_of((10, 10), 40)
    dense = hessian_spectrum(curvature, key=jr.key(0))
    by_products = hessian_spectrum(curvature, dense=1, steps=60, probes=4, key=jr.key(0))
    assert dense.exact and not by_products.exact
    assert by_products.largest == pytest.approx(dense.largest, rel=1e-6)
    assert by_products.values[0] == pytest.approx(dense.values[0], rel=1e-6)
    assert by_products.weights.sum() == pytest.approx(1.0)
    record = dense.to_dict()
    assert record["negative"] + record["rank"] <= record["dim"] + 1e-9


def test_decay_of_a_power_is_found():
    values = 3.0 * np.arange(1, 200.0) ** -2.5
    exponent, error = decay_exponent(values)
    assert exponent == pytest.approx(2.5, abs=1e-6) and error < 1e-6
    with pytest.raises(ValueError, match=r"`values` must be at least 3 positive numbers"):
        decay_exponent(np.array([1.0, 0.5]))


def test_a_line_and_its_error():
    """The error bar of the slope covers at its level over many samples."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 12)
    found = [fit_line(x, 2 * x + 0.1 * rng.normal(size=12)) for _ in range(500)]
    z = np.array([(slope - 2) / error for slope, error in found])
    share = np.mean(np.abs(z) < 2.228)  # Student's 95 %, ten degrees of freedom
    assert abs(share - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 500)
