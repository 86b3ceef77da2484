"""The factor of every shape: zero on named parts, positive inside, smooth, about the distance."""

import functools
from typing import NamedTuple

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn.domain import AbstractDomain, Ball, Box, Interval, Polygon, RegularPolygon

N_POINTS = 400
STAR = [(-1, -1), (1, -1), (0.6, 0), (1, 1), (0, 0.4), (-1, 1)]
FLAT = [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)]  # with a straight angle
SQUARES = Box([0, 0], [2, 2]) | Box([1, 1], [3, 3])  # each hides a corner in the other
FACES = ("left", "right", "bottom", "top")


class Case(NamedTuple):
    """A domain and the parts where its factor is zero; all if none are given."""

    name: str
    domain: AbstractDomain
    parts: tuple[str, ...] = ()


cases = [
    *(Case(s.name, s.domain) for s in helpers.shapes),
    Case("one-end", Interval(-1.0, 2.0, name=("left", "right")), ("left",)),
    Case("three-faces", helpers.shape("box-faces").domain, ("a", "d")),
    Case("box-50d", Box([0] * 50, [1] * 50)),
    Case("committor", helpers.shape("box-minus-disks").domain, ("A", "B")),
    Case("reflex-edges", helpers.shape("l-shape").domain, ("inner",)),
    Case("one-reflex-edge", Polygon(helpers.L_SHAPE, name=[*"abcdef"]), ("c",)),
    Case("straight-angle", Polygon(FLAT, name=[*"abcde"]), ("a",)),
    Case("hexagon-edges", RegularPolygon(6, 2.0, name=[*"aabbcc"]), ("a", "c")),
    Case("star", Polygon(STAR)),
    Case("round", RegularPolygon(40, 1.0)),
    Case("star-hole", Ball([0, 0], 2.0) - Polygon(STAR, name="hole")),
    Case("edge-of-hole", Ball([0, 0], 2.0) - Polygon(STAR, name=[*"abcdef"]), ("outer", "c", "f")),
    Case("box-hole", Box([0, 0], [3, 3]) - Box([1, 1], [2, 2], name="hole")),
    Case("squares", SQUARES),
    Case("union-hole", Ball([1.5, 1.5], 4.0, name="far") - SQUARES),
]
every_case = pytest.mark.parametrize(
    "name", [pytest.param(c.name, marks=helpers.marks(c.name)) for c in cases]
)


def find(name) -> Case:
    case = next(c for c in cases if c.name == name)
    return case._replace(parts=case.parts or case.domain.parts)


@functools.cache
def compiled(name):
    """Value, gradient and Hessian of the factor at many points."""
    _, domain, parts = find(name)

    def slope(x):
        push = lambda c: jax.jvp(lambda y: domain.factor(y, parts), (x,), (c,))
        value, along = jax.vmap(push, out_axes=(None, 0))(jnp.eye(len(x)))
        return along, (value, along)

    return jax.jit(jax.vmap(jax.jacfwd(slope, has_aux=True)))


def evaluate(name, points):
    """The same for any number of points up to `3 * N_POINTS`, without compiling again."""
    filled = np.resize(points, (3 * N_POINTS, np.shape(points)[1]))
    bend, (value, slope) = compiled(name)(jnp.asarray(filled, float))
    return (np.asarray(a)[: len(points)] for a in (value, slope, bend))


class Draw(NamedTuple):
    """Points inside, points of the boundary, and these moved a little way in."""

    inside: np.ndarray
    on: np.ndarray
    normal: np.ndarray
    part: np.ndarray
    inner: np.ndarray
    distances: np.ndarray  # from `inner` to each part


@functools.cache
def draw(name) -> Draw:
    domain = find(name).domain
    step = 2e-3 * domain.diameter() / domain.dim

    @jax.jit
    @jax.vmap
    def one(u, v):
        (x, keep), on = domain.interior_map(u), domain.boundary_map(v)
        inner = on.point - step * on.normal
        return (x, keep), (*on[:3], inner, domain.part_distance(inner), on.keep)

    u = jr.uniform(jr.key(0), (N_POINTS, domain.n_interior_coords))
    v = jr.uniform(jr.key(1), (N_POINTS, domain.n_boundary_coords))
    (x, keep), (*on, kept) = jax.tree.map(np.asarray, one(u, v))
    return Draw(x[keep], *(a[kept] for a in on))


class Look(NamedTuple):
    """The factor at those points."""

    inside: np.ndarray
    on: np.ndarray
    slope: np.ndarray  # along the inward normal
    inner: np.ndarray
    distance: np.ndarray  # from `inner` to the nearest named part
    is_named: np.ndarray
    bend: np.ndarray  # second derivatives inside


@functools.cache
def look(name) -> Look:
    (_, domain, parts), at = find(name), draw(name)
    ends = np.cumsum([len(at.inside), len(at.on)])
    value, slope, bend = evaluate(name, np.concatenate([at.inside, at.on, at.inner]))
    inside, on, inner = np.split(value, ends)
    into = -np.sum(np.split(slope, ends)[1] * at.normal, axis=1)
    named = np.array([part in parts for part in domain.parts])
    distance = np.min(at.distances[:, named], axis=1)
    return Look(inside, on, into, inner, distance, named[at.part], bend[: ends[0]])


