"""Signed distance, normals, projection and names of every shape."""

import functools
import math
from typing import NamedTuple

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fkpinn.domain import Ball, Box, HalfSpace, Polygon, RegularPolygon, _csg

every_shape = helpers.every_shape


class Geometry(NamedTuple):
    """All that a domain says of some points."""

    x: np.ndarray
    distance: np.ndarray
    contains: np.ndarray
    normal: np.ndarray
    gradient: np.ndarray
    foot: np.ndarray
    foot_distance: np.ndarray
    parts: np.ndarray
    part: np.ndarray
    level: np.ndarray


@functools.partial(jax.jit, static_argnums=0)
def _geometry(domain, points):
    def one(x):
        foot = domain.project(x)
        return Geometry(
            x, domain.signed_distance(x), domain.contains(x), domain.normal(x),
            jax.grad(domain.signed_distance)(x), foot, domain.signed_distance(foot),
            domain.part_distance(x), domain.part_at(x), domain.level(x),
        )  # fmt: skip

    return jax.vmap(one)(points)


def geometry(domain, points):
    """Of 500 points, in one call that is compiled once for a domain."""
    assert len(points) == 500
    return jax.tree.map(np.asarray, _geometry(domain, jnp.asarray(points)))


@functools.cache
def around(name):
    """Random points in and around a shape."""
    domain = helpers.shape(name).domain
    return geometry(domain, helpers.around(domain, 500))


@functools.cache
def on(name):
    """The first points of `cloud`."""
    return geometry(helpers.shape(name).domain, cloud(name).points[:500])


@functools.cache
def cloud(name):
    """Many boundary points."""
    return jax.tree.map(np.asarray, helpers.on_boundary(helpers.shape(name).domain, seed=3))


def nearest(points, others):
    return np.concatenate([cdist(some, others).min(axis=1) for some in np.split(points, 5)])


@every_shape
def test_volume_and_areas(shape):
    tolerance = 1e-12 if shape.exact else 1e-3
    assert shape.domain.volume() == pytest.approx(shape.volume, rel=tolerance)
    areas = shape.domain.areas()
    assert set(areas) == set(shape.areas) == set(shape.domain.parts)
    for part, area in shape.areas.items():
        assert areas[part] == pytest.approx(area, rel=tolerance)


@every_shape
def test_distance_is_never_an_overestimate(shape):
    at = around(shape.name)
    # a cloud point can only be farther than the nearest boundary point
    assert np.all(np.abs(at.distance) <= nearest(at.x, cloud(shape.name).points) + 1e-9)
    for index in range(len(shape.domain.parts)):
        surface = cloud(shape.name)
        here = surface.points[surface.parts == index]
        assert np.all(at.parts[:, index] <= nearest(at.x, here) + 1e-9)


@every_shape
def test_distance_has_the_right_sign(shape):
    at, surface, domain = around(shape.name), cloud(shape.name), shape.domain
    assert np.array_equal(at.contains, at.distance < 0)
    step = 1e-4 * domain.diameter()
    moves = np.concatenate([sign * step * surface.normals[:250] for sign in (1, -1)])
    outside = geometry(domain, moves + np.tile(surface.points[:250], (2, 1))).distance > 0
    assert np.mean(outside[:250]) > 0.98  # all but those next to corners
    assert np.mean(~outside[250:]) > 0.98


@pytest.mark.parametrize(
    "shape",
    [pytest.param(s, marks=helpers.marks(s.name), id=s.name) for s in helpers.primitives],
)
def test_distance_of_primitives_is_exact(shape):
    """It is the distance to a boundary point, and (above) never more than the least one."""
    at = around(shape.name)
    gap = np.linalg.norm(at.x - at.foot, axis=1)
    np.testing.assert_allclose(gap, np.abs(at.distance), atol=1e-12, rtol=1e-12)


@every_shape
def test_level_is_the_distance_inside_positive_outside_and_nan_for_nan(shape):
    at = around(shape.name)
    inside = at.distance < 0
    np.testing.assert_allclose(at.level[inside], at.distance[inside], rtol=0, atol=1e-12)
    assert np.all(at.level[~inside] >= 0)
    lost = geometry(shape.domain, np.full_like(at.x, np.nan)).level
    assert not np.any(lost < 0)  # a path that got lost is not inside


