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

import fkpinn as fk
from fkpinn._progress import SilentProgress
from fkpinn._solve import (
    METHODS,
    PRESETS,
    Settings,
    certify_run,
    load,
    resume,
    run,
    settings_from,
    solve,
)
from fkpinn._solve._phases import make_network
from fkpinn._solve._rounds import Rounds, corrected, improve
from fkpinn._solve._run import _rehearse
from fkpinn._solve._settings import read_config, write_config

small = Settings(
    widths=(8, 8), n_collocation=60, p_data=0.25, n_boundary=20, n_paths=20, natural_steps=6,
    adam_steps=20, lbfgs_steps=4, nncg_steps=1, n_test=100, certify_seconds=0.0,
)  # fmt: skip
EXIT = fk.catalogue("exit-ball-3d").problem


@pytest.fixture
def presets(monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", small)


@pytest.mark.parametrize(
    "name", [pytest.param("poisson", marks=pytest.mark.slow), "ornstein-uhlenbeck"]
)
def test_run_writes_a_folder(name, presets, tmp_path):
    result = run(name, out=tmp_path / "run", seed=1)
    assert (tmp_path / "run" / "result.json").read_text() == json.dumps(
        result, indent=2, ensure_ascii=False
    ) + "\n"
    assert set(result["errors"]) == {"l2_abs", "l2_rel", "h1_abs", "h1_rel", "linf"}
    assert set(result["seconds"]) == {"labels", "compile", "train", "certify", "total"}
    assert 0 < result["errors"]["l2_rel"] < 2
    for figure in result["figures"]:
        assert Path(figure).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (tmp_path / "run" / "report.html").read_text()
    assert name in page and 'data-widget="field"' in page and "://" not in page
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 6
    config = read_config(tmp_path / "run" / "config.toml")
    assert config["problem"] == name and config["settings"] == small
    assert fk.Labels.load(tmp_path / "run" / "labels.npz").n_paths == 20
    loaded = load(tmp_path / "run" / "solution.fkpinn")
    assert loaded.history == result_history(tmp_path / "run")


def result_history(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# the other methods are made of parts that are tested on their own
@pytest.mark.parametrize(
    "method", [m if m == "pinn" else pytest.param(m, marks=pytest.mark.slow) for m in METHODS]
)
def test_every_method_runs(method):
    solution = solve(EXIT, settings=small, method=method, seed=3)
    names = [record["phase"] for record in solution.history]
    last = {"engd": "natural gradient", "nncg": "NNCG"}.get(method.split("-")[-1], "L-BFGS")
    assert names[-1] == ("natural gradient" if method == "fk-pinn" else last)
    assert ("labels" in solution.history[-1]) == method.startswith("fk")
    assert bool(jnp.isfinite(solution([0.1, 0.2, 0.3])))


def test_natural_gradient_solves_and_the_seed_fixes_it():
    """The mean exit time from a ball is a polynomial of degree two: a small network has it."""
    _, exact = fk.catalogue("exit-ball-3d")
    settings = dataclasses.replace(
        small,
        widths=(16, 16),
        n_collocation=300,
        n_boundary=60,
        n_paths=100,
        natural_steps=60,
        label_rate=0.7,
    )
    one = solve(EXIT, settings=settings, seed=3)
    two = solve(EXIT, settings=settings, seed=3)
    points = fk.sobol_interior(EXIT, 256)
    truth = fk.ExactReference(EXIT, exact)
    assert fk.errors(EXIT, one.network, truth, points).l2_rel < 1e-2
    np.testing.assert_array_equal(one(points), two(points))


def test_the_papers_setting_is_the_papers():
    paper = PRESETS["paper"]
    assert paper.widths == (128,) * 4 and paper.n_labels == 200 and paper.n_interior == 9800
    assert (paper.n_boundary, paper.n_paths, paper.dt) == (400, 500, 1e-3)
    assert (paper.adam_steps, paper.lbfgs_steps, paper.learning_rate) == (30_000, 15_000, 1e-3)
    assert paper.scheme == "euler" and paper.uncertainty and paper.natural_steps == 0


@pytest.mark.slow
def test_boundary_data_can_be_built_in():
    hard = dataclasses.replace(small, hard=True)
    solution = solve(EXIT, settings=hard)
    on = fk.sample_boundary(EXIT, 20, key=jax.random.key(0)).points
    np.testing.assert_allclose(solution(on), 0.0, atol=1e-12)
    free = fk.Problem(fk.Interval(0, 1), reaction=1.0, source=1.0, boundary=fk.Neumann(0.0))
    with pytest.raises(ValueError, match=r"`hard` needs a Dirichlet part"):
        solve(free, settings=hard, method="pinn-engd")


@pytest.mark.slow
def test_a_second_pass_of_labels_where_the_residual_is_large(tmp_path):
    """They are kept, and lie where the short training left larger residuals than elsewhere."""
    settings = dataclasses.replace(small, second_pass=0.5, n_collocation=160)
    run(EXIT, settings=settings, out=tmp_path, seed=4)
    first, second = (fk.Labels.load(tmp_path / f"labels{n}.npz") for n in ("", "-second"))
    assert len(first.value) == len(second.value) == settings.n_labels // 2
    assert not np.any(np.asarray(first.points) == np.asarray(second.points))
    both = first.joined(second)
    assert len(both.value) == settings.n_labels and both.n_paths == 20
    with pytest.raises(ValueError, match=r"`other` must have as many paths a point"):
        first.joined(second._replace(n_paths=3))


@pytest.mark.slow
def test_a_certificate_comes_with_the_run(tmp_path):
    result = run(EXIT, settings=dataclasses.replace(small, certify_seconds=2.0), out=tmp_path)
    certificate = result["certificate"]
    assert certificate["ci_low"] <= certificate["l2_rel"] <= certificate["ci_high"]
    assert (tmp_path / "figures" / "certificate.png").exists()
    assert "Error without a reference" in (tmp_path / "report.html").read_text()
    loaded = load(tmp_path / "solution.fkpinn", EXIT)
    assert loaded.certificate == certificate
    again = certify_run(tmp_path, find=lambda _: EXIT, n_points=64, n_paths=32, seed=5)
    assert again["n_points"] == 64 and again["n_paths"] == 32
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["certificate"] == again
    low, high = again["ci_low"], again["ci_high"]
    direct = loaded.certify(n_points=64, n_paths=32, seed=5)
    assert (direct.ci_low, direct.ci_high) == (low, high)
    values = loaded.value_with_interval([0.1, 0.2, 0.3], n_paths=64)
    assert values.low[0] < values.value[0] < values.high[0]


def test_a_run_without_a_certificate_keeps_its_network(tmp_path, monkeypatch):
    def fails(*given, **more):
        raise ValueError("the solution cannot be told from zero")

    monkeypatch.setattr("fkpinn._solve._run.improve", fails)
    settings = dataclasses.replace(small, certify_seconds=1.0)
    result = run(EXIT, settings=settings, method="pinn-engd", out=tmp_path)
    assert result["certificate"] is None and result["errors"] is None
    assert result["stopped"] == ["no certificate: the solution cannot be told from zero"]
    assert (tmp_path / "solution.fkpinn").exists() and (tmp_path / "report.html").exists()


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
            "settings": dataclasses.asdict(small),
        },
    )
    with pytest.raises(ValueError, match="holds no solution yet"):
        certify_run(tmp_path)


