import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn import problem as problems
from fkpinn.domain import Ball, Box
from fkpinn.problem import Neumann, Problem
from fkpinn.reference import (
    ExactReference,
    LegendreBasis,
    SineBasis,
    fem_reference,
    galerkin_reference,
)

catalogue = functools.cache(problems.catalogue)  # building one checks its data: a second each


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


@pytest.fixture(scope="module")
def spectral():
    return galerkin_reference(catalogue("schrodinger").problem)


def grid(n=2000):
    return np.random.default_rng(0).uniform(-1, 1, (n, 2))


def test_exact_values_and_gradients():
    problem, exact = catalogue("poisson")
    x = np.random.default_rng(1).uniform(0, 1, (300, 2))
    truth = ExactReference(problem, exact)
    value, slope = truth.values_and_gradients(x)
    assert value.dtype == slope.dtype == np.float64
    np.testing.assert_allclose(value, jax.vmap(exact)(jnp.asarray(x)), rtol=1e-12)
    step = 1e-6
    for axis in range(2):
        shift = step * np.eye(2)[axis]
        inner = np.clip(x, 0.01, 0.99)
        difference = (truth.values(inner + shift) - truth.values(inner - shift)) / (2 * step)
        np.testing.assert_allclose(truth.gradients(inner)[:, axis], difference, atol=1e-6)
    assert truth.error_estimate == 0.0


def test_exact_in_time_gives_gradients_in_space():
    problem, exact = catalogue("ornstein-uhlenbeck")
    z = np.array([[0.0, 0.5, -1.0], [1.0, 2.0, 2.0]])
    value, slope = ExactReference(problem, exact).values_and_gradients(z)
    assert value.shape == (2,) and slope.shape == (2, 2)
    with pytest.raises(ValueError, match=r"`points` must have times .* in \[0, 1\]; 1 of 2"):
        ExactReference(problem, exact).values([[0.5, 0.0, 0.0], [1.2, 0.0, 0.0]])


def test_many_points_are_cut_in_chunks():
    problem, exact = catalogue("poisson-5d")
    x = np.random.default_rng(1).uniform(0, 1, (300_000, 5))
    values = ExactReference(problem, exact).values(x)
    np.testing.assert_allclose(values[-5:], jax.vmap(exact)(jnp.asarray(x[-5:])))


def test_double_precision_whatever_the_caller_uses():
    with jax.enable_x64(False):
        problem, exact = catalogue("poisson")
        value = ExactReference(problem, exact).values(np.array([[0.3, 0.7]]))
    with jax.enable_x64(True):
        wanted = exact(jnp.array([0.3, 0.7]))
    np.testing.assert_allclose(value, [wanted], rtol=1e-12)


@pytest.mark.parametrize(
    ("points", "error", "match"),
    [
        ([[0.5, 0.5], [1.5, 0.5]], ValueError, r"`points` .* 1 of 2 do not, the first is \[1.5"),
        ([0.5, 0.5], ValueError, r"`points` must have shape \(n, 2\).* got shape \(2,\)"),
        ([[0.5, 0.5, 0.5]], ValueError, r"`points` must have shape \(n, 2\)"),
        ([[0.5, np.nan]], ValueError, "`points` must be finite; row 0"),
        ("here", TypeError, "`points` must be an array of real numbers"),
    ],
)
def test_bad_points_are_refused(points, error, match):
    problem, exact = catalogue("poisson")
    with pytest.raises(error, match=match):
        ExactReference(problem, exact).values(points)


def test_points_of_single_precision_on_the_boundary_are_taken():
    problem, exact = catalogue("exit-ball-3d")
    x = np.random.default_rng(0).normal(size=(100, 3))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    assert np.all(np.abs(ExactReference(problem, exact).values(x)) < 1e-6)


def test_exact_needs_a_function():
    with pytest.raises(TypeError, match="`function` must be a function of one point"):
        ExactReference(catalogue("poisson").problem, 3.0)


@pytest.mark.parametrize("basis", [LegendreBasis, SineBasis])
def test_basis_vanishes_at_the_ends_and_knows_its_slope(basis):
    functions = basis(-0.5, 2.0, 9)
    ends, _ = functions.evaluate(np.array([-0.5, 2.0]))
    np.testing.assert_allclose(ends, 0.0, atol=1e-13)
    x, step = np.linspace(-0.4, 1.9, 17), 1e-6
    difference = (functions.evaluate(x + step)[0] - functions.evaluate(x - step)[0]) / (2 * step)
    np.testing.assert_allclose(functions.evaluate(x)[1], difference, atol=1e-7)


