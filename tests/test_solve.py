"""From a problem to a run folder, small."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_folders import SMALL as small

import fkpinn as fk
from fkpinn._compute import Compute, Lanes, using
from fkpinn._solve import (
    METHODS,
    PRESETS,
    Job,
    Rounds,
    Settings,
    _run,
    _train,
    certify_run,
    improve,
    load,
    resume_run,
    run,
    settings_for,
    settings_from,
    solve,
)
from fkpinn._solve._certify import compile_ahead
from fkpinn._solve._end import half_waves_at_end
from fkpinn._solve._improve import corrected, height
from fkpinn._solve._job import Parts
from fkpinn._solve._methods import Weighted, natural_phases, polisher
from fkpinn._solve._presets import peclet_number
from fkpinn._solve._settings import read_config, write_config
from fkpinn._solve._visit import visit
from fkpinn._streams import Stream
from fkpinn.cli import main
from fkpinn.loss import Fixed
from fkpinn.nn import MLP, Size
from fkpinn.train import Fit, NaturalGradient
from fkpinn.train._fit import remembers

# one worker makes what these tests share
pytestmark = pytest.mark.xdist_group("solve")
EXIT = fk.catalogue("exit-ball-3d").problem
ONE = Size(1.0)


@pytest.fixture
def presets(monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", small)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", small)
        result = run("exit-ball-3d", out=folder, seed=1)
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(result))
    return folder


def check_folder(folder, name, settings):
    result = json.loads((folder / "result.json").read_text())
    trivial = {"constant", "linear", "skill"}
    assert set(result["errors"]) == {"l2_abs", "l2_rel", "h1_abs", "h1_rel", "linf"} | trivial
    assert set(result["seconds"]) == {"labels", "compile", "train", "certify", "total"}
    assert 0 < result["errors"]["l2_rel"] < 2
    assert result["settings"] == json.loads(json.dumps(settings.flat()))
    for figure in result["figures"]:
        assert Path(figure).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (folder / "report.html").read_text()
    assert name in page and 'data-widget="field"' in page and "://" not in page
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == settings.training.steps
    config = read_config(folder / "config.toml")
    assert config["problem"] == name and config["settings"] == settings and config["own"] == []
    assert fk.Labels.load(folder / "labels.npz").n_paths == settings.labels.n_paths
    loaded = load(folder / "solution.fkpinn")
    assert loaded.history == result_history(folder)


def test_run_writes_a_folder(whole):
    check_folder(whole, "exit-ball-3d", small)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "ornstein-uhlenbeck"])
def test_run_writes_a_folder_of(name, tmp_path):
    """With a reference by finite elements; with time."""
    least = small.changed({"network.widths": (4,), "training.steps": 2})
    run(name, settings=least, out=tmp_path / "run", seed=1)
    check_folder(tmp_path / "run", name, least)


def result_history(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# the other methods are made of parts that are tested on their own
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(m, marks=pytest.mark.broad if m == "pinn" else pytest.mark.slow)
        for m in METHODS
    ],
)
def test_every_method_runs(method):
    solution = solve(EXIT, settings=small, method=method, seed=3)
    names = [record["phase"] for record in solution.history]
    last = {"engd": "natural gradient", "nncg": "NNCG"}.get(method.split("-")[-1], "L-BFGS")
    assert names[-1] == ("natural gradient" if method == "fk-pinn" else last)
    assert ("labels" in solution.history[-1]) == method.startswith("fk")
    assert bool(jnp.isfinite(solution([0.1, 0.2, 0.3])))


@pytest.mark.broad
def test_natural_gradient_solves_and_the_seed_fixes_it():
    """The mean exit time from a ball is a polynomial of degree two: a small network has it."""
    _, exact = fk.catalogue("exit-ball-3d")
    # seed and sizes of other tests, which compile the same then
    settings = small.changed({"training.steps": 300})
    one = solve(EXIT, settings=settings, seed=1)
    two = solve(EXIT, settings=settings, seed=1)
    points = fk.sobol_interior(EXIT, 256)
    truth = fk.ExactReference(EXIT, exact)
    assert fk.errors(EXIT, one.network, truth, points).l2_rel < 1e-2
    np.testing.assert_array_equal(one(points), two(points))


def test_the_papers_setting_is_the_papers():
    paper = PRESETS["paper"]
    network, points, labels, training = paper.network, paper.points, paper.labels, paper.training
    assert network.widths == (128,) * 4 and paper.n_labels == 200 and paper.n_interior == 9800
    assert (points.n_boundary, labels.n_paths, labels.dt) == (400, 500, 1e-3)
    assert (training.adam_steps, training.lbfgs_steps) == (30_000, 15_000)
    assert training.learning_rate == 1e-3 and labels.scheme == "euler" and not labels.bias
    assert training.uncertainty and training.steps == 0


@pytest.mark.slow
def test_boundary_data_can_be_built_in():
    hard = small.changed({"network.hard": True})
    solution = solve(EXIT, settings=hard)
    on = fk.sample_boundary(EXIT, 20, key=jax.random.key(0)).points
    np.testing.assert_allclose(solution(on), 0.0, atol=1e-12)
    free = fk.Problem(fk.Interval(0, 1), reaction=1.0, source=1.0, boundary=fk.Neumann(0.0))
    with pytest.raises(ValueError, match=r"`network.hard` needs a Dirichlet part"):
        solve(free, settings=hard, method="pinn-engd")


@pytest.mark.slow
def test_a_second_pass_of_labels_where_the_residual_is_large(tmp_path):
    """They are kept, and lie where the short training left larger residuals than elsewhere."""
    settings = small.changed({"labels.second_pass": 0.5, "points.n_collocation": 160})
    run(EXIT, settings=settings, out=tmp_path, seed=4)
    first, second = (fk.Labels.load(tmp_path / f"labels{n}.npz") for n in ("", "-second"))
    assert len(first.value) == len(second.value) == settings.n_labels // 2
    assert not np.any(np.asarray(first.points) == np.asarray(second.points))
    both = first.joined(second)
    assert len(both.value) == settings.n_labels and both.n_paths == 20
    with pytest.raises(ValueError, match=r"`other` must have the same number of paths per point"):
        first.joined(second._replace(n_paths=3))


@pytest.mark.slow
def test_a_certificate_comes_with_the_run(tmp_path):
    result = run(EXIT, settings=small.changed({"certificate.seconds": 2.0}), out=tmp_path)
    certificate = result["certificate"]
    assert certificate["ci_low"] <= certificate["l2_rel"] <= certificate["ci_high"]
    assert (tmp_path / "figures" / "certificate.png").exists()
    assert "Error without a reference" in (tmp_path / "report.html").read_text()
    loaded = load(tmp_path / "solution.fkpinn", EXIT)
    assert loaded.certificate == certificate
    renewed = certify_run(tmp_path, find=lambda _: EXIT, n_points=64, n_paths=32, seed=5)
    again = renewed["certificate"]
    assert again["n_points"] == 64 and again["n_paths"] == 32
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["certificate"] == again and stored["occupation"] == renewed["occupation"]
    assert result["occupation"]["n_paths"] == 16
    low, high = again["ci_low"], again["ci_high"]
    direct = loaded.certify(n_points=64, n_paths=32, seed=5)
    assert (direct.ci_low, direct.ci_high) == (low, high)
    values = loaded.value_with_interval([0.1, 0.2, 0.3], n_paths=64)
    assert values.low[0] < values.value[0] < values.high[0]


@pytest.mark.broad
def test_a_run_without_a_certificate_keeps_its_network(tmp_path, monkeypatch):
    """Nor with a reference, which there is none of in three dimensions."""

    def fails(*given, **more):
        raise fk.NoCertificate("paths cannot distinguish it from zero")

    monkeypatch.setattr("fkpinn._solve._improve.measure", fails)
    settings = small.changed({"certificate.seconds": 1.0})
    result = run(EXIT, settings=settings, seed=1, out=tmp_path)
    assert result["certificate"] is None and result["errors"] is None
    assert result["stopped"] == ["no certificate: paths cannot distinguish it from zero"]
    assert (tmp_path / "solution.fkpinn").exists() and (tmp_path / "report.html").exists()


def test_no_other_error_is_taken_for_a_missing_certificate(tmp_path, monkeypatch):
    """A bug in certifying is not hidden behind words; what was trained is still in the folder."""

    def fails(*given, **more):
        raise ValueError("`stderr` must be positive; got -1.")

    monkeypatch.setattr("fkpinn._solve._improve.measure", fails)
    settings = small.changed({"certificate.seconds": 1.0, "training.checkpoint_seconds": 0.0})
    with pytest.raises(ValueError, match=r"`stderr` must be positive; got -1\."):
        solve(EXIT, settings=settings, seed=1, out=tmp_path)
    assert (tmp_path / "checkpoints" / "last.npz").exists()
    assert not (tmp_path / "result.json").exists()


def test_certify_wants_a_finished_run(tmp_path):
    with pytest.raises(ValueError, match="is not a run folder"):
        certify_run(tmp_path)
    write_config(
        tmp_path / "config.toml",
        {
            "problem": "met",
            "method": "pinn",
            "preset": "quick",
            "seed": 0,
            "own": [],
            "settings": small.to_dict(),
        },
    )
    with pytest.raises(ValueError, match="has no solution yet"):
        certify_run(tmp_path)


better = small.changed(
    {
        "network.widths": (16, 16),
        "points.n_collocation": 300,
        "points.n_boundary": 60,
        "labels.n_paths": 100,
        "training.steps": 30,
        "labels.rate": 0.7,
        "training.polish_steps": 10,
        "training.polish_times": 2,
        "certificate.seconds": 5.0,
    }
)


@pytest.mark.slow
def test_a_target_is_reached_and_said():
    solution = solve(EXIT, settings=better, target=0.05, seed=3)
    assert solution.certificate["ci_high"] <= 0.05
    assert solution.stopped[-1].startswith("target 0.05 reached: relative L2 error")
    points = fk.sobol_interior(EXIT, 256)
    truth = fk.ExactReference(EXIT, fk.catalogue("exit-ball-3d").exact)
    assert fk.errors(EXIT, solution.network, truth, points).l2_rel < 0.05


@pytest.mark.slow
def test_a_target_out_of_reach_is_said():
    poor = better.changed(
        {"network.widths": (2,), "certificate.rounds": 2, "training.polish_steps": 4}
    )
    solution = solve(EXIT, settings=poor, target=1e-9, seed=3)
    assert "target 1e-09 not reached" in solution.stopped[-1]
    assert "Try `preset='best'`" in solution.stopped[-1]
    # one round shows that the second cannot do it
    assert "another round at the best rate so far would end near" in solution.stopped[-1]


@pytest.mark.slow
def test_a_round_with_corrected_labels(monkeypatch):
    """Labels from the network's own error are as good as they say, and lie where it is large."""
    solution = solve(EXIT, settings=small, seed=3)
    exact = fk.catalogue("exit-ball-3d").exact
    truth = lambda points: np.asarray(jax.vmap(exact)(jnp.asarray(points)))
    found = solution.certify(n_points=256, n_paths=64)
    state = Rounds(Job.of(EXIT, better, "fk-pinn"), Size(0.1), 5.0)
    points = state.where(found, 100, Stream(1))
    labels = corrected(
        EXIT, solution.network, points,
        n_paths=400, dtype="float32", seed=1, progress=state.job.progress,
    )  # fmt: skip
    sigma = (np.asarray(labels.value) - truth(points)) / np.asarray(labels.stderr)
    assert 0.7 < np.sqrt(np.mean(sigma**2)) < 1.3
    square = lambda at: np.mean((np.asarray(solution(at)) - truth(at)) ** 2)
    assert square(points) > 1.2 * square(fk.sobol_interior(EXIT, 1000))
    rounds = better.changed({"certificate.rounds": 1})
    monkeypatch.setattr(Rounds, "choose", lambda self, best: "refresh")
    gains = []
    for seed in range(3, 6):
        job = Job.of(EXIT, rounds, "fk-pinn", seed=seed)
        improved = improve(job, solution.network, size=0.07, trained_in=200.0)
        (record,) = improved.rounds
        assert record["kind"] == "refresh" and record["kept"]
        assert improved.certificate.l2_rel == record["after"]
        assert improved.notes[0].startswith("round 1, refresh: relative error ")
        gains.append(record["before"] / record["after"])
    assert np.median(gains) > 2


