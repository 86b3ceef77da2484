"""Certificates and corrected values from given corrections, against the formulas written out."""

import math
import types
from statistics import NormalDist

import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import Compute, Lanes, using
from fkpinn._interval import skewed_limits
from fkpinn._streams import Stream
from fkpinn.evaluate import Certificate, DefectPaths, certify, value_with_interval
from fkpinn.evaluate._certify import _assess, _measure, _Pair, _pilot, _Seen
from fkpinn.labels import Labels, Steps

N = 12
WAVE = np.cos(np.arange(N))  # corrections differ from point to point


def labels(value, stderr, n_paths, seconds=1.0) -> Labels:
    n = len(value)
    made = Labels.from_data(np.zeros((n, 2)), value, stderr)
    about = {
        "scheme": "heun",
        "dt": 0.1,
        "path_steps": 7,
        "seconds": {"compile": 0.0, "run": seconds},
    }
    return made._replace(n_paths=n_paths, provenance=about)


class Paths(DefectPaths):
    """Paths whose outcome is given, and which remember what was asked for."""

    def __init__(self, outcome, *, n=N, size=2.0, stepped=True, seconds=1.0):
        self.outcome, self.seconds, self.asked = outcome, seconds, []
        self.points, self.value = jnp.zeros((n, 2)), size + 0.1 * np.sin(np.arange(n))
        self.steps, self.stepped = Steps(0.1, 64), stepped

    def lanes(self):
        return Lanes((8,), 64, 1)

    def run(self, n_paths, *, coarse=False, bias=False, stream="0", pilot=False):
        self.asked.append((n_paths, coarse, stream))
        value, stderr = self.outcome(n_paths, coarse)
        seconds = self.seconds(n_paths) if callable(self.seconds) else self.seconds
        found = labels(value, stderr, n_paths, seconds)
        return found._replace(bias=jnp.full(len(value), 0.03)) if bias else found


@pytest.mark.parametrize(
    ("dim", "widths"), [(10, (1 << 16, 1 << 12)), (100, (1 << 13, 1 << 12)), (1000, (1 << 10,))]
)
def test_derivatives_of_all_paths_have_room(dim, widths):
    paths = object.__new__(DefectPaths)
    paths.problem, paths.called = types.SimpleNamespace(dim=dim), False
    with using(Compute("gpu", 8, row_chunk=None, row_entries=1 << 28)):
        assert paths.lanes().widths == widths


def fine_or_coarse(n_paths, coarse):
    value = (0.3 if coarse else 0.2) + 0.05 * WAVE
    return value, np.full(N, 0.4 / math.sqrt(n_paths))


def test_a_certificate_is_its_formulas():
    paths = Paths(fine_or_coarse)
    found = _measure(paths, 16, 0.9, 60.0, True)
    assert paths.asked == [(16, False, "batches/0"), (8, True, "coarse/0")]
    w, e, s = paths.value, 0.2 + 0.05 * WAVE, 0.1
    square = e**2 - s**2
    whole = w**2 + 2 * w * e + square
    size = np.mean(whole)
    ratio = np.mean(square) / size
    rest = (square - ratio * whole) / size
    spread = np.std(rest, ddof=1)
    tilt = np.mean((rest / spread) ** 3) / math.sqrt(N)
    low, high = skewed_limits(ratio, spread / math.sqrt(N), tilt, 0.9)
    coarse = (0.3 + 0.05 * WAVE) ** 2 - 0.4**2 / 8
    effect = abs(np.mean(coarse - square)) / size
    low, high = ratio - math.hypot(ratio - low, effect), ratio + math.hypot(high - ratio, effect)
    seen = _assess(w, _Pair.run(paths, 16, 1), 0.9)
    assert seen.half == pytest.approx(0.5 * (high - low), rel=1e-9)
    noise = lambda e, s: 4 * np.maximum(e**2 - s**2, 0) * s**2 + 2 * s**4
    both = np.mean(noise(e, s) + noise(0.3 + 0.05 * WAVE, 0.4 / math.sqrt(8))) / N
    assert seen.effect_sure == max(seen.effect - 2 * math.sqrt(both) / size, 0.0)
    quiet = lambda n, coarse: (fine_or_coarse(n, coarse)[0], np.full(N, 1e-3))
    sure = _assess(w, _Pair.run(Paths(quiet), 16, 1), 0.9)
    both = np.mean(noise(e, 1e-3) + noise(0.3 + 0.05 * WAVE, 1e-3)) / N
    size_of = np.mean(w**2 + 2 * w * e + e**2 - 1e-6)
    assert sure.effect_sure == pytest.approx(sure.effect - 2 * math.sqrt(both) / size_of, rel=1e-9)
    low, high = math.sqrt(max(low, 0.0)), math.sqrt(high)
    l2_rel = math.sqrt(ratio)
    expected = {
        "l2_rel": l2_rel, "ci_low": low, "ci_high": high, "level": 0.9,
        "l2_abs": l2_rel * math.sqrt(size), "step_effect": effect / (2 * max(l2_rel, high / 2)),
    }  # fmt: skip
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9), name
    record = found.to_dict()
    assert record["n_points"] == N and record["n_paths"] == 16 and record["dt"] == 0.1
    assert record["step_effect"] == found.step_effect > 0


