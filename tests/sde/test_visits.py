"""Places that paths hand back: their law, their weights, and where the paths left."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import at, lanes

from fkpinn.domain import Ball, Box
from fkpinn.labels import SCHEMES, visited_places
from fkpinn.problem import Problem, manufactured
from fkpinn.sde import Plan, run_batches

POINTS = jnp.array([[0.0, 0.0, 0.0], [0.5, 0.2, -0.3]])
N = 3000
BALL = Ball([0.0] * 3, 1.0)
ONE_WIDTH = lanes((256,), 1 << 16, 1)  # compiles once; places do not depend on it


def exact(x):
    return jnp.cos(2 * x[0]) * jnp.exp(0.5 * x[1]) + x[0] * x[2]


CASES = {
    "heun": {"drift": lambda x: -x, "reaction": 1.0, "diffusion": 1.0},
    "spheres": {"reaction": 1.0, "diffusion": 1.0},
    "platen": {"diffusion": lambda x: 1 + 0.2 * x[0], "reaction": lambda x: x[0] ** 2},
}


@functools.cache
def case(scheme):
    problem = manufactured(BALL, exact, **CASES[scheme])
    how = {"n_paths": N, "dt": 4e-3, "scheme": scheme, "seed": 5, "compute": ONE_WIDTH}
    return problem, visited_places(problem, POINTS, **how)


every_scheme = pytest.mark.parametrize(
    "scheme",
    [
        pytest.param("heun", marks=pytest.mark.broad),
        pytest.param("spheres", marks=pytest.mark.broad),
        pytest.param("platen", marks=pytest.mark.slow),
    ],
)


@every_scheme
def test_source_at_visited_places_and_data_at_exits_make_the_solution(scheme):
    """The identity behind the bound: u(x) = E[time f(place) + discount g(exit)]."""
    problem, found = case(scheme)
    gain = found.time * np.asarray(at(problem.source, jnp.asarray(found.point)))
    data = problem.conditions()[0].payoff
    payoff = gain + found.discount * np.asarray(at(data, jnp.asarray(found.exit)))
    for row, point in enumerate(POINTS):
        own = payoff[found.start == row]
        assert len(own) == N
        error = np.mean(own) - float(exact(point))
        assert abs(error) < 4 * np.std(own) / np.sqrt(N) + 5e-3  # of the step


@every_scheme
def test_places_lie_inside_and_exits_on_the_boundary(scheme):
    _, found = case(scheme)
    assert np.all(np.linalg.norm(found.point, axis=1) < 1)
    np.testing.assert_allclose(np.linalg.norm(found.exit, axis=1), 1.0, rtol=1e-9)
    assert np.all((found.discount > 0) & (found.discount <= 1)) and np.all(found.time > 0)


def test_places_follow_the_occupation_measure():
    """From the middle of an interval its density falls linearly to both ends."""
    line = Problem(Box([0.0], [1.0]), diffusion=1.0, source=1.0, boundary=0.0, check=False)
    middle = jnp.array([[0.5]])
    how = {"n_paths": 8000, "dt": 4e-4, "scheme": "heun", "seed": 1, "compute": ONE_WIDTH}
    found = visited_places(line, middle, **how)
    mean = lambda f: float(np.sum(found.time * f) / np.sum(found.time))
    x = found.point[:, 0]
    total = float(np.mean(found.time))
    assert abs(total - 0.25) < 4 * np.std(found.time) / np.sqrt(len(x)) + 1e-3
    # density 4 min(x, 1 - x): P(x < 1/4) = 1/8, variance 1/24
    assert abs(mean(x < 0.25) - 0.125) < 0.015
    assert abs(mean((x - 0.5) ** 2) - 1 / 24) < 0.002


@pytest.mark.broad
def test_one_path_in_so_many_hands_back_a_place_whatever_the_lanes():
    problem, _ = case("heun")
    plan = Plan(problem, SCHEMES["heun"], POINTS, 100, 0.02, None, 3, visits=64)
    narrow, wide = (
        next(run_batches(plan, [(0, 200)], lanes((w,), 64, 1).lanes)).visits for w in (8, 32)
    )
    assert narrow is not None and wide is not None
    assert len(narrow.time) == 50  # one in four
    np.testing.assert_array_equal(narrow.start, np.repeat([0, 1], 25))
    for a, b in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.broad
def test_payoffs_do_not_depend_on_what_is_handed_back():
    problem, _ = case("heun")
    plan = Plan(problem, SCHEMES["heun"], POINTS, 100, 0.02, None, 3)
    narrow = lanes((8,), 64, 1).lanes
    plain, looked, once = (
        next(run_batches(plan._replace(visits=n), [(0, 200)], narrow)) for n in (0, 64, 1)
    )
    assert plain.visits is None and len(once.visits.time) == 1
    for found in (looked, once):
        np.testing.assert_allclose(plain.payoff, found.payoff, rtol=1e-10)


@pytest.mark.broad
def test_long_paths_are_cut_if_so_asked():
    problem, _ = case("heun")
    how = {"n_paths": N, "dt": 1e-3, "scheme": "heun", "compute": ONE_WIDTH}
    found = visited_places(problem, POINTS, **how, n_steps=20)
    assert np.max(found.time) < 20e-3 * 1.001
