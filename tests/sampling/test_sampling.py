"""Points are uniform, inside, on the right part, and the same under jit."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from run_folders import SMALL
from scipy import stats

import fkpinn as fk
from fkpinn._solve import settings_for
from fkpinn.domain import Ball, Box
from fkpinn.problem import InBox, Layout, Problem, Radial, Region, Uniform, catalogue
from fkpinn.sampling import (
    sample_boundary,
    sample_interior,
    sample_terminal,
    sobol_boundary,
    sobol_interior,
)

every_shape = helpers.every_shape
_LEVEL = 1e-4  # of each test: about sixty tests, so one false alarm in 150 changes of key


def grid_cells(points, lower, upper, splits):
    cell = np.floor((points - lower) / (upper - lower) * splits).astype(int)
    return np.ravel_multi_index(tuple(np.clip(cell, 0, splits - 1).T), (splits,) * points.shape[1])


def two_sample_p(counts, expected_counts):
    """Chi-square test that two samples of cell counts come from one distribution."""
    table = np.stack([counts, expected_counts])
    table = table[:, table.sum(axis=0) > 20]
    return stats.chi2_contingency(table).pvalue


@every_shape
def test_interior_is_uniform(shape):
    """Against plain rejection from the bounding box (or the radius law, in six dimensions)."""
    domain, n = shape.domain, 40_000
    x = np.asarray(helpers.inside(domain, n, seed=1))
    assert np.all(helpers.distances(domain, x) < 0)
    lower, upper = domain.bounding_box()
    rng = np.random.default_rng(0)
    box = rng.uniform(lower, upper, (6 * n, domain.dim))
    box = box[helpers.distances(domain, box) < 0]
    splits = {1: 40, 2: 8, 3: 4}.get(domain.dim, 2)
    cells = [grid_cells(p, lower, upper, splits) for p in (x, box)]
    counts = [np.bincount(c, minlength=splits**domain.dim) for c in cells]
    assert two_sample_p(*counts) > _LEVEL


@pytest.mark.parametrize(
    "dim", [2, pytest.param(3, marks=pytest.mark.slow), 6, pytest.param(10, marks=pytest.mark.slow)]
)
def test_ball_radius_and_direction(dim):
    x = np.asarray(helpers.inside(Ball([0.0] * dim, 2.0)))
    radius = np.linalg.norm(x, axis=1)
    assert stats.kstest((radius / 2.0) ** dim, "uniform").pvalue > _LEVEL
    cosine_square = (x[:, 0] / radius) ** 2  # Beta(1/2, (d-1)/2) for a uniform direction
    assert stats.kstest(cosine_square, stats.beta(0.5, 0.5 * (dim - 1)).cdf).pvalue > _LEVEL


@every_shape
def test_boundary_is_uniform(shape):
    """Share of each part by area; along each part, by cells against thin-shell counts."""
    domain, n = shape.domain, 30_000
    on = helpers.on_boundary(domain, n, seed=2)
    points, parts = np.asarray(on.points), np.asarray(on.parts)
    assert np.max(np.abs(helpers.distances(domain, points))) < 1e-9
    np.testing.assert_allclose(np.linalg.norm(on.normals, axis=1), 1.0, atol=1e-12)
    areas = np.array([shape.areas[name] for name in domain.parts])
    counts = np.bincount(parts, minlength=len(areas))
    if len(areas) > 1:
        assert stats.chisquare(counts, n * areas / areas.sum()).pvalue > _LEVEL
    if domain.dim == 2:  # an independent way to weigh the boundary: the area of a thin shell
        shell = 2e-3 * domain.diameter()
        lower, upper = domain.bounding_box()
        # one point in each cell of a fine grid: half the noise of as many random points, or less
        grid = np.stack(np.meshgrid(*[np.arange(1000)] * 2), axis=-1).reshape(-1, 2)
        u = (grid + np.random.default_rng(1).uniform(size=grid.shape)) / 1000
        cloud = lower + u * (upper - lower)
        distance = helpers.distances(domain, cloud)
        near = cloud[(distance < 0) & (distance > -shell)]
        cells = [grid_cells(p, lower, upper, 5) for p in (points, near)]
        counts = [np.bincount(c, minlength=25) for c in cells]
        keep = counts[1] > 50
        share = counts[0][keep] / counts[0].sum(), counts[1][keep] / counts[1].sum()
        spread = np.sqrt(share[0] / n + 0.5 * share[1] / counts[1].sum())
        corner = 0.01  # a shell of this width cuts corners: each cell has at most a few
        assert np.all(np.abs(share[0] - share[1]) < 4.5 * spread + corner)


@pytest.mark.parametrize(
    ("domain", "law"),
    [
        (Ball([0.0, 0.0], 1.0), lambda p: np.arctan2(p[:, 1], p[:, 0]) / (2 * np.pi) + 0.5),
        (Ball([0.0, 0.0, 0.0], 1.0), lambda p: 0.5 * (p[:, 2] + 1.0)),  # Archimedes
    ],
    ids=["circle", "sphere"],
)
def test_sphere_law(domain, law):
    points = np.asarray(helpers.on_boundary(domain).points)
    assert stats.kstest(law(points), "uniform").pvalue > _LEVEL


def test_box_faces_are_uniform_inside_each_face():
    on = helpers.on_boundary(Box([0, 0, 0], [1, 2, 3]))
    points, normals = np.asarray(on.points), np.asarray(on.normals)
    top = points[normals[:, 2] == 1.0]
    assert stats.kstest(top[:, 0], "uniform").pvalue > _LEVEL
    assert stats.kstest(top[:, 1] / 2, "uniform").pvalue > _LEVEL


@every_shape
def test_sobol_points_are_inside_and_more_even(shape):
    domain = shape.domain
    x = sobol_interior(domain, 4096, seed=3)
    assert x.shape == (4096, domain.dim)
    assert np.all(helpers.distances(domain, x) < 0)
    on = sobol_boundary(domain, 512, seed=3)
    assert np.max(np.abs(helpers.distances(domain, on.points))) < 1e-9
    big = np.asarray(helpers.inside(domain, seed=9))
    center = big.mean(axis=0)
    spread = big.std(axis=0) / np.sqrt(4096)
    # the mean of even points is closer to the true mean than a random one would be
    assert np.all(
        np.abs(np.asarray(x).mean(axis=0) - center)
        < spread * 1.0 + 4 * big.std(axis=0) / np.sqrt(40_000)
    )


def test_one_part_only():
    domain = helpers.combinations[0].domain
    on = sample_boundary(domain, 200, part="B", key=jr.key(0))
    assert set(np.asarray(on.parts).tolist()) == {domain.parts.index("B")}


DIM = 10
IN_BOX = Box([-1] * DIM, [1] * DIM) - Box([-0.05] * DIM, [0.05] * DIM, name="hole")


def test_a_tiny_part_is_drawn_from_its_own_surface():
    """Uniform on each face, and all faces alike; by rejection none in 1e11 would be found."""
    on = sample_boundary(IN_BOX, 2000, part="hole", key=jr.key(0))
    points, normals = np.asarray(on.points), np.asarray(on.normals)
    assert np.all(np.asarray(on.parts) == 1)
    np.testing.assert_allclose(np.max(np.abs(points), axis=1), 0.05, rtol=1e-12)
    axis = np.argmax(np.abs(normals), axis=1)
    high = points[np.arange(len(points)), axis] > 0
    np.testing.assert_array_equal(np.sum(normals, axis=1), np.where(high, -1.0, 1.0))  # inwards
    faces = np.bincount(2 * axis + high, minlength=2 * DIM)
    assert stats.chisquare(faces).pvalue > _LEVEL
    along = points[axis != 0, 0] / 0.1 + 0.5
    assert stats.kstest(along, "uniform").pvalue > _LEVEL
    sobol = sobol_boundary(IN_BOX, 64, part="hole")
    assert np.all(np.asarray(sobol.parts) == 1)


def test_holes_are_declared_whatever_their_size():
    """Data on the hole are tried, and a hole smaller than the tolerances is no wall."""
    bad = lambda x: jnp.where(jnp.max(jnp.abs(x)) < 0.1, jnp.nan, 0.0)
    with pytest.raises(ValueError, match=r"`boundary\['hole'\]: Dirichlet\(value=...\)` must be"):
        Problem(IN_BOX, boundary={"outer": 0.0, "hole": bad})
    speck = Box([-1, -1], [1, 1]) - Ball([0.3, 0.2], 1e-4, name="hole")
    assert Problem(speck, boundary={"outer": 0.0, "hole": 1.0}).domain.parts == ("outer", "hole")


def test_fair_points_see_every_surface():
    """A tiny hole gets half an equal share; comparable surfaces keep the points they had."""
    n = 2000
    on = sample_boundary(IN_BOX, n, fair=True, key=jr.key(1))
    holes = np.count_nonzero(np.asarray(on.parts) == 1)
    assert abs(holes - n / 4) < 4 * np.sqrt(n * 3 / 16)
    same_name = Box([-1] * DIM, [1] * DIM) - Box([-0.05] * DIM, [0.05] * DIM)
    assert same_name.fair_mixture() == IN_BOX.fair_mixture()  # by surface, not by name
    plate = helpers.combinations[0].domain
    assert plate.fair_mixture() == ((None, 1.0),)
    plain, fair = (sample_boundary(plate, 100, fair=f, key=jr.key(2)) for f in (False, True))
    np.testing.assert_array_equal(plain.points, fair.points)


def test_sampling_traces_under_jit_and_does_not_depend_on_it():
    domain = helpers.combinations[0].domain
    plain = sample_interior(domain, 300, key=jr.key(4))
    compiled = jax.jit(lambda key: sample_interior(domain, 300, key=key))(jr.key(4))
    np.testing.assert_allclose(plain, compiled, rtol=1e-14)
    assert sample_interior(domain, 3, dtype=jnp.float32, key=jr.key(0)).dtype == jnp.float32


def test_parabolic_points_have_time_first():
    problem = catalogue("ornstein-uhlenbeck").problem
    x = sample_interior(problem, 2000, key=jr.key(0))
    assert x.shape == (2000, 3)
    assert stats.kstest(np.asarray(x[:, 0]), "uniform").pvalue > _LEVEL
    on = sample_boundary(problem, 50, key=jr.key(0))
    assert on.points.shape == (50, 3) and on.normals.shape == (50, 2)
    last = sample_terminal(problem, 50, key=jr.key(0))
    assert np.all(np.asarray(last[:, 0]) == problem.horizon)
    assert sobol_interior(problem, 16).shape == (16, 3)
    assert sobol_boundary(problem, 16).points.shape == (16, 3)


def test_no_point_lies_on_the_boundary():
    """In single precision one random number in 2^23 is zero, and radii next to one become one."""
    cube, last = Box([0.0] * 3, [1.0] * 3), np.float32(1 - 2**-24)
    for shape, u in ((cube, [0.5, 0.0, 0.5]), (Ball([0.0] * 3, 1.0), [last, 0.5, 0.5, 0.5])):
        row = jnp.asarray(u, jnp.float32)[: shape.n_interior_coords]
        x, keep = Uniform().draw(Region(shape, Layout(3)), row)
        assert not keep or shape.contains(x)
        assert shape.interior_map(row).keep  # which knows nothing of rounding
        assert Uniform().draw(Region(shape, Layout(3)), 0.5 * jnp.ones_like(row)).keep
    assert not Uniform().draw(Region(cube, Layout(3)), jnp.zeros(3, jnp.float32)).keep


def test_refusals():
    disk = Ball([0.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="`n` must be at least 1; got 0"):
        sample_interior(disk, 0, key=jr.key(0))
    with pytest.raises(ValueError, match="`n` must be at least 1; got 0"):
        sample_boundary(disk, 0, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`part` must be one of \('outer',\); got 'inner'"):
        sample_boundary(disk, 5, part="inner", key=jr.key(0))
    with pytest.raises(ValueError, match="`fair` is for the whole boundary; got `part` 'outer'"):
        sample_boundary(disk, 5, part="outer", fair=True, key=jr.key(0))
    with pytest.raises(ValueError, match="elliptic and has no final time"):
        sample_terminal(catalogue("exit-ball-3d").problem, 5, key=jr.key(0))
    nothing = disk - Ball([0.0, 0.0], 2.0)
    with pytest.raises(RuntimeError, match="Fewer points than asked for were found"):
        sample_interior(nothing, 5, key=jr.key(0))
    with pytest.raises(ValueError, match="Only 0 of 5 Sobol points"):
        sobol_interior(nothing, 5)


def solved(domain, measure, few=SMALL, **how):
    """A very short run, and the means of its answer on the hole and on the outer wall."""
    problem = Problem(domain, boundary={"outer": 0.0, "hole": 1.0}, measure=measure)
    found = fk.solve(problem, settings=few.changed({"training.steps": 80}), **how)
    mean = lambda part: float(
        jnp.mean(found(sample_boundary(problem, 50, part=part, key=jr.key(1)).points))
    )
    return found, mean("hole"), mean("outer")


@pytest.mark.slow
def test_a_problem_with_a_small_hole_is_solved():
    """The hole is 1e-4 of the surface, and its data have an effect."""
    domain = Box([-1] * 4, [1] * 4) - Box([-0.05] * 4, [0.05] * 4, name="hole")
    few = SMALL.changed({"points.n_boundary": 40})
    _, hole, outer = solved(domain, InBox([-0.2] * 4, [0.2] * 4), few)
    assert hole > 0.5 > outer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "measure"),
    [
        (IN_BOX, InBox([-0.07] * DIM, [0.07] * DIM)),
        (Ball([0] * 30, 1.0) - Ball([0] * 30, 0.1, name="hole"), Radial([0] * 30, 0.12)),
    ],
    ids=["box-10d", "ball-30d"],
)
def test_holes_in_many_dimensions_are_solved(domain, measure, tmp_path):
    """All stages run, certificate included, and the hole's data have an effect."""
    few = settings_for("quick", Problem(domain)).changed(
        {
            "network.widths": (16, 16), "points.n_collocation": 300, "points.n_test": 200,
            "labels.n_paths": 16, "certificate.seconds": 5.0, "certificate.rounds": 0,
            "network.hard": False,
        }
    )  # fmt: skip
    found, hole, outer = solved(domain, measure, few, certify=True, out=tmp_path / "run")
    assert (tmp_path / "run" / "result.json").exists()
    assert found.certificate is not None, found.stopped
    assert hole > outer + 0.1
