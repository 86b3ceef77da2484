"""Walk on spheres: right on average, by laws that can be checked one by one."""

import math
from typing import NamedTuple

import helpers
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import fkpinn as fk
from fkpinn._compute import Lanes
from fkpinn.sde import Plan, Spheres, run_batches
from fkpinn.sde._lane import Lane, Numbers
from fkpinn.sde._spheres import screening, source_radii, source_weight


class Paths(NamedTuple):
    payoff: np.ndarray
    steps: np.ndarray
    finished: np.ndarray


def walk(problem, spheres, points, n_paths, seed, max_steps=100_000):
    """Many walks from each point."""
    spheres.check(problem)
    total = len(points) * n_paths
    plan = Plan(problem, spheres, points, n_paths, 0.0, max_steps, seed)
    [ended] = run_batches(plan, [(0, total)], Lanes((2048,), total, 1))
    shaped = lambda a: a.reshape(len(points), n_paths)
    return Paths(shaped(ended.payoff), shaped(ended.steps), ~shaped(ended.late))


def well_inside(domain, n):
    """Points away from the boundary, where payoffs are not too skewed for a normal bound."""
    lower, upper = domain.bounding_box()
    v = 2 * np.random.default_rng(5).random((n, domain.dim)) - 1
    if isinstance(domain, fk.Ball):
        v = v / np.maximum(1.0, np.linalg.norm(v, axis=1, keepdims=True))
    return jnp.asarray(0.5 * (lower + upper) + 0.75 * 0.5 * (upper - lower) * v)


def assert_right(problem, exact, n_points, n_paths, bias=0.0, spheres=None, seed=1):
    points = well_inside(problem.domain, n_points)
    paths = walk(problem, spheres or Spheres(), points, n_paths, seed)
    payoff = np.asarray(paths.payoff)
    stderr = payoff.std(axis=1, ddof=1) / math.sqrt(n_paths)
    error = np.abs(payoff.mean(axis=1) - np.asarray(helpers.at(exact, points)))
    assert np.all(error <= 4 * stderr + bias), error / stderr
    assert np.all(np.asarray(paths.finished))
    return paths


CATALOGUE = [
    ("poisson", 10, 1000),
    pytest.param("poisson-5d", 10, 500, marks=pytest.mark.slow),
    pytest.param("laplace-10d", 10, 300, marks=pytest.mark.slow),
    pytest.param("poisson-50d", 10, 100, marks=pytest.mark.slow),
    ("exit-ball-3d", 10, 1000),
    pytest.param("exit-ball-10d", 10, 300, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "n", "k"), helpers.of_which_fast(CATALOGUE, "poisson"))
def test_catalogue_problems(name, n, k):
    case = helpers.case(name)
    assert_right(case.problem, case.exact, n, k)


@pytest.mark.parametrize("forced", [False, True], ids=["harmonic", "forced"])
@pytest.mark.parametrize(
    "dim",
    [
        pytest.param(1, marks=pytest.mark.slow),
        2,
        pytest.param(3, marks=pytest.mark.slow),
        pytest.param(10, marks=pytest.mark.slow),
    ],
)
@pytest.mark.broad
def test_screened_problems(dim, forced):
    sigma, c = 0.8, 4.0
    # the exponential solves the equation without a source if c = sigma^2 |k|^2 / 2
    size = math.sqrt(2 * c) / sigma * (0.5 if forced else 1.0)
    k = size * np.arange(1, dim + 1) / np.linalg.norm(np.arange(1, dim + 1))
    exact = lambda x: jnp.exp(jnp.dot(jnp.asarray(k, x.dtype), x))
    missing = c - 0.5 * sigma**2 * size**2
    source = (lambda x: missing * exact(x)) if forced else 0.0
    domain = fk.Box([-1.0] * dim, [1.0] * dim)
    problem = fk.Problem(
        domain, diffusion=sigma, reaction=c, source=source, boundary=exact, check=False
    )
    assert_right(problem, exact, 10, 1000 if dim < 10 else 300)


@pytest.mark.broad
def test_a_discount_so_strong_that_balls_are_cut():
    """The source alone decides, u = f / c but for a boundary layer; no walk has to get out."""
    c = 1e4
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), reaction=c, source=c, check=False)
    paths = assert_right(problem, lambda x: jnp.ones_like(x[0]), 10, 1000)
    assert np.max(np.asarray(paths.steps)) < 60
    assert np.std(np.asarray(paths.payoff)) < 1.0


