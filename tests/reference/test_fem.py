import functools

import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn import problem as problems
from fkpinn.domain import Ball, Box, Interval, Polygon
from fkpinn.problem import Dirichlet, Neumann, Problem, Robin, as_field, manufactured
from fkpinn.reference import ExactReference, fem_reference
from fkpinn.reference._assemble import Assembly, Coefficients, import_skfem
from fkpinn.reference._base import evaluate
from fkpinn.reference._cells import refine
from fkpinn.reference._march import factorized, solve_elliptic, solve_parabolic
from fkpinn.reference._mesh import make_mesh

catalogue = functools.cache(problems.catalogue)  # building one checks its data: a second each


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def relative_errors(space, field, truth):
    """Relative L2 errors of values and gradients, by quadrature inside the elements."""
    corners, d = space.nodes[space.cells], space.dim
    # points that are special to no polynomial degree, one towards each corner
    weights = 0.2 / d * np.ones((d + 1, d + 1)) + (0.8 - 0.2 / d) * np.eye(d + 1)
    x = np.einsum("qk,mkj->mqj", weights, corners).reshape(-1, d)
    size = np.repeat(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])), d + 1)
    one = np.ones((len(x), 1))
    value, slope, outside = space.evaluate(x, field, np.zeros(one.shape, int), one)
    assert not np.any(outside)
    wanted, gradient = truth.values_and_gradients(x)
    mean = lambda e: np.sqrt(np.sum(size * e) / np.sum(size))
    return [
        mean((value - wanted) ** 2) / mean(wanted**2),
        mean(np.sum((slope - gradient) ** 2, 1)) / mean(np.sum(gradient**2, 1)),
    ]


def errors_on_refined_meshes(problem, exact, h, n_levels):
    coefficients, mesh = Coefficients(problem), make_mesh(problem.domain, h)
    truth, found = ExactReference(problem, exact), []
    for level in range(n_levels):
        mesh = mesh if level == 0 else refine(mesh)
        assembly = Assembly(coefficients, mesh)
        found.append(relative_errors(assembly.space, solve_elliptic(assembly), truth))
    return np.array(found).T


def orders(found):
    levels = np.arange(found.shape[1])
    return [-np.polyfit(levels, np.log2(row), 1)[0] for row in found]


@pytest.mark.parametrize(
    "name", ["variable-diffusion", pytest.param("robin", marks=pytest.mark.slow)]
)
def test_third_order_in_space(name):
    problem, exact = catalogue(name)
    found = errors_on_refined_meshes(problem, exact, 0.4, 4)
    value, slope = orders(found)
    assert value >= 2.8, found
    assert slope >= 1.8, found


@pytest.mark.broad
def test_third_order_in_one_dimension():
    def exact(x):
        return jnp.sin(3 * x[0]) + x[0]

    problem = manufactured(
        Interval(-1.0, 1.0, name=("l", "r")),
        exact,
        drift=lambda x: 1.0 - x,
        diffusion=lambda x: 1.0 + 0.3 * jnp.sin(x[0]),
        reaction=lambda x: x[0] ** 2,
        boundary={"l": (Robin, 2.0), "r": Neumann},
    )
    found = errors_on_refined_meshes(problem, exact, 0.2, 4)
    assert orders(found)[0] >= 2.8, found


@pytest.mark.broad
@pytest.mark.parametrize(
    "name", [pytest.param("variable-diffusion", marks=pytest.mark.slow), "robin"]
)
def test_error_estimate_is_honest(name):
    problem, exact = catalogue(name)
    truth = ExactReference(problem, exact)
    found = fem_reference(problem, h=0.3)
    error, _ = relative_errors(found.space, found.fields, truth)
    assert found.error_estimate is not None
    assert 0.5 * found.error_estimate < error < 2 * found.error_estimate
    assert found.error_estimate < 2e-5
    assert found.provenance["observed_order"] > 2.8


@pytest.mark.slow
def test_unbounded_gradients_at_a_reentrant_corner():
    corner = Polygon([(0, 0), (0, -1), (1, -1), (1, 1), (-1, 1), (-1, 0)])

    def exact(x):  # r^(2/3) sin(2/3 angle), zero on both sides of the corner
        r2 = jnp.sum(x**2)
        angle = jnp.mod(jnp.arctan2(x[1], x[0]) + 0.5 * jnp.pi, 2 * jnp.pi)
        safe = jnp.where(r2 > 0, r2, 1.0)
        return jnp.where(r2 > 0, safe ** (1 / 3) * jnp.sin(2 / 3 * angle), 0.0)

    problem = Problem(corner, diffusion=2**0.5, boundary=exact)
    found = fem_reference(problem, h=0.1)
    x = found.space.nodes
    error = found.space.rms(found.fields[0] - evaluate(exact, x))
    assert error / found.space.rms(found.fields[0]) < 2e-5
    assert found.error_estimate is not None and error < 3 * found.error_estimate


