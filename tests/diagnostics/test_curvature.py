"""Products equal matrices, matrices equal brute force."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.diagnostics import Curvature
from fkpinn.loss import make_loss
from fkpinn.nn import MLP


def problem():
    return fk.catalogue("schrodinger").problem


@pytest.fixture(scope="module")
def labels():
    points = fk.sample_interior(problem(), 9, key=jr.key(5))
    return fk.Labels.from_data(points, jnp.linspace(-1.0, 1.0, 9), 0.1)


@pytest.fixture(scope="module")
def curvature(labels):
    network = MLP(*problem().bounds(), (20,), key=jr.key(0))
    loss = make_loss(problem(), 30, 12, labels, dtype=jnp.float64, key=jr.key(1))
    return Curvature(network, loss, {"labels": 3.0, "boundary": 0.5})


def brute_force(curvature, names=None):
    """Half the sum of squares, written out term by term."""
    terms = curvature.objective.loss.terms

    def value(parameters):
        network = curvature.objective.network(parameters)
        total = 0.0
        for name in names or terms:
            off = all_rows(terms[name], network)
            total += 0.5 * curvature.weights.get(name, 1.0) * jnp.mean(off**2)
        return total

    return value


def all_rows(term, network):
    return jax.vmap(lambda row: term.at(network, row))(term.rows())


def test_the_hessian_is_the_hessian(curvature):
    expected = jax.jit(jax.hessian(brute_force(curvature)))(curvature.parameters)
    scale = float(jnp.max(jnp.abs(expected)))
    np.testing.assert_allclose(curvature.hessian(), expected, atol=1e-10 * scale)


slow_names = lambda *names: pytest.param(list(names), marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "names", [None, slow_names("residual"), slow_names("boundary"), ["labels"]]
)
def test_gauss_newton_is_the_hessian_of_the_linearized_loss(curvature, names):
    """At violations that are linear in the parameters the two matrices are one."""
    terms = curvature.objective.loss.terms
    middle = curvature.parameters

    def violations(parameters):
        network = curvature.objective.network(parameters)
        parts = []
        for name in names or terms:
            off = all_rows(terms[name], network)
            parts.append(jnp.sqrt(curvature.weights.get(name, 1.0) / len(off)) * off)
        return jnp.concatenate(parts)

    def linear(p):
        value, change = jax.jvp(violations, (middle,), (p - middle,))
        return 0.5 * jnp.sum((value + change) ** 2)

    expected = jax.jit(jax.hessian(linear))(middle)
    scale = float(jnp.max(jnp.abs(expected)))
    np.testing.assert_allclose(curvature.gauss_newton(names), expected, atol=1e-10 * scale)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(None, marks=pytest.mark.broad),
        slow_names("residual"),
        ["boundary", "labels"],
    ],
)
def test_products_equal_matrices(curvature, names):
    v = jr.normal(jr.key(3), curvature.parameters.shape)
    for matrix, product in (
        (curvature.gauss_newton(names), curvature.gauss_newton_product),
        (curvature.hessian(names), curvature.hessian_product),
    ):
        expected = matrix @ v
        found = product(v, names)
        assert float(jnp.linalg.norm(found - expected)) <= 1e-8 * float(jnp.linalg.norm(expected))


def test_kernel_and_gauss_newton_share_their_eigenvalues(curvature):
    """lem:gn-kernel-spectra."""
    kernel = np.linalg.eigvalsh(np.asarray(curvature.kernel()))
    matrix = np.linalg.eigvalsh(np.asarray(curvature.gauss_newton()))
    n = len(kernel)
    assert n < len(matrix)
    np.testing.assert_allclose(matrix[-n:], kernel, atol=1e-9 * kernel[-1])
    np.testing.assert_allclose(matrix[:-n], 0.0, atol=1e-9 * kernel[-1])


@pytest.mark.slow
def test_the_value_is_half_the_sum_of_squares(curvature):
    expected = float(brute_force(curvature)(curvature.parameters))
    assert curvature.value() == pytest.approx(expected, rel=1e-12)


def test_single_precision_networks_are_looked_at_in_double(labels):
    network = MLP(*problem().bounds(), (5,), dtype=jnp.float32, key=jr.key(0))
    curvature = Curvature(
        network, make_loss(problem(), 4, 3, labels, dtype=jnp.float64, key=jr.key(1))
    )
    assert curvature.parameters.dtype == jnp.float64
    assert curvature.jacobian().dtype == jnp.float64


def test_errors_name_what_is_wrong(curvature):
    with pytest.raises(ValueError, match=r"`weights` name terms that the loss does not have"):
        Curvature(
            MLP(*problem().bounds(), (3,), key=jr.key(0)), curvature.objective.loss, {"x": 1.0}
        )
    with pytest.raises(ValueError, match=r"`names` must be some of"):
        curvature.jacobian(["flux"])