def _certificate(error):
    labels = fk.Labels.from_data(jnp.zeros((1, 3)), jnp.zeros(1), 0.1)
    return fk.Certificate(error, error, error, 0.95, error, 0.0, labels, 1.0)


def test_a_height_is_told_by_all_corrections_together(monkeypatch):
    """Noise ten times the error at every point; data that are built in stay."""
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0, boundary=2.0, check=False)
    settings = fk.Settings().changed(
        {
            "network.widths": (6,), "network.hard": True, "labels.likely": True,
            "certificate.rounds": 1, "certificate.target": 1e-9,
        }
    )  # fmt: skip
    job = Job.of(problem, settings, "fk-pinn")
    network = _train.make_network(problem, settings, ONE, dtype=jnp.float64, key=jax.random.key(0))
    points = np.asarray(fk.sobol_interior(problem, 4096), np.float64)
    at = lambda u: np.asarray(jax.vmap(u)(jnp.asarray(points)))
    free = at(network) - 2.0
    np.testing.assert_allclose(at(network.scaled(3.0)), 2.0 + 3.0 * free, rtol=1e-9)
    noise = np.std(free) * np.random.default_rng(0).normal(size=4096)

    def corrections(u):
        """Right is a network that is higher by a tenth."""
        value = 2.0 + 1.1 * free - at(u) + noise
        return fk.Labels.from_data(points, value, np.full(4096, np.std(free)))

    wanted = height(network, corrections(network), ONE)
    assert wanted is not None and wanted.size.growth == ()
    share = wanted.size.typical - 1.0
    assert abs(share - 0.1) < 4 * share / wanted.sure < 0.1
    assert wanted.share == pytest.approx(share, rel=1e-6)
    rounds = Rounds(job, ONE, 1.0)

    def made(u, *_):
        with jax.enable_x64(True):
            return _certificate(0.05)._replace(corrections=corrections(u))

    measured = made(network)
    monkeypatch.setattr(rounds, "certify", made)
    found, _ = rounds.at_its_height(network, made(network))
    np.testing.assert_allclose(at(found), 2.0 + (1 + share) * free, rtol=1e-9)
    assert rounds.done[-1]["kind"] == "height" and rounds.done[-1]["kept"]
    with jax.enable_x64(False):  # where a run begins
        narrow, _ = rounds.at_its_height(network, measured)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(narrow)} == {"float64"}
    rounds.done.pop()
    same, _ = rounds.at_its_height(found, made(found))  # nothing is left that is sure
    assert same is found and len(rounds.done) == 1
    soft = dataclasses.replace(job, settings=settings.changed({"network.hard": False}))
    assert Rounds(soft, ONE, 1.0).at_its_height(network, made(network))[0] is network


