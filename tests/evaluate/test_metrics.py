"""The error measures, against their definitions written out."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.evaluate import compare


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
    np.testing.assert_allclose(list(found.to_dict().values())[:5], expected, rtol=1e-10)
    np.testing.assert_allclose(found.constant, np.std(true_value) / size, rtol=1e-10)
    assert found.linear <= found.constant
    np.testing.assert_allclose(found.skill, l2 / size / found.linear, rtol=1e-10)


def test_trivial_answers_and_skill():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    truth, slope = 3.0 + x @ [1.0, -2.0] + 0.5 * np.sin(9 * x[:, 0]), np.zeros((400, 2))
    found = compare(x, truth + 0.1, slope, truth, slope)
    size = np.sqrt(np.mean(truth**2))
    np.testing.assert_allclose(found.linear * size, 0.5 / 2**0.5, rtol=0.06)
    np.testing.assert_allclose(found.skill, 0.1 / size / found.linear)
    few = compare(x[:8], truth[:8] + 0.1, slope[:8], truth[:8], slope[:8])
    assert np.isnan(few.linear) and np.isclose(few.skill, few.l2_rel / few.constant)
    flat = compare(x, np.full(400, 2.0), slope, np.full(400, 2.0), slope)
    assert flat.constant == 0 and flat.skill == np.inf  # nothing to learn


def test_exact_is_without_error_and_nan_is_refused():
    case = helpers.case("poisson-5d")
    z = fk.sample_interior(case.problem, 50, key=jr.key(0))
    truth = fk.ExactReference(case.problem, case.exact)
    found = fk.errors(case.problem, case.exact, truth, z)
    assert max(found.l2_rel, found.h1_rel, found.linf, found.skill) < 1e-12
    with pytest.raises(ValueError, match="`u` is not finite at"):
        fk.errors(case.problem, lambda p: jnp.log(-p[0]), truth, z)
