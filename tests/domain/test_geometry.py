"""Signed distance, normals, projection and names of every shape."""

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn.domain import Ball, Box, HalfSpace, Polygon

every_shape = pytest.mark.parametrize("shape", helpers.shapes, ids=lambda s: s.name)
every_primitive = pytest.mark.parametrize("shape", helpers.primitives, ids=lambda s: s.name)


def surface_points(domain, n=40_000):
    return np.asarray(helpers.on_boundary(domain, n, seed=3).points)


def nearest(points, cloud):
    from scipy.spatial import cKDTree

    return cKDTree(cloud).query(np.asarray(points))[0]


@every_shape
def test_volume_and_areas(shape):
    tolerance = 1e-12 if shape.exact else 1e-3
    assert shape.domain.volume() == pytest.approx(shape.volume, rel=tolerance)
    areas = shape.domain.areas()
    assert set(areas) == set(shape.areas) == set(shape.domain.parts)
    for part, area in shape.areas.items():
        assert areas[part] == pytest.approx(area, rel=tolerance)


@every_shape
def test_distance_is_never_an_overestimate_and_right_in_sign(shape):
    domain = shape.domain
    x = helpers.around(domain, 400)
    distance = helpers.at(domain.signed_distance, x)
    cloud = surface_points(domain)
    truth = nearest(x, cloud)
    # a cloud point can only be farther than the nearest boundary point
    assert np.all(np.abs(distance) <= truth + 1e-9)
    assert np.array_equal(np.asarray(helpers.at(domain.contains, x)), np.asarray(distance) < 0)
    step = 1e-4 * domain.diameter()
    on = helpers.on_boundary(domain, 300)
    outward = helpers.at(domain.signed_distance, on.points + step * on.normals)
    inward = helpers.at(domain.signed_distance, on.points - step * on.normals)
    assert np.mean(np.asarray(outward) > 0) > 0.98  # all but those next to corners
    assert np.mean(np.asarray(inward) < 0) > 0.98


@every_primitive
def test_distance_of_primitives_is_exact(shape):
    """It is the distance to a boundary point, and (above) never more than the least one."""
    x = helpers.around(shape.domain, 500)
    foot = helpers.at(shape.domain.project, x)
    distance = helpers.at(shape.domain.signed_distance, x)
    np.testing.assert_allclose(
        np.linalg.norm(x - foot, axis=1), np.abs(distance), atol=1e-12, rtol=1e-12
    )


@every_shape
def test_projection_lands_on_the_boundary(shape):
    domain = shape.domain
    x = helpers.around(domain, 500)
    foot = helpers.at(domain.project, x)
    assert np.max(np.abs(helpers.at(domain.signed_distance, foot))) < 1e-9 * domain.diameter()
    # no farther than the nearest true boundary point, up to the spacing of the cloud
    truth = nearest(x, surface_points(domain))
    if domain.dim <= 2:
        assert np.all(np.linalg.norm(x - foot, axis=1) <= truth + 0.02 * domain.diameter())


@every_shape
def test_normal_is_the_gradient_of_the_distance(shape):
    domain = shape.domain
    x = helpers.around(domain, 300, seed=5)
    normal = helpers.at(domain.normal, x)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-12)
    gradient = helpers.at(jax.grad(domain.signed_distance), x)
    np.testing.assert_allclose(normal, gradient, atol=1e-9)
    on = helpers.on_boundary(domain, 300)
    agree = np.sum(
        np.asarray(helpers.at(domain.normal, on.points)) * np.asarray(on.normals), axis=1
    )
    assert np.mean(agree > 1 - 1e-9) > 0.99


@every_shape
def test_parts_of_boundary_points(shape):
    domain = shape.domain
    on = helpers.on_boundary(domain, 500)
    found = helpers.at(domain.part_at, on.points)
    assert np.mean(np.asarray(found) == np.asarray(on.parts)) > 0.99
    distances = helpers.at(domain.part_distance, on.points)
    assert distances.shape == (500, len(domain.parts))
    assert (
        np.max(np.take_along_axis(np.asarray(distances), np.asarray(on.parts)[:, None], 1)) < 1e-9
    )


