"""Mean exit times from boxes: a catalogue problem's solution, and inputs of networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn._solve import settings_for
from fkpinn._solve._network import data_inputs, exit_times
from fkpinn._solve._presets import _has_small_parts
from fkpinn.nn import ExitTime
from fkpinn.problem import Layout, box_exit_time, residual

FINE = {"ratio": 1.2, "shortest": 1e-7, "left": 1e-12}


@pytest.fixture
def x64():
    with precision("float64"):
        yield


def _points(dim, n=40):
    return np.random.default_rng(dim).uniform(-0.95, 0.95, (n, dim))


@pytest.mark.parametrize("how", [{}, FINE], ids=["rough", "fine"])
def test_on_an_interval_it_is_a_parabola(how, x64):
    lower, upper = -1.0, 3.0
    x = np.linspace(-0.9, 2.9, 41)
    found = jax.vmap(lambda y: box_exit_time(y[None], np.array([1.0]), np.array([2.0]), **how))(x)
    true = (x - lower) * (upper - x)
    np.testing.assert_allclose(found, true, rtol=1e-6 if how else 0.1, atol=1e-6 if how else 0.01)


def test_of_a_square_it_is_a_known_series(x64):
    # Timoshenko: 0.5894 is twice the torsion function of the square (-1, 1)^2 at its center
    center = lambda **how: float(box_exit_time(jnp.zeros(2), np.zeros(2), np.ones(2), **how))
    series = 1.0 - sum(
        (-1) ** k * 32 / (np.pi * (2 * k + 1)) ** 3 / np.cosh((2 * k + 1) * np.pi / 2)
        for k in range(20)
    )
    assert center(**FINE) == pytest.approx(series, rel=1e-6)
    assert center() == pytest.approx(series, rel=0.01)


def test_in_a_flat_box_only_the_short_axis_counts(x64):
    half = np.array([0.1, 8.0, 8.0, 8.0])
    found = box_exit_time(jnp.array([0.03, 1.0, 0.0, -1.0]), np.zeros(4), half, **FINE)
    assert float(found) == pytest.approx(0.1**2 - 0.03**2, rel=1e-6)


@pytest.mark.parametrize("dim", [4, 10])
def test_zero_on_faces_and_smooth_in_many_dimensions(dim, x64):
    middle, half = np.zeros(dim), np.ones(dim)
    u = lambda x: box_exit_time(x, middle, half)
    for face in (0, dim - 1):
        x = _points(dim, 8)
        x[:, face] = 1.0
        assert np.max(np.abs(jax.vmap(u)(x))) < 1e-14
    x = 0.8 * _points(dim)
    laplacian = jax.vmap(lambda y: jnp.trace(jax.hessian(u)(y)))(x)
    np.testing.assert_allclose(0.5 * laplacian, -1.0, atol=0.04)
    fine = jax.vmap(lambda y: box_exit_time(y, middle, half, **FINE))(x)
    np.testing.assert_allclose(jax.vmap(u)(x), fine, rtol=0.05)


def test_slopes_and_curvature_are_those_of_differences(x64):
    half = np.array([1.0, 0.5, 2.0, 0.8])
    u = lambda x: box_exit_time(x, np.zeros(4), half)
    x, v = jnp.asarray(0.8 * half * _points(4, 6)), jnp.array([0.3, -1.0, 0.5, 0.7])
    along = lambda y, h: jax.vmap(u)(y + h * v[None])
    slope = jax.vmap(lambda y: jax.jvp(u, (y,), (v,))[1])
    bend = jax.vmap(lambda y: jax.jvp(lambda z: jax.jvp(u, (z,), (v,))[1], (y,), (v,))[1])
    h = 1e-4
    np.testing.assert_allclose(slope(x), (along(x, h) - along(x, -h)) / (2 * h), rtol=1e-5)
    second = (along(x, h) - 2.0 * along(x, 0.0) + along(x, -h)) / h**2
    np.testing.assert_allclose(bend(x), second, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(u))(x) @ v, slope(x), rtol=1e-12)


def test_the_solution_of_the_catalogue_satisfies_its_equation(x64):
    problem, exact = fk.catalogue("exit-box-10d")
    x = jnp.asarray(0.9 * _points(10, 5))
    left = jax.vmap(lambda z: residual(problem, exact, z))(x)
    np.testing.assert_allclose(left, 0.0, atol=1e-5)


def test_a_wall_that_reflects_is_the_middle_of_twice_the_box():
    names = ["in", "out"] * 4
    box = fk.Box([0.0] * 4, [1.0] * 4, name=names)
    problem = fk.Problem(box, source=1.0, boundary={"in": fk.Neumann(), "out": 0.0})
    (found,) = exit_times(problem)
    assert found.center == (0.0,) * 4 and found.half_width == (1.0,) * 4


def test_who_reads_them():
    cube = fk.Box([-1.0] * 5, [1.0] * 5)
    hole = fk.Box([-0.05] * 5, [0.05] * 5, name="hole")
    inputs = lambda problem: [type(given.function).__name__ for given in data_inputs(problem)]
    plain = fk.Problem(cube, source=1.0)
    assert inputs(plain) == ["ExitTime"]
    assert inputs(fk.Problem(cube - hole, source=1.0)) == ["SquaredDistance", "ExitTime"]
    assert not settings_for("quick", plain).network.hard
    given = fk.Problem(cube, boundary=lambda x: x[0] * x[1])
    assert exit_times(given) == ()  # nothing need vanish at the walls
    square = fk.Problem(fk.Box([-1.0] * 2, [1.0] * 2), source=1.0)
    assert exit_times(square) == ()
    tube = fk.catalogue("double-well-committor-10d").problem  # walls of one axis end paths
    assert exit_times(tube) == () and settings_for("quick", tube).network.hard


def test_a_small_part_counts_where_paths_meet_it_or_the_answer_is_wanted_there():
    cube = lambda dim, half, name: fk.Box([-half] * dim, [half] * dim, name=name)
    pierced = lambda dim: fk.Problem(cube(dim, 1.0, "outer") - cube(dim, 0.04, "hole"), source=1.0)
    near = fk.problem.InBox([-0.06] * 10, [0.06] * 10)
    assert _has_small_parts(pierced(4))
    assert not _has_small_parts(pierced(10))
    assert _has_small_parts(pierced(10).with_measure(near))


def test_equal_ones_are_one():
    one = lambda: ExitTime((0, 1), (0.0, 0.0), (1.0, 2.0), Layout(2))
    assert one() == one() and hash(one()) == hash(one())


@pytest.mark.slow
@pytest.mark.parametrize("reaction", [0.0, lambda x: jnp.sum(x**2)], ids=["exit", "reaction"])
def test_cubes_in_many_dimensions_are_solved(reaction):
    problem = fk.Problem(fk.Box([-1.0] * 10, [1.0] * 10), source=1.0, reaction=reaction)
    settings = settings_for("quick", problem).changed({"certificate.rounds": 0})
    found = fk.solve(problem, settings=settings, certify=True, seed=0)
    assert found.certificate["ci_high"] < 0.2  # a constant's error is 0.74