def test_galerkin_converges_and_estimates_its_error(spectral):
    problem, x = spectral.problem, grid()
    assert spectral.error_estimate < 1e-10
    truth = spectral.values(x)
    for size in (48, 96):
        coarse = galerkin_reference(problem, size)
        error = rms(coarse.values(x) - truth) / rms(truth)
        assert coarse.error_estimate is not None
        assert 0.05 * coarse.error_estimate < error < coarse.error_estimate


def test_two_bases_agree(spectral):
    # f does not vanish on the boundary, so the sine sum converges with order 5/2 only
    problem, x = spectral.problem, grid()
    truth, slope = spectral.values_and_gradients(x)
    sizes = np.array([24, 48, 96, 192])
    errors = []
    for size in sizes:
        value, gradient = galerkin_reference(problem, int(size), SineBasis).values_and_gradients(x)
        errors.append(rms(value - truth) / rms(truth))
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert 2.3 < order < 3.0
    assert errors[-1] < 5e-5
    assert rms(gradient - slope) / rms(slope) < 3e-3


def test_galerkin_solves_the_equation(spectral):
    problem, truth = spectral.problem, spectral
    x, step = np.random.default_rng(0).uniform(-0.9, 0.9, (200, 2)), 1e-4
    laplacian = sum(
        (truth.gradients(x + step * e)[:, i] - truth.gradients(x - step * e)[:, i]) / (2 * step)
        for i, e in enumerate(np.eye(2))
    )
    points = jnp.asarray(x)
    v, f = jax.vmap(problem.reaction)(points), jax.vmap(problem.source)(points)
    residual = 0.5 * laplacian - np.asarray(v) * truth.values(x) + np.asarray(f)
    assert np.max(np.abs(residual)) < 1e-4  # the difference quotient's own error


@pytest.mark.slow
def test_galerkin_agrees_with_finite_elements(spectral):
    fem = fem_reference(spectral.problem, h=0.12)
    value, slope = spectral.values_and_gradients(grid())
    assert fem.error_estimate is not None and fem.error_estimate < 1e-3
    assert rms(fem.values(grid()) - value) / rms(value) < 3 * fem.error_estimate
    assert rms(fem.gradients(grid()) - slope) / rms(slope) < 2e-2


def test_rectangle_with_a_known_solution():
    box = Box([0.0, 1.0], [2.0, 1.5])

    def exact(x):
        return jnp.sin(jnp.pi * x[0] / 2) * jnp.sin(2 * jnp.pi * (x[1] - 1))

    def potential(x):
        return 1.0 + x[0] ** 2 + jnp.exp(x[1])

    def source(x):
        return (0.5 * 0.49 * jnp.pi**2 * (0.25 + 4.0) + potential(x)) * exact(x)

    problem = Problem(box, diffusion=0.7, reaction=potential, source=source)
    x = np.random.default_rng(0).uniform([0, 1], [2, 1.5], (500, 2))
    wanted = ExactReference(problem, exact).values(x)
    np.testing.assert_allclose(galerkin_reference(problem, 40).values(x), wanted, atol=1e-11)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (lambda: Problem(Ball([0, 0], 1.0), source=1.0), "not a two-dimensional `Box`"),
        (lambda: Problem(Box([0] * 3, [1] * 3), source=1.0), "not a two-dimensional `Box`"),
        (lambda: catalogue("heat2d-ms").problem, "it is parabolic"),
        (lambda: Problem(Box([0, 0], [1, 1]), drift=[1.0, 0.0]), "it has a drift"),
        (lambda: Problem(Box([0, 0], [1, 1]), diffusion=[1.0, 2.0]), "not one constant number"),
        (lambda: Problem(Box([0, 0], [1, 1]), boundary=1.0), r"not `Dirichlet\(0.0\)`"),
        (
            lambda: Problem(Box([0, 0], [1, 1]), reaction=1.0, boundary=Neumann(0.0)),
            r"not `Dirichlet\(0.0\)`",
        ),
        (
            lambda: Problem(Box([0, 0], [1, 1]), reaction=lambda x: x[0] * x[1]),
            "not a sum of functions of one coordinate",
        ),
    ],
)
def test_galerkin_refuses_what_does_not_separate(problem, reason):
    with pytest.raises(ValueError, match=reason):
        galerkin_reference(problem())


def test_galerkin_refuses_too_few_functions():
    with pytest.raises(ValueError, match="`size` must be at least 4; got 2"):
        galerkin_reference(catalogue("schrodinger").problem, 2)