better = dataclasses.replace(
    small, widths=(16, 16), n_collocation=300, n_boundary=60, n_paths=100, natural_steps=30,
    label_rate=0.7, polish_steps=10, polish_times=2, certify_seconds=5.0,
)  # fmt: skip


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
    poor = dataclasses.replace(better, widths=(2,), rounds=2, polish_steps=4)
    solution = solve(EXIT, settings=poor, target=1e-9, seed=3)
    assert "target 1e-09 not reached" in solution.stopped[-1]
    assert "Try `preset='best'`" in solution.stopped[-1]
    # one round shows that the second cannot do it
    assert "another round at the best pace so far would end near" in solution.stopped[-1]


@pytest.mark.slow
def test_a_round_with_corrected_labels(monkeypatch):
    """Labels from the network's own error are as good as they say, and lie where it is large."""
    solution = solve(EXIT, settings=small, seed=3)
    exact = fk.catalogue("exit-ball-3d").exact
    truth = lambda points: np.asarray(jax.vmap(exact)(jnp.asarray(points)))
    found = solution.certify(n_points=256, n_paths=64)
    state = Rounds(
        EXIT, better, 0.1, 5.0, 0, SilentProgress(), None, None, jax.random.key(0)
    )  # fmt: skip
    points = state.where(found, 100, jax.random.key(1))
    labels = corrected(
        EXIT, solution.network, points,
        n_paths=400, dtype="float32", seed=1, progress=SilentProgress(),
    )  # fmt: skip
    sigma = (np.asarray(labels.value) - truth(points)) / np.asarray(labels.stderr)
    assert 0.7 < np.sqrt(np.mean(sigma**2)) < 1.3
    square = lambda at: np.mean((np.asarray(solution(at)) - truth(at)) ** 2)
    assert square(points) > 1.2 * square(fk.sobol_interior(EXIT, 1000))
    rounds = dataclasses.replace(better, rounds=1)
    monkeypatch.setattr(Rounds, "choose", lambda self, best: "refresh")
    gains = []
    for seed in range(3, 6):
        improved = improve(
            EXIT, rounds, solution.network, size=0.07, trained_in=200.0, seed=seed,
            progress=SilentProgress(), key=jax.random.key(seed),
        )  # fmt: skip
        (record,) = improved.rounds
        assert record["kind"] == "refresh" and record["kept"]
        assert improved.certificate.l2_rel == record["after"]
        assert improved.notes[0].startswith("round 1, refresh: relative error ")
        gains.append(record["before"] / record["after"])
    assert np.median(gains) > 2