def test_heights_of_a_family_are_a_function_of_its_parameters(monkeypatch):
    """Without rounds too; not where data on the boundary would be multiplied with the rest."""
    family = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda x, k: k, source=1.0, parameters={"k": (1.0, 3.0)},
        check=False,
    )  # fmt: skip
    settings = fk.Settings().changed({"network.widths": (6,)})
    size = Size(0.1, ((0.5, 0.0),), (2.0,), (1.0,))
    network = _train.make_network(family, settings, size, dtype=jnp.float64, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(1, 3, 2000), rng.uniform(0, 1, 2000)]
    at = lambda u: np.asarray(jax.vmap(u)(jnp.asarray(points)))
    right = at(network) * np.exp(0.4 * (points[:, 0] - 2.0) - 0.1)

    def made(u, *_):
        lack = right - at(u) + 0.02 * size.at(points) * rng.normal(size=len(points))
        return _certificate(0.2)._replace(corrections=fk.Labels.from_data(points, lack, 0.1))

    def brought(problem):
        rounds = Rounds(Job.of(problem, settings, "fk-pinn"), size, 1.0)
        monkeypatch.setattr(rounds, "certify", made)
        return rounds.at_its_height(network, made(network))[0]

    found = at(brought(family))
    assert np.sqrt(np.mean((found - right) ** 2)) < 0.02 * np.sqrt(np.mean(right**2))
    given = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda x, k: k, boundary=1.0,
        parameters={"k": (1.0, 3.0)}, check=False,
    )  # fmt: skip
    assert family.is_homogeneous and not given.is_homogeneous
    assert brought(given) is network


def test_the_kind_of_a_round_is_chosen_by_what_was_seen(monkeypatch):
    state = Rounds(Job.of(EXIT, better, "fk-pinn"), Size(0.1), 5.0)
    monkeypatch.setattr(Rounds, "label_noise", lambda self, best: (100, 0.002))
    monkeypatch.setattr(Rounds, "path_seconds", lambda self, best: 0.05)
    found = _certificate(0.02)  # corrected labels promise a factor 5
    assert state.choose(found) == "polish"  # nothing is known of it yet
    state.seconds["polish"] = 10.0
    for gain, kind in ((0.5, "refresh"), (2.2, "refresh"), (2.3, "polish"), (20.0, "polish")):
        state.gain["polish"] = gain  # in 10 seconds; with labels it takes 20
        assert state.choose(found) == kind, gain
    state.gain["refresh"], state.seconds["refresh"] = 1.1, 20.0
    state.gain["polish"] = 1.15
    assert state.choose(found) == "polish"  # by what it did, not by what it promised


def test_a_round_trains_as_long_as_it_measures(monkeypatch):
    state = Rounds(Job.of(EXIT, better, "fk-pinn"), Size(0.1), 5.0)
    clock = iter(range(100))
    monkeypatch.setattr("fkpinn._solve._improve.clock", lambda: next(clock))
    done = []

    def step(self, kind, network, labels, name, stream, share):
        done.append(name)
        return Fit(network + 1, Fixed(), [], [], 0.0)

    monkeypatch.setattr(Rounds, "steps", step)
    state.measured_in = 3.0
    assert state.train("polish", 0, _certificate(0.02), 7) == 4
    assert done == ["7-0", "7-1", "7-2", "7-3"]


def test_a_round_may_have_few_parts(monkeypatch):
    visited = better.changed({"points.visited": 0.5})
    state = Rounds(Job.of(EXIT, visited, "fk-pinn"), Size(0.1), 5.0)
    assert state.choose(_certificate(0.02)) == "correct"
    step = lambda self, kind, network, *_: Fit(network + 1, Fixed(), [], [], 0.0)
    monkeypatch.setattr(Rounds, "steps", step)
    state.measured_in = 1000.0
    assert state.train("polish", 0, _certificate(0.02), 1) == 2


@pytest.mark.parametrize(
    ("last", "measured_in", "certified", "shares"),
    [
        (1e-6, 1e9, None, [0.25]),  # the loss promises it
        (1e-4, 1e9, None, [0.25, 0.75]),  # neither it nor a certificate, which takes too long
        (1e-4, 0.0, 0.0009, [0.25]),  # a quick certificate says so
        (1e-4, 0.0, 0.002, [0.25, 0.75]),
    ],
)
def test_a_round_ends_early_where_the_target_is_reached(
    monkeypatch, last, measured_in, certified, shares
):
    """From 0.02: its root falls to a hundredth, 2e-4, or to a tenth; wanted is 1e-3."""
    how = {"certificate.target": 1e-3, "training.momentum": 0.9, "points.visited": 0.5}
    state = Rounds(Job.of(EXIT, better.changed(how), "fk-pinn"), Size(0.1), 5.0)
    state.measured_in = measured_in
    seen = [{"loss": 1e-2}] * 3 + [{"loss": 1.0}] + [{"loss": last}] * 5
    done = []

    def step(self, kind, network, labels, name, stream, share):
        done.append(share)
        return Fit(network, Fixed(), seen, [], 0.0)

    def certify(self, network, number, name):
        assert name == "early/certificate"  # paths of its own: another certificate is reported
        return _certificate(certified)

    monkeypatch.setattr(Rounds, "steps", step)
    monkeypatch.setattr(Rounds, "certify", certify)
    state.train("polish", 0, _certificate(0.02), 1)
    assert done == shares


