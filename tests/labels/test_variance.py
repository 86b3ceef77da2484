"""Less noise for the same mean: defects, control variates, antithetic paths, sparse sources."""

import functools
from collections.abc import Callable

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.nn import MLP

ONE_WIDTH = helpers.lanes((256,), 1 << 16, 2)  # one width compiles once; labels do not depend on it

# Dirichlet, Robin with Neumann, and parabolic; a step; a bound for bias over dt and size of u
CASES = [
    pytest.param("variable-diffusion", 4e-3, 5.0, marks=pytest.mark.slow),
    pytest.param("robin", 4e-2, 5.0, marks=pytest.mark.slow),
    ("ornstein-uhlenbeck", 0.02, 5.0),
]
each_case = pytest.mark.parametrize(("name", "dt", "constant"), CASES)
N_PATHS = 200


class Scaled(eqx.Module):
    """A multiple of a function; paths share what is compiled for all factors."""

    function: Callable
    factor: jax.Array

    def __call__(self, z):
        return self.factor * self.function(z)


def scaled(function, factor):
    return Scaled(function, jnp.asarray(factor))


@functools.cache
def start(name: str):
    """A problem, its solution, points away from the end of paths, and values there."""
    case = helpers.case(name)
    points = fk.sample_interior(case.problem, 12, key=jr.key(0))
    points = 0.7 * points if name == "variable-diffusion" else points
    points = points.at[:, 0].multiply(0.5) if case.problem.timed else points
    return case, points, np.asarray(helpers.at(case.exact, points))


@each_case
@pytest.mark.broad
def test_defect_of_a_good_candidate_has_little_noise(name, dt, constant, record_property):
    case, points, exact = start(name)
    how = dict(n_paths=N_PATHS, dt=dt, seed=3, compute=ONE_WIDTH)
    near = scaled(case.exact, 0.9)
    plain = fk.estimate_labels(case.problem, points, **how)
    defect = fk.estimate_defect(case.problem, near, points, **how)
    factor = np.asarray(plain.stderr / defect.stderr)
    record_property("factor", (float(factor.min()), float(np.median(factor))))
    assert factor.min() >= 5
    error = np.abs(np.asarray(defect.value) - 0.1 * exact)
    bias = 0.1 * constant * dt * np.max(np.abs(exact))  # of a solution a tenth in size
    assert np.all(error <= 4 * np.asarray(defect.stderr) + bias)


@each_case
def test_defect_of_the_solution_is_zero(name, dt, constant):
    case, points, exact = start(name)
    found = fk.estimate_defect(
        case.problem, scaled(case.exact, 1.0), points, n_paths=20, dt=dt, seed=3, compute=ONE_WIDTH
    )
    size = float(np.max(np.abs(exact)))
    assert np.max(np.abs(found.value)) <= 1e-10 * size
    assert np.max(found.stderr) <= 1e-10 * size


@pytest.mark.broad
@each_case
def test_a_network_and_its_defect_make_the_solution(name, dt, constant):
    case, points, exact = start(name)
    lower, upper = case.problem.bounds()
    network = MLP(lower, upper, [8, 8], key=jr.key(5))
    found = fk.estimate_defect(
        case.problem, network, points, n_paths=N_PATHS, dt=dt, seed=4, compute=ONE_WIDTH
    )
    given = np.asarray(helpers.at(network, points))
    value, size = given + np.asarray(found.value), np.max(np.abs(exact)) + np.max(np.abs(given))
    assert np.all(np.abs(value - exact) <= 4 * np.asarray(found.stderr) + constant * dt * size)


@pytest.mark.slow
def test_any_differentiable_module_is_a_candidate():
    case, points, exact = start("ornstein-uhlenbeck")
    network = eqx.nn.MLP(3, "scalar", 8, 1, activation=jnp.tanh, dtype=jnp.float64, key=jr.key(6))
    found = fk.estimate_defect(
        case.problem, network, points, n_paths=N_PATHS, dt=0.02, seed=4, compute=ONE_WIDTH
    )
    value = np.asarray(jax.vmap(network)(points) + found.value)
    assert np.all(np.abs(value - exact) <= 4 * np.asarray(found.stderr) + 5 * 0.02)


@pytest.mark.slow
@each_case
def test_a_source_read_less_often_keeps_the_mean(name, dt, constant):
    case, points, _ = start(name)
    how = dict(n_paths=N_PATHS, dt=dt, compute=ONE_WIDTH)
    near = scaled(case.exact, 0.5)
    all_steps = fk.estimate_defect(case.problem, near, points, seed=7, **how)
    some = fk.estimate_defect(case.problem, near, points, seed=8, read_every=8, **how)
    both = np.hypot(np.asarray(all_steps.stderr), np.asarray(some.stderr))
    score = np.asarray(some.value - all_steps.value) / both
    assert np.all(np.abs(score) <= 4)
    assert abs(np.sum(score)) <= 4 * np.sqrt(len(score))  # nor do they lean to one side


@pytest.mark.slow
def test_walls_read_less_often_keep_the_mean():
    """Neumann at one end, Robin at the other: paths end by their discount alone."""
    exact = lambda x: jnp.sin(x[0]) + 2.0
    wall = {"left": fk.Neumann, "right": (fk.Robin, lambda x: 2.0 + x[0])}
    domain = fk.Interval(0.0, 1.0, name=("left", "right"))
    problem = fk.manufactured(domain, exact, boundary=wall)
    points = jnp.linspace(0.1, 0.9, 8)[:, None]
    found = fk.estimate_labels(
        problem,
        points,
        n_paths=N_PATHS,
        dt=1e-3,
        read_every=8,
        forget=1e-3,
        seed=5,
        compute=ONE_WIDTH,
    )
    truth = np.asarray(jax.vmap(exact)(points))
    # what forgotten paths lack, and the step at walls that pay for their local time
    allowed = 4 * np.asarray(found.stderr) + 1e-3 * np.max(truth) + 5 * 1e-3
    assert np.all(np.abs(np.asarray(found.value) - truth) <= allowed)


