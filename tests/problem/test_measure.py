"""Where the answer is wanted: points, labels and certificates follow the problem's measure."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._solve import Job, label
from fkpinn.problem import Layout, Region

DISK = fk.Ball([0.0, 0.0], 2.0)


def problem(measure=None, **given):
    return fk.Problem(DISK, diffusion=1.0, source=1.0, measure=measure, check=False, **given)


def drawn(measure, n=4000, **given):
    return np.asarray(fk.sample_interior(problem(measure, **given), n, key=jr.key(0)))


def test_a_normal_law_is_normal_and_cut():
    x = drawn(fk.Normal([0.5, 0.0], 0.4))
    assert np.all(np.linalg.norm(x, axis=1) < 2)
    np.testing.assert_allclose(x.mean(axis=0), [0.5, 0.0], atol=4 * 0.4 / 4000**0.5)
    np.testing.assert_allclose(x.std(axis=0), 0.4, atol=4 * 0.4 / 8000**0.5)
    wide = drawn(fk.Normal([0.0, 0.0], [100.0, 0.1]))
    # nearly uniform along the first axis, given the second
    np.testing.assert_allclose(np.mean(wide[:, 0] ** 2), 4 / 3, rtol=0.1)


def test_a_box_is_uniform_where_it_meets_the_domain():
    x = drawn(fk.InBox([0.0, -0.5], [1.0, 0.5]))
    assert np.all((x >= [0.0, -0.5]) & (x <= [1.0, 0.5]))
    np.testing.assert_allclose(x.mean(axis=0), [0.5, 0.0], atol=4 * 12**-0.5 / 4000**0.5)
    corner = drawn(fk.InBox([1.0, 1.0], [3.0, 3.0]))
    assert np.all(np.linalg.norm(corner, axis=1) < 2)


def test_radii_and_directions_are_uniform():
    x = drawn(fk.Radial([0.2, -0.1], 1.5)) - np.array([0.2, -0.1])
    r = np.linalg.norm(x, axis=1)
    assert np.max(r) < 1.5
    np.testing.assert_allclose(r.mean(), 0.75, atol=4 * 1.5 * 12**-0.5 / 4000**0.5)
    np.testing.assert_allclose(np.mean(r**2), 0.75, rtol=0.06)
    np.testing.assert_allclose((x / r[:, None]).mean(axis=0), 0.0, atol=4 * 2**-0.5 / 4000**0.5)
    cut = drawn(fk.Radial([0.0, 0.0], 3.0))
    assert np.all(np.linalg.norm(cut, axis=1) < 2)


def test_given_points_are_all_there_is():
    points = np.array([[0.1, 0.2], [-0.5, 0.3], [1.0, -1.0]])
    x = drawn(fk.At(points))
    found, counts = np.unique(x, axis=0, return_counts=True)
    np.testing.assert_allclose(found, points[np.argsort(points[:, 0])])
    assert np.all(np.abs(counts - 4000 / 3) < 4 * (4000 * 2 / 9) ** 0.5)


def test_a_sampler_of_ones_own():
    """Radius uniform in (0, 2), direction uniform."""

    def radial(key):
        a, b = jr.uniform(key, (2,))
        return 2 * a * jnp.stack([jnp.cos(2 * jnp.pi * b), jnp.sin(2 * jnp.pi * b)])

    x = drawn(fk.Sampler(radial))
    radius = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(np.quantile(radius, [0.25, 0.5, 0.75]), [0.5, 1.0, 1.5], atol=0.07)
    assert len(np.unique(radius)) == 4000
    even = np.asarray(fk.sobol_interior(problem(fk.Sampler(radial)), 64))
    assert even.shape == (64, 2)


def test_times_are_uniform_unless_a_law_says_otherwise():
    timed = {"horizon": 3.0, "terminal": 0.0}
    for measure in (None, fk.Normal([0, 0], 0.3), fk.At([[0.1, 0.2]]), fk.InBox([0, 0], [1, 1])):
        z = drawn(measure, **timed)
        assert z.shape == (4000, 3)
        np.testing.assert_allclose(z[:, 0].mean(), 1.5, atol=4 * 3 * 12**-0.5 / 4000**0.5)
    at = drawn(fk.At([[2.5, 0.1, 0.2]]), **timed)
    np.testing.assert_allclose(at, np.tile([2.5, 0.1, 0.2], (4000, 1)))


@pytest.mark.slow
def test_labels_and_certificates_are_at_points_of_the_measure():
    here = problem(fk.InBox([0.0, 0.0], [0.5, 0.5]))
    few = {"points.n_collocation": 64, "labels.p_data": 0.5, "labels.n_paths": 4}
    labels = label(Job.of(here, fk.Settings().changed(few), "fk-pinn"))
    assert np.all((np.asarray(labels.points) >= 0) & (np.asarray(labels.points) <= 0.5))
    # the error of zero is the solution itself, (4 - r^2) / 2; its rms over the box
    found = fk.certify(here, lambda x: jnp.sum(0.0 * x), n_points=64, n_paths=4)
    at = np.asarray(found.corrections.points)
    assert np.all((at >= 0) & (at <= 0.5))
    assert found.ci_low <= 1.0 <= found.ci_high
    r2 = np.random.default_rng(0).uniform(0, 0.5, (10_000, 2)) ** 2
    expected = np.sqrt(np.mean((2 - r2.sum(axis=1) / 2) ** 2))
    np.testing.assert_allclose(found.l2_abs, expected, rtol=0.2)


@pytest.mark.parametrize(
    ("measure", "error", "message"),
    [
        (fk.Normal([0.0], 1.0), ValueError, "must have 2 numbers each"),
        (fk.Normal([0.0, 0.0], [1.0, 0.0]), ValueError, "positive `std`"),
        (fk.InBox([0.0, 0.0], [1.0, -1.0]), ValueError, "`lower` below `upper`"),
        (fk.Radial([0.0], 1.0), ValueError, "a center of 2 finite numbers"),
        (fk.Radial([0.0, 0.0], -1.0), ValueError, "a positive radius"),
        (fk.InBox([0.0], [1.0]), ValueError, "must have 2 numbers each"),
        (fk.At([[0.0, 0.0], [3.0, 0.0]]), ValueError, "1 of 2 do not"),
        (fk.At([[0.0]]), ValueError, r"must have shape \(n, 2\)"),
        (fk.Sampler(lambda key: jnp.zeros(3)), ValueError, r"one point of shape \(2,\)"),
    ],
)
def test_refused(measure, error, message):
    with pytest.raises(error, match=message):
        problem(measure)


def test_a_layout_knows_its_slices():
    plain, back, forth = Layout(2), Layout(2, 3.0), Layout(2, 3.0, forward=True)
    x = jnp.asarray([0.5, -1.0])
    assert plain.n_coords == 2 and back.n_coords == 3
    np.testing.assert_array_equal(plain.point(7.0, x), x)
    np.testing.assert_array_equal(back.point(7.0, x), [7.0, 0.5, -1.0])
    z = back.point(1.0, x)
    np.testing.assert_array_equal(back.space(z), x)
    assert float(back.time(z)) == 1.0 and back.end == 3.0 and forth.end == 0.0
    np.testing.assert_array_equal(back.later(z, jnp.asarray(0.25), x), [1.25, 0.5, -1.0])
    np.testing.assert_array_equal(forth.later(z, jnp.asarray(0.25), x), [0.75, 0.5, -1.0])
    assert float(back.time_left(z)) == 2.0 and float(forth.time_left(z)) == 1.0
    np.testing.assert_array_equal(back.direction(x), [0.0, 0.5, -1.0])
    np.testing.assert_array_equal(forth.direction(x, rate=2.0), [-2.0, 0.5, -1.0])
    np.testing.assert_array_equal(forth.at_end(x[None]), [[0.0, 0.5, -1.0]])
    np.testing.assert_array_equal(back.points(np.array([1.0, 2.0]), np.zeros((2, 2)))[:, 0], [1, 2])
    assert [float(a) for a in back.from_cube(jnp.asarray([0.5, 0.1]))[1]] == [0.1]
    np.testing.assert_array_equal(back.bounds(np.zeros(2), np.ones(2)), [[0, 0, 0], [3, 1, 1]])
    assert jax.tree.leaves(Region(DISK, back)) == []


@pytest.mark.broad
def test_a_forward_equation_is_the_backward_one_with_time_turned():
    """Labels of both are the same to the last bit, since paths are."""
    data = {"drift": [0.3, -0.2], "source": lambda t, x: t + x[0], "horizon": 1.0}
    turned = data | {"source": lambda t, x: 1.0 - t + x[0]}
    end = lambda x: x[0] * x[1]
    forth = fk.Problem(DISK, initial=end, boundary=lambda t, x: t, check=False, **data)
    back = fk.Problem(DISK, terminal=end, boundary=lambda t, x: 1.0 - t, check=False, **turned)
    x = jnp.asarray([[0.5, 0.1], [1.5, -0.5]])
    one = fk.estimate_labels(forth, forth.layout.point(jnp.asarray([0.5, 0.75]), x), n_paths=50)
    two = fk.estimate_labels(back, back.layout.point(jnp.asarray([0.5, 0.25]), x), n_paths=50)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-12)
    with pytest.raises(ValueError, match="`terminal` and `initial` exclude each other"):
        fk.Problem(DISK, initial=0.0, terminal=0.0, horizon=1.0)