@pytest.mark.broad
def test_parts_of_a_combination_have_their_own_data():
    a, b = 0.25, 1.0
    ring = fk.Ball([0.0, 0.0, 0.0], b) - fk.Ball([0.0, 0.0, 0.0], a, name="hole")
    problem = fk.Problem(ring, boundary={"outer": 2.0, "hole": 5.0}, check=False)
    exact = lambda x: 2.0 + 3.0 * (1.0 / jnp.linalg.norm(x) - 1.0 / b) / (1.0 / a - 1.0 / b)
    points = jnp.asarray([[0.4, 0.0, 0.0], [0.0, 0.6, 0.0], [0.3, 0.3, 0.3], [0.0, 0.0, -0.8]])
    payoff = np.asarray(walk(problem, Spheres(), points, 4000, 2).payoff)
    assert set(np.unique(payoff)) == {2.0, 5.0}
    stderr = payoff.std(axis=1) / math.sqrt(4000)
    assert np.all(np.abs(payoff.mean(axis=1) - helpers.at(exact, points)) <= 4 * stderr)


@pytest.mark.broad
@pytest.mark.parametrize("epsilon", [0.08, pytest.param(0.04, marks=pytest.mark.slow), 0.02])
def test_the_bias_is_of_second_order(epsilon):
    r"""A step in the layer is wrong by at most $L^2/8\,(1 - 1/d)$, and two are made at most."""
    dim, n = 3, 20_000
    case = helpers.case("exit-ball-3d")
    width = 2 * epsilon * case.problem.domain.diameter()
    point = jnp.asarray([[0.5, 0.0, 0.0]])
    payoff = np.asarray(walk(case.problem, Spheres(epsilon), point, n, 3).payoff)
    error, stderr = payoff.mean() - 0.75 / (2 * dim), payoff.std() / math.sqrt(n)
    assert -4 * stderr <= error <= width**2 / 4 * (1 - 1 / dim) + 4 * stderr


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 50])
def test_screening_is_the_bessel_formula(dim):
    t = np.linspace(1e-3, 1.0, 101)
    nu, z = dim / 2 - 1, np.sqrt(2 * dim * t)
    log = scipy.special.gammaln(nu + 1) + nu * np.log(2 / z) + np.log(scipy.special.ive(nu, z)) + z
    assert np.allclose(np.asarray(screening(jnp.asarray(t), dim)), np.exp(log), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dim", helpers.of_which_fast([1, 2, 3, 10, 50], 1, 2, 10))
def test_radius_has_the_law_of_greens_function(dim):
    u, v = np.random.default_rng(dim).random((2, 20_000))
    inner, outer = source_radii(jnp.asarray(u), jnp.asarray(v), dim)
    if dim == 2:
        law = lambda r: r**2 * (1 - 2 * np.log(r))
    else:  # from the density r - r^(d-1), up to its factor
        law = lambda r: (dim * r**2 - 2 * r**dim) / (dim - 2)
    assert scipy.stats.kstest(np.asarray(inner), law).pvalue > 1e-3
    assert np.all(np.asarray(inner) <= np.asarray(outer))


@pytest.mark.parametrize("dim", helpers.of_which_fast([1, 2, 3, 10, 50], 1, 2, 10))
def test_source_weight_makes_the_screened_greens_function(dim):
    """Against quadrature: the mean discounted time in the ball, and near its center."""
    n = 1000  # midpoints in both uniforms
    u = jnp.asarray((np.arange(n) + 0.5) / n)
    inner, outer = source_radii(*jnp.meshgrid(u, u), dim)
    weight = np.asarray(source_weight(jnp.ones_like(inner), inner, outer, dim))
    total = 1 - 1 / float(screening(jnp.asarray(1.0), dim))  # c times the mean time, c T = 1
    assert abs(weight.mean() / total - 1) < 1e-5
    assert np.all((weight > 0) & (weight <= 1))
    if dim in (1, 3):  # closed forms: sinh(z (1 - r)) over r^((d-1)/2), up to its factor
        z = math.sqrt(2 * dim)
        r = (np.arange(n) + 0.5) / n
        density = r ** ((dim - 1) // 2) * np.sinh(z * (1 - r))
        share = density[r < 0.5].sum() / density.sum()
        assert abs(weight[np.asarray(inner) < 0.5].sum() / weight.sum() - share) < 1e-3


def test_a_walk_cut_short_says_so():
    case = helpers.case("exit-ball-3d")
    paths = walk(case.problem, Spheres(), jnp.full((1, 3), 0.1), 50, 0, max_steps=2)
    assert not np.any(np.asarray(paths.finished))
    assert np.all(np.asarray(paths.steps) == 2)


def test_a_point_of_the_boundary_has_the_boundary_value():
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0, boundary=lambda x: x[0], check=False)
    paths = walk(problem, Spheres(), jnp.asarray([[1.0, 0.0], [-1.0, 0.0]]), 3, 0)
    assert np.array_equal(np.asarray(paths.payoff), [[1.0] * 3, [-1.0] * 3])


def test_a_zero_direction_is_no_loss():
    """In single precision both normals of a step can be zero."""
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0, check=False)
    zero = jnp.zeros((), jnp.float32)
    half = jnp.asarray(0.5, jnp.float32)
    x = jnp.asarray([0.1, 0.2], jnp.float32)
    none = jnp.zeros((), jnp.uint32)
    lane = Lane(none, none, none, None, None, zero, x, None, zero, zero, jnp.int32(1), None)
    moved = Spheres().advance(
        problem, None, lane, Numbers(jnp.stack([zero] * 2), jnp.stack([half] * 3))
    )
    assert np.all(np.isfinite(np.asarray(moved.x)))
    assert abs(float(jnp.linalg.norm(moved.x - x)) - (1.0 - math.hypot(0.1, 0.2))) < 1e-5