def test_presets_look_at_the_dimension():
    plane, many = (settings_for("quick", fk.catalogue(n).problem) for n in ("met", "ou-exit-10d"))
    how = {"training.early_points": 0.5, "training.late_momentum": 0.9}
    assert plane == fk.Settings().changed(how) == PRESETS["quick"]
    assert (many.training.early_points, many.training.late_momentum) == (1.0, 0.0)
    assert many.points.visited == 0.5 and many.labels.likely and many.network.hard
    walls = settings_for("quick", fk.catalogue("double-well-committor-10d").problem)
    assert walls.network.hard and walls.points.n_boundary == plane.points.n_boundary
    assert many.n_labels == 8 * many.n_labels_at_once == 3840 and many.n_interior == 1920
    accelerator = Compute("gpu", 1, None, 1 << 20)
    with using(accelerator):  # more points than parameters, as far as there is room
        best = settings_for("best", fk.catalogue("ou-exit-10d").problem)
    assert best.network.widths == (64, 64, 64) and best.points.n_collocation == 14_542
    paper = settings_for("paper", fk.catalogue("ou-exit-10d").problem)
    assert paper == PRESETS["paper"]


@pytest.mark.broad
def test_boundary_points_come_from_where_paths_leave():
    """A drift of 2 to the right from (0, 1): a share of exits on the right that has a formula."""
    line = fk.Problem(fk.Interval(0.0, 1.0), drift=2.0, diffusion=1.0, source=1.0, check=False)
    job = Job.of(line, small.changed({"points.visited": 0.5}), "fk-pinn")
    assert visit(Job.of(line, small, "fk-pinn")).visited is None  # not asked for
    found = visit(job).visited
    exits = found.exits
    right = np.asarray(exits.points)[:, 0] == 1.0
    np.testing.assert_array_equal(np.asarray(exits.points)[~right], 0.0)
    np.testing.assert_array_equal(np.asarray(exits.normals)[:, 0], np.where(right, 1.0, -1.0))
    # mean over x of (1 - exp(-4 x)) / (1 - exp(-4)), the chance to leave on the right from x
    chance = (1 - (1 - np.exp(-4.0)) / 4) / (1 - np.exp(-4.0))
    assert abs(np.mean(right) - chance) < 0.02  # a thousand starts of 16 paths: 5 standard errors
    assert np.all((np.asarray(found.pool) > 0) & (np.asarray(found.pool) < 1))


@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_peclet_number_is_that_of_the_equation(strength):
    """Drift `strength` along one axis, reach 2, variance 2 on each of four axes."""
    problem = fk.Problem(
        fk.Box([-2.0] * 4, [2.0] * 4),
        drift=lambda x: strength * jnp.eye(4, dtype=x.dtype)[0],
        diffusion=2.0**0.5,
        source=1.0,
        boundary=fk.Dirichlet(0.0),
    )
    assert peclet_number(problem) == pytest.approx(2 * strength)


@pytest.mark.broad
def test_random_directions_are_for_adam():
    few = small.changed({"points.directions": 2, "training.lbfgs_steps": 0})
    found = fk.solve(EXIT, method="pinn", settings=few, seed=1)
    assert {r["phase"] for r in found.history} == {"Adam"}
    assert len({r["residual"] for r in found.history}) > 3  # other points at every step
    with pytest.raises(ValueError, match=r"`points.directions` is for training by Adam.*L-BFGS"):
        fk.solve(EXIT, method="pinn", settings=few.changed({"training.lbfgs_steps": 3}))
    with pytest.raises(ValueError, match=r"got 2 and the phases \['natural gradient'\]"):
        fk.solve(EXIT, method="pinn-engd", settings=few)


def test_presets_look_at_what_moves_paths():
    """Without drift: few points a step, and a boundary that tells all products apart."""
    laplace = settings_for("quick", fk.catalogue("laplace-10d").problem)
    # data that are functions are known on the boundary only
    assert not laplace.network.hard and laplace.training.momentum > 0
    assert laplace.points.visited == 0 and not laplace.labels.likely
    cube, ball = fk.Box([0.0] * 60, [1.0] * 60), fk.Ball([0.0] * 60, 1.0)
    with using(Compute("gpu", 1, None, 1 << 20)):
        soft, level, hard = (
            settings_for("best", fk.Problem(domain, source=1.0, boundary=data, check=False))
            for domain, data in ((cube, lambda x: x[0]), (cube, 2.0), (ball, 2.0))
        )
    assert (soft.points.n_collocation, soft.points.n_boundary) == (2250, 3600)
    assert not soft.network.data_inputs and not soft.network.hard
    # where walls of many axes meet, a factor that vanishes on them would not do
    assert level.network.data_inputs and not level.network.hard
    assert hard.network.hard and hard.points.n_collocation == 4500
    ball = fk.Ball([0.0] * 30, 1.0)
    holes = (ball - fk.Ball([0.0] * 30, radius, name="hole") for radius in (0.1, 0.9))
    near = fk.problem.Radial([0.0] * 30, 0.12), fk.Uniform()
    small, large = (
        settings_for("quick", fk.Problem(hole, measure=measure, check=False))
        for hole, measure in zip(holes, near, strict=True)
    )
    assert small.labels.likely and small.points.visited == 0.5
    assert not large.labels.likely and large.points.visited == 0.0


