"""The error measures, against their definitions written out."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk


@pytest.mark.parametrize("name", ["poisson", "ornstein-uhlenbeck"])
def test_errors_are_those_of_the_paper(name):
    case = helpers.case(name)
    z = fk.sample_interior(case.problem, 500, key=jr.key(0))
    trial = lambda p: case.exact(p) + 0.1 * jnp.sin(jnp.sum(p))
    found = fk.errors(case.problem, trial, fk.ExactReference(case.problem, case.exact), z)
    space = slice(1, None) if case.problem.timed else slice(None)
    value = np.array([0.1 * np.sin(np.sum(p)) for p in np.asarray(z)])
    slope = np.array([0.1 * np.cos(np.sum(p)) * np.ones(2) for p in np.asarray(z)])
    true_value = np.asarray(jax.vmap(case.exact)(z))
    true_slope = np.asarray(jax.vmap(jax.grad(case.exact))(z))[:, space]
    n = len(z)
    l2 = np.sqrt(np.sum(value**2) / n)
    h1 = np.sqrt(np.sum(value**2) / n + np.sum(slope**2) / n)
    size = np.sqrt(np.sum(true_value**2) / n)
    full = np.sqrt(np.sum(true_value**2) / n + np.sum(true_slope**2) / n)
    expected = (l2, l2 / size, h1, h1 / full, np.max(np.abs(value)))
    np.testing.assert_allclose(list(found.to_dict().values()), expected, rtol=1e-10)


def test_exact_is_without_error_and_nan_is_refused():
    case = helpers.case("poisson-5d")
    z = fk.sample_interior(case.problem, 50, key=jr.key(0))
    truth = fk.ExactReference(case.problem, case.exact)
    assert max(fk.errors(case.problem, case.exact, truth, z).to_dict().values()) < 1e-12
    with pytest.raises(ValueError, match="`u` is not finite at"):
        fk.errors(case.problem, lambda p: jnp.log(-p[0]), truth, z)
