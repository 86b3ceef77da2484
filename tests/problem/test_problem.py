"""Problems: what they accept, and what they hand on."""

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.problem import Coefficient

square = fk.Box([0, 0], [1, 1])


@pytest.mark.parametrize(
    ("diffusion", "matrix"),
    [
        (2.0, [[2.0, 0.0], [0.0, 2.0]]),
        ((1.0, 3.0), [[1.0, 0.0], [0.0, 3.0]]),
        ([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]], [[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]]),
        (lambda x: 1.0 + x[0], [[1.5, 0.0], [0.0, 1.5]]),
        (lambda x: jnp.stack([x[0], x[1]]), [[0.5, 0.0], [0.0, 0.25]]),
        (lambda x: jnp.eye(2) * x[1], [[0.25, 0.0], [0.0, 0.25]]),
    ],
    ids=["scalar", "diagonal", "full", "scalar-function", "diagonal-function", "full-function"],
)
def test_diffusion_in_every_form(diffusion, matrix):
    problem = fk.Problem(square, diffusion=diffusion)
    x = jnp.array([0.5, 0.25])
    np.testing.assert_allclose(problem.sigma(x), matrix)
    np.testing.assert_allclose(problem.covariance(x), np.array(matrix) @ np.array(matrix).T)
    assert problem.dynamics.noise_dim == np.shape(matrix)[1]


def test_constants_functions_and_python_scalars_are_alike():
    x = jnp.array([0.3, 0.7])
    for source in (2, 2.0, np.float64(2.0), lambda x: 2.0, lambda x: 2, lambda x: jnp.float32(2.0)):
        assert fk.Problem(square, source=source).source(x) == 2.0
    assert fk.Problem(square, drift=0).drift(x).shape == (2,)


def test_one_dimension_takes_scalars_for_vectors():
    problem = fk.Problem(fk.Interval(0, 1), drift=lambda x: -x[0], diffusion=0.5)
    np.testing.assert_allclose(problem.drift(jnp.array([0.25])), [-0.25])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_follows_the_point(dtype):
    problem = helpers.case("variable-diffusion").problem
    x = jnp.array([0.1, 0.1], dtype)
    for coefficient in (problem.drift, problem.sigma, problem.reaction, problem.source):
        assert coefficient(x).dtype == jnp.dtype(dtype)


def test_boundary_for_all_parts_or_by_name():
    ring = fk.Ball([0, 0], 1) - fk.Ball([0, 0], 0.5, name="hole")
    problem = fk.Problem(ring, boundary={"hole": 1.0, "outer": fk.Robin(2.0, lambda x: x[0])})
    assert [type(c) for c in problem.conditions()] == [fk.Robin, fk.Dirichlet]
    same = fk.Problem(ring, boundary=lambda x: x[1])
    assert all(isinstance(c, fk.Dirichlet) for c in same.conditions())


def test_parabolic_points_and_parts():
    problem = helpers.case("ornstein-uhlenbeck").problem
    z = jnp.array([0.5, 1.0, -1.0])
    assert problem.timed and problem.n_coords == 3 and problem.dim == 2
    np.testing.assert_array_equal(problem.space(z), z[1:])
    lower, upper = problem.bounds()
    np.testing.assert_allclose([lower, upper], [[0, -2, -2], [1, 2, 2]])


def test_a_problem_passes_through_jit_and_keeps_its_order_of_parts():
    domain = square - fk.Ball([0.5, 0.5], 0.1, name="a")
    problem = fk.Problem(domain, boundary={"outer": 1.0, "a": 2.0})

    @eqx.filter_jit
    def values(p, x):
        return jnp.stack([c.value(x) for c in p.conditions()])

    np.testing.assert_array_equal(values(problem, jnp.zeros(2)), [1.0, 2.0])


def test_recipes_are_the_equations_they_name():
    """Residual of a trial function, against the equation written out by hand."""
    x = jnp.array([0.3, 0.6])
    u = lambda x: jnp.sin(x[0]) * x[1] ** 2
    gradient, hessian = jax.grad(u)(x), jax.hessian(u)(x)
    laplacian = jnp.trace(hessian)
    well = lambda x: x[0] ** 2 + jnp.cos(x[1])
    downhill = -jax.grad(well)(x) @ gradient
    holed = square - fk.Ball([0.5, 0.5], 0.1, name="A") - fk.Ball([0.8, 0.8], 0.1, name="B")
    from fkpinn.problem import residual

    expected = [
        (fk.poisson(square, lambda x: x[0]), laplacian + x[0]),
        (fk.schrodinger(square, lambda x: x[1], 3.0), 0.5 * laplacian - x[1] * u(x) + 3.0),
        (fk.mean_exit_time(square, well, beta=4.0), downhill + 0.25 * laplacian + 1.0),
        (fk.committor(holed, well, beta=4.0), downhill + 0.25 * laplacian),
        (fk.mean_exit_time(square), laplacian + 1.0),
    ]
    for problem, value in expected:
        np.testing.assert_allclose(residual(problem, u, x), value, rtol=1e-12)


