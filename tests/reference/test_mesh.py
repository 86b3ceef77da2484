import helpers
import numpy as np
import pytest

from fkpinn.domain import Ball, Box, HalfSpace, Interval, Polygon
from fkpinn.reference import _triangulate
from fkpinn.reference._base import evaluate
from fkpinn.reference._cells import edges_of, refine
from fkpinn.reference._mesh import make_mesh
from fkpinn.reference._outline import boundary_pieces
from fkpinn.reference._size import SizeField
from fkpinn.reference._triangulate import min_angle

SHAPES = [s for s in helpers.primitives + helpers.combinations if s.domain.dim == 2] + [
    helpers.Shape(name, domain, volume, {}, True)
    for name, domain, volume in [
        (
            "lens",
            Ball([0, 0], 1.0, name="a") & Ball([1, 0], 1.0, name="b"),
            2 * np.pi / 3 - 0.75**0.5,
        ),
        (
            "three",
            Box([0, 0], [2, 1]) | Box([0.5, 0], [1.2, 2]) | Ball([2, 0.5], 0.4, name="c"),
            2.7 + 0.08 * np.pi,
        ),
        ("far", Box([100, 100], [103, 101]) - Ball([101, 100.5], 0.05, name="h"), 2.99215),
        ("thin", Box([0, 0], [10, 0.1]), 1.0),
        (
            "gaps",
            Box([0, 0], [1, 1])
            - Ball([0.5, 0.21], 0.2, name="h")
            - Ball([0.5, 0.615], 0.2, name="k"),
            1 - 0.08 * np.pi,
        ),
        ("apart", Ball([0, 0], 1.0) | Ball([3, 0], 1.0, name="two"), 2 * np.pi),
        ("flush", Box([0, 0], [2, 2]) - Box([0, 1], [1, 3], name="bite"), 3.0),
    ]
]


def size_of(domain):
    lower, upper = domain.bounding_box()
    return float(np.sqrt(np.prod(upper - lower))) / 8


def areas(mesh):
    u, v = (mesh.vertices[mesh.cells[:, k]] - mesh.vertices[mesh.cells[:, 0]] for k in (1, 2))
    return 0.5 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])


FAST = ("gaps", "thin")


@pytest.mark.parametrize(
    "shape",
    [s if s.name in FAST else pytest.param(s, marks=pytest.mark.broad) for s in SHAPES],
    ids=lambda shape: shape.name,
)
def test_mesh_covers_the_domain(shape):
    domain = shape.domain
    h = size_of(domain)
    mesh = make_mesh(domain, h)
    corners = mesh.vertices[mesh.cells]
    assert np.all(areas(mesh) > 0)
    assert min_angle(corners) > 20
    assert np.max(np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)) < 1.6 * h
    # every edge belongs to two triangles, or to one and to the list of facets
    edges, number = edges_of(mesh.cells)
    single = edges[np.bincount(number.ravel()) == 1]
    assert {tuple(e) for e in single.tolist()} == {tuple(sorted(f)) for f in mesh.facets.tolist()}
    # boundary vertices lie on the boundary, and on the part they are said to
    ends = mesh.vertices[mesh.facets].reshape(-1, 2)
    scale = np.max(np.abs(domain.bounding_box()))
    assert np.max(np.abs(evaluate(domain.signed_distance, ends))) < 1e-7 * scale
    middles = evaluate(domain.part_distance, mesh.facet_middles())
    assert np.max(middles[np.arange(len(middles)), mesh.facet_parts]) < 1e-7 * scale
    # the area tends to the volume as curved edges are cut
    fine = refine(refine(mesh))
    assert np.sum(areas(fine)) == pytest.approx(shape.volume, rel=2e-3)
    lengths = np.linalg.norm(np.diff(fine.vertices[fine.facets], axis=1)[:, 0], axis=1)
    for part, area in shape.areas.items():
        assert np.sum(lengths[fine.facet_parts == domain.parts.index(part)]) == pytest.approx(
            area, rel=3e-3
        ), part


def test_mesh_is_the_same_every_time():
    domain = SHAPES[-1].domain
    one, two = make_mesh(domain, 0.2), make_mesh(domain, 0.2)
    np.testing.assert_array_equal(one.vertices, two.vertices)
    np.testing.assert_array_equal(one.cells, two.cells)