@pytest.mark.broad
def test_shorter_steps_near_walls_and_in_strong_drift_keep_the_mean():
    exact = lambda x: jnp.cos(x[0]) * jnp.exp(0.5 * x[1])
    turn = lambda x: 20.0 * jnp.stack([-x[1], x[0]])
    problem = fk.manufactured(fk.Ball([0.0, 0.0], 1.0), exact, drift=turn)
    points = jnp.asarray([[0.0, 0.0], [0.5, 0.3], [0.0, 0.99], [-0.7, 0.6]])
    how = dict(n_paths=N_PATHS, dt=1e-2, seed=5, compute=ONE_WIDTH)
    plain = fk.estimate_labels(problem, points, **how)
    found = fk.estimate_labels(problem, points, refine=64, **how)
    assert found.provenance["path_steps"] > 1.5 * plain.provenance["path_steps"]
    gap = np.abs(np.asarray(found.value) - np.asarray(helpers.at(exact, points)))
    assert np.all(gap <= 4 * np.asarray(found.stderr) + 1e-2)  # of a step


@each_case
def test_the_solution_as_control_takes_the_noise(name, dt, constant, record_property):
    case, points, exact = start(name)
    dt = min(dt, 0.01)  # what noise is left is that of the step, of order sqrt(dt)
    how = dict(n_paths=N_PATHS, dt=dt, seed=9, compute=ONE_WIDTH)
    plain = fk.estimate_labels(case.problem, points, **how)
    calm = fk.estimate_labels(case.problem, points, control=case.exact, **how)
    factor = np.asarray(plain.stderr / calm.stderr)
    record_property("factor", (float(factor.min()), float(np.median(factor))))
    both = np.hypot(np.asarray(plain.stderr), np.asarray(calm.stderr))
    assert np.all(np.abs(np.asarray(calm.value - plain.value)) <= 4 * both)
    bias = constant * dt * np.max(np.abs(exact))
    assert np.all(np.abs(np.asarray(calm.value) - exact) <= 4 * np.asarray(calm.stderr) + bias)
    assert np.median(factor) >= 5


@pytest.mark.broad
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="plain", marks=pytest.mark.slow),
        pytest.param({"antithetic": True}, id="antithetic"),
    ],
)
def test_a_poor_control_changes_no_mean(how):
    """Whatever the control, its martingale has mean zero: also where paths stop or reflect."""
    case, points, _ = start("robin")
    wrong = lambda z: jnp.sin(3.0 * z[0]) - z[1] ** 2
    how = how | dict(n_paths=N_PATHS, dt=0.02, compute=ONE_WIDTH)
    plain, other = (
        fk.estimate_labels(case.problem, points, seed=seed, control=scaled(wrong, factor), **how)
        for seed, factor in ((10, 0.0), (11, 1.0))
    )
    both = np.hypot(np.asarray(plain.stderr), np.asarray(other.stderr))
    assert np.all(np.abs(np.asarray(other.value - plain.value)) <= 4 * both)


@pytest.mark.broad
def test_antithetic_error_bars_cover(record_property):
    """Over 200 points, as if over 200 seeds: 95% within 3 standard errors of that count."""
    case = helpers.case("ornstein-uhlenbeck")
    points = fk.sample_interior(case.problem, 200, key=jr.key(12))
    labels = fk.estimate_labels(
        case.problem, points, n_paths=N_PATHS, dt=0.02, seed=13, antithetic=True, compute=ONE_WIDTH
    )
    exact = np.asarray(helpers.at(case.exact, points))
    score = np.asarray(labels.value - exact) / np.asarray(labels.stderr)
    covered = float(np.mean(np.abs(score) <= 1.96))
    record_property("covered", covered)
    allowed = 3 * np.sqrt(0.95 * 0.05 / 200)
    assert 0.95 - allowed <= covered <= min(0.95 + allowed, 1.0)
    assert abs(np.mean(score)) <= 4 / np.sqrt(200)


@pytest.mark.broad
def test_antithetic_paths_cancel_what_is_odd():
    """A linear payoff is odd in the noise: pairs leave nothing but rounding."""
    far = fk.Box([-50.0, -50.0], [50.0, 50.0])
    problem = fk.Problem(
        far, diffusion=0.5, boundary=lambda t, x: x[0] - 2 * x[1], horizon=1.0,
        terminal=lambda x: x[0] - 2 * x[1],
    )  # fmt: skip
    points = jnp.array([[0.0, 1.0, 2.0], [0.5, -1.0, 0.3]])
    labels = fk.estimate_labels(
        problem, points, n_paths=20, dt=0.1, antithetic=True, compute=ONE_WIDTH
    )
    np.testing.assert_allclose(labels.value, points[:, 1] - 2 * points[:, 2], atol=1e-13)
    assert np.max(labels.stderr) <= 1e-13


def test_refused_with_walks_on_spheres():
    problem, points = fk.catalogue("exit-ball-3d").problem, jnp.zeros((1, 3))
    for how, name in (
        ({"read_every": 2}, "read_every"),
        ({"refine": 4}, "refine"),
        ({"control": lambda x: x[0]}, "control"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` is for paths that move in time steps"):
            fk.estimate_labels(problem, points, n_paths=4, dt=0.1, **how)
