"""Finite elements of nonlinear problems against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.reference import fem_reference

ROOT = 6.0**0.5


def fisher(t, x):
    """The wave of Ablowitz and Zeppetella."""
    return 1.0 / (1.0 + jnp.exp((x[0] - 5.0 / ROOT * t) / ROOT)) ** 2


@pytest.mark.broad
def test_bratu_is_found_as_well_as_the_estimate_says():
    problem, exact = fk.catalogue("bratu")
    found = fem_reference(problem, h=0.15)
    points = np.asarray(fk.sobol_interior(problem, 256))
    truth = np.asarray(jax.vmap(exact)(jnp.asarray(points)))
    error = np.sqrt(np.mean((found.values(points) - truth) ** 2) / np.mean(truth**2))
    assert error < 1e-4 and 0.3 * error < found.error_estimate < 5 * error
    assert found.provenance["method"].endswith("Newton")
    assert fem_reference(problem, h=0.3).error_estimate > found.error_estimate


@pytest.mark.broad
def test_a_wave_runs_forward_in_time():
    problem = fk.reaction_diffusion(
        fk.Interval(-3.0, 5.0), lambda u: u * (1 - u), lambda x: fisher(0.0, x), horizon=1.0,
        boundary=fisher,
    )  # fmt: skip
    found = fem_reference(problem, h=0.4, n_steps=16)
    points = np.asarray(fk.sobol_interior(problem, 128))
    truth = np.asarray(jax.vmap(lambda z: fisher(z[0], z[1:]))(jnp.asarray(points)))
    assert np.sqrt(np.mean((found.values(points) - truth) ** 2)) < 2e-4


def test_gradients_count():
    """u'' - (u')^2 + 1 = 0 on (0, 1), zero at both ends: the log of a hyperbolic cosine."""
    problem = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=2**0.5, source=1.0,
        nonlinearity=lambda x, u, p: -jnp.sum(p**2),
    )  # fmt: skip
    found = fem_reference(problem, h=0.05)
    x = np.linspace(0.05, 0.95, 7)
    # exp(-u) = v solves v'' = v, v = 1 at both ends
    truth = -np.log(np.cosh(x - 0.5) / np.cosh(0.5))
    np.testing.assert_allclose(found.values(x[:, None]), truth, rtol=1e-6)


def test_what_finite_elements_cannot_do():
    steep = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=2**0.5,
        nonlinearity=lambda x, u, p: 9.0 * jnp.exp(u),  # beyond the fold there is no solution
    )  # fmt: skip
    with pytest.raises(ValueError, match="did not converge"):
        fem_reference(steep, h=0.2)
    bent = fk.Problem(
        fk.Interval(0.0, 1.0), nonlinearity=lambda x, u, p, Q: 0.1 * jnp.sin(Q[0, 0]), check=False
    )
    with pytest.raises(ValueError, match="depends on second derivatives"):
        fem_reference(bent)
