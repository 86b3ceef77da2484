"""The residual: zero for exact solutions, equal to its brute-force twin, first order exact."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn._field import taylor
from fkpinn.problem import (
    boundary_residual,
    catalogue,
    generator,
    residual,
    residual_by_hessian,
)
from fkpinn.problem._high_dimension import double_well_committor, ou_exit, two_body
from fkpinn.problem._nonlinear import (
    black_scholes_barenblatt,
    fisher_kpp,
    fully_nonlinear,
    linear_quadratic,
    radial,
)
from fkpinn.sampling import sample_boundary, sample_interior

with_exact = pytest.mark.parametrize("name", helpers.names())


@with_exact
def test_residual_of_closed_forms_vanishes(name):
    case = helpers.case(name)
    z = sample_interior(case.problem, 1000, key=jr.key(0))
    assert np.max(np.abs(helpers.at(lambda p: residual(case.problem, case.exact, p), z))) <= 1e-10


# of those in many dimensions, the same in few
IN_FEW = {
    "laplace": lambda: catalogue("laplace-10d"),
    "exit of an Ornstein-Uhlenbeck process": lambda: ou_exit(3, 4.0),
    "committor of a double well": lambda: double_well_committor(2.0, 2),
    "two bodies": lambda: two_body(4),
    "two waves": lambda: fully_nonlinear(3),
    "a front": lambda: fisher_kpp(2),
    "control": lambda: linear_quadratic(2),
    "volatility": lambda: black_scholes_barenblatt(2),
    "a radial solution": lambda: radial("radial", 3, lambda u: u - u**3, laplacian=0.5),
}


FAST = ("exit of an Ornstein-Uhlenbeck process", "two bodies")


@pytest.mark.parametrize("name", helpers.of_which_fast(IN_FEW, *FAST))
def test_closed_forms_of_many_dimensions_solve_their_equations(name):
    """To what their tables hold; beside the size of the equation's own terms."""
    problem, exact = IN_FEW[name]()
    z = sample_interior(problem, 40, key=jr.key(3))

    def look(z):
        slope, size = jax.grad(exact)(z), jnp.sqrt(jnp.sum(problem.sigma(z) ** 2))
        return residual(problem, exact, z), exact(z), jnp.sqrt(jnp.sum(slope**2)) * (1 + size)

    left, value, slope = (np.asarray(a) for a in jax.jit(jax.vmap(look))(z))
    assert np.std(value) > 1e-6
    np.testing.assert_allclose(left / np.max(np.abs(slope)), 0.0, atol=2e-4)
    if problem.timed:
        end = problem.layout.at_end(z[:, 1:])
        found, data = jax.jit(jax.vmap(lambda z: (exact(z), problem.terminal(z[1:]))))(end)
        np.testing.assert_allclose(found, data, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", helpers.of_which_fast(helpers.names(), "robin", "heat2d-ms"))
def test_closed_forms_meet_their_boundary_and_terminal_data(name):
    case = helpers.case(name)
    on = sample_boundary(case.problem, 300, key=jr.key(1))
    for index, condition in enumerate(case.problem.conditions()):
        here = np.asarray(on.parts) == index
        at = lambda z, n, c=condition: boundary_residual(case.problem, c, case.exact, z, n)
        violation = jax.jit(jax.vmap(at))(on.points, on.normals)
        assert np.max(np.abs(np.asarray(violation)[here])) <= 1e-10
    if case.problem.timed:
        x = sample_interior(case.problem.domain, 100, key=jr.key(2))
        z = case.problem.layout.at_end(x)
        data = helpers.at(case.problem.terminal, x)
        np.testing.assert_allclose(helpers.at(case.exact, z), data, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    helpers.of_which_fast(
        helpers.names("schrodinger", "met", "committor"),
        "committor", "variable-diffusion", "robin",
    ),
)  # fmt: skip
def test_residual_equals_its_brute_force_twin(name):
    problem = catalogue(name).problem
    weights = jr.normal(jr.key(3), (8, problem.n_coords))

    def trial(z):
        return jnp.sum(jnp.tanh(weights @ z)) * jnp.exp(-0.1 * jnp.sum(z**2))

    z = sample_interior(problem, 50, key=jr.key(4))
    fast = helpers.at(lambda p: residual(problem, trial, p), z)
    slow = helpers.at(lambda p: residual_by_hessian(problem, trial, p), z)
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(slow))))


def test_generator_is_the_rate_of_change_along_paths():
    r"""$\mathcal{L}u(x)$ is the limit of $(E[u(X_h)] - u(x)) / h$; here by Gauss-Hermite."""
    problem = helpers.case("variable-diffusion").problem
    u = lambda x: jnp.sin(x[0]) * jnp.exp(0.3 * x[1])
    x, h = jnp.array([0.2, -0.3]), 1e-5
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    grid = jnp.asarray(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2))
    mass = jnp.asarray(np.outer(weights, weights).reshape(-1) / (2 * np.pi))
    step = lambda w: x + problem.drift(x) * h + problem.sigma(x) @ w * h**0.5
    mean = lambda: jnp.sum(mass * jax.vmap(lambda w: u(step(w)))(grid))
    rate, expected = jax.jit(lambda: ((mean() - u(x)) / h, generator(problem, u, x)))()
    np.testing.assert_allclose(rate, expected, rtol=1e-4)


def test_taylor_holds_the_derivatives():
    u = lambda z: z[0] ** 2 + z[0] * z[1] + z[1] ** 2 * z[2]
    z = jnp.array([0.5, 1.0, 2.0])
    at = taylor(u, z, jnp.eye(3), jnp.array([0.0, 0.64, 0.64]))
    np.testing.assert_allclose(at.value, 0.25 + 0.5 + 2.0)
    np.testing.assert_allclose(at.slopes, [2 * 0.5 + 1.0, 0.5 + 2 * 2.0, 1.0])
    np.testing.assert_allclose(at.curvature, 0.64 * 2 * 2.0)
