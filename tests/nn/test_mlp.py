"""The forward pass with derivatives against brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn._field import AbstractField, taylor
from fkpinn.nn import MLP, EndData, Input, SquaredDistance
from fkpinn.problem import Layout, catalogue, residual, residual_by_hessian, sampled_residual
from fkpinn.sampling import sample_interior


def network(problem, dtype=jnp.float64, **more):
    return MLP(*problem.bounds(), (12, 9), output_scale=2.5, dtype=dtype, key=jr.key(0), **more)


@pytest.mark.parametrize(
    ("name", "frequencies"),
    [
        ("met", None),
        pytest.param("variable-diffusion", 2.0, marks=pytest.mark.broad),
        ("ornstein-uhlenbeck", None),
        pytest.param("met", 2.0, marks=pytest.mark.slow),
        pytest.param("variable-diffusion", None, marks=pytest.mark.slow),
        pytest.param("ornstein-uhlenbeck", 2.0, marks=pytest.mark.slow),
        pytest.param("laplace-10d", None, marks=pytest.mark.slow),
        pytest.param("laplace-10d", 2.0, marks=pytest.mark.slow),
    ],
)
def test_residual_in_one_pass_is_that_of_the_hessian(name, frequencies):
    """A number, a matrix that depends on the place, with time, in ten dimensions."""
    problem = catalogue(name).problem
    u = network(problem, frequencies=frequencies)
    z = sample_interior(problem, 20, key=jr.key(1))
    fast = jax.jit(jax.vmap(lambda p: residual(problem, u, p)))(z)
    slow = jax.jit(jax.vmap(lambda p: residual_by_hessian(problem, lambda y: u(y), p)))(z)
    np.testing.assert_allclose(fast, slow, rtol=1e-11, atol=1e-11 * float(jnp.max(jnp.abs(slow))))


@pytest.mark.parametrize("reads", [False, True])
def test_directions_and_weights_are_those_asked_for(reads):
    """With an input that is a product of coordinates, too."""
    problem = catalogue("met").problem
    further = (Input(lambda z: z[0] * jnp.exp(z[1]), 0.3, 1.7),) if reads else ()
    u = network(problem, further=further)
    assert u.weights[0].shape == (12, 3 if reads else 2)
    z = jnp.array([0.3, -0.4])
    directions = jr.normal(jr.key(2), (3, 2))
    weights = jnp.array([0.5, -1.0, 2.0])
    known = lambda z: (u(z), jax.grad(u)(z), jax.hessian(u)(z))
    value, slope, hessian = map(np.asarray, jax.jit(known)(z))
    look = lambda z: (
        u.taylor(z, directions, weights), taylor(lambda y: u(y), z, directions, weights)
    )  # fmt: skip
    at, nested = jax.jit(look)(z)
    np.testing.assert_allclose(at.value, value, rtol=1e-13)
    np.testing.assert_allclose(at.slopes, directions @ slope, rtol=1e-12)
    bends = np.einsum("ki,ij,kj->k", directions, hessian, directions)
    np.testing.assert_allclose(at.curvature, np.sum(weights * bends), rtol=1e-11)
    for one, other in zip(at, nested, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.parametrize(
    "name",
    [
        "variable-diffusion",
        pytest.param("laplace-10d", marks=pytest.mark.slow),
        "ornstein-uhlenbeck",
    ],
)
def test_sampled_trace_is_right_on_average(name):
    """Within four standard errors of the mean of 4,000 draws."""
    problem = catalogue(name).problem
    u = network(problem)
    z = sample_interior(problem, 1, key=jr.key(3))[0]
    one = lambda key: sampled_residual(problem, u, z, 2, key=key)
    both = lambda keys: (jax.vmap(one)(keys), residual(problem, u, z))
    drawn, whole = map(np.asarray, jax.jit(both)(jr.split(jr.key(4), 4000)))
    error = drawn.std() / np.sqrt(len(drawn))
    assert abs(drawn.mean() - whole) <= 4 * error + 1e-12


def test_single_precision_stays_single():
    problem = catalogue("met").problem
    u = network(problem, jnp.float32)
    z = jnp.array([0.3, -0.4], jnp.float32)
    found = jax.eval_shape(lambda z: (u(z), residual(problem, u, z)), z)
    assert all(value.dtype == jnp.float32 for value in found)


def test_inputs_are_scaled_to_the_domain():
    """Shifting and stretching the domain along with the point changes nothing."""
    small = MLP([0.0, 0.0], [1.0, 1.0], (7,), key=jr.key(5))
    large = MLP([10.0, -4.0], [30.0, 4.0], (7,), key=jr.key(5))
    z = jnp.array([0.2, 0.9])
    np.testing.assert_allclose(small(z), large(jnp.array([14.0, 3.2])), rtol=1e-12)


def test_only_weights_and_biases_are_trained():
    u = MLP([0.0], [1.0], (3,), frequencies=1.0, n_features=4, key=jr.key(6))
    leaves = jax.tree.leaves(eqx.filter(u, eqx.is_inexact_array))
    assert sorted(leaf.shape for leaf in leaves) == [(1,), (1, 3), (3,), (3, 9)]
    assert isinstance(u, AbstractField)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": ()}, "`widths` must be positive numbers of units; got"),
        ({"widths": (4, 0)}, "`widths` must be positive numbers of units; got"),
        ({"widths": (4,), "frequencies": -1.0}, "`frequencies` and `n_features` must be positive"),
        ({"widths": (4,), "frequencies": [[1.0, 2.0]]}, "must be finite and have one row of 1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        MLP([0.0], [1.0], **arguments, key=jr.key(0))


def test_further_inputs_are_scaled():
    """A network of one unit that reads nothing else."""
    u = MLP(
        [0.0], [1.0], (1,), further=[Input(lambda z: 3.0 + 2.0 * z[0], 4.0, 0.5)], key=jr.key(0)
    )
    ones = [jnp.array([[0.0, 1.0]]), jnp.ones((1, 1))]
    u = eqx.tree_at(lambda u: u.weights, u, ones)
    assert float(u(jnp.array([0.75]))) == pytest.approx(np.tanh(1.0), rel=1e-12)


def test_what_a_problem_gives_is_equal_to_itself():
    """So that code compiled for one network serves the next of the same problem."""
    problem = catalogue("allen-cahn-20d").problem
    layout = problem.layout
    one, other = (EndData(problem.terminal, layout) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != EndData(lambda x: x[0], layout)
    assert one != EndData(problem.terminal, layout, lambda z: z[0])
    z = layout.point(jnp.asarray(0.1), jnp.ones(20))
    assert float(one(z)) == pytest.approx(1 / (2 + 0.4 * 20))
    distance = SquaredDistance((1.0, 2.0), Layout(2))
    assert distance == SquaredDistance((1.0, 2.0), Layout(2))
    assert float(distance(jnp.array([4.0, -2.0]))) == 25.0