@pytest.mark.broad
def test_presets_look_at_data_at_the_end_of_time():
    """Where there are no others they are built in and read, but for kinks that none can follow."""
    smooth = settings_for("quick", fk.catalogue("allen-cahn-20d").problem)
    assert smooth.network.hard and smooth.network.data_inputs and smooth.points.n_boundary == 8
    assert not settings_for("paper", fk.catalogue("allen-cahn-20d").problem).network.data_inputs
    much = {"diffusion": 1.0, "horizon": 1.0, "check": False}
    space = lambda data: fk.Problem(
        fk.Space(5), **much, terminal=data, measure=fk.Normal(jnp.zeros(5), 1.0)
    )
    basket = settings_for("quick", space(lambda x: jnp.maximum(jnp.sum(x), 0.0)))
    assert basket.network.hard and basket.network.data_inputs and basket.points.time_power == 0.0
    kinked = settings_for("quick", space(lambda x: jnp.sort(x)[2]))
    assert not kinked.network.hard and not kinked.network.data_inputs
    assert kinked.points.n_boundary > 8 and kinked.points.time_power == 1.0
    walls = fk.Problem(
        fk.Ball([0.0] * 5, 1.0), **much, terminal=lambda x: 1.0 - x @ x, boundary=fk.Dirichlet(0.0)
    )
    both = settings_for("quick", walls)  # the walls are built in, the end is not
    assert both.network.hard and both.points.n_boundary > 8
    knocked = fk.Problem(
        fk.Box([-1.0] * 5, [1.0] * 5), **much, boundary=fk.Dirichlet(lambda t, x: x[0]),
        terminal=lambda x: jnp.maximum(x[0], 0.0),
    )  # fmt: skip
    kept = settings_for("quick", knocked)  # the end is, smoothed, the walls are not
    assert kept.network.hard and kept.points.n_boundary > 8 and kept.points.time_power == 0.0


def test_networks_read_initial_data_that_rise_and_fall_many_times():
    """In few dimensions, as many as the formula of the data says; not where they have kinks."""

    def heat(waves, dim=2):
        start = lambda x: jnp.sin(waves * jnp.pi * x[0])
        return fk.heat(fk.Box([0.0] * dim, [1.0] * dim), start, horizon=1.0)

    for waves, dim in ((4, 2), (20, 1)):
        assert half_waves_at_end(heat(waves, dim)) == pytest.approx(waves, rel=0.08)
    assert half_waves_at_end(fk.heat(fk.Interval(0.0, 1.0), 1.0, horizon=1.0)) == 0.0
    assert half_waves_at_end(fk.Problem(fk.Interval(0.0, 1.0), source=1.0)) == 0.0
    reads = lambda preset, problem: settings_for(preset, problem).network.data_inputs
    assert reads("quick", heat(12)) and reads("best", heat(12))
    assert not reads("quick", heat(3)) and not reads("paper", heat(12))
    assert not reads("quick", fk.catalogue("uncertain-volatility").problem)


@pytest.fixture
def held_out(monkeypatch):
    """A training whose networks are numbers, and 100 labels of 2 with an error of 0.01."""
    points = np.asarray(fk.sobol_interior(EXIT, 100))
    labels = fk.Labels.from_data(points, np.full(100, 2.0), 0.01)

    def train(ends, alone=None, share=0.1):
        seen, left = [], list(ends)

        def steps(job, network, given, *, regress=False, **how):
            seen.append(given)
            return Fit(alone if regress else left.pop(0), None, [{"step": 20}], [], 0.0)

        misses = lambda value, held: (value - np.asarray(held.value)) ** 2
        monkeypatch.setattr(_train, "polish", steps)
        monkeypatch.setattr(_train, "_misses", misses)
        likely = {
            "labels.likely": True, "labels.held_out": share, "training.steps": 20 * len(ends) + 20,
        }  # fmt: skip
        return _train.train(Job.of(EXIT, small.changed(likely), "fk-pinn"), labels), seen

    return train


def test_labels_that_are_held_out_tell_when_training_leads_away(held_out):
    """Ten labels in a hundred are kept back; what comes to miss them is taken back."""
    found, seen = held_out([2.5, 2.005, 2.3, 2.0])
    assert found.network == 2.005 and len(seen) == 3  # 2.0 was never tried
    assert "grew after step 40" in found.stopped[-1]
    assert all(len(given.value) == 90 for given in seen)
    found, seen = held_out([2.5, 2.1, 2.3, 2.0], share=0.0)
    assert found.network == 2.0 and len(seen) == 4 and len(seen[0].value) == 100


def test_a_network_is_not_worse_than_its_labels(held_out):
    """What misses labels by ten times their noise gives way to regression, if that is better."""
    found, seen = held_out([2.5, 2.1], alone=2.02)
    assert found.network == 2.02 and len(seen) == 3
    assert "plain regression on the labels fits them better" in found.stopped[-1]
    found, _ = held_out([2.5, 2.1], alone=2.4)
    assert found.network == 2.1 and found.stopped[-1].endswith("is no better")
    found, seen = held_out([2.5, 2.01], alone=2.0)
    assert found.network == 2.01 and len(seen) == 2 and not found.stopped  # as their noise has it


@pytest.mark.slow
def test_path_points_likelihood_and_corrections_in_one_run(tmp_path):
    """In five dimensions, very small: all stages run, and labels are never worse than nothing."""
    problem = fk.mean_exit_time(fk.Ball([0.0] * 5, 1.0), lambda x: jnp.sum(x**2), beta=2.0)
    few = settings_for("quick", problem).changed(
        {
            "network.widths": (12, 12), "points.n_collocation": 150, "labels.n_paths": 16,
            "training.steps": 40,
            "certificate.rounds": 1, "certificate.seconds": 2.0,
        }
    )  # fmt: skip
    found = solve(problem, settings=few, out=tmp_path / "run", seed=1)
    assert {r["phase"] for r in found.history} == {"likelihood", "correct"}
    steps = [r["step"] for r in found.history]
    assert steps == sorted(steps) and steps[-1] >= 60
    assert found.stopped[-1].startswith("round 1, correct: relative error")
    assert found.certificate["ci_high"] < 0.3  # a constant has about 0.6
    on = fk.sample_boundary(problem, 20, key=jax.random.key(0)).points
    np.testing.assert_allclose(found(on), 0.0, atol=1e-6)
    again = solve(problem, settings=few, out=tmp_path / "run", seed=1)
    np.testing.assert_array_equal(again(on), found(on))
    bound = json.loads((tmp_path / "run" / "result.json").read_text())["occupation"]
    assert found.certificate["ci_low"] < bound["l2_rel"] < 30 * found.certificate["ci_high"]
    assert bound["boundary"] < 1e-5 * bound["l2_abs"]  # data built in


@pytest.mark.parametrize(
    ("changes", "polished"),
    [
        ({}, True),
        ({"certificate.target": 1e-3, "certificate.rounds": 2}, False),
        ({"certificate.target": 1e-3, "certificate.rounds": 0}, True),
        ({"certificate.target": 1e-3, "certificate.rounds": 2, "training.momentum": 0.0}, True),
    ],
)
def test_last_steps_wait_for_a_certificate_where_rounds_take_the_same(changes, polished):
    how = {"training.momentum": 0.9, "training.polish_steps": 5, "certificate.seconds": 9.0}
    settings = fk.Settings().changed(how | changes)
    phases = natural_phases(Weighted(fk.catalogue("met").problem, settings, None))
    assert ("polish" in [phase.name for phase in phases]) == polished