@pytest.mark.broad
def test_single_precision_far_from_the_origin():
    ball = fk.Ball([1000.0, 0.0, 0.0], 1.0)
    problem = fk.Problem(ball, source=1.0, check=False)
    point = jnp.asarray([[1000.5, 0.0, 0.0]], jnp.float32)
    payoff = walk(problem, Spheres(), point, 4000, 4).payoff
    assert payoff.dtype == jnp.float32
    error = np.mean(np.asarray(payoff, float)) - 0.75 / 3
    layer = 2 * 8 * 1000 * 2.0**-23  # twice what rounding resolves: a second-order effect
    assert abs(error) <= 4 * np.std(np.asarray(payoff)) / math.sqrt(4000) + layer**2


disk = fk.Ball([0.0, 0.0], 1.0)
refused = [
    (dict(drift=[1.0, 0.0]), r"needs a zero `drift`; got a nonzero one\. Try a time stepper"),
    (dict(drift=lambda x: 0.0 * x), r"needs a zero `drift`"),
    (dict(diffusion=[1.0, 2.0]), r"isotropic and nonzero `diffusion`.*got \(1.0, 2.0\)"),
    (dict(diffusion=lambda x: 1.0 + x[0] ** 2), r"nonzero `diffusion`.*got a function"),
    (dict(reaction=-0.5), r"`reaction` that is a constant and not negative; got -0.5"),
    (dict(reaction=lambda x: x[0] ** 2), r"`reaction` that is a constant.*got a function"),
    (dict(boundary=fk.Robin(1.0)), r"needs `Dirichlet` on each.*got Robin on 'outer'"),
    (dict(horizon=1.0, terminal=0.0), r"elliptic problems; got one with `horizon`=1.0"),
    (dict(domain=fk.HalfSpace([1.0, 0.0], [0.0, 0.0])), r"needs a bounded domain"),
    (dict(diffusion=0.0), r"needs a constant, isotropic and nonzero `diffusion`"),
]


@pytest.mark.parametrize(("how", "message"), refused)
def test_what_does_not_fit_is_refused(how, message):
    problem = fk.Problem(**{"domain": disk, **how}, check=False)
    with pytest.raises(ValueError, match=message):
        Spheres().check(problem)


def test_a_bad_epsilon_is_refused():
    with pytest.raises(ValueError, match=r"must lie between 0 and 0.1.*got 0.5. Try 2e-4"):
        Spheres(0.5)


def test_a_walk_that_is_cut_is_paid_its_source_alone():
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0, boundary=100.0, check=False)
    plan = Plan(problem, Spheres(), jnp.asarray([[0.2, 0.1]]), 8, 0.0, 1, seed=2)
    [ended] = run_batches(plan, [(0, 8)], Lanes((8,), 64, 1))
    assert np.all(ended.late) and np.all(ended.steps == 1)
    # mean time to leave the ball around the first point, twice as long in a Laplacian's half
    np.testing.assert_allclose(ended.payoff, (1 - math.hypot(0.2, 0.1)) ** 2 / 2, rtol=1e-5)