@every_shape
def test_part_distance_is_never_an_overestimate(shape):
    domain = shape.domain
    x = helpers.around(domain, 200)
    on = helpers.on_boundary(domain, 20_000)
    distances = np.asarray(helpers.at(domain.part_distance, x))
    for index in range(len(domain.parts)):
        cloud = np.asarray(on.points)[np.asarray(on.parts) == index]
        assert np.all(distances[:, index] <= nearest(x, cloud) + 1e-9)


@every_shape
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_is_that_of_the_point(shape, dtype):
    domain = shape.domain
    x = jnp.asarray(helpers.inside(domain, 4), dtype)
    single = jax.jit(jax.vmap(lambda p: (
        domain.signed_distance(p), domain.normal(p), domain.project(p), domain.part_distance(p)
    )))  # fmt: skip
    for array in single(x):
        assert array.dtype == jnp.dtype(dtype)
        assert np.all(np.isfinite(array))
    u = jnp.full(domain.n_interior_coords, 0.3, dtype)
    assert domain.interior_map(u).point.dtype == jnp.dtype(dtype)
    v = jnp.full(domain.n_boundary_coords, 0.3, dtype)
    assert domain.boundary_map(v).normal.dtype == jnp.dtype(dtype)


@every_shape
def test_bounding_box_and_ball_contain_the_set(shape):
    domain = shape.domain
    x = np.asarray(helpers.inside(domain, 2000))
    lower, upper = domain.bounding_box()
    assert np.all(x >= lower - 1e-12) and np.all(x <= upper + 1e-12)
    center, radius = domain.enclosing_ball()
    assert np.all(np.linalg.norm(x - center, axis=1) <= radius + 1e-12)
    assert domain.is_bounded()


def test_names_survive_set_operations_and_equal_names_merge():
    a, b = Box([0, 0], [1, 1], name="wall"), Ball([0.5, 0.5], 0.1, name="hole")
    assert (a - b).parts == ("wall", "hole")
    assert (a | Ball([1, 1], 0.2, name="wall")).parts == ("wall",)
    assert ((a - b) & HalfSpace([1, 0], [0.9, 0], name="cut")).parts == ("wall", "hole", "cut")


def test_orientation_does_not_move_edge_names():
    corners = [(0, 0), (2, 0), (2, 1), (0, 1)]
    names = ("bottom", "right", "top", "left")
    one = Polygon(corners, name=names)
    flipped = Polygon(corners[::-1], name=("top", "right", "bottom", "left"))
    for x, part in (
        ((1, 0.1), "bottom"),
        ((1.9, 0.5), "right"),
        ((1, 0.9), "top"),
        ((0.1, 0.5), "left"),
    ):
        for domain in (one, flipped):
            assert domain.parts[int(domain.part_at(jnp.asarray(x, float)))] == part


def test_straight_angles_are_fine():
    domain = Polygon([(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)])
    assert domain.volume() == pytest.approx(2.0)
    assert np.all(helpers.at(domain.contains, helpers.inside(domain, 200)))


def test_unbounded_sets_are_told_apart():
    half = HalfSpace([1, 0], [0, 0])
    assert not half.is_bounded() and half.volume() == np.inf and half.areas()["outer"] == np.inf
    assert not (half | Ball([0, 0], 1)).is_bounded()
    assert (half & Ball([0, 0], 1)).is_bounded()
    assert HalfSpace([1.0], [0.0]).areas() == {"outer": 1.0}


def test_domains_are_hashable_and_static_under_jit():
    domain = helpers.combinations[0].domain
    assert hash(domain) == hash(helpers.combinations[0].domain)
    distance = jax.jit(lambda d, x: d.signed_distance(x))
    assert distance(domain, jnp.zeros(2)).shape == ()