@pytest.mark.parametrize(
    ("seconds", "rounds", "measured"), [(0.0, 2, False), (9.0, 0, False), (9.0, 2, True)]
)
def test_rounds_need_seconds_for_their_certificates(monkeypatch, seconds, rounds, measured):
    asked = []

    def stages(*_, certify):
        asked.append(certify)
        raise InterruptedError

    monkeypatch.setattr(_run, "run_stages", stages)
    how = {"certificate.seconds": seconds, "certificate.rounds": rounds}
    with pytest.raises(InterruptedError):
        solve(EXIT, settings=small.changed(how))
    assert asked == [measured]


def test_few_of_many_steps_with_momentum_are_cut():
    """Momentum is a mean of ten by itself; without it all that are cut count."""
    settings = fk.Settings()
    heavy = settings.changed({"training.momentum": 0.9})
    assert [polisher(settings, n).settle for n in (50, 400)] == [30, 240]
    assert [polisher(heavy, n).settle for n in (50, 400)] == [30, 360]


def test_the_first_steps_take_few_points():
    """Six in ten, which is all where later steps are averaged."""
    settings = fk.Settings().changed({"training.steps": 40, "training.early_points": 0.25})
    work = Weighted(fk.catalogue("met").problem, settings, None)
    few, rest = natural_phases(work)
    assert (few.steps, few.times, few.continues) == (24, 0.25, False)
    assert (rest.steps, rest.times, rest.continues) == (16, 1.0, True)
    assert few.optimizer == rest.optimizer and rest.weighting is None
    rough = dataclasses.replace(work, settings=settings.changed({"points.time_power": 1.0}))
    few, rest = natural_phases(rough)
    assert few.steps == few.optimizer.settle == 24 and rest.steps == 16
    (whole,) = natural_phases(
        dataclasses.replace(work, settings=settings.changed({"training.early_points": 1.0}))
    )
    assert (whole.steps, whole.times) == (40, 1.0)


def test_late_steps_have_no_momentum_where_data_have_kinks():
    """There all late steps are averaged instead."""
    how = {"diffusion": 0.3, "horizon": 1.0, "boundary": 1.0, "check": False}
    found = [
        settings_for("quick", fk.Problem(fk.Interval(0.0, 2.0), **how, terminal=data)).training
        for data in (lambda x: jnp.abs(x[0] - 1.0), lambda x: (x[0] - 1.0) ** 2)
    ]
    assert [training.late_momentum for training in found] == [0.0, 0.9]


def test_on_accelerators_momentum_replaces_steps_with_many_points():
    """But not where data have kinks or paths jump."""
    how = {"diffusion": 0.3, "horizon": 1.0, "boundary": 1.0, "check": False}
    smooth, kinked = (
        fk.Problem(fk.Interval(0.0, 2.0), **how, terminal=data)
        for data in (lambda x: (x[0] - 1.0) ** 2, lambda x: jnp.abs(x[0] - 1.0))
    )
    jumping = fk.catalogue("jump-exit").problem
    with using(Compute("gpu", 1, None, 1 << 20)):
        found = [settings_for("best", p).training for p in (smooth, kinked, jumping)]
    look = [(t.steps, t.late_momentum, t.polish_steps) for t in found]
    assert look == [(450, 0.9, 0), (250, 0.0, 200), (250, 0.0, 200)]


def test_the_last_steps_may_have_momentum_of_their_own():
    """They count on, so that labels fade on, and the last 20% of them are scaled by 1/k."""
    how = {"training.steps": 50, "training.late_momentum": 0.9}
    work = Weighted(fk.catalogue("met").problem, fk.Settings().changed(how), None)
    early, late = natural_phases(work)
    assert (early.steps, early.times, late.steps, late.times) == (30, 1.0, 20, 1.0)
    assert late.continues and late.weighting is None
    assert (early.optimizer.momentum, late.optimizer.momentum) == (0.0, 0.9)
    assert early.optimizer.settle is None and late.optimizer.settle == 30 + 16
    assert late.optimizer.damping == late.optimizer.least == 1e-6
    assert not remembers((early, late), 1)  # a damping of its own, and no momentum yet


def test_no_other_optimizer_follows_the_one_that_was_asked_for(monkeypatch):
    monkeypatch.setattr(_train, "fit", lambda *_, **__: Fit("phases", Fixed(), [], [], 0.0))
    likely = Fit("likelihood", Fixed(), [], [], 0.0)
    monkeypatch.setattr(_train, "_by_likelihood", lambda *_: likely)
    labels = fk.Labels.from_data(np.asarray(fk.sobol_interior(EXIT, 8)), np.ones(8), 0.01)
    settings = small.changed({"labels.likely": True, "training.adam_steps": 3})
    how = lambda method, **parts: (
        _train.train(Job.of(EXIT, settings, method, parts=Parts(**parts)), labels).network
    )
    assert how("fk-pinn") == "likelihood" and how("fk-pinn-adam") == "phases"
    assert how("fk-pinn", optimizer=NaturalGradient()) == "phases"
    assert how("fk-pinn", weighting=Fixed()) == "phases"


def test_labels_of_ones_own():
    points = fk.sobol_interior(EXIT, small.n_labels)
    labels = fk.Labels.from_data(points, jnp.ones(len(points)), 0.01)
    heavy = {"labels.weight": 100.0, "labels.rate": 1.0, "training.steps": 15}
    solution = solve(EXIT, settings=small.changed(heavy), labels=labels)
    assert abs(float(solution([0.0, 0.0, 0.0])) - 1.0) < 0.2


@pytest.mark.broad
def test_a_problem_of_ones_own_in_one_dimension(tmp_path):
    problem = fk.Problem(fk.Interval(0, 1), source=1.0, name="<script>alert(1)</script>")
    adam = small.changed({"training.lbfgs_steps": 0})
    result = run(problem, settings=adam, out=tmp_path, method="pinn")
    assert result["errors"] is not None and result["problem"] == problem.name
    assert "<script>alert" not in (tmp_path / "report.html").read_text()
    alone = load(tmp_path / "solution.fkpinn")  # a file cannot hold functions
    loaded = load(tmp_path / "solution.fkpinn", problem)
    assert alone.problem is None and loaded.problem is problem
    np.testing.assert_array_equal(alone([[0.2], [0.7]]), loaded([[0.2], [0.7]]))
    assert loaded.plot(tmp_path / "line.png").read_bytes()[:4] == b"\x89PNG"
    other = fk.Problem(fk.Interval(0, 1), source=2.0, name=problem.name)
    with pytest.raises(ValueError, match=r"contains the solution of a different problem"):
        load(tmp_path / "solution.fkpinn", other)
    with pytest.raises(ValueError, match=r"catalogue, and a folder cannot store functions"):
        fk.resume(tmp_path)


