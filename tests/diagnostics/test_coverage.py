"""The bound of the paper holds whatever the matrices; descent is as fast as foretold."""

import math

import helpers
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fkpinn as fk
from fkpinn.diagnostics import (
    Curvature,
    bound,
    compare_descent,
    coverage,
    measure_coverage,
)
from fkpinn.loss import make_loss
from fkpinn.nn import MLP

P = 8


@pytest.mark.broad
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([3, 12]),
    labels=st.sampled_from([1, 6]),
    rank=st.integers(1, P),
    scale=st.floats(1e-3, 1e3),
    weight=st.floats(1e-4, 1e4),
)
@example(seed=0, rows=3, labels=1, rank=1, scale=1.0, weight=1.0)
def test_the_bound_holds(seed, rows, labels, rank, scale, weight):
    """prop:GN-spectrum: the smallest positive curvature is at least gamma, for any two terms."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, P))
    data = scale * rng.normal(size=(labels, P))
    found = measure_coverage(jnp.asarray(low), jnp.asarray(data), [weight])
    # what counts as zero is decided up to rounding, so the bound holds up to rounding
    slack = 1e-10 * found.largest[0]
    assert found.measured[0] >= found.bound[0] - slack
    assert found.rho >= 0 and found.mu_data > 0


def brute(equation, labels, weight):
    """The definitions, with matrices of parameters by parameters."""
    g, data = equation.T @ equation, labels.T @ labels
    values, vectors = np.linalg.eigh(data)
    seen = vectors[:, values > 1e-12 * values[-1]]
    project = seen @ seen.T
    rest = np.eye(len(g)) - project
    smallest = lambda a: min(v for v in np.linalg.eigvalsh(a) if v > 1e-10 * np.linalg.norm(a, 2))
    return (
        smallest(data),
        smallest(rest @ g @ rest),
        np.linalg.norm(project @ g @ rest, 2),
        smallest(g + weight * data),
    )


def test_quantities_are_those_of_the_definitions():
    rng = np.random.default_rng(3)
    equation, labels = rng.normal(size=(12, P)), rng.normal(size=(3, P))
    found = measure_coverage(jnp.asarray(equation), jnp.asarray(labels), [0.7])
    mu_data, mu_perp, rho, measured = brute(equation, labels, 0.7)
    np.testing.assert_allclose(
        [found.mu_data, found.mu_perp, found.rho, found.measured[0]],
        [mu_data, mu_perp, rho, measured],
        rtol=1e-9,
    )
    assert found.least_weight == pytest.approx(rho**2 / (mu_data * mu_perp))
    at = found.least_weight
    assert bound(1.01 * at, mu_data, mu_perp, rho) > 0 > bound(0.99 * at, mu_data, mu_perp, rho)


NUMBERS = st.just(0.0) | st.floats(1e-3, 1e6)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=200, deadline=None)
def test_the_formula_is_the_smaller_eigenvalue(weight, mu_data, mu_perp, rho):
    found = bound(weight, mu_data, mu_perp, rho)
    matrix = np.array([[weight * mu_data, -rho], [-rho, mu_perp]])
    assert found == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-9 * np.abs(matrix).max())


def test_labels_that_see_nothing_new_leave_the_curvature_alone():
    """Labels along directions that residuals do not touch: no cross-talk, and gamma is sharp."""
    equation = jnp.asarray([[2.0, 0, 0, 0], [0, 1.0, 0, 0]])
    labels = jnp.asarray([[0, 0, 0.5, 0]])
    found = measure_coverage(equation, labels, [1.0, 100.0])
    assert (
        found.rho == 0
        and found.mu_perp == pytest.approx(1)
        and found.mu_data == pytest.approx(0.25)
    )
    np.testing.assert_allclose(found.bound, [0.25, 1.0])
    np.testing.assert_allclose(found.measured, [0.25, 1.0])


def curvature_with(labels, widths=(30,), n=12):
    problem = fk.catalogue("poisson").problem
    network = MLP(*problem.bounds(), widths, key=jr.key(0))
    return Curvature(network, make_loss(problem, n, 6, labels, dtype=jnp.float64, key=jr.key(1)))


@pytest.fixture(scope="module")
def labels():
    problem, exact = fk.catalogue("poisson")
    points = fk.sample_interior(problem, 5, key=jr.key(5))
    return fk.Labels.from_data(points, helpers.at(exact, points), 0.1)


def test_coverage_of_a_network(labels):
    found = coverage(curvature_with(labels), [1.0, 1e4])
    assert all(m >= b for m, b in zip(found.measured, found.bound, strict=True))
    assert found.to_dict()["least_weight"] == found.least_weight
    with pytest.raises(ValueError, match=r"`curvature` must be of a loss with labels"):
        coverage(curvature_with(None), [1.0])


@pytest.mark.broad
def test_descent_is_not_slower_than_foretold():
    """Few points and many parameters: the minimum is zero and the constant is positive."""
    curvature = curvature_with(None, n=3)
    found = compare_descent(curvature, steps=400, factor=1.5)
    assert math.isfinite(found.condition) and found.pl_constant > 0
    assert found.losses[-1] < found.losses[0]
    assert found.measured is None or found.measured <= math.ceil(found.predicted)
    assert found.predicted == pytest.approx(found.condition * math.log(1.5))


@pytest.mark.broad
def test_more_points_than_parameters_have_no_constant():
    found = compare_descent(curvature_with(None, (3,), n=40), steps=3)
    assert found.predicted == math.inf and found.pl_constant == 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`equation` and `labels` must have a column"):
        measure_coverage.__wrapped__(jnp.ones((2, 3)), jnp.ones((2, 4)), [1.0])
    with pytest.raises(ValueError, match=r"`labels` is zero"):
        measure_coverage(jnp.ones((2, 3)), jnp.zeros((2, 3)), [1.0])
    with pytest.raises(ValueError, match=r"must not be negative"):
        bound(-1.0, 1.0, 1.0, 1.0)