@every_case
def test_zero_on_the_named_parts_with_slope_one(name):
    at = look(name)
    assert np.any(at.is_named)
    assert np.max(np.abs(at.on[at.is_named])) < 1e-13 * find(name).domain.diameter()
    np.testing.assert_allclose(at.slope[at.is_named], 1.0, atol=1e-6)


@every_case
def test_positive_elsewhere(name):
    at, domain = look(name), find(name).domain
    assert np.all(at.inside > 0)
    assert np.all(at.on[~at.is_named] > 1e-5 * domain.diameter() / domain.dim)


@every_case
def test_about_the_distance_near_the_wall(name):
    at = look(name)
    ratio = (at.inner / at.distance)[at.is_named]
    assert np.mean((ratio > 0.2) & (ratio < 5.0)) > 0.95  # all but those next to corners


@every_case
def test_second_derivatives_are_finite(name):
    assert np.all(np.isfinite(look(name).bend))


@pytest.mark.parametrize(
    ("name", "point", "direction"),
    [  # where two pieces are equally near, or one is hidden by another; and across
        ("square", (0.5, 1.0), (1, 0)),
        ("square", (0.2, 0.2), (1, -1)),
        ("square", (0.5, 0.5), (0, 1)),
        ("hexagon", (0, 0), (1, 0)),
        ("squares", (1, 1), (1, 0)),  # a hidden corner
        ("squares", (2, 1.5), (1, 0)),  # a hidden wall
        ("squares", (1.5, 1.5), (1, -1)),
        ("union", (0.75, 0.75), (1, -1)),
        ("box-hole", (2, 2.5), (1, 0)),  # beyond the wall of a hole
        ("l-shape", (0.5, 1), (0, 1)),  # beyond an edge
        ("l-shape", (0.5, 0.5), (1, -1)),
        ("one-reflex-edge", (0.5, 1), (0, 1)),
    ],
)
def test_no_kink_inside(name, point, direction):
    steps = np.array([[-1e-7], [0.0], [1e-7]]) * np.array(direction)
    _, _, bend = evaluate(name, np.array(point) + steps)
    assert np.max(np.abs(bend)) < 50.0
    np.testing.assert_allclose(bend[0], bend[2], atol=1e-4)
    np.testing.assert_allclose(bend[0], bend[1], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("square", [(0, 0), (1, 2)]),
        ("hexagon", [(2, 0), (-2, 0)]),
        ("l-shape", [(0, 0), (1, 1), (2, 1)]),
        ("one-reflex-edge", [(1, 1), (2, 1)]),
        ("cut-disk", [(0.5, 0.75**0.5)]),
        ("union", [(0, 0), (1, 0.5)]),
        ("notched-square", [(0.5, 0.5), (1, 0.5)]),
    ],
)
def test_finite_at_corners(name, corners):
    """The value is zero there; derivatives have no limit, but must not be NaN."""
    value, slope, bend = evaluate(name, np.array(corners, float))
    np.testing.assert_allclose(value, 0.0, atol=1e-15)
    assert np.all(np.isfinite(slope)) and np.all(np.isfinite(bend))


def test_large_dimensions_do_not_underflow():
    domain, at = find("box-50d").domain, draw("box-50d")
    distance = np.min(at.distances, axis=1)
    factor = lambda x: domain.factor(x, domain.parts)
    value = np.asarray(helpers.at(factor, jnp.asarray(at.inner)))
    assert np.all((value > 0.1 * distance) & (value <= distance))
    center = jnp.full((1, 50), 0.5, jnp.float32)
    assert float(helpers.at(factor, center)[0]) == pytest.approx(0.5 / 100)


@pytest.mark.parametrize("name", ["ball-6d", "hexagon", "l-shape", "union"])
def test_precision_is_that_of_the_point(name):
    _, domain, parts = find(name)
    points = jnp.asarray(draw(name).inside, jnp.float32)
    single = helpers.at(lambda x: domain.factor(x, parts), points)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, look(name).inside, atol=1e-6 * domain.diameter())


@pytest.mark.parametrize(
    ("domain", "parts", "message"),
    [
        (SQUARES, ("hole",), r"`parts` must name boundary parts.*\('outer',\); got \('hole',\)"),
        (SQUARES, (), r"`parts` must name boundary parts.*got \(\)"),
        (find("union").domain, ("c",), r"`parts` names \('c',\) but not \('outer',\)"),
        (
            Ball([0, 0], 3.0) - Box([0, 0], [1, 1], name=FACES),
            ("outer", "left"),
            r"names \('left',\) but not \('right', 'bottom', 'top'\).*boundary term",
        ),
        (find("pierced-polygon").domain, ("hole",), r"but not \('outer',\)"),
    ],
)
def test_refused(domain, parts, message):
    with pytest.raises(ValueError, match=message):
        domain.factor(jnp.zeros(2), parts)