def test_refined_boundary_stays_on_the_circle():
    mesh = refine(refine(make_mesh(Ball([0.3, 0.1], 0.7), 0.4)))
    ends = mesh.vertices[mesh.facets].reshape(-1, 2)
    np.testing.assert_allclose(np.linalg.norm(ends - [0.3, 0.1], axis=1), 0.7, rtol=1e-13)


def test_mesh_is_finer_at_reentrant_and_mixed_corners():
    corner = Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])
    mesh = make_mesh(corner, 0.2)
    near = np.linalg.norm(mesh.vertices[mesh.cells].mean(axis=1) - 1.0, axis=1) < 0.1
    assert np.max(areas(mesh)[near]) < 0.1 * np.median(areas(mesh))
    flat = Polygon([(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)], name=("a", "b", "c", "c", "c"))
    mixed = make_mesh(flat, 0.2, frozenset({"a", "c"}))
    assert len(mixed.cells) > 1.3 * len(make_mesh(flat, 0.2, frozenset({"a", "b", "c"})).cells)


def test_intervals():
    domain = Interval(-1.0, 2.0, name=("l", "r")) - Ball([0.5], 0.25, name="hole")
    mesh = refine(make_mesh(domain, 0.3))
    ends = mesh.vertices[mesh.facets[:, 0], 0]
    np.testing.assert_allclose(np.sort(ends), [-1.0, 0.25, 0.75, 2.0], atol=1e-14)
    names = [mesh.parts[p] for p in mesh.facet_parts[np.argsort(ends)]]
    assert names == ["l", "hole", "hole", "r"]
    lengths = np.diff(mesh.vertices[mesh.cells, 0], axis=1)
    assert np.sum(lengths) == pytest.approx(2.5)
    assert np.max(lengths) <= 0.15 + 1e-12


@pytest.mark.parametrize(
    ("domain", "h", "match"),
    [
        (Box([0, 0], [1, 1]), 0.0, "`h` must be a positive length; got 0.0"),
        (Box([0, 0], [1, 1]), float("nan"), "`h` must be a positive length"),
        (HalfSpace([1, 0], [0, 0]), 0.1, "`domain` must be bounded"),
        (Box([0] * 3, [1] * 3), 0.1, "dimension 1 or 2 to be meshed; got 3"),
        (Interval(0.0, 1.0) - Interval(-1.0, 2.0), 0.1, "no interior that could be found"),
    ],
)
def test_refusals(domain, h, match):
    with pytest.raises(ValueError, match=match):
        make_mesh(domain, h)


def test_empty_set_has_no_boundary():
    with pytest.raises(ValueError, match="no boundary that could be found"):
        boundary_pieces(Ball([0, 0], 1.0) - Ball([0, 0], 2.0))


def test_circles_that_touch_leave_a_cusp():
    touching = Ball([0, 0], 1.0) - Ball([0.5, 0.0], 0.5, name="inner")
    mesh = refine(refine(make_mesh(touching, 0.3)))
    assert np.sum(areas(mesh)) == pytest.approx(0.75 * np.pi, rel=5e-3)


@pytest.mark.parametrize(
    ("setting", "value", "match"),
    [
        ("_RETRIES", 0, "boundary edges are missing"),
        ("_MIN_ANGLE", 61.0, "smallest angle .* degrees"),
    ],
)
def test_a_mesh_that_fails_is_refused(monkeypatch, setting, value, match):
    monkeypatch.setattr(_triangulate, setting, value)
    with pytest.raises(ValueError, match="`domain` could not be meshed.*" + match):
        make_mesh(Box([0, 0], [1, 1]), 0.3)


def test_a_boundary_edge_that_is_missing_is_cut_in_two():
    # too coarse for the slit on purpose: sizes are given, not found
    pieces = boundary_pieces(Box([0, 0], [1, 1]) - Box([0.2, 0.2], [0.8, 0.21], name="slit"))
    marks = [np.array([0.0, 1.0]) for _ in pieces]
    field = SizeField(1.0, np.zeros((0, 2)), np.zeros(0))
    missing = np.zeros(len(pieces), bool)
    missing[2] = True
    finer, smaller = _triangulate._halve(pieces, marks, missing, field)
    np.testing.assert_array_equal(finer[2], [0.0, 0.5, 1.0])
    assert [len(s) for i, s in enumerate(finer) if i != 2] == [2] * (len(pieces) - 1)
    assert smaller(pieces[2].at(np.array([0.5])))[0] == pytest.approx(0.6 * pieces[2].length)
