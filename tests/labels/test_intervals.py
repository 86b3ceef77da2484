"""Error bars hold what they promise: how often intervals cover, and the moments behind them."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.labels import SCHEMES
from fkpinn.labels._moments import merge, moments, segment_starts
from fkpinn.sde import Plan, run_batches

ONE_WIDTH = helpers.lanes((512,), 1 << 16, 2)  # one width compiles once; labels do not depend on it

# problem, paths a point and step. By walk on spheres the first two have no step. The third has
# a bias of second order, some 1e-4 here, against standard errors of about 1e-2.
COVERED = [
    ("exit-ball-3d", 200, 1.0),
    pytest.param("poisson", 500, 1.0, marks=pytest.mark.slow),
    pytest.param("ornstein-uhlenbeck", 500, 0.02, marks=pytest.mark.slow),
]


# a few of the points lie so close to the boundary that one path carries most of the sum, and the
# package says so; they count here like all others
@pytest.mark.filterwarnings("ignore:At . of 1000 points a single path contributes:UserWarning")
@pytest.mark.parametrize(("name", "n_paths", "dt"), COVERED)
def test_intervals_cover_as_often_as_they_say(name, n_paths, dt, record_property):
    """Of 1,000 independent points at 95%, between 93% and 97%: 2.9 standard errors."""
    case = helpers.case(name)
    points = fk.sample_interior(case.problem, 1000, key=jr.key(11))
    labels = fk.estimate_labels(
        case.problem, points, n_paths=n_paths, dt=dt, seed=12, compute=ONE_WIDTH
    )
    exact = np.asarray(jax.vmap(case.exact)(points))
    lower, upper = labels.interval(0.95)
    covered = float(np.mean((lower <= exact) & (exact <= upper)))
    off = np.abs(np.asarray(labels.value) - exact)
    record_property("covered", covered)
    record_property("covered_plain", float(np.mean(off <= 1.96 * np.asarray(labels.stderr))))
    assert 0.93 <= covered <= 0.97


def labels_of(payoffs: np.ndarray) -> fk.Labels:
    """Labels at one point from the given payoffs."""
    found = merge(moments(payoffs, np.zeros(len(payoffs)), segment_starts(1, len(payoffs))), 1)
    of = fk.Labels.from_data(jnp.zeros((1, 1)), found.mean, np.sqrt(found.variance() / found.n))
    return of._replace(n_paths=len(payoffs), skew=jnp.asarray(found.skew()))


def test_skewness_is_that_of_scipy():
    payoffs = np.random.default_rng(1).exponential(size=2500) + 10.0  # of three segments
    labels = labels_of(payoffs)
    np.testing.assert_allclose(labels.skew, [stats.skew(payoffs)], rtol=1e-10)
    np.testing.assert_allclose(labels.stderr, [stats.sem(payoffs)], rtol=1e-12)


def test_skewness_of_alike_payoffs_is_zero():
    assert float(labels_of(np.full(50, 3.0)).skew[0]) == 0.0


def test_spread_and_skewness_of_antithetic_paths_are_those_of_pairs():
    problem, points = fk.catalogue("exit-ball-3d").problem, jnp.full((1, 3), 0.3)
    labels = fk.estimate_labels(
        problem, points, n_paths=1000, dt=0.02, scheme="euler", seed=3, antithetic=True,
        compute=ONE_WIDTH,
    )  # fmt: skip
    seed = (Stream(3) / "paths").seed
    plan = Plan(problem, SCHEMES["euler"], points, 1000, 0.02, None, seed, antithetic=True)
    (ended,) = run_batches(plan, [(0, 1000)], ONE_WIDTH.lanes)
    pairs = ended.payoff.reshape(500, 2).mean(axis=1)
    np.testing.assert_allclose(labels.value, [pairs.mean()], rtol=1e-12)
    np.testing.assert_allclose(labels.stderr, [stats.sem(pairs)], rtol=1e-10)
    tilt = np.asarray(labels.skew) / np.sqrt(1000)  # as the interval reads it
    np.testing.assert_allclose(tilt, [stats.skew(pairs) / np.sqrt(500)], rtol=1e-10)


def test_no_skewness_gives_the_normal_interval():
    labels = fk.Labels.from_data(jnp.zeros((2, 1)), [1.0, 2.0], [0.1, 0.2])._replace(n_paths=100)
    lower, upper = labels.interval(0.9)
    z = stats.norm.ppf(0.95)
    np.testing.assert_allclose(lower, [1.0 - 0.1 * z, 2.0 - 0.2 * z], rtol=1e-12)
    np.testing.assert_allclose(upper, [1.0 + 0.1 * z, 2.0 + 0.2 * z], rtol=1e-12)


def test_interval_is_continuous_where_skewness_vanishes():
    labels = fk.Labels.from_data(jnp.zeros((2, 1)), [0.0, 0.0], 1.0)._replace(
        n_paths=100, skew=jnp.array([0.0, 1.1e-5])
    )
    lower, upper = labels.interval()
    # the slope of either limit in the tilt is (1 + 2 z^2) / 6 < 2
    assert abs(lower[1] - lower[0]) < 2 * 1.1e-6 and abs(upper[1] - upper[0]) < 2 * 1.1e-6


@pytest.mark.parametrize("skew", [-8.0, -1.0, 0.0, 1.0, 8.0])
def test_interval_grows_with_the_level(skew):
    labels = fk.Labels.from_data(jnp.zeros((1, 1)), [0.0], 1.0)._replace(
        n_paths=100, skew=jnp.array([skew])
    )
    found = np.array([labels.interval(level) for level in (0.1, 0.5, 0.8, 0.9, 0.95, 0.99)])
    assert np.all(np.diff(found[:, 0, 0]) < 0)
    assert np.all(np.diff(found[:, 1, 0]) > 0)


def test_interval_leans_towards_the_long_tail():
    labels = fk.Labels.from_data(jnp.zeros((3, 1)), [0.0] * 3, 1.0)._replace(
        n_paths=100, skew=jnp.array([-2.0, 0.0, 2.0])
    )
    lower, upper = labels.interval()
    assert lower[0] < lower[1] == lower[2] and upper[0] == upper[1] < upper[2]


def test_opposite_payoffs_mirror_the_interval():
    payoffs = np.random.default_rng(2).exponential(size=300)
    lower, upper = labels_of(payoffs).interval()
    mirrored_lower, mirrored_upper = labels_of(-payoffs).interval()
    np.testing.assert_allclose(mirrored_lower, -upper, rtol=1e-12)
    np.testing.assert_allclose(mirrored_upper, -lower, rtol=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.1, float("nan")])
def test_refused_levels(level):
    labels = fk.Labels.from_data(jnp.zeros((1, 1)), [0.0], 1.0)
    with pytest.raises(ValueError, match="`level` must lie between 0 and 1; got"):
        labels.interval(level)