def test_without_a_step_there_is_no_effect_of_it():
    paths = Paths(fine_or_coarse, stepped=False)
    found = _measure(paths, 16, 0.95, 60.0, True)
    assert paths.asked == [(16, False, "batches/0")] and found.step_effect == 0.0


def test_typical_is_at_least_half_of_the_upper_limit():
    made = _measure(Paths(fine_or_coarse), 4, 0.95, 60.0, True)
    assert made._replace(l2_rel=0.1, ci_high=0.4).typical == 0.2
    assert made._replace(l2_rel=0.3, ci_high=0.4).typical == 0.3
    assert isinstance(made, Certificate)
    seen = _Seen(0.01, 0.08, 0.14, 0.0, 0.0, 0.0, 1.0)
    assert seen.width == pytest.approx(0.03 / 0.1)
    assert seen._replace(square=-1.0).width == pytest.approx(0.03 / 0.07)


def test_a_pilot_asks_for_paths_that_leave_little_noise():
    """Two standard errors of the mean square are a tenth of it."""
    error, variance = 0.1, 0.5
    outcome = lambda n, coarse: (
        np.full(N, math.sqrt(error + variance / n)),
        math.sqrt(variance / n),
    )
    both = lambda n, coarse: (outcome(n, coarse)[0], np.full(N, outcome(n, coarse)[1]))
    paths = Paths(both, seconds=1e-6)
    pilot = _pilot(paths, 1e6)
    assert paths.asked == [(4, False, "pilot/4")]
    m = pilot.n_paths
    assert m % 2 == 0 and m > 100
    noise = lambda m: 2 * math.sqrt((4 * error * variance / m + 2 * variance**2 / m**2) / N)
    assert noise(m + 2) <= 0.1 * error <= noise(m - 2) * (1 + 1e-9)
    assert pilot.rough == pytest.approx(math.sqrt(error / np.mean(paths.value**2)))
    # a slow run: as many as the time allows, a quarter kept in hand
    assert _pilot(Paths(both, seconds=2.0), 100.0).n_paths == int(4 * 100 / 2 / 1.25)
    # nothing but noise: four times as many paths, until a quarter of the time is spent
    wild = lambda n, coarse: (WAVE, np.full(N, math.sqrt(0.5)))
    paths = Paths(wild, seconds=lambda n: n / 16)
    _pilot(paths, 20.0)
    assert paths.asked == [(n, False, f"pilot/{n}") for n in (4, 16, 64)]


def test_how_many_more_paths():
    wave = labels(WAVE, 0.1, 100)
    pair = _Pair(wave, None, 1.5)
    assert pair.next(0.3, 10.0, False) == 224  # 100 (3/2)^2, even
    assert pair.next(9.0, 10.0, False) == 300  # three times as many at most
    assert pair.next(9.0, 2.81, False) == 100  # 1.31 s left, at 1.3 times the price
    assert pair.next(0.3, 10.0, True) == 100
    assert pair.next(0.3, 3.0, True) == 74  # 1.5 s left, at twice the price
    assert pair.next(0.3, 1.7, False) == 0  # less than a quarter is not worth it
    most = pair._replace(fine=wave._replace(n_paths=(1 << 20) - 100))
    assert most.next(9.0, 1e9, False) == 0