@pytest.fixture(scope="module")
def solution():
    """With a network as it is drawn."""
    network = MLP(*EXIT.bounds(), (8, 8), frequencies=1.0, key=jax.random.key(0))
    report = {"phase": "Adam", "step": 1, "loss": 1.0, "seconds": 0.1}
    return fk.Solution(EXIT, network, [report], ["Adam stopped."], "exit-ball-3d", {"l2_rel": 0.1})


def test_solution_checks_its_points(solution):
    assert solution([0.0, 0.0, 0.0]).shape == ()
    assert solution(jnp.zeros((4, 3))).shape == (4,)
    assert solution.gradient([0.0, 0.0, 0.0]).shape == (3,)
    with pytest.raises(ValueError, match=r"`points` must have shape \(3,\) or \(n, 3\)"):
        solution([0.0, 0.0])
    with pytest.raises(ValueError, match=r"`points` must lie in the closed domain; 1 do not"):
        solution([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    with pytest.raises(ValueError, match=r"`points` must lie in the closed domain; 1 do not"):
        solution([float("nan"), 0.0, 0.0])


def test_what_is_saved_is_what_is_loaded(solution, tmp_path):
    path = tmp_path / "a.fkpinn"
    solution.save(path)
    loaded = load(path, EXIT)
    points = fk.sobol_interior(EXIT, 64)
    np.testing.assert_array_equal(solution(points), loaded(points))
    np.testing.assert_array_equal(solution.gradient(points), loaded.gradient(points))
    assert jax.tree.structure(eqx.filter(loaded.network, eqx.is_array)) == jax.tree.structure(
        eqx.filter(solution.network, eqx.is_array)
    )


@pytest.mark.parametrize("position", range(8))
def test_altered_solutions_are_refused(solution, position, tmp_path):
    """Cut short, or with a stretch of bytes turned over, anywhere: an error, never a value."""
    path = tmp_path / "a.fkpinn"
    solution.save(path)
    content = path.read_bytes()
    at = len(content) * position // 8
    path.write_bytes(content[:at])
    with pytest.raises(ValueError, match=r"is damaged|is not a|contains"):
        load(path, EXIT)
    turned = bytes(b ^ 0x5A for b in content[at : at + 40])
    path.write_bytes(content[:at] + turned + content[at + 40 :])
    with pytest.raises(ValueError, match=r"is damaged|is not a|contains"):
        load(path, EXIT)


def test_a_file_that_asks_for_too_much_memory_is_refused(solution, tmp_path, monkeypatch):
    import fkpinn._solve._solution as module

    solution.save(tmp_path / "a.fkpinn")
    about = module.load_about(tmp_path / "a.fkpinn") | {"widths": [10**6] * 3}
    monkeypatch.setattr(module, "load_about", lambda path: about)
    with pytest.raises(ValueError, match=r"is damaged: `widths` is .* the file is too small"):
        load(tmp_path / "a.fkpinn", EXIT)


def test_checkpoints_and_labels_are_no_solutions(solution, tmp_path):
    from fkpinn.train import save_state

    save_state(tmp_path / "c.npz", {"a": jnp.zeros(3)}, {})
    with pytest.raises(ValueError, match=r"is not a solution but another file"):
        load(tmp_path / "c.npz", EXIT)
    fk.Labels.from_data(jnp.zeros((1, 3)), [1.0], 0.1).save(tmp_path / "l.npz")
    with pytest.raises(ValueError, match=r"is not a checkpoint"):
        load(tmp_path / "l.npz", EXIT)


def test_pickles_are_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    np.savez(tmp_path / "b.npz", about=np.array(Bomb(), dtype=object))
    with pytest.raises(ValueError, match=r"is not a checkpoint|is damaged"):
        load(tmp_path / "b.npz", EXIT)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"training.step": 3}, "There is no setting `training.step`.*`training.steps`"),
        ({"labels": {"n_path": 3}}, "There is no setting `labels.n_path`.*`labels.n_paths`"),
        ({"labels.n_paths": "many"}, "`labels.n_paths` must be of type int; got 'many'"),
        ({"labels.n_paths": 2.5}, "`labels.n_paths` must be of type int; got 2.5"),
        ({"network.hard": 1}, "`network.hard` must be of type bool; got 1"),
        ({"network.widths": [8, 0]}, "`network.widths` must be positive"),
        ({"network.widths": [8.5]}, "`network.widths` must be of type"),
        ({"points.n_collocation": 0}, "`points.n_collocation` must be at least 1; got 0"),
        ({"labels.p_data": 1.0}, r"`labels.p_data` must be at least 0 and below 1; got 1"),
        ({"training.adam_steps": -1}, "`training.adam_steps` must be at least 0; got -1"),
        ({"training.learning_rate": 0.0}, "`training.learning_rate` must be positive"),
        ({"training.learning_rate": float("nan")}, "`training.learning_rate` must be positive"),
        ({"labels.rate": 1.5}, r"`labels.rate` must lie in \(0, 1\]"),
        ({"training.momentum": 1.0}, r"`training.momentum` must be at least 0 and below 1"),
        ({"labels.dt": -1.0}, "`labels.dt` must be positive"),
        ({"training.polish_times": 0}, "`training.polish_times` must be at least 1"),
        ({"points.adaptive": True, "points.visited": 0.5}, "both choose the collocation points"),
        ({"labels.n_paths": 1}, "`labels.n_paths` must be at least 2"),
    ],
)
def test_bad_settings_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        settings_from(values)


OLD = {
    "natural_steps": "training.steps",
    "label_rate": "labels.rate",
    "label_weight": "labels.weight",
    "certify_seconds": "certificate.seconds",
    "widths": "network.widths",
    "n_collocation": "points.n_collocation",
}


@pytest.mark.parametrize("old", OLD)
def test_names_of_before_are_refused_with_the_new_one(old, capsys):
    said = f"The setting `{old}` is now called `{OLD[old]}`"
    with pytest.raises(ValueError, match=said):
        Settings().changed({old: 3})
    assert main(["solve", "exit-ball-3d", "--set", f"{old}=3"]) == 2
    assert said in capsys.readouterr().err