@every_shape
def test_projection_lands_on_the_boundary(shape):
    at, size = around(shape.name), shape.domain.diameter()
    assert np.max(np.abs(at.foot_distance)) < 1e-9 * size
    if shape.domain.dim <= 2:  # and near: no farther than the nearest of many boundary points
        truth = nearest(at.x, cloud(shape.name).points)
        assert np.all(np.linalg.norm(at.x - at.foot, axis=1) <= truth + 0.02 * size)


@every_shape
def test_normal_is_the_gradient_of_the_distance(shape):
    at, surface = around(shape.name), cloud(shape.name)
    np.testing.assert_allclose(np.linalg.norm(at.normal, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(at.normal, at.gradient, atol=1e-9)
    normal = on(shape.name).normal
    assert np.mean(np.sum(normal * surface.normals[:500], axis=1) > 1 - 1e-9) > 0.99


@every_shape
def test_parts_of_boundary_points(shape):
    surface, at = cloud(shape.name), on(shape.name)
    assert at.parts.shape == (500, len(shape.domain.parts))
    assert np.mean(at.part == surface.parts[:500]) > 0.99
    assert np.max(np.take_along_axis(at.parts, surface.parts[:500, None], 1)) < 1e-9


@every_shape
def test_precision_is_that_of_the_point(shape):
    domain, single = shape.domain, jnp.dtype("float32")

    @jax.jit
    def everything(u, v):
        inside, on = domain.interior_map(u), domain.boundary_map(v)
        x = inside.point
        return (
            x, on.point, on.normal, domain.signed_distance(x), domain.normal(x),
            domain.project(x), domain.part_distance(x),
        )  # fmt: skip

    u = jnp.full(domain.n_interior_coords, 0.3, single)
    for array in everything(u, jnp.full(domain.n_boundary_coords, 0.3, single)):
        assert array.dtype == single
        assert np.all(np.isfinite(array))


@every_shape
def test_bounding_box_and_ball_contain_the_set(shape):
    domain = shape.domain
    x = np.asarray(helpers.inside(domain))
    lower, upper = domain.bounding_box()
    assert np.all(x >= lower - 1e-12) and np.all(x <= upper + 1e-12)
    center, radius = domain.enclosing_ball()
    assert np.all(np.linalg.norm(x - center, axis=1) <= radius + 1e-12)
    assert domain.is_bounded()


def ball_volume(dim, radius=1.0):
    return math.pi ** (dim / 2) / math.gamma(dim / 2 + 1) * radius**dim


def _log_volume(dim):
    return 0.5 * dim * math.log(math.pi) - math.lgamma(dim / 2 + 1)


@pytest.mark.parametrize("dim", [10, 30, 100])
@pytest.mark.parametrize("half", [0.05, 0.5, 0.95])
def test_holes_of_any_size_in_many_dimensions(dim, half):
    """The enclosing ball of such a box reaches far out of the outer box; its faces do not."""
    box = Box([-1] * dim, [1] * dim) - Box([-half] * dim, [half] * dim, name="hole")
    assert box.volume() == pytest.approx(2.0**dim - (2 * half) ** dim, rel=1e-12)
    faces = {"outer": 2 * dim * 2.0 ** (dim - 1), "hole": 2 * dim * (2 * half) ** (dim - 1)}
    assert box.areas() == pytest.approx(faces, rel=1e-12)
    ball = Ball([0] * dim, 1.0) - Ball([0] * dim, half, name="hole")
    assert ball.volume() == pytest.approx(ball_volume(dim) * (1 - half**dim), rel=1e-12)
    spheres = {"outer": dim * ball_volume(dim), "hole": dim * ball_volume(dim, half) / half}
    assert ball.areas() == pytest.approx(spheres, rel=1e-12)
    vast = Ball([0] * 10 * dim, 1.0)  # too small to tell, and no error
    assert vast.volume() == pytest.approx(math.exp(_log_volume(10 * dim)), rel=1e-9)
    assert vast.fair_mixture() == ((None, 1.0),)
    assert box.remains() == ball.remains() == ("all", "all")


def test_what_remains_of_surfaces():
    """Decided from boxes and balls alone, also through several operations."""
    square, disk = Box([0, 0], [4, 4]), Ball([1, 1], 0.5, name="disk")
    assert (square - disk - Ball([3, 3], 0.5)).remains() == ("all", "all", "all")
    assert (square - disk - Ball([3, 4], 0.5)).remains() == ("some", "all", "some")
    assert (square & disk).remains() == ("none", "all")
    assert (disk | square).remains() == ("none", "all")
    assert (disk - square).remains() == ("none", "none")
    assert (square - Box([3, 3], [4, 4])).remains() == ("some", "some")  # they touch
    assert (square - (disk & Box([0, 0], [3, 3]))).remains() == ("all", "all", "none")
    hexagon = RegularPolygon(6, 10.0)
    assert (hexagon - disk).remains() == ("all", "all")
    assert (disk | hexagon).remains() == ("none", "all")


@pytest.mark.broad
def test_measured_areas_are_those_of_each_surface():
    """A hole that cuts the wall: half its sphere is left, of 1e-8 of the area of the box."""
    dim, radius = 8, 0.1
    domain = Box([0] * dim, [1] * dim) - Ball([0] + [0.5] * (dim - 1), radius, name="dent")
    dent = 0.5 * dim * ball_volume(dim, radius) / radius
    wall = 2 * dim - ball_volume(dim - 1, radius)
    assert domain.areas() == pytest.approx({"outer": wall, "dent": dent}, rel=1e-3)
    assert domain.volume() == pytest.approx(1 - 0.5 * ball_volume(dim, radius), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [10, 50])
def test_planes_through_balls_and_across_boxes_are_drawn_directly(dim):
    axis = np.eye(dim)[0]
    cap = Ball([0] * dim, 1.0) & HalfSpace(axis, 0.6 * axis, name="cut")
    assert cap.areas()["cut"] == pytest.approx(ball_volume(dim - 1, 0.8), rel=1e-12)
    slab = Box([0] * dim, [1] * dim) - HalfSpace(axis, 0.25 * axis, name="cut")
    assert slab.areas()["cut"] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.broad
def test_an_imprecise_area_says_so(monkeypatch):
    """Of a plane that touches a box at a corner, next to nothing is left."""
    monkeypatch.setattr(_csg, "_SETS", (8, 9))
    dim = 6
    corner = np.full(dim, 1 - 0.3 / dim)
    domain = Box([0] * dim, [1] * dim) & HalfSpace([1] * dim, corner, name="cut")
    with pytest.warns(UserWarning, match="The area of part 'cut' was estimated by sampling"):
        area = domain.areas()["cut"]
    # the simplex of edges 0.3, over its height
    exact = math.sqrt(dim) * 0.3 ** (dim - 1) / math.factorial(dim - 1)
    assert area == pytest.approx(exact, rel=0.5)


def test_detail_is_that_of_the_smallest_hole():
    assert Ball([0, 0], 1.0).detail() == np.inf
    plate = Box([0, 0], [4, 4]) - Ball([1, 1], 0.5) - Ball([3, 3], 0.1)
    assert plate.detail() == pytest.approx(0.1)
    dim = 30
    assert (Ball([0] * dim, 1.0) - Ball([0] * dim, 0.1)).detail() == pytest.approx(0.1 / 15)


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
    near = jnp.asarray([(1, 0.1), (1.9, 0.5), (1, 0.9), (0.1, 0.5)], float)
    for domain in (one, flipped):
        found = helpers.at(domain.part_at, near)
        assert tuple(domain.parts[int(part)] for part in found) == names


def test_straight_angles_are_fine():
    domain = Polygon([(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)])
    assert domain.volume() == pytest.approx(2.0)
    assert np.all(helpers.distances(domain, helpers.inside(domain)) < 0)


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


def test_a_vertex_between_edges_of_one_line_changes_nothing(getkey):
    """Also for points whose nearest boundary point is that vertex, in both precisions."""
    plain = Polygon([(0, 0), (2, 0), (2, 1), (0, 1)])
    dotted = Polygon([(0, 0), (0.7, 0), (1.1, 0), (2, 0), (2, 1), (1.3, 1), (0, 1)])
    above = [[x, y] for x in (0.7, 1.1, 1.3) for y in (-0.3, 0.1, 0.25, 0.9, 1.2)]
    around = jr.uniform(getkey(), (200, 2), minval=-1.0, maxval=3.0)
    for dtype, near in ((jnp.float64, 1e-12), (jnp.float32, 1e-6)):
        points = jnp.concatenate([jnp.asarray(above), around]).astype(dtype)
        found, expected = (helpers.at(d.signed_distance, points) for d in (dotted, plain))
        np.testing.assert_allclose(found, expected, atol=near)
