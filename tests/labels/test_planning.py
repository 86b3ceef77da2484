"""Plans from pilot runs whose outcome is given: steps, paths and predictions are the formulas'."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import fkpinn as fk
from fkpinn._progress import SilentProgress
from fkpinn._streams import Stream
from fkpinn.labels import Labels, choose_scheme, plan_labels
from fkpinn.labels._plan import _Pilot, _round_down
from fkpinn.sde import Ended

N = 32
WAVE = 2.0 + np.cos(np.arange(N))
SIZE = math.sqrt(np.mean(WAVE**2))
SPEED = 1e6


def outcome(slope, noise, length):
    """A run of a pilot: values off by `slope * dt`, paths of that length, a steady machine."""

    def run(self, dt, n_paths):
        self.n_runs += 1
        steps = round(length / (dt if self.chosen.name != "spheres" else 1.0) * n_paths * N)
        value, stderr = WAVE * (1 + slope * dt), noise * SIZE / math.sqrt(n_paths)
        made = Labels.from_data(np.zeros((N, 1)), value, stderr)
        about = {"path_steps": steps, "seconds": {"compile": 0.0, "run": steps / SPEED}}
        self.add(dt, made._replace(n_paths=n_paths, provenance=about))

    return run


def add(self, dt, labels):
    from fkpinn.labels._plan import _Level

    self.asked = [*getattr(self, "asked", []), (dt, labels.n_paths)]
    self.levels.setdefault(dt, _Level()).add(labels)


@pytest.fixture
def pilots(monkeypatch):
    """Makes pilots with given outcomes, and a first step of 0.064."""

    def make(slope, noise, length=1.0, left=1e9):
        monkeypatch.setattr(_Pilot, "add", add, raising=False)
        monkeypatch.setattr(_Pilot, "run", outcome(slope, noise, length))
        monkeypatch.setattr(_Pilot, "left", lambda self: left)
        monkeypatch.setattr(_Pilot, "probe", lambda self, dt: {"mean_time": 9.0, "time_tail": 9.9})
        monkeypatch.setattr("fkpinn.labels._plan._first_step", lambda *_: 0.064)

    return make


def drifting() -> fk.Problem:
    return fk.Problem(fk.Interval(-1.0, 1.0), drift=[0.5], source=1.0, check=False)


def pilot() -> _Pilot:
    problem = drifting()
    return _Pilot(problem, choose_scheme(problem), None, 10.0, Stream(0), SilentProgress())


def test_the_step_balances_bias_and_noise(pilots):
    slope, noise, seconds, n_points = 0.4, 0.05, 10.0, 100
    pilots(slope, noise)
    plan = plan_labels(drifting(), seconds=seconds, n_points=n_points)
    # 0.016 is the first step of which a half changes less than half a percent
    assert plan.pilot["bias_dt"] == 0.008 and plan.pilot["resolved"]
    bias = slope * 0.008 / (1 + slope * 0.008)
    assert plan.pilot["bias_share"] == pytest.approx(bias, rel=1e-6)
    work = n_points / (SPEED * seconds)  # paths of length one
    variance = plan.pilot["rel_std"] ** 2
    assert variance == pytest.approx(noise**2, rel=0.02)
    error = lambda dt: (bias / 0.008 * dt) ** 2 + variance * work / dt
    best = minimize_scalar(error, bounds=(1e-4, 8e-3), method="bounded", options={"xatol": 1e-9}).x
    assert 0.002 < best < 0.008
    assert plan.dt == pytest.approx(_round_down(best), rel=1e-9)
    assert plan.n_paths == int(plan.dt / work)
    assert plan.pilot["mean_steps"] == pytest.approx(125.0)
    assert plan.pilot["mean_time"] == pytest.approx(1.0)
    assert plan.pilot["path_steps_per_s"] == pytest.approx(SPEED)
    assert plan.predicted["rel_stderr"] == pytest.approx(math.sqrt(variance / plan.n_paths))
    assert plan.predicted["rel_bias"] == pytest.approx(bias / 0.008 * plan.dt)
    assert plan.predicted["seconds"] == pytest.approx(seconds, rel=0.01)


def test_steps_are_not_much_finer_than_what_was_seen(pilots):
    pilots(0.4, 0.05)
    many = plan_labels(drifting(), seconds=1e9, n_points=1)
    assert many.dt == pytest.approx(_round_down(0.008 / 16))
    few = plan_labels(drifting(), seconds=1e-4, n_points=1000)
    assert few.dt == 0.008 and few.n_paths == 16  # as coarse as allowed, as few as make sense


def test_without_time_the_bias_stays_unresolved(pilots):
    pilots(0.4, 0.05, left=0.0)
    plan = plan_labels(drifting(), seconds=10.0, n_points=100)
    assert not plan.pilot["resolved"] and plan.dt == pytest.approx(0.032)


def test_noise_asks_for_more_paths_before_a_finer_step(pilots):
    """Its share counts as known at a standard error of 0.003; 0.0027 is aimed at."""
    pilots(0.0, 1.0)
    one = pilot()
    at, bias = one.search(0.01)
    spread = math.sqrt(2 / 64 / N)  # of the share, from 64 paths at each step
    known, wanted = (64 * (spread / sure) ** 2 for sure in (0.003, 0.0027))
    assert at == 0.005 and bias["resolved"] and {dt for dt, _ in one.asked} == {0.01, 0.005}
    assert known <= one.levels[0.01].n_paths < wanted + 1024
    assert one.levels[0.01].n_paths == one.levels[0.005].n_paths


def test_a_bias_that_does_not_vanish_ends_the_search(pilots):
    pilots(100.0, 1e-3)
    one = pilot()
    at, bias = one.search(0.064)
    assert at == pytest.approx(0.064 / 2**8) and not bias["resolved"]


def test_what_is_affordable(pilots):
    pilots(0.0, 1.0, left=10.0)
    one = pilot()
    one.fill(0.1, 64)
    one.fill(0.05, 64)
    each = 3 * 10 * N / SPEED  # seconds for a path a point at both steps
    most = 64 + int(10.0 / each)
    assert one._affordable(0.1, 1000, 64) == 1024
    assert one._affordable(0.1, 10, 64) == 128  # at least a small run more
    assert one._affordable(0.1, 10**9, 64) == -(-most // 64) * 64
    pilots(0.0, 1.0, left=64 * each * 1.01)
    assert one._affordable(0.1, 10**9, 64) == 128
    pilots(0.0, 1.0, left=64 * each * 0.9)
    assert one._affordable(0.1, 10**9, 64) == 0


def test_runs_fill_up_in_two_sizes_and_speeds_come_from_large_ones(pilots):
    pilots(0.0, 1.0)
    one = pilot()
    one.fill(0.1, 1700)
    assert one.asked == [(0.1, 1024), (0.1, 1024)]
    one.fill(0.2, 130)
    assert one.asked[2:] == [(0.2, 64)] * 3
    one.clock(0.2)
    assert one.asked[-1] == (0.2, 1024)
    one.clock(0.2)
    assert len(one.asked) == 6 and one.mean_steps(0.2) == pytest.approx(5.0)


def test_walks_on_spheres_have_no_step_to_plan(pilots):
    pilots(0.0, 0.5, length=20.0)
    problem = fk.Problem(fk.Interval(-1.0, 1.0), source=1.0, check=False)
    plan = plan_labels(problem, seconds=2.0, n_points=50)
    assert plan.scheme == "spheres" and plan.predicted["rel_bias"] == 0.0
    assert plan.n_paths == int(2.0 * SPEED / (20 * 50))
    assert plan.predicted["seconds"] == pytest.approx(2.0)
    assert plan.pilot["mean_steps"] == pytest.approx(20.0)
    assert plan.predicted["rel_stderr"] == pytest.approx(0.5 / math.sqrt(2000), rel=0.01)


def test_a_probe_runs_every_path_once(monkeypatch):
    asked = []

    def run(plan, batches, widths):
        asked.extend([plan.dt, plan.n_steps, *batches])
        for first, count in batches:
            steps = np.arange(first, first + count)
            yield Ended(first, np.zeros(count), steps < 100, steps)

    monkeypatch.setattr("fkpinn.labels._plan.run_batches", run)
    one = pilot()
    one.points = jnp.zeros((N, 1))
    found = one.probe(0.5)
    dt, n_steps, *batches = asked
    assert dt == 0.5 and n_steps == 1 << 14
    assert [n for first, count in batches for n in range(first, first + count)] == [*range(2048)]
    assert found["mean_time"] == pytest.approx(0.5 * 1023.5)
    assert found["time_tail"] == pytest.approx(0.5 * 0.99 * 2047)