def test_settings_nested_flat_and_from_a_file_are_the_same(tmp_path):
    changed = {"training.steps": 40, "network.widths": (16, 16), "labels.dt": 0.1}
    settings = Settings().changed(changed)
    nested = {"training": {"steps": 40}, "network": {"widths": [16, 16]}, "labels": {"dt": 0.1}}
    assert settings_from(nested) == settings_from(changed) == settings
    assert settings_from(settings.to_dict()) == settings_from(settings.flat()) == settings
    assert settings.get("training.steps") == settings.flat()["training.steps"] == 40
    config = {"problem": "met", "method": "pinn", "preset": "quick", "seed": 3, "own": ["network"]}
    write_config(tmp_path / "config.toml", config | {"settings": settings.to_dict()})
    assert "[settings.network]" in (tmp_path / "config.toml").read_text()
    assert read_config(tmp_path / "config.toml") == config | {"settings": settings}


def test_refusals(tmp_path, presets):
    with pytest.raises(ValueError, match=r"`method` must be one of.*Did you mean `pinn-engd`"):
        solve(EXIT, method="pinn-engdd")
    with pytest.raises(ValueError, match=r"`preset` must be one of.*Did you mean `quick`"):
        run(EXIT, preset="quik", out=tmp_path)
    with pytest.raises(ValueError, match=r"leave no training steps for `pinn`"):
        nothing = small.changed({"training.adam_steps": 0, "training.lbfgs_steps": 0})
        solve(EXIT, settings=nothing, method="pinn")
    with pytest.raises(ValueError, match=r"is not a run folder: it has no `config.toml`"):
        resume_run(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("problem = 3", "must have `problem`, a str; got 3"),
        ("problem = 'met'", "must have `method`"),
        ("= nonsense", "is not a TOML file"),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\nown=[]\nsed=1\n[settings]",
            "`sed`.*`seed`",
        ),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\nown=[]\n"
            "[settings.labels]\nn_path=3",
            "no setting `labels.n_path`.*`labels.n_paths`",
        ),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\nown=[]\n[settings]\nn_paths=3",
            "The setting `n_paths` is now called `labels.n_paths`",
        ),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\nown=[3]\n[settings]",
            "`own` must be names",
        ),
    ],
)
def test_bad_configurations_are_refused(text, message, tmp_path):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        resume_run(tmp_path)


def test_a_folder_of_another_run_is_refused(presets, tmp_path):
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(ValueError, match=r"must have `problem`"):
        run("poisson", out=tmp_path, method="pinn-engd")
    (tmp_path / "config.toml").unlink()
    from fkpinn._solve._run import _claim

    config = {"problem": "met", "method": "pinn", "preset": "quick", "seed": 0, "own": []}
    _claim(tmp_path, config | {"settings": small.to_dict()})
    with pytest.raises(ValueError, match=r"contains a different run: `seed`, `settings` differ"):
        other = config | {"seed": 1, "settings": Settings().to_dict()}
        _claim(tmp_path, other)


def same_run(one, two):
    """Networks and errors of two folders, bit for bit."""
    networks = (load(folder / "solution.fkpinn").network for folder in (one, two))
    for a, b in zip(*map(jax.tree.leaves, networks), strict=True):
        np.testing.assert_array_equal(a, b)
    errors = [json.loads((f / "result.json").read_text())["errors"] for f in (one, two)]
    assert errors[0] == errors[1]


KILLED = """
import os, signal, sys
from fkpinn._solve import run, settings_from
from fkpinn.train import _fit

save, saved = _fit._Run._save, []

def save_and_die(self, index, state):
    save(self, index, state)
    saved.append(state)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

_fit._Run._save = save_and_die
run("exit-ball-3d", settings=settings_from(eval(sys.argv[2])), out=sys.argv[1], seed=1)
"""


@pytest.mark.broad
def test_killed_in_training_and_resumed_is_bit_for_bit_the_same(tmp_path, whole):
    """`kill -9` after the third checkpoint, in a process of its own; then `--resume`."""
    config = read_config(whole / "config.toml")
    broken = tmp_path / "broken"
    settings = config["settings"].changed({"training.checkpoint_seconds": 0.0})
    words = [sys.executable, "-c", KILLED, str(broken), repr(settings.flat())]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(result_history(broken)) == 3 and not (broken / "result.json").exists()
    assert main(["solve", "--resume", str(broken), "--json", "--quiet"]) == 0
    same_run(whole, broken)
    assert result_history(broken)[-1]["step"] == settings.training.steps


def command(*words):
    return [sys.executable, "-m", "fkpinn", "solve", *words, "--json"]


SIZES = [
    "network.widths=[10, 10]", "points.n_collocation=80", "points.n_boundary=20",
    "labels.n_paths=20", "labels.p_data=0.2", "training.steps=30", "points.n_test=50",
    "training.checkpoint_seconds=0", "certificate.seconds=0",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("after", [9, 20])
def test_killed_and_resumed_is_bit_for_bit_the_same(tmp_path, after):
    """`kill -9` from outside during training, at two moments, then `--resume`."""
    words = ["exit-ball-3d", "--seed", "2", "--set", *SIZES]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command(*words, "--out", str(whole)), check=True, **quiet)
    process = subprocess.Popen(command(*words, "--out", str(broken)), **quiet)
    metrics = broken / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() or len(metrics.read_text().splitlines()) < after:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (broken / "result.json").exists()
    subprocess.run(command("--resume", str(broken)), check=True, **quiet)
    same_run(whole, broken)


@pytest.mark.broad
def test_certificates_are_compiled_ahead(monkeypatch):
    """What is compiled while an accelerator trains is what the certificate of the result needs."""
    from fkpinn.sde import _walk

    job = Job.of(EXIT, small.changed({"certificate.seconds": 5.0}), "fk-pinn")
    assert compile_ahead(job, None) is None  # on two cores it would slow the training down
    built, real = [], _walk._Loop._built
    monkeypatch.setattr(
        _walk._Loop, "_built", lambda self, low: built.append(low) or real(self, low)
    )
    accelerator = Compute("gpu", 1, None, 1 << 20, lanes=Lanes((256,), 1 << 16, 1))
    with using(accelerator):
        assert compile_ahead(Job.of(EXIT, small, "fk-pinn"), None) is None  # no certificate
        thread = compile_ahead(job, None)
        assert thread is not None
        thread.join()
        ready = len(built)
        network = MLP(*EXIT.bounds(), small.network.widths, key=jax.random.key(7))
        fk.certify(EXIT, network, n_points=64, n_paths=8)
    assert ready > 0 and len(built) == ready