def _certificate(error):
    labels = fk.Labels.from_data(jnp.zeros((1, 3)), jnp.zeros(1), 0.1)
    return fk.Certificate(error, error, error, 0.95, error, 0.0, labels, 1.0)


def test_the_kind_of_a_round_is_chosen_by_what_was_seen(monkeypatch):
    state = Rounds(EXIT, better, 0.1, 5.0, 0, SilentProgress(), None, None, jax.random.key(0))
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
    state = Rounds(EXIT, better, 0.1, 5.0, 0, SilentProgress(), None, None, jax.random.key(0))
    clock = iter(range(100))
    monkeypatch.setattr("fkpinn._solve._rounds.time.perf_counter", lambda: next(clock))
    done = []
    step = lambda self, kind, network, labels, name, key, part: done.append(name) or network + 1
    monkeypatch.setattr(Rounds, "steps", step)
    state.measured_in = 3.0
    assert state.train("polish", 0, _certificate(0.02), 7) == 4
    assert done == ["7-0", "7-1", "7-2", "7-3"]


def test_labels_of_ones_own():
    points = fk.sobol_interior(EXIT, 30)
    labels = fk.Labels.from_data(points, jnp.ones(30), 0.01)
    heavy = dataclasses.replace(small, label_weight=100.0, label_rate=1.0, natural_steps=15)
    solution = solve(EXIT, settings=heavy, labels=labels)
    assert abs(float(solution([0.0, 0.0, 0.0])) - 1.0) < 0.2


def test_a_problem_of_ones_own_in_one_dimension(presets, tmp_path):
    problem = fk.Problem(fk.Interval(0, 1), source=1.0, name="<script>alert(1)</script>")
    result = run(problem, out=tmp_path, method="pinn")
    assert result["errors"] is not None and result["problem"] == problem.name
    assert "<script>alert" not in (tmp_path / "report.html").read_text()
    with pytest.raises(ValueError, match=r"which is not in the catalogue. Pass the problem"):
        load(tmp_path / "solution.fkpinn")
    loaded = load(tmp_path / "solution.fkpinn", problem)
    assert loaded.plot(tmp_path / "line.png").read_bytes()[:4] == b"\x89PNG"
    other = fk.Problem(fk.Interval(0, 1), source=2.0, name=problem.name)
    with pytest.raises(ValueError, match=r"holds the solution of another problem"):
        load(tmp_path / "solution.fkpinn", other)


def test_no_reference_in_higher_dimension(presets, tmp_path):
    problem = fk.Problem(fk.Ball([0, 0, 0], 1), source=1.0)
    assert run(problem, out=tmp_path, method="pinn-engd")["errors"] is None


@pytest.fixture(scope="module")
def solution():
    tiny = dataclasses.replace(small, natural_steps=1, frequencies=1.0)
    return solve(EXIT, settings=tiny, method="pinn-engd")


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
    with pytest.raises(ValueError, match=r"is damaged|is not a|holds"):
        load(path, EXIT)
    turned = bytes(b ^ 0x5A for b in content[at : at + 40])
    path.write_bytes(content[:at] + turned + content[at + 40 :])
    with pytest.raises(ValueError, match=r"is damaged|is not a|holds"):
        load(path, EXIT)