def test_more_paths_or_a_finer_step():
    paths = Paths(fine_or_coarse)
    pair = _Pair.run(paths, 20, 1)
    assert pair.coarse is not None and pair.seconds == 2.0
    more = pair.more(paths, 30, 3)
    assert paths.asked == [(20, False, "batches/1"), (10, True, "coarse/1"),
                           (30, False, "batches/3"), (15, True, "coarse/3")]  # fmt: skip
    assert more.fine.n_paths == 50 and more.coarse.n_paths == 25 and more.seconds == 4.0
    finer = more.refined(paths, 40, 5)
    assert paths.steps.dt == 0.05 and paths.steps.near == pytest.approx(4 * 2**0.5)
    assert paths.asked[-1] == (40, False, "batches/5")
    assert finer.coarse is more.fine and finer.fine.n_paths == 40 and finer.seconds == 5.0


def test_wide_limits_ask_for_a_finer_step_or_for_more_paths():
    """Where the effect of the step is sure it is halved, if it may be; else paths are added."""
    quiet = lambda n, coarse: ((0.6 if coarse else 0.2) + 0.02 * WAVE, np.full(N, 1e-3))
    halved = Paths(quiet, seconds=1e-6)
    _measure(halved, None, 0.95, 1e6, True)
    first = [(4, False, "pilot/4"), (4, True, "coarse/0")]
    assert halved.asked[:3] == [*first, (4, False, "batches/1")]
    assert halved.steps.dt == 0.05
    kept = Paths(quiet, seconds=1e-6)
    _measure(kept, None, 0.95, 1e6, False)
    assert kept.steps.dt == 0.1
    assert kept.asked[2:4] == [(12, False, "batches/1"), (6, True, "coarse/1")]
    fixed = Paths(quiet, seconds=1e-6)
    _measure(fixed, 8, 0.95, 1e6, True)
    assert fixed.steps.dt == 0.1
    assert fixed.asked == [(8, False, "batches/0"), (4, True, "coarse/0")]
    noisy = lambda n, coarse: (0.2 + 0.3 * WAVE, np.full(N, 1e-3))
    more = Paths(noisy, seconds=1e-6)
    _measure(more, None, 0.95, 1e6, True)
    names = ["pilot/4", "coarse/0", "batches/1", "coarse/1"]
    assert more.steps.dt == 0.1 and [run[2] for run in more.asked[:4]] == names
    sharp = lambda n, coarse: (np.full(N, 0.2), np.full(N, 1e-3))
    enough = Paths(sharp, seconds=1e-6)
    _measure(enough, None, 0.95, 1e6, True)
    assert enough.asked == first


def certified(monkeypatch, error, **how):
    """The precisions that were used for a candidate of that error."""
    made = []

    def paths(problem, candidate, at, *, dtype, **rest):
        outcome = lambda n, coarse: (np.full(len(at), error), np.full(len(at), 1e-3 * error))
        made.append((dtype, len(at)))
        return Paths(outcome, n=len(at), size=1.0, stepped=False, seconds=1e-6)

    monkeypatch.setattr("fkpinn.evaluate._certify.DefectPaths", paths)
    problem = fk.catalogue("poisson").problem
    certify(problem, lambda z: z[0], **{"n_points": 300, **how})
    return made


def test_small_errors_are_measured_in_double_precision(monkeypatch):
    assert certified(monkeypatch, 0.1) == [("float32", 256), ("float32", 300)]
    assert certified(monkeypatch, 1.5e-3) == [("float32", 256), ("float64", 300)]
    assert certified(monkeypatch, 1.5e-3, n_paths=8) == [("float32", 300)]
    assert certified(monkeypatch, 5e-4, n_paths=8) == [("float32", 300), ("float64", 300)]


