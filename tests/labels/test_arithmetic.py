"""Moments, biases, plans and batches from given numbers, against the formulas written out."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fkpinn as fk
from fkpinn._compute import Lanes
from fkpinn._streams import Stream
from fkpinn.labels import SCHEMES, Labels, choose_scheme, compile_labels, step_size, steps_for
from fkpinn.labels._estimate import _batches, _with_bias
from fkpinn.labels._moments import SEGMENT, merge, moments, segment_starts
from fkpinn.labels._plan import _bias, _first_step, _Level, _predict, _round_down, _tail
from fkpinn.labels._store import check_same
from fkpinn.sde import Plan, Spheres

N = 32
WAVE = 2.0 + np.cos(np.arange(N))


def labels(value, stderr, n_paths, seconds=1.0, steps=0) -> Labels:
    made = Labels.from_data(np.zeros((len(value), 1)), value, stderr)
    about = {"path_steps": steps, "seconds": {"compile": 0.0, "run": seconds}}
    return made._replace(n_paths=n_paths, provenance=about)


def line(**data) -> fk.Problem:
    return fk.Problem(fk.Interval(-1.0, 1.0), **data, check=False)


# ---- moments


@pytest.mark.parametrize("each", [700, SEGMENT, 2500])
def test_moments_of_segments_merge_to_those_of_all(each):
    rng = np.random.default_rng(1)
    payoff = rng.gamma(2.0, size=(3, each)) - np.array([[3.0], [0.0], [5.0]])
    payoff[1] = 4.0  # all alike
    late = rng.random((3, each)) < 0.1
    starts = segment_starts(3, each)
    pieces = -(-each // SEGMENT)
    assert len(starts) == 3 * pieces and starts[pieces] == each and starts[0] == 0
    found = merge(moments(payoff.reshape(-1), late.reshape(-1), starts), 3)
    np.testing.assert_array_equal(found.n, each)
    np.testing.assert_allclose(found.mean, payoff.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.variance(), payoff.var(axis=1, ddof=1), rtol=1e-9, atol=1e-20)
    skew = [stats.skew(payoff[0]), 0.0, stats.skew(payoff[2])]
    np.testing.assert_allclose(found.skew(), skew, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.largest, np.abs(payoff).max(axis=1))
    np.testing.assert_allclose(found.size, np.abs(payoff).sum(axis=1))
    np.testing.assert_array_equal(found.late, late.sum(axis=1))


@pytest.mark.parametrize("counts", [[5], [40_000], [1000] * 40, [32_768, 1], [32_700, 100, 3, 900]])
def test_moments_do_not_depend_on_the_pieces_they_are_made_in(counts):
    """Segments shorter, longer and as long as a piece, and ones that reach over its end."""
    rng = np.random.default_rng(0)
    payoff, late = rng.normal(size=sum(counts)).astype(np.float32), rng.random(sum(counts)) < 0.1
    starts = np.cumsum([0, *counts[:-1]])
    found = moments(payoff, late, starts)
    for k, (start, count) in enumerate(zip(starts, counts, strict=True)):
        own = payoff[start : start + count].astype(np.float64)
        off = own - own.mean()
        wanted = (count, own.mean(), np.sum(off**2), np.sum(off**3), np.abs(own).max())
        np.testing.assert_allclose([field[k] for field in found[:5]], wanted, rtol=1e-9, atol=1e-9)
        assert found.late[k] == late[start : start + count].sum()


def test_pooled_labels_weigh_by_paths():
    one, other = labels([1.0, 2.0], 0.3, 100, 1.0, 5), labels([3.0, 2.0], 0.4, 300, 2.0, 6)
    one = one._replace(skew=jnp.asarray([1.0, 0.0]), unfinished=jnp.asarray([1, 2], jnp.int32))
    one = one._replace(truncation=jnp.asarray([0.4, 0.0]), bias=jnp.asarray([0.0, 0.8]))
    both = one.pooled(other)
    np.testing.assert_allclose(both.value, [2.5, 2.0])
    np.testing.assert_allclose(both.stderr, math.hypot(0.25 * 0.3, 0.75 * 0.4))
    np.testing.assert_allclose(both.skew, [0.25, 0.0])
    np.testing.assert_allclose(both.bias, [0.0, 0.2])
    np.testing.assert_allclose(both.truncation, [0.1, 0.0])
    np.testing.assert_array_equal(both.unfinished, [1, 2])
    assert both.n_paths == 400 and both.provenance["path_steps"] == 11
    assert both.provenance["seconds"] == {"compile": 0.0, "run": 3.0}


def test_joined_labels_follow_each_other():
    one, other = labels([1.0, 2.0], 0.3, 100), labels([3.0], 0.4, 100)
    both = one.joined(other)
    np.testing.assert_array_equal(both.value, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(both.stderr, [0.3, 0.3, 0.4])
    assert both.n_paths == 100 and both.points.shape == (3, 1)
    for wrong in (other._replace(n_paths=99), other._replace(points=jnp.zeros((1, 2)))):
        with pytest.raises(ValueError, match="same number of paths per point, and points of"):
            one.joined(wrong)


def test_limits_are_tilted_by_the_skewness_of_a_mean():
    made = labels([0.0], 1.0, 400)._replace(skew=jnp.asarray([2.0]))
    low, high = made.interval(0.95)
    z, tilt = 1.959963984540054, 2.0 / 20.0
    bend = 3 * ((1 + tilt * (-z - tilt / 6)) ** (1 / 3) - 1) / tilt
    np.testing.assert_allclose([low[0], high[0]], [-z, -bend], rtol=1e-9)
    np.testing.assert_allclose(made._replace(skew=jnp.zeros(1)).interval(0.95)[1], z, rtol=1e-9)


# ---- bias


def test_the_bias_is_a_share_fitted_over_the_points():
    """Weighted least squares of the differences over the values."""
    fine, coarse = labels(WAVE, 0.1 + 0.01 * np.arange(N), 8), labels(1.1 * WAVE + 0.2, 0.2, 4)
    found = _with_bias(fine, coarse)
    weight = 1 / ((0.1 + 0.01 * np.arange(N)) ** 2 + 0.04)
    share = np.sum(weight * WAVE * (0.1 * WAVE + 0.2)) / np.sum(weight * WAVE**2)
    spread = np.sum(weight * WAVE**2) ** -0.5
    assert found.provenance["bias_share"] == pytest.approx(share, rel=1e-9)
    assert found.provenance["bias_share_stderr"] == pytest.approx(spread, rel=1e-9)
    np.testing.assert_allclose(found.bias, max(share, spread) * WAVE, rtol=1e-9)
    noisy = _with_bias(labels(-WAVE, 9.0, 8), labels(-WAVE, 9.0, 4))
    np.testing.assert_allclose(noisy.bias, (np.sum(WAVE**2) / 162) ** -0.5 * WAVE, rtol=1e-9)


def level(*runs) -> _Level:
    found = _Level()
    for run in runs:
        found.add(run)
    return found


def test_pilot_runs_at_one_step_add_up():
    first, second = labels(WAVE, 0.3, 100, 2.0, 50), labels(WAVE + 4.0, 0.1, 300, 3.0, 600)
    found = level(first, second)
    assert found.n_paths == 400 and found.steps == 650
    assert found.speed == pytest.approx(200.0)  # of the larger run
    assert level(second, first).speed == pytest.approx(200.0)
    np.testing.assert_allclose(found.mean, WAVE + 3.0)
    noise = (0.25 * 0.3) ** 2 + (0.75 * 0.1) ** 2
    np.testing.assert_allclose(found.noise(), noise, rtol=1e-9)
    size = np.mean((WAVE + 3.0) ** 2) - noise
    assert found.rel_variance() == pytest.approx(400 * noise / size, rel=1e-9)
    lost = level(labels(WAVE, 9.0, 10))  # noise hides the solution: its size is bounded below
    assert lost.rel_variance() == pytest.approx(810 / (0.1 * np.mean(WAVE**2)), rel=1e-9)


def test_what_one_halving_changes():
    fine, coarse = level(labels(WAVE, 0.01, 10)), level(labels(1.1 * WAVE - 0.5, 0.02, 10))
    noise = 0.01**2 + 0.02**2
    found = _bias(coarse, fine)
    gap, total, size = 0.1 * WAVE - 0.5, np.sum(WAVE**2), math.sqrt(np.mean(WAVE**2))
    assert found["share"] == pytest.approx(np.sum(WAVE * gap) / total, rel=1e-9)
    assert found["stderr"] == pytest.approx(math.sqrt(noise / total), rel=1e-9)
    offset, spread = np.mean(gap) / size, math.sqrt(noise / N) / size
    assert offset < 0
    assert found["offset_sure"] == pytest.approx(offset + 2 * spread, rel=1e-9)
    assert _bias(fine, fine)["offset_sure"] == 0.0
    # a point without noise has no more weight than twice that of the others
    uneven = level(labels(WAVE, np.where(np.arange(N) == 0, 0.0, 0.02), 10))
    weight = 1 / (2 * uneven.noise() + np.mean(2 * uneven.noise()))
    sure = math.sqrt(np.sum(weight**2 * WAVE**2 * 2 * uneven.noise()))
    assert _bias(uneven, uneven)["stderr"] == pytest.approx(sure / np.sum(weight * WAVE**2))


def test_predictions_round_numbers_and_tails():
    found = _predict(4.0, 100, 0.15, 7.0)
    assert found["rel_stderr"] == pytest.approx(0.2) and found["rel_bias"] == 0.15
    assert found["rel_error"] == pytest.approx(0.25) and found["seconds"] == 7.0
    for given, rounded in ((0.0129, 0.012), (0.5, 0.5), (1.99, 1.9), (3e-5, 3e-5), (123.0, 120.0)):
        assert _round_down(given) == pytest.approx(rounded, rel=1e-12)
    assert _tail(np.arange(101.0)) == pytest.approx(99.0)


def test_the_first_step_is_small_beside_all_that_happens():
    points = jnp.asarray([[-0.5], [0.0], [0.5]])
    first = lambda **data: _first_step(line(**data), points)
    assert first(diffusion=2.0) == pytest.approx(_round_down(0.25**2 / 4))
    assert first(diffusion=0.1) == pytest.approx(_round_down(0.25**2 / 0.01))
    # half a wavelength of the source over 2 pi: rms value over rms slope
    x = np.array([-0.5, 0.0, 0.5])
    rms = lambda a: math.sqrt(np.mean(a**2))
    length = 0.5 * rms(np.sin(9 * x)) / rms(9 * np.cos(9 * x))
    assert first(source=lambda x: jnp.sin(9 * x[0])) == pytest.approx(_round_down(length**2))
    assert first(reaction=50.0) == pytest.approx(0.002)
    assert first(drift=[20.0]) == pytest.approx(_round_down(1 / 400))  # noise beats drift
    assert first(drift=[2.0], diffusion=0.1) == pytest.approx(_round_down(0.01 / 4))
    assert first(drift=[4.0], diffusion=2.0) == pytest.approx(_round_down(0.25**2 / 4))
    assert first(drift=lambda x: 30.0 * (x - 1e-3)) < 0.1 / 30
    timed = fk.Problem(
        fk.Interval(-1.0, 1.0), horizon=0.08, terminal=0.0, diffusion=0.1, check=False
    )
    both = jnp.asarray([[0.0, 0.0], [0.01, 0.5]])
    assert _first_step(timed, both) == pytest.approx(0.005)


def test_the_step_that_moves_by_a_share_of_the_diameter():
    points = jnp.asarray([[0.0, 0.0], [0.5, 0.5]])
    problem = fk.Problem(fk.Box([-1.0, -1.0], [1.0, 1.0]), diffusion=[1.0, 3.0], check=False)
    diameter = problem.domain.diameter()
    assert step_size(problem, points, 0.02) == pytest.approx((0.02 * diameter) ** 2 / 5.0)
    timed = line(horizon=1e-3, terminal=0.0)
    assert step_size(timed, jnp.zeros((1, 2))) == pytest.approx(1e-5)


def test_long_steps_in_many_dimensions_are_short_next_to_walls():
    """Sixteen times as long inside, a quarter as long at the wall; no longer than drift allows."""
    points, heun = jnp.zeros((3, 10)), SCHEMES["heun"]
    ball = lambda **how: fk.Problem(fk.Ball([0.0] * 10, 2.0), check=False, **how)
    plain = ball(source=1.0, boundary=fk.Dirichlet(0.0))
    short = step_size(plain, points)
    assert steps_for(plain, points, heun)[:2] == pytest.approx((16 * short, 64))
    long = steps_for(plain, points, heun).times(4.0)  # at walls too: they are near sooner
    assert long == pytest.approx((64 * short, 64, 2.0, 0.0))
    # a matrix with one large singular value, which no single coordinate shows
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
    rate = turn @ np.diag([9.0] + [1.0] * 9) @ turn.T
    stiff = ball(drift=lambda x: -rate.astype(x.dtype) @ x, diffusion=0.5)
    found = steps_for(stiff, points, heun)
    assert found.dt == pytest.approx(0.1 / 9, rel=1e-3) and found.dt < 16 * step_size(stiff, points)
    damped = ball(reaction=4.0, diffusion=0.5)
    assert steps_for(damped, points, heun).dt == pytest.approx(0.1 / 4)
    # steps that are all alike: two dimensions, other walls, a horizon, noise that varies, spheres
    flat = fk.Problem(fk.Ball([0.0, 0.0], 2.0), check=False)
    mirror = ball(boundary=fk.Neumann(0.0), reaction=1.0)
    timed = ball(horizon=1.0, terminal=0.0)
    varying = ball(diffusion=lambda x: 1.0 + 0.1 * x[0])
    for other in (mirror, timed, varying):
        where = jnp.zeros((3, other.n_coords))
        assert steps_for(other, where, heun)[:2] == (step_size(other, where), 1)
    assert steps_for(flat, points[:, :2], heun)[:2] == (step_size(flat, points[:, :2]), 1)
    assert steps_for(plain, points, Spheres())[:2] == (short, 1)


def test_steps_and_walks_follow_the_smallest_hole():
    """A hole as large as those of `committor` changes nothing; one in many dimensions does."""
    plate = fk.catalogue("committor").problem
    assert step_size(plate, jnp.zeros((1, 2))) == pytest.approx(
        (0.005 * plate.domain.diameter()) ** 2 / float(plate.covariance(jnp.zeros(2))[0, 0])
    )
    dim = 30
    hollow = fk.Ball([0] * dim, 1.0) - fk.Ball([0] * dim, 0.1)
    problem = fk.Problem(hollow, check=False)
    # a tenth of the radius over half the dimension
    assert step_size(problem, jnp.zeros((1, dim))) == pytest.approx((0.1 * 0.1 / 15) ** 2)
    # longer where the hole is far, and as short next to it
    found = steps_for(problem, jnp.zeros((1, dim)), SCHEMES["heun"])
    assert found.refine == 1024 and found.dt == pytest.approx(256 * (0.1 * 0.1 / 15) ** 2)
    plane = fk.Problem(fk.Ball([0, 0], 1.0) - fk.Ball([0, 0], 1e-3), check=False)
    found = steps_for(plane, jnp.full((1, 2), 0.5), SCHEMES["heun"])
    assert found.dt / found.refine <= step_size(plane, jnp.full((1, 2), 0.5)) * (1 + 1e-6)
    assert found.refine == 1024
    for name in ("default", "spheres"):
        walk = choose_scheme(problem, name).walk
        assert isinstance(walk, Spheres)
        assert walk.width(problem) == pytest.approx(0.02 * 0.1 / 15)
    plain = fk.Problem(fk.Ball([0] * dim, 1.0), check=False)
    assert choose_scheme(plain).walk == Spheres()


def test_steps_are_long_where_there_is_no_wall():
    """In four and more dimensions; they are those of a horizon, or cover a fiftieth of the size."""
    point = lambda dim: jnp.zeros((1, dim + 1))
    where = lambda dim: fk.problem.InBox([-1.0] * dim, [1.0] * dim)
    space = lambda dim, sigma: fk.Problem(
        fk.Space(dim), diffusion=sigma, horizon=1.0, terminal=0.0, measure=where(dim), check=False
    )
    assert step_size(space(10, 0.01), point(10)) == pytest.approx(0.01)
    fast = space(10, 5.0)
    size = fast.domain.diameter() / 5**0.5
    assert step_size(fast, point(10)) == pytest.approx((0.02 * size / 5.0) ** 2)
    slow = space(2, 5.0)
    assert step_size(slow, point(2)) == pytest.approx((0.005 * slow.domain.diameter() / 5.0) ** 2)


def test_steps_become_shorter_as_paths_leave_sooner():
    """From the center of a ball they leave after 1 / d, with so many steps in any dimension."""
    heun = SCHEMES["heun"]
    for dim in (100, 1000):
        problem = fk.Problem(fk.Ball([0] * dim, 1.0), check=False)
        point = jnp.zeros((1, dim))
        chosen = choose_scheme(problem)  # spheres would take thousands
        assert chosen.walk == heun and "more than 30 dimensions" in chosen.reason
        assert step_size(problem, point) == pytest.approx(1 / (64 * dim))
        found = steps_for(problem, point, heun)
        assert found == pytest.approx((1 / (4 * dim), 64, dim**0.5 / 2, 0.0))
        timed = fk.Problem(problem.domain, horizon=1.0, terminal=0.0, check=False)
        assert step_size(timed, jnp.zeros((1, dim + 1))) == pytest.approx(1 / (64 * dim))
    few = fk.Problem(fk.Ball([0] * 50, 1.0), check=False)
    assert steps_for(few, jnp.zeros((1, 50)), heun).near == 4.0


# ---- work


def test_batches_are_whole_segments_that_are_not_done():
    points = jnp.zeros((2, 1))
    plan = Plan(line(), choose_scheme(line(), "euler").walk, points, 2500, 0.1, None, 0)
    none = np.zeros(6, bool)
    assert _batches(plan, Lanes((8,), 10_000, 1), none) == [(0, 5000)]
    assert _batches(plan, Lanes((8,), 10_000, 2), none) == [(0, 2500), (2500, 2500)]
    small = [(0, 1024), (1024, 1024), (2048, 452), (2500, 1024), (3524, 1024), (4548, 452)]
    assert _batches(plan, Lanes((8,), 400, 1), none) == small
    done = np.array([True, False, False, True, False, True])
    assert _batches(plan, Lanes((8,), 10_000, 1), done) == [(1024, 1476), (3524, 1024)]
    pairs = plan._replace(antithetic=True)
    assert _batches(pairs, Lanes((8,), 400, 1), np.zeros(4, bool)) == [
        (0, 2048), (2048, 452), (2500, 2048), (4548, 452)
    ]  # fmt: skip


def test_paths_that_end_and_paths_that_do_not():
    assert line().paths_end() and line(boundary=fk.Robin(1.0)).paths_end()
    assert line(boundary=fk.Neumann(), reaction=1.0).paths_end()
    assert line(boundary=fk.Neumann(), horizon=1.0, terminal=0.0).paths_end()
    assert not line(boundary=fk.Neumann()).paths_end()


def test_the_first_difference_between_runs_is_named(tmp_path):
    here = {"dt": 0.1, "seed": 3, "n_paths": 4}
    check_same(tmp_path, dict(here), here)
    with pytest.raises(ValueError, match="its `seed` is 4, this run's is 3"):
        check_same(tmp_path, here | {"seed": 4}, here)
    with pytest.raises(ValueError, match=r"its `dt` is None, this run's is 0\.1"):
        check_same(tmp_path, {"n_paths": 4}, here)


def test_damaged_arrays_are_named(tmp_path):
    good = labels([1.0, 2.0], 0.3, 100)._replace(provenance={})
    path = tmp_path / "labels.npz"
    nan, inf = jnp.asarray([1.0, jnp.nan]), jnp.asarray([1.0, -jnp.inf])
    for change, message in (
        ({"value": nan}, "`value` is not finite"),
        ({"skew": inf}, "`skew` is not finite"),
        ({"bias": inf}, "`bias` is not finite"),
        ({"stderr": jnp.asarray([0.1, -0.1])}, "`stderr` or `unfinished` is negative"),
        ({"unfinished": jnp.asarray([0, -1])}, "`stderr` or `unfinished` is negative"),
        ({"value": jnp.ones(3)}, r"`value` has shape \(3,\) for 2 points"),
        ({"unfinished": jnp.zeros(2)}, "`unfinished` has the type float64"),
        ({"points": jnp.ones(2)}, r"`points` has shape \(2,\)"),
        ({"n_paths": -1}, "`n_paths` is"),
    ):
        Labels._make({**good._asdict(), **change}.values()).save(path)
        with pytest.raises(ValueError, match=message):
            Labels.load(path)
    good._replace(bias=nan, n_paths=0).save(path)  # the bias may be unknown
    assert Labels.load(path).n_paths == 0


@pytest.fixture
def given(monkeypatch):
    """Labels are made from payoffs that are given; returns the plans that were asked for."""
    from fkpinn.sde import Ended

    payoff = np.array([1.0, 3.0, 5.0, 7.0, -2.0, -2.0, -2.0, -6.0])
    late = np.array([0, 1, 0, 0, 1, 1, 0, 0], bool)
    plans = []

    def run(plan, batches, widths):
        plans.append(plan)
        n = len(plan.points) * plan.n_paths
        return iter([Ended(0, np.resize(payoff, n), np.resize(late, n), np.arange(n))])

    monkeypatch.setattr("fkpinn.labels._estimate.run_batches", run)
    monkeypatch.setattr("fkpinn.labels._estimate.compile_batch", lambda *_: None)
    return plans


TWO = jnp.asarray([[0.0], [0.5]])


def test_small_estimates_are_means_of_payoffs(given):
    """Values, errors and shares that were cut, from payoffs that are given."""
    how = {"n_paths": 4, "dt": 0.1, "scheme": "euler", "t_max": 9.0}
    found = fk.estimate_labels(line(), TWO, throw=False, **how)
    np.testing.assert_allclose(found.value, [4.0, -3.0])
    np.testing.assert_allclose(found.stderr, [math.sqrt(20 / 3) / 2, 1.0])
    np.testing.assert_array_equal(found.unfinished, [1, 2])
    np.testing.assert_allclose(found.truncation, [0.25 * 4.0, 0.5 * 4.0])
    np.testing.assert_allclose(found.skew, [0.0, -2 / math.sqrt(3)], atol=1e-12)
    assert found.provenance["path_steps"] == 28 and found.provenance["t_max"] == 9.0
    pairs = fk.estimate_labels(line(), TWO, throw=False, antithetic=True, **how)
    np.testing.assert_allclose(pairs.value, [4.0, -3.0])
    np.testing.assert_allclose(pairs.stderr, [2.0, 1.0])
    np.testing.assert_array_equal(pairs.unfinished, [1, 2])
    with pytest.raises(ValueError, match="3 of 8 paths had not ended at `t_max`=9"):
        fk.estimate_labels(line(), TWO, antithetic=True, **how)
    assert [plan.n_steps for plan in given] == [90, 90, 90]  # 9 / 0.1, in spite of rounding


def test_biases_come_from_half_the_paths_with_twice_the_step(given):
    how = {"dt": 0.1, "scheme": "euler", "t_max": 9.0, "throw": False, "seed": 2**64 - 1}
    found = fk.estimate_labels(line(), TWO, n_paths=18, bias=True, **how)
    fine, coarse = given
    root = Stream(2**64 - 1)
    paths, coarser = (root / "paths").seed, (root / "coarse" / "paths").seed
    assert (fine.n_paths, fine.dt, fine.seed, fine.n_steps) == (18, 0.1, paths, 90)
    assert (coarse.n_paths, coarse.dt, coarse.seed, coarse.n_steps) == (8, 0.2, coarser, 45)
    assert np.all(np.isfinite(found.bias))
    fk.estimate_labels(line(), TWO, n_paths=5, bias=True, **how)
    assert given[-1].n_paths == 4


def test_what_is_compiled_is_what_is_run(given, monkeypatch):
    compiled = []
    keep = lambda plan, widths, count: compiled.append((plan, count))
    monkeypatch.setattr("fkpinn.labels._estimate.compile_batch", keep)
    compile_labels(line(), TWO, n_paths=4, dt=0.1, scheme="heun")
    fk.estimate_labels(line(), TWO, n_paths=4, dt=0.1, scheme="heun", throw=False)
    plan, count = compiled[0]
    assert plan.walk == given[0].walk and plan.n_steps == given[0].n_steps and plan.dt == 0.1
    assert count == 8


def test_a_payoff_that_is_no_number_is_looked_up(monkeypatch):
    from fkpinn.sde import Ended

    payoff = np.array([1.0, 2.0, np.nan, np.inf, 0.0])
    ended = Ended(3, payoff, np.zeros(5, bool), np.arange(5))
    monkeypatch.setattr("fkpinn.labels._estimate.run_batches", lambda *_: iter([ended]))
    monkeypatch.setattr("fkpinn.labels._estimate.compile_batch", lambda *_: None)
    told = lambda plan, number, how_many: f"path {number}, {how_many} of them"
    monkeypatch.setattr("fkpinn.labels._estimate.describe_lost_path", told)
    with pytest.raises(ValueError, match="path 5, 2 of them"):
        fk.estimate_labels(line(), TWO, n_paths=4, dt=0.1, scheme="euler")


def test_arguments_at_their_limits(given):
    def run(**how):
        how = {"n_paths": 4, "dt": 0.1, "scheme": "euler", "throw": False} | how
        return fk.estimate_labels(line(), TWO, **how)

    for accepted in (
        {"n_paths": 2}, {"n_paths": 4, "antithetic": True}, {"forget": 0.1}, {"read_every": 64},
        {"refine": 1024}, {"t_max": 0.05}, {"dt": 1e-3}, {"seed": 2**64 - 1},
    ):  # fmt: skip
        run(**accepted)
    assert given[5].n_steps == 1  # at least one step
    for refused, message in (
        ({"n_paths": 1}, "`n_paths` must be at least 2"),
        ({"n_paths": 2, "antithetic": True}, "must be even and at least 4"),
        ({"n_paths": 5, "antithetic": True}, "must be even and at least 4"),
        ({"forget": 0.11}, r"`forget` must lie in \(0, 0.1\]"),
        ({"forget": 0.0}, "`forget` must lie"),
        ({"read_every": 128}, "`read_every` must be a power of 2"),
        ({"refine": 2048}, "`refine` must be a power of 2"),
        ({"refine": 2, "t_max": 1.0}, "does not support `t_max`"),
        ({"t_max": 0.0}, "`t_max` must be positive"),
        ({"dt": 0.0}, "`dt` must be positive"),
        ({"dt": math.inf}, "`dt` must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            run(**refused)


def test_rare_heavy_payoffs_are_warned_of(monkeypatch):
    """One path of a hundred with more than half of the sum, or a tenth where payoffs may grow."""
    from fkpinn.sde import Ended

    def run(heavy, n=100, reaction=0.0):
        payoff = np.append(np.ones(n - 1), heavy)
        ended = Ended(0, payoff, np.zeros(n, bool), np.arange(n))
        monkeypatch.setattr("fkpinn.labels._estimate.run_batches", lambda *_: iter([ended]))
        monkeypatch.setattr("fkpinn.labels._estimate.compile_batch", lambda *_: None)
        fk.estimate_labels(line(reaction=reaction), TWO[:1], n_paths=n, dt=0.1, scheme="euler")

    run(98.0)
    run(1e6, n=99)  # too few paths to tell
    run(10.0, reaction=-0.1)
    run(20.0, reaction=0.1)
    for heavy, reaction, share in ((100.0, 0.0, 50), (12.0, -0.1, 10)):
        with pytest.warns(UserWarning, match=f"a single path contributes more than {share}%"):
            run(heavy, reaction=reaction)