def test_a_file_that_asks_for_too_much_memory_is_refused(solution, tmp_path, monkeypatch):
    import fkpinn._solve._solution as module

    about = {"kind": "fkpinn solution", "name": "x", "widths": [10**6] * 3, "dtype": "float64"}
    monkeypatch.setattr(module, "load_about", lambda path: about)
    solution.save(tmp_path / "a.fkpinn")
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
    ("values", "error", "message"),
    [
        ({"natural_step": 3}, ValueError, "There is no setting `natural_step`.*`natural_steps`"),
        ({"n_paths": "many"}, ValueError, "`n_paths` must be of type int; got 'many'"),
        ({"n_paths": 2.5}, ValueError, "`n_paths` must be of type int; got 2.5"),
        ({"hard": 1}, ValueError, "`hard` must be of type bool; got 1"),
        ({"widths": [8, 0]}, ValueError, "`widths` must be positive"),
        ({"widths": [8.5]}, ValueError, "`widths` must be of type"),
        ({"n_collocation": 0}, ValueError, "`n_collocation` must be at least 1; got 0"),
        ({"p_data": 1.0}, ValueError, r"`p_data` must lie in \[0, 1\)"),
        ({"adam_steps": -1}, ValueError, "`adam_steps` must not be negative"),
        ({"learning_rate": 0.0}, ValueError, "`learning_rate` must be positive"),
        ({"learning_rate": float("nan")}, ValueError, "`learning_rate` must be positive"),
        ({"label_rate": 1.5}, ValueError, r"`label_rate` must lie in \(0, 1\]"),
        ({"momentum": 1.0}, ValueError, r"`momentum` must lie in \[0, 1\)"),
        ({"dt": -1.0}, ValueError, "`dt` must be positive"),
        ({"polish_times": 0}, ValueError, "`polish_times` must be at least 1"),
        ({"n_paths": 1}, ValueError, "`n_paths` must be at least 2"),
    ],
)
def test_bad_settings_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        settings_from(values)


def test_refusals(tmp_path, presets):
    with pytest.raises(ValueError, match=r"`method` must be one of.*Did you mean `pinn-engd`"):
        solve(EXIT, method="pinn-engdd")
    with pytest.raises(ValueError, match=r"`preset` must be one of.*Did you mean `quick`"):
        run(EXIT, preset="quik", out=tmp_path)
    with pytest.raises(ValueError, match=r"leave nothing to do for `pinn`"):
        nothing = dataclasses.replace(small, adam_steps=0, lbfgs_steps=0)
        solve(EXIT, settings=nothing, method="pinn")
    with pytest.raises(ValueError, match=r"is not a run folder: it has no `config.toml`"):
        resume(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("problem = 3", "must have `problem`, a str; got 3"),
        ("problem = 'met'", "must have `method`"),
        ("= nonsense", "is not a TOML file"),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\nsed=1\n[settings]",
            "`sed`.*`seed`",
        ),
        (
            "problem='met'\nmethod='pinn'\npreset='quick'\nseed=0\n[settings]\nn_path=3",
            "no setting `n_path`.*`n_paths`",
        ),
    ],
)
def test_bad_configurations_are_refused(text, message, tmp_path):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        resume(tmp_path)


def test_a_folder_of_another_run_is_refused(presets, tmp_path):
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(ValueError, match=r"must have `problem`"):
        run("poisson", out=tmp_path, method="pinn-engd")
    (tmp_path / "config.toml").unlink()
    from fkpinn._solve._run import _claim

    config = {"problem": "met", "method": "pinn", "preset": "quick", "seed": 0}
    _claim(tmp_path, config | {"settings": dataclasses.asdict(small)})
    with pytest.raises(ValueError, match=r"holds another run: `seed`, `settings` differ"):
        other = config | {"seed": 1, "settings": dataclasses.asdict(Settings())}
        _claim(tmp_path, other)


def command(*words):
    return [sys.executable, "-m", "fkpinn", "solve", *words, "--json"]


SIZES = [
    "widths=[10, 10]", "n_collocation=80", "n_boundary=20", "n_paths=20", "p_data=0.2",
    "natural_steps=30", "n_test=50", "checkpoint_seconds=0", "certify_seconds=0",
]  # fmt: skip


@pytest.mark.parametrize("after", [9, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_is_bit_for_bit_the_same(tmp_path, after):
    """`kill -9` during training, at two moments, then `--resume`."""
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
    one, two = (load(f / "solution.fkpinn").network for f in (whole, broken))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)
    again = json.loads((broken / "result.json").read_text())
    assert again["errors"] == json.loads((whole / "result.json").read_text())["errors"]


def test_certificates_are_compiled_ahead(monkeypatch):
    """What is compiled while an accelerator trains is what the certificate of the result needs."""
    from fkpinn.sde import _walk

    assert _rehearse(EXIT, small, None) is None  # on two cores it would slow the training down
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    narrow = _walk.Widths((256,), 1 << 16, 1)
    monkeypatch.setattr("fkpinn.evaluate._defect_paths.default_widths", lambda n: narrow)
    wanted = dataclasses.replace(small, certify_seconds=5.0)
    thread = _rehearse(EXIT, wanted, None)
    assert thread is not None
    thread.join()
    ready = set(_walk._ready)
    with jax.enable_x64(True):
        network = make_network(EXIT, wanted, 1.0, dtype=jnp.float64, key=jax.random.key(7))
    fk.evaluate.certify(EXIT, network, n_points=64, n_paths=8)
    assert ready and _walk._ready == ready