def test_heat_runs_forward_in_time():
    kappa, horizon = 0.3, 2.0
    temperature = lambda t, x: jnp.exp(-t) * x[0] + t * x[1]
    source = lambda t, x: jax.grad(temperature)(t, x)  # linear in x: no diffusion term
    problem = fk.heat(
        square,
        lambda x: temperature(0.0, x),
        horizon=horizon,
        conductivity=kappa,
        source=source,
        boundary=fk.Dirichlet(temperature),
    )
    from fkpinn.problem import residual

    exact = lambda z: temperature(z[0], z[1:])
    z = jnp.array([0.7, 0.2, 0.4])
    np.testing.assert_allclose(residual(problem, exact, z), 0.0, atol=1e-14)
    np.testing.assert_allclose(problem.boundary["outer"].value(z), exact(z))
    np.testing.assert_allclose(problem.covariance(z), 2 * kappa * np.eye(2))


@pytest.mark.parametrize("kind", [fk.Neumann, fk.Robin])
def test_heat_takes_boundary_data_as_they_are(kind):
    data = lambda t, x: t + x[0]
    condition = fk.Neumann(data) if kind is fk.Neumann else fk.Robin(data, data)
    problem = fk.heat(square, 0.0, horizon=1.0, boundary={"outer": condition})
    assert problem.boundary["outer"].flux(jnp.array([0.25, 0.5, 0.5])) == 0.75


@pytest.mark.parametrize("outer", [fk.Neumann, fk.Neumann(5.0)])  # whose number is not kept
def test_manufactured_problems_of_every_kind(outer):
    ring = fk.Ball([0, 0], 1) - fk.Ball([0, 0], 0.5, name="hole")
    exact = lambda t, x: jnp.exp(-t) * (x[0] ** 2 + x[1])
    from fkpinn.problem import boundary_residual, residual

    problem = fk.manufactured(
        ring,
        exact,
        drift=lambda t, x: t * x,
        reaction=1.0,
        horizon=1.0,
        boundary={"outer": outer, "hole": (fk.Robin, 2.0)},
    )
    u = lambda z: exact(z[0], z[1:])
    np.testing.assert_allclose(residual(problem, u, jnp.array([0.5, 0.6, 0.3])), 0, atol=1e-13)
    for part, x in (("outer", [0.6, 0.8]), ("hole", [0.3, 0.4])):
        z = jnp.array([0.5, *x])
        normal = ring.normal(z[1:])
        violation = boundary_residual(problem, problem.boundary[part], u, z, normal)
        np.testing.assert_allclose(violation, 0.0, atol=1e-13)


def test_a_coefficient_can_be_given_ready_made():
    source = fk.Problem(square, source=lambda x: x[0]).source
    assert isinstance(source, Coefficient)
    assert fk.Problem(square, source=source).source is source
    assert fk.Problem(square).drift.is_zero and not source.is_zero


def test_manufactured_problems_have_the_defaults_of_problems():
    line, exact = fk.Interval(0.0, 1.0), lambda x: x[0] ** 2
    made = fk.manufactured(line, exact)
    z = jnp.asarray([0.3])
    np.testing.assert_allclose(made.covariance(z), [[1.0]])
    np.testing.assert_allclose(made.source(z), -1.0)
    assert made.drift.is_zero and made.reaction.is_zero and not made.timed


def test_a_process_of_ones_own_excludes_drift_and_diffusion():
    line = fk.Interval(0.0, 1.0)
    plain = fk.Problem(line, drift=[1.0], diffusion=2.0)
    same = fk.Problem(line, dynamics=plain.dynamics)
    np.testing.assert_allclose(same.covariance(jnp.asarray([0.3])), [[4.0]])
    with pytest.raises(ValueError, match="give either it or these three"):
        fk.Problem(line, dynamics=plain.dynamics, drift=[1.0])
    with pytest.raises(ValueError, match="for points of this problem"):
        fk.Problem(line, dynamics=plain.dynamics, horizon=1.0, terminal=0.0)


def test_the_answer_may_be_wanted_elsewhere():
    problem = fk.mean_exit_time(fk.Interval(0.0, 1.0)).with_measure(fk.InBox([0.2], [0.3]))
    x = fk.sample_interior(problem, 50, key=jr.key(0))
    assert np.all((np.asarray(x) > 0.2) & (np.asarray(x) < 0.3))
    with pytest.raises(ValueError, match="must have 1 numbers each"):
        problem.with_measure(fk.InBox([0.2, 0.0], [0.3, 1.0]))