@pytest.mark.broad
def test_mixed_conditions_and_a_constant():
    # u = 1 solves any problem without source whose data are those of 1
    domain = Box([0, 0], [2, 1], name=("a", "b", "c", "c")) - Ball([1, 0.5], 0.2, name="d")
    problem = Problem(
        domain,
        drift=lambda x: jnp.stack([x[1], 1.0 - x[0]]),
        diffusion=lambda x: 1.0 + 0.5 * x[0],
        reaction=2.0,
        source=2.0,
        boundary={"a": Dirichlet(1.0), "b": Neumann(0.0), "c": Robin(3.0, 3.0), "d": Neumann(0.0)},
    )
    found = fem_reference(problem, h=0.1)
    np.testing.assert_allclose(found.fields, 1.0, atol=1e-11)
    np.testing.assert_allclose(found.gradients([[0.5, 0.5]]), 0.0, atol=1e-10)


TIMED = dict(
    drift=lambda t, x: jnp.stack([jnp.cos(t) - x[0]]),
    diffusion=lambda t, x: 1.0 + 0.3 * jnp.sin(x[0] + t),
    reaction=lambda t, x: 1.0 + t * x[0] ** 2,
    horizon=1.0,
)


def timed_exact(t, x):
    return jnp.sin(2 * x[0] + 3 * t) * jnp.exp(-0.5 * t) + x[0] ** 2 * t


@pytest.mark.broad
def test_second_order_in_time():
    problem = manufactured(
        Interval(-1.0, 1.0, name=("l", "r")),
        timed_exact,
        boundary={"l": (Robin, lambda t, x: 1.0 + t)},
        **TIMED,
    )
    assembly = Assembly(Coefficients(problem), make_mesh(problem.domain, 0.04))
    truth = ExactReference(problem, as_field(timed_exact, problem.layout))
    x = assembly.space.nodes
    found = []
    for n in (4, 8, 16, 32):
        fields = solve_parabolic(assembly, n)
        found.append(
            max(
                rms(field - truth.values(np.concatenate([np.full((len(x), 1), t), x], axis=1)))
                for t, field in zip(np.linspace(0, 1, n + 1), fields, strict=True)
            )
        )
    order = -np.polyfit(np.arange(4), np.log2(found), 1)[0]
    assert 1.9 < order < 2.3, found


@pytest.mark.broad
def test_parabolic_reference_between_snapshots():
    problem, exact = catalogue("ornstein-uhlenbeck")
    found = fem_reference(problem, h=0.15, n_steps=16)
    z = np.random.default_rng(0).uniform([0, -2, -2], [1, 2, 2], (500, 3))
    value, slope = ExactReference(problem, exact).values_and_gradients(z)
    got, gradient = found.values_and_gradients(z)
    assert found.error_estimate is not None
    assert rms(got - value) / rms(value) < 2 * found.error_estimate < 5e-3
    assert rms(gradient - slope) / rms(slope) < 1e-2
    with pytest.raises(ValueError, match=r"`points` must have times"):
        found.values([[1.5, 0.0, 0.0]])


@pytest.mark.broad
def test_terminal_data_that_do_not_match_the_boundary():
    problem = Problem(Interval(0.0, 1.0), diffusion=2**0.5, horizon=0.5, terminal=1.0)
    assembly = Assembly(Coefficients(problem), make_mesh(problem.domain, 0.01))
    k, x = np.arange(1, 400, 2), assembly.space.nodes[:, 0]
    wanted = 4 / np.pi * np.exp(-((np.pi * k) ** 2) * 0.25) / k @ np.sin(np.pi * np.outer(k, x))
    found = []
    for n in (16, 32, 64, 128):
        fields = solve_parabolic(assembly, n)
        found.append(rms(fields[n // 2] - wanted) / rms(wanted))
        assert np.min(fields) > -0.2 and np.max(fields) < 1.2
    assert -np.polyfit(np.arange(4), np.log2(found), 1)[0] > 1.9, found
    assert found[-1] < 3e-4


def test_refusals():
    with pytest.raises(ValueError, match="`problem` has dimension 5; finite elements here cover"):
        fem_reference(catalogue("poisson-5d").problem)
    problem = catalogue("poisson").problem
    with pytest.raises(ValueError, match=r"`h` must be a positive length; got -1\.0"):
        fem_reference(problem, h=-1.0)
    with pytest.raises(ValueError, match="`n_steps` is for parabolic problems; got 8"):
        fem_reference(problem, n_steps=8)
    timed = manufactured(Interval(-1.0, 1.0), timed_exact, **TIMED)
    with pytest.raises(ValueError, match=r"`n_steps` must be a multiple of 4 .* got 13"):
        fem_reference(timed, n_steps=13)


def test_singular_matrix_is_refused():
    problem = Problem(Box([0, 0], [1, 1]), boundary=Neumann(0.0), source=1.0, check=False)
    assembly = Assembly(Coefficients(problem), make_mesh(problem.domain, 0.5))
    matrix = assembly.stiffness().tolil()
    matrix[0] = 0.0
    with pytest.raises(ValueError, match="`problem` has no unique solution"):
        factorized(matrix)


def test_missing_scikit_fem_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skfem", None)
    with pytest.raises(ImportError, match=r"needs scikit-fem; try `pip install fkpinn\[fem\]`"):
        import_skfem()
