"""Sizes of solutions as functions of parameters."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn._field import taylor
from fkpinn.nn import MLP, Size, fit_factor, fit_size

CENTER, HALF = (6.0, 0.0), (4.0, 2.0)
GROWN = Size(3.0, ((1.5, -0.4), (0.2, 0.1)), CENTER, HALF)


def values(n=4000):
    """Of a solution with a shape of its own, that is small next to walls, and its points."""
    rng = np.random.default_rng(1)
    points = np.c_[rng.uniform(2, 10, n), rng.uniform(-2, 2, n), rng.uniform(0, 1, n)]
    at = (points[:, :2] - CENTER) / HALF
    grown = np.exp(1.5 * at[:, 0] - 0.4 * at[:, 0] ** 2 + 0.2 * at[:, 1] + 0.1 * at[:, 1] ** 2)
    shape = points[:, 2] * (1 - points[:, 2]) * 30**0.5  # of mean square one
    return points, 3.0 * grown * shape


def test_sizes_at_points():
    points, _ = values(5)
    np.testing.assert_allclose(jax.vmap(GROWN)(jnp.asarray(points)), GROWN.at(points), rtol=1e-12)
    corner = np.array([[10.0, -2.0, 0.5]])
    assert GROWN.at(corner)[0] == pytest.approx(3.0 * np.exp(1.5 - 0.4 - 0.2 + 0.1))
    np.testing.assert_array_equal(Size(2.5).at(points), 2.5)
    assert float(Size(2.5)(jnp.asarray(points[0]))) == 2.5


def test_sizes_are_found_from_values():
    """To a few percent, from 4,000 of them: their squares have a deviation of two thirds."""
    found = fit_size(*values(), CENTER, HALF)
    points, _ = values(50)
    np.testing.assert_allclose(found.at(points), GROWN.at(points), rtol=0.1)
    assert fit_size(*values(), (), ()).growth == ()
    mean = np.sqrt(np.mean(values()[1] ** 2))
    assert fit_size(*values(), (), ()).typical == pytest.approx(mean)
    nothing = fit_size(values()[0], np.zeros(4000), CENTER, HALF)
    np.testing.assert_array_equal(nothing.at(points), 1.0)


def test_products():
    points, _ = values(7)
    one = Size(0.5, ((0.3,), (0.0,)), CENTER, HALF)
    other = Size(1.0, ((0.0, 0.0, 0.1), (0.0, -0.2, 0.0)), CENTER, HALF)
    both = GROWN.at(points) * one.at(points) * other.at(points)
    np.testing.assert_allclose(GROWN.times(one).times(other).at(points), both)
    np.testing.assert_allclose(GROWN.times(Size(2.0)).at(points), 2.0 * GROWN.at(points))
    np.testing.assert_allclose(Size(2.0).times(GROWN).at(points), 2.0 * GROWN.at(points))
    at = (points[:, 0] - 6.0) / 4.0
    cube = Size(1.0, ((0.0, 0.0, 0.1), (0.0, 0.0, 0.0)), CENTER, HALF)
    np.testing.assert_allclose(cube.at(points), np.exp(0.1 * at**3))


def test_factors_are_found_in_noise():
    """Heights that are wrong by up to a factor of three, noise of half the values at each point."""
    points, right = values(2000)
    at = (points[:, 0] - 6.0) / 4.0
    wrong = right * np.exp(-0.5 - 0.5 * at**3)
    noise = 0.5 * GROWN.at(points) * np.random.default_rng(2).normal(size=len(points))
    found = fit_factor(points, wrong, right - wrong + noise, GROWN)
    known = right / wrong
    np.testing.assert_allclose(found.size.at(points), known, rtol=0.25)
    assert np.sqrt(np.mean((found.size.at(points) / known - 1) ** 2)) < 0.06
    beside = lambda v: np.sqrt(np.mean((v / GROWN.at(points)) ** 2))
    assert found.sure > 10
    assert found.share == pytest.approx(beside(right - wrong) / beside(wrong), rel=0.1)
    none = fit_factor(points, right, noise, GROWN)
    assert none.sure < 3 and none.share < 0.1


def test_a_network_of_that_size_knows_its_derivatives():
    """Along parameters too; and when it is multiplied by a function of them."""
    lower, upper = [2.0, -2.0, 0.0], [10.0, 2.0, 1.0]
    plain = MLP(lower, upper, (5, 4), key=jr.key(0))
    grown = MLP(lower, upper, (5, 4), output_scale=GROWN, key=jr.key(0))
    z, weights = jnp.array([7.0, 0.3, 0.4]), jnp.array([0.5, 2.0])
    directions = jnp.array([[0.0, 0.3, 1.0], [1.0, -0.2, 0.5]])
    assert float(grown(z)) == pytest.approx(float(GROWN(z) * plain(z)), rel=1e-12)
    found = grown.taylor(z, directions, weights)
    brute = taylor(lambda at: GROWN(at) * plain(at), z, directions, weights)
    for mine, known in zip(found, brute, strict=True):
        np.testing.assert_allclose(mine, known, rtol=1e-10)
    twice = plain.scaled(GROWN)
    assert float(twice(z)) == pytest.approx(float(grown(z)), rel=1e-12)
    assert plain.output_scale.growth == ()  # a network of its own