def test_the_fewest_points_and_paths(monkeypatch):
    how = {"n_points": 8, "n_paths": 4, "seconds": 0.5, "seed": 2**64 - 1}
    assert certified(monkeypatch, 0.1, **how) == [("float32", 8)]
    for few in ({"n_points": 7}, {"n_paths": 3}, {"seconds": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            certified(monkeypatch, 0.1, **(how | few))


def test_values_are_corrected_and_limits_hold_noise_and_step(monkeypatch):
    outcome = lambda n, coarse: (0.2 + 0.1 * WAVE, np.full(N, 0.4 / math.sqrt(n)))
    made = Paths(outcome, seconds=1e-6)
    seeds = []
    make = lambda *args, **how: seeds.append(how["seed"]) or made
    monkeypatch.setattr("fkpinn.evaluate._values.DefectPaths", make)
    points, z = np.zeros((N, 2)), NormalDist().inv_cdf(0.95)
    problem = fk.catalogue("poisson").problem
    found = value_with_interval(problem, lambda z: z[0], points, n_paths=400, level=0.9)
    middle = made.value + 0.2 + 0.1 * WAVE
    np.testing.assert_allclose(found.value, middle, rtol=1e-12)
    np.testing.assert_allclose(found.high, middle + z * 0.02 + 0.03, rtol=1e-9)
    np.testing.assert_allclose(found.low, middle - z * 0.02 - 0.03, rtol=1e-9)
    value_with_interval(problem, lambda z: z[0], points)
    assert [run[0] for run in made.asked] == [400, 1000] and seeds == [0, 0]
    value_with_interval(problem, lambda z: z[0], points, half_width=0.01, level=0.9)
    needed = (z * 0.4 / (0.7 * 0.01)) ** 2
    assert [run[0] for run in made.asked[2:]] == [256, int(needed)]
    assert made.asked[2][2] != made.asked[3][2]  # other paths than those of the pilot
    made.seconds = 1.0
    value_with_interval(problem, lambda z: z[0], points, half_width=0.01, seconds=10.0)
    assert made.asked[-1][0] == 2048  # 256 paths a second, a fifth of the time kept in hand


def test_runs_have_seeds_and_steps_of_their_own(monkeypatch):
    asked = []
    keep = lambda problem, points, **how: asked.append(how) or labels(WAVE, 0.1, how["n_paths"])
    monkeypatch.setattr("fkpinn.evaluate._defect_paths.estimate_labels", keep)
    problem = fk.Problem(fk.Interval(0.0, 1.0), drift=[1.0], source=1.0, check=False)
    paths = DefectPaths(problem, lambda z: z[0] ** 2, np.full((2, 1), 0.25), dt=0.01, seed=3)
    np.testing.assert_allclose(paths.value, 0.0625)
    assert paths.stepped and paths.steps.dt == 0.01
    paths.run(10)
    paths.run(10, stream="a/b")
    paths.run(10, coarse=True, stream="c")
    assert [how["dt"].dt for how in asked] == [0.01, 0.01, 0.02]
    assert [how["dt"].near for how in asked] == pytest.approx([4.0, 4.0, 8.0**0.5])
    unseeded = DefectPaths(problem, lambda z: z[0] ** 2, np.full((2, 1), 0.25), dt=0.01)
    assert unseeded.stream == Stream(0) / "defect"
    root = Stream(3) / "defect"
    assert [how["seed"] for how in asked] == [(root / n).seed for n in ("0", "a/b", "c")]
    assert all(how["read_every"] > 1 and how["dt"].refine > 1 for how in asked)
    free = fk.Problem(fk.Interval(0.0, 1.0), source=1.0, check=False)
    paths = DefectPaths(free, lambda z: z[0] ** 2, np.full((2, 1), 0.25), dtype="float64")
    assert not paths.stepped
    # a path moves by a hundredth of the diameter in the step that is chosen
    np.testing.assert_allclose(paths.steps.dt, (0.01 * free.domain.diameter()) ** 2, rtol=1e-9)
