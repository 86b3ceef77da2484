"""`fkpinn bench` at tiny sizes: what the records hold, and that the yardsticks are right."""

import functools
import importlib
import json
import os
import shutil
import sys

import jax.random as jr
import numpy as np
import pytest

from fkpinn import Settings
from fkpinn._solve._presets import PRESETS
from fkpinn.cli import _bench, main
from fkpinn.cli._main import parse
from fkpinn.nn import MLP
from fkpinn.problem import catalogue
from fkpinn.reference import load_reference

paths = _bench._load("paths")
step = _bench._load("step")
certificates = _bench._load("certificates")
ablation = _bench._load("ablation")
targets = _bench._load("targets")
refresh = _bench._load("refresh")
examples = _bench._load("examples")
sizes = _bench._load("sizes")
dimensions = _bench._load("dimensions")
scaling = _bench._load("scaling")
lbfgs = _bench._load("lbfgs")
rivals = _bench._load("rivals")
jumps = _bench._load("jumps")
from benchmarks._common import met_points, run_process  # noqa: E402
from benchmarks.paths._c import Kernel  # noqa: E402
from benchmarks.paths._numpy import time_numpy  # noqa: E402
from benchmarks.step._fkpinn import gradient_flops, network  # noqa: E402
from benchmarks.step._peers import started  # noqa: E402

POINTS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1.5]], np.float32)
BIAS = 0.01  # of the walk at dt = 1e-2, relative

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def assert_near_reference(result, truth):
    assert np.all(np.abs(result.mean - truth) <= 4 * result.stderr + BIAS * truth)


@pytest.mark.broad
@needs_gcc
def test_kernel_exit_times():
    result = Kernel().time(POINTS, 4000, 1e-2, 1)
    plain = Kernel("exit_steps_plain").time(POINTS, 4000, 1e-2, 1)
    np.testing.assert_allclose(plain.mean, result.mean, rtol=1e-3)  # same numbers, other rounding
    assert_near_reference(result, load_reference("met").values(POINTS))
    assert result.path_steps == pytest.approx(4000 * result.mean.sum() / 1e-2)


@needs_gcc
def test_kernel_numbers_depend_on_path_and_point_alone():
    kernel = Kernel()
    both, first = kernel.time(POINTS, 100, 1e-2, 1), kernel.time(POINTS[:1], 100, 1e-2, 1)
    assert both.mean[0] == first.mean[0]
    assert kernel.time(POINTS[:1], 100, 1e-2, 2).mean[0] != first.mean[0]
    assert kernel.time(POINTS[:1], 100, 1e-2, 1 + 2**32).mean[0] != first.mean[0]


@needs_gcc
def test_kernel_leaves_arithmetic_alone():
    Kernel()
    assert np.array([np.finfo(float).tiny])[0] / 2 > 0  # a denormal number is not flushed to zero


@pytest.mark.broad
def test_numpy_exit_times():
    assert_near_reference(time_numpy(POINTS, 200, 1e-2, 1), load_reference("met").values(POINTS))


@pytest.mark.slow
def test_paths_record(capsys, tmp_path):
    out = tmp_path / "new" / "paths.json"
    words = ["bench", "paths", "--points", "4", "--paths", "40", "--repeats", "1"]
    assert main([*words, "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record == json.loads(out.read_text(encoding="utf-8"))
    assert "fkpinn: run 1:" in captured.err
    assert {"device", "versions", "commit", "vs_c", "vs_c_tuned", "vs_diffrax", "vs_numpy"} <= set(
        record
    )
    assert set(record["path_steps_per_s"]) == {"fkpinn", "c", "c_tuned", "diffrax", "numpy"}
    for name, entry in record["measured"].items():
        speed = record["path_steps_per_s"][name]
        assert entry["path_steps_per_s"] == speed
        if speed is None:  # only what is not installed, and then it is said
            assert name in ("c", "diffrax") and "install" in entry["note"]
            continue
        assert speed > 0 and entry["path_steps"] > 0 and entry["seconds"]["run"] > 0
        check = entry["exit_time"]
        bound = 4 * check["stderr"] + BIAS * check["reference"]
        assert abs(check["mean"] - check["reference"]) <= bound
    assert record["path_steps_per_s"]["fkpinn"] and record["path_steps_per_s"]["numpy"]


@pytest.mark.broad
def test_a_missing_compiler_is_said(capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    words = ["bench", "paths", "--points", "2", "--paths", "10", "--repeats", "1"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["vs_c"] is None
    assert "gcc was not found" in record["measured"]["c"]["note"]


@pytest.mark.slow
def test_labels_record(capsys):
    words = ["bench", "labels", "--points", "4", "--paths", "4", "--max-paths", "10000"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["n_points"], record["n_paths"], record["scheme"]) == (4, 4, "euler")
    assert [size["paths"] for size in record["sweep"]] == [10_000]
    assert [entry["dim"] for entry in record["dimensions"]] == [2, 10, 20, 50, 100]
    for entry in record["dimensions"]:
        ratio = entry["coordinate_steps_per_s"] / entry["path_steps_per_s"]
        assert ratio == pytest.approx(entry["dim"]) and entry["first_call"] > 0
    for entry in (record, *record["sweep"]):
        assert entry["path_steps"] > 0 and entry["path_steps_per_s"] > 0
        assert entry["seconds"]["compile"] >= 0 and entry["seconds"]["run"] > 0
        assert entry["peak_memory_mib"] > 10


@pytest.mark.slow
def test_step_record(monkeypatch):
    monkeypatch.delenv("FKPINN_PEERS", raising=False)
    record = step.run(n_points=600, repeats=2, width=8, depth=2)  # two whole pieces and a rest
    assert (record["parameters"], record["precision"]) == (2 * 8 + 8 + 8 * 8 + 8 + 8 + 1, "float32")
    for name in ("fkpinn", "hessian"):
        entry = record["measured"][name]
        assert entry["gradient_difference"] < 1e-4
        for what in ("forward", "gradient"):
            assert entry[what]["compile"] > 0 and len(entry[what]["runs"]) == 2
            assert entry[what]["run"] > 0 and entry[what]["latency"] > 0
    losses = [record["measured"][name]["loss"] for name in ("fkpinn", "hessian")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert record["speedup"]["hessian_forward"] > 0 and record["speedup"]["hessian_gradient"] > 0
    assert record["flops_per_s"] == pytest.approx(record["flops"] / record["seconds"]["fkpinn"])
    for peer in ("deepxde", "deepxde_forward", "jinns"):
        assert record["seconds"][peer] is None and record["speedup"][peer] is None
        assert "FKPINN_PEERS is not set" in record["measured"][peer]["note"]


def test_step_counts_operations():
    # forward: 4 rows (value, 2 slopes, curvature) through 2x5, 5x5, 5x1; backward twice that
    assert gradient_flops(network(5, 2), 7) == 3 * 7 * 4 * 2 * (2 * 5 + 5 * 5 + 5 * 1)


@pytest.mark.slow
def test_step_says_why_a_peer_failed(capsys, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ImportError: no jinns' >&2\nexit 3\n", encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("FKPINN_PEERS", str(python))
    monkeypatch.setattr(step, "run", functools.partial(step.run, width=4, depth=1))
    assert main(["bench", "step", "--points", "20", "--repeats", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["benchmark"], record["n_points"], record["repeats"]) == ("step", 20, 1)
    assert record["speedup"]["jinns"] is None
    assert record["measured"]["jinns"]["note"] == "exit code 3: ImportError: no jinns"


def test_step_peers_need_a_program(monkeypatch, tmp_path):
    monkeypatch.setenv("FKPINN_PEERS", str(tmp_path / "python"))
    with started(network(4, 1), POINTS) as (peers, why_none):
        assert not peers and "is not a program" in why_none


def test_points_are_single_precision():
    assert met_points(4).dtype == np.float32


def test_options_of_the_other_benchmark(capsys):
    assert main(["bench", "paths", "--max-paths", "1"]) == 2
    assert "`--max-paths` belongs to `fkpinn bench labels`" in capsys.readouterr().err
    assert main(["bench", "labels", "--repeats", "1"]) == 2
    assert "`--repeats` belongs to `fkpinn bench paths`" in capsys.readouterr().err
    assert main(["bench", "step", "--paths", "2"]) == 2
    assert "`--paths` belongs to `fkpinn bench paths` and `fkp" in capsys.readouterr().err


def test_sizes(capsys):
    assert main(["bench", "paths", "--paths", "1"]) == 2
    assert "`--paths` at least 2" in capsys.readouterr().err
    assert main(["bench", "labels", "--points", "0"]) == 2
    assert "`--points` must be at least 1" in capsys.readouterr().err
    assert main(["bench", "step", "--points", "0"]) == 2
    assert "must be at least 1; got 0, 9, 128 and 4" in capsys.readouterr().err


def test_a_wheel_has_no_benchmarks(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("fkpinn.__file__", str(tmp_path / "fkpinn" / "__init__.py"))
    assert main(["bench", "paths"]) == 2
    assert "comes with the source" in capsys.readouterr().err


@pytest.mark.slow
def test_certificates_record(monkeypatch, tmp_path, capsys):
    """With one network that is there already; nothing is trained."""
    module = certificates._run
    monkeypatch.setattr(module, "PROBLEMS", ("poisson",))
    problem = catalogue("poisson").problem
    poor = MLP(*problem.bounds(), [4], key=jr.key(0))
    module._keep("poisson", poor, tmp_path / "poisson-final.fkpinn")
    assert main(["bench", "certificates", "--folder", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["networks"] == 1 and record["inside"] in (0, 1)
    (one,) = record["records"]
    assert one["network"] == "poisson-final" and one["true"] > 0.5
    assert one["ci_low"] <= one["l2_rel"] <= one["ci_high"] and one["ci_low"] > 0.5


tiny = Settings().changed(
    {
        "network.widths": (8, 8),
        "points.n_collocation": 60,
        "points.n_boundary": 20,
        "labels.n_paths": 20,
        "training.steps": 3,
        "training.adam_steps": 3,
        "training.lbfgs_steps": 2,
        "certificate.seconds": 1.0,
    }
)


@pytest.mark.slow
def test_ablation_record_goes_on_where_it_was_stopped(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(PRESETS, "quick", tiny)
    monkeypatch.setattr(ablation._run, "PROBLEMS", ("poisson",))
    some = ("as shipped", "without labels", "without second order")
    chosen = {name: ablation._run.VARIANTS[name] for name in some}
    monkeypatch.setattr(ablation._run, "VARIANTS", chosen)
    call = ["bench", "ablation", "--folder", str(tmp_path), "--seeds", "1", "--json"]
    assert main(call) == 0
    first = json.loads(capsys.readouterr().out)
    assert set(first["median_l2_rel"]) == set(some) and len(first["records"]) == 3
    assert all(record["l2_rel"] > 0 for record in first["records"])
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["records"] == first["records"]


@pytest.mark.slow
def test_targets_record(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(PRESETS, "quick", tiny)
    monkeypatch.setattr(targets._run, "PAIRS", (("poisson", 1e3),))
    monkeypatch.setattr(targets._run, "OUT_OF_REACH", ("poisson", 1e-9))
    monkeypatch.setattr("fkpinn._solve._run._ROUNDS", 1)
    assert main(["bench", "targets", "--folder", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["pairs"] == record["said_reached"] == record["true_error_below_target"] == 1
    assert record["out_of_reach"][-1].startswith("target 1e-09 not reached")


@pytest.mark.broad
def test_lbfgs_record(monkeypatch, capsys):
    for name, small in {"FIRST": 2, "STEPS": 3, "WIDTHS": (4,), "N_INTERIOR": 20}.items():
        monkeypatch.setattr(lbfgs._run, name, small)
    monkeypatch.setattr(lbfgs._run, "PROBLEMS", ("poisson",))
    assert main(["bench", "lbfgs", "--seeds", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    ours, theirs = record["medians"]
    assert (ours["optimizer"], theirs["optimizer"]) == ("fkpinn", "optax")
    assert all(0 < one["loss"] < 1e9 and one["steps"] == 3 for one in (ours, theirs))
    page = lbfgs.page(record)
    assert (
        page.startswith("| problem | L-BFGS of | loss | error | seconds |")
        and page.count("`poisson`") == 2
    )


@pytest.mark.slow
def test_refresh_record(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(PRESETS, "quick", tiny.changed({"training.polish_steps": 2}))
    monkeypatch.setattr(refresh._run, "PROBLEMS", ("poisson",))
    assert main(["bench", "refresh", "--folder", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (one,) = record["records"]
    assert len({one["before"], one["refreshed"], one["polished"]}) == 3
    assert all(0 < one[when] < 10 for when in ("before", "refreshed", "polished"))
    assert one["seconds"]["polish"] >= one["seconds"]["refresh"]


def test_examples_record(monkeypatch, tmp_path, capsys):
    script = tmp_path / "short.py"
    script.write_text(
        "import pathlib\nprint('first')\nprint('42', pathlib.Path('a.png').touch())\n"
    )
    monkeypatch.setattr(examples._run, "SCRIPTS", [script])
    call = ["bench", "examples", "--folder", str(tmp_path / "out"), "--json"]
    assert main(call) == 0
    record = json.loads(capsys.readouterr().out)
    (one,) = record["records"]
    assert (one["example"], one["said"]) == ("short", ["first", "42 None"])
    assert 0 < one["seconds"] < 60 and one["peak_mib"] > 1 and (tmp_path / "out/a.png").exists()
    script.unlink()  # what is on record is not run again
    assert main(call) == 0
    assert json.loads(capsys.readouterr().out)["records"] == [one]


def test_sizes_record(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sizes._run, "COMMANDS", {"a list": "problems"})
    assert main(["bench", "sizes", "--folder", str(tmp_path / "one"), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["records"]
    assert (one["what"], one["command"]) == ("a list", "problems") and one["peak_mib"] > 10
    monkeypatch.setattr(sizes._run, "COMMANDS", {"a slip": "problem"})
    assert main(["bench", "sizes", "--folder", str(tmp_path / "two"), "--json"]) == 1
    assert "ended with code 2" in capsys.readouterr().err


def test_commands_of_sizes_can_be_read():
    for command in sizes._run.COMMANDS.values():
        parse(command.split())


def ended(error, seconds, device="cpu: cpu", limits=(1e-3, 2e-3)):
    """What the process of a run says, with all numbers made up."""
    trivial = {"constant": 0.4, "linear": 0.2, "skill": error / 0.2}
    stages = ("labels", "compile", "train", "certificate", "rounds", "checked")
    low, high = limits
    return {
        "errors": {"l2_rel": error, **trivial},
        "true": error,
        "certificate": {"ci_low": low, "ci_high": high, "holds": low <= error <= high},
        "value": None,
        "seconds": dict.fromkeys(stages, seconds / 10),
        "device": device,
        "commit": "abc",
    }


@pytest.fixture
def made_up(monkeypatch):
    """Runs that take no time: rows by problem and seed, or an error that is raised."""
    rows, seen = {}, []

    def process(words, place, **how):
        asked = json.loads(words[-1])
        seen.append((asked["problem"], asked["seed"]))
        row = rows[asked["problem"], asked["seed"]]
        if isinstance(row, BaseException):
            raise row
        return json.dumps(row), 10 * row["seconds"]["train"], 100.0

    monkeypatch.setattr(dimensions._run, "run_process", process)
    monkeypatch.setattr(dimensions._run, "source_commit", lambda: "abc")
    monkeypatch.setattr(
        dimensions._run, "_surroundings", lambda: {"device": "cpu: cpu", "commit": None}
    )
    return rows, seen


def test_dimensions_keep_rows_of_a_run_that_is_killed(made_up, tmp_path, capsys):
    rows, seen = made_up
    out = tmp_path / "new" / "cpu.json"
    rows["ou-exit-10d", 0], rows["ou-exit-10d", 1] = ended(1.5e-3, 100), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        dimensions.run(["ou-exit-10d"], seeds=[0, 1], out=out)
    (row,) = json.loads(out.read_text())["records"]
    assert (row["seed"], row["true"], row["seconds"]["total"]) == (0, 1.5e-3, 90)
    assert row["seconds"]["other"] == 40 and "checked" not in row["seconds"]
    # on record with this commit: not made again; rows of other problems and seeds stay
    rows["ou-exit-10d", 1] = ended(2.4e-3, 400)
    rows["laplace-10d", 0] = ended(9e-4, 50)
    del seen[:]
    words = ["bench", "dimensions", "--seeds", "2", "--out", str(out)]
    assert main([*words, "--problems", "ou-exit-10d"]) == 0
    assert main([*words[:3], "1", *words[4:], "--problems", "laplace-10d", "--json"]) == 0
    assert seen == [("ou-exit-10d", 1), ("laplace-10d", 0)]
    said = capsys.readouterr()
    printed = "{" + said.out.split("\n{", 1)[1]
    record = json.loads(out.read_text())
    assert json.loads(printed) == record and len(record["records"]) == 3
    exit_time, laplace = record["summary"]
    assert (exit_time["worst_l2_rel"], exit_time["longest_seconds"]) == (2.4e-3, 360)
    assert exit_time["met"] and exit_time["certificate_holds"] == 1 and exit_time["certified"] == 2
    assert laplace["bar"] == {"l2_rel": 1e-3, "seconds": 360, "value": None} and laplace["met"]
    assert "worst of 2 seeds 2.4e-03 (skill 0.012) in at most 360 s" in said.err
    assert (
        "| `ou-exit-10d` | 1 | 2.4e-03 | 4.0e-01 | 2.0e-01 |" in out.with_suffix(".md").read_text()
    )


def test_bars_of_values_at_the_center():
    bar = dimensions._table.bar_of("hjb-lq-20d", "gpu: NVIDIA H200")
    assert bar == (1e-3, 300, 5e-4) and bar.target == pytest.approx(0.85 * 5e-4)
    row = ended(9e-4, 20) | {"seconds": {"total": 200}}
    assert not bar.reached(row)  # no value
    central = lambda value, low, high: {"value": value, "ci_low": low, "ci_high": high, "true": 2.0}
    for value, reached in (
        (central(2.0009, 1.999, 2.002), True),
        (central(2.0011, 1.999, 2.002), False),  # too far from the truth
        (central(2.0009, 2.0001, 2.002), False),  # which its limits do not hold
    ):
        assert bar.reached(row | {"value": value}) is reached


def test_dimensions_say_what_did_not_end(made_up, tmp_path):
    rows, _ = made_up
    out = tmp_path / "h200.json"
    rows["laplace-10d", 0] = ended(8e-6, 200, "gpu: NVIDIA H200")
    rows["laplace-10d", 1] = ended(8e-6, 400, "gpu: NVIDIA H200")
    (summary,) = dimensions.run(["laplace-10d"], seeds=1, out=out)["summary"]
    assert summary["met"] and summary["bar"] == {"l2_rel": 8.9e-6, "seconds": 300, "value": None}
    (summary,) = dimensions.run(["laplace-10d"], seeds=2, out=out)["summary"]
    assert not summary["met"]  # the second is too slow
    rows["two-body-100d", 0] = TimeoutError("the run was ended after 9 s.")
    record = dimensions.run(["two-body-100d"], seeds=1, out=out, limit=9.0)
    assert record["records"][0]["why"] == "the run was ended after 9 s."
    assert (
        record["summary"][0]["unfinished"] == [0] and record["summary"][0]["worst_l2_rel"] is None
    )
    assert "no seed has ended" in out.with_suffix(".md").read_text()
    folder = tmp_path / "run" / "round-1-0"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"error": 0.25}\n{"loss": 1}\n{"error": 0.1')
    assert dimensions._run._last(tmp_path, 7.0) == {"error": 0.25, "seconds": 7.0}


def test_intervals_tell_bias_and_coverage(capsys):
    """Walks on spheres have next to no bias, and their intervals hold about what they say."""
    words = ["bench", "intervals", "--problems", "exit-ball-3d", "--points", "200"]
    assert main([*words, "--paths", "64", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert (record["problem"], record["n_points"], record["n_paths"]) == ("exit-ball-3d", 200, 64)
    assert record["scheme"] == "spheres" and 0 < record["standard_error"] < 0.02
    assert abs(record["relative_bias"]) < 4 * record["standard_error"]
    assert 0.95 - 4 * (0.05 * 0.95 / 200) ** 0.5 < record["covered"] <= 1
    assert main([*words[:5], "1"]) == 2
    assert "`--points` and `--paths` must be at least 2" in capsys.readouterr().err


def test_dimensions_refuse(made_up, tmp_path):
    with pytest.raises(ValueError, match=r"`problems` must be names from ou-exit-10d.*got 'met'"):
        dimensions.run(["met"])
    with pytest.raises(ValueError, match="`seeds` must be one or more numbers"):
        dimensions.run(seeds=[])
    with pytest.raises(ValueError, match="`limit` must be positive"):
        dimensions.run(limit=0)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValueError, match="is no record of this benchmark"):
        dimensions.run(seeds=1, out=tmp_path / "a.json")
    assert dimensions._run._names(None, "cpu: cpu") == list(dimensions._table.BARS["cpu"])


@pytest.mark.slow
def test_dimensions_record(tmp_path):
    """The real thing, very small."""
    few = {"training.steps": 1, "labels.times": 1, "certificate.rounds": 0}
    small = {"network.widths": [4], "points.n_collocation": 30, "points.n_test": 200}
    changes = few | small | {"labels.n_paths": 4, "certificate.seconds": 1.0}
    record = dimensions.run(["laplace-10d"], seeds=[3], out=tmp_path / "a.json", changes=changes)
    (row,) = record["records"]
    assert row["finished"] and row["seed"] == 3 and row["settings"]["points.n_test"] == 200
    assert row["true"] == pytest.approx(row["errors"]["l2_rel"], rel=0.3)
    stages = {k: v for k, v in row["seconds"].items() if k != "total"}
    assert sum(stages.values()) == pytest.approx(row["seconds"]["total"])
    value = row["value"]
    assert value["ci_low"] < value["value"] < value["ci_high"]
    assert value["true"] == pytest.approx(1.25)  # of five products of two halves
    assert stages["rounds"] == 0 and min(stages["labels"], stages["compile"], stages["other"]) > 0


def test_a_process_that_takes_too_long_is_ended(monkeypatch, tmp_path):
    monkeypatch.setenv("FKPINN_TOLD", "1")
    words = [sys.executable, "-c", "import os; print(os.environ.get('FKPINN_TOLD'))"]
    said, seconds, mib = run_process(words, tmp_path, environment={"FKPINN_TOLD": None})
    assert (said, seconds > 0, mib > 1) == ("None\n", True, True)
    forever = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(TimeoutError, match="it was ended after 0 s"):
        run_process(forever, tmp_path, name="it", limit=0.1)
    assert os.environ["FKPINN_TOLD"] == "1"


def test_scaling_finds_the_coefficients_of_a_model():
    """Of times that follow it, up to noise; and what it says of many devices."""
    rng = np.random.default_rng(0)
    true = scaling.Costs(2e-11, 3e-12, 1e-11, 1e-3, 1e-9, 2e-12, 1e-8)
    sizes = [
        scaling.Sizes(n, p, d) for n in (500, 4000) for p in (300, 1200, 6000) for d in (2, 10, 50)
    ]
    small = lambda s: min(s.rows, s.parameters)
    design = [
        (s.rows * s.parameters * (s.dim + 2), s.rows * s.parameters * small(s), small(s) ** 3, 1.0)
        for s in sizes
    ]
    times = [true.train(s) * np.exp(0.02 * rng.standard_normal()) for s in sizes]
    found, misfit = scaling._model.fitted(design, times)
    np.testing.assert_allclose(found, true[:4], rtol=0.25)
    assert np.max(np.abs(misfit)) < 0.1
    assert np.all(scaling._model.fitted(design, [1e-3] * len(sizes))[0] >= 0)
    many = scaling.Sizes(64_000, 1200, 10)
    one, eight = true.train(many), true.train(many, 8)
    fixed = true.step + true.solution * 1200**3
    assert eight - fixed == pytest.approx((one - fixed) / 8)
    sent = scaling._model.sent_bytes(many)
    assert sent == 8 * (1200**2 + 1200) * 2
    slow = true.train(many, 8, bandwidth=1e9) - eight
    assert slow == pytest.approx(2 * sent * 7 / 8 / 1e9)
    assert true.labels(1e6, 10, 4) == pytest.approx(1e6 * 10 * 1e-9 / 4)
    assert true.certificate(1e6, many) > true.labels(1e6, 10)


@pytest.mark.slow
def test_scaling_measures(monkeypatch):
    monkeypatch.setattr(scaling._run, "_DIMS", (2, 4))
    monkeypatch.setattr(scaling._run, "_PATH_DIMS", (2, 4))
    monkeypatch.setattr(scaling._run, "_ROWS", (40, 80))
    monkeypatch.setattr(scaling._run, "_WIDTHS", ((4,), (8,)))
    found = scaling.run(1)
    assert len(found["steps"]) == 8 and all(row["seconds"] > 0 for row in found["steps"])
    assert all(value >= 0 for value in found["costs"].values())
    assert [row["devices"] for row in found["predicted"][:4]] == [1, 8, 64, 512]


def test_rivals_get_as_much_time_as_the_run_they_stand_beside(monkeypatch, capsys):
    """Values are judged by their error and by that of the linear answer."""
    given = []
    values = {"fkpinn": 0.31, "bsde": 0.33, "picard": 0.3}

    def one(tool, problem, seed, preset, seconds):
        given.append((tool, seconds))
        limits = [0.3, 0.32] if tool == "fkpinn" else None
        errors = None if tool == "picard" else {"l2_rel": 0.02, "skill": 0.2}
        return {"value": values[tool], "limits": limits, "errors": errors, "seconds": 7.0 + seed}

    monkeypatch.setattr(rivals._run, "_one", one)
    monkeypatch.setattr(rivals._run, "_PATHS", 4000)
    words = ["bench", "rivals", "--problems", "allen-cahn-20d", "--seeds", "2"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert given == [
        ("fkpinn", 0.0), ("bsde", 7.0), ("picard", 7.0),
        ("fkpinn", 0.0), ("bsde", 8.0), ("picard", 8.0),
    ]  # fmt: skip
    rows = {row["tool"]: row for row in record["records"]}
    true, linear = 0.30869855, 0.3157225
    np.testing.assert_allclose(rows["bsde"]["value_error"], 0.33 / true - 1, rtol=1e-6)
    np.testing.assert_allclose(rows["bsde"]["linear"], linear, rtol=0.01)
    trivial = rows["bsde"]["linear"] / true - 1
    np.testing.assert_allclose(rows["bsde"]["value_skill"], (0.33 / true - 1) / trivial, rtol=1e-6)
    page = rivals.page(record)
    assert "| `allen-cahn-20d` | fkpinn | 0.31 | 0.3086985 |" in page and "| 2 of 2 |" in page
    assert "| `allen-cahn-20d` | picard | 0.3 |" in page and "| none | – | – | 8 |" in page


def test_steps_of_a_rival_that_fit_into_some_seconds():
    one = importlib.import_module("benchmarks.rivals._one")
    assert one.affordable_steps(100.0, total=30.0, training=20.0, steps=200) == 900
    assert one.affordable_steps(5.0, total=30.0, training=20.0, steps=200) == 1
    found = one.picard("allen-cahn-20d", 0, "quick", 1.0)
    assert found["levels"] >= 1 and abs(found["value"] / 0.30869855 - 1) < 0.5


@pytest.mark.broad
def test_speed_of_jumps_record(monkeypatch, capsys):
    monkeypatch.setattr(jumps._run, "_POINTS", 10)
    assert main(["bench", "jumps", "--paths", "400", "--repeats", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [(r["alpha"], r["from"]) for r in record["exits"]] == [
        (1.0, "center"), (1.0, "disk"), (1.5, "center"), (1.5, "disk"),
    ]  # fmt: skip
    assert all(r["rate"] == r["paths"] / r["seconds"][0] for r in record["exits"])
    assert [r["dim"] for r in record["steps"]] == [1] * 4 + [2] * 4
    for step in record["steps"]:
        ((diffusion, jumping),) = step["ns_diffusion_and_jumping"]
        assert step["ratio"] == jumping / diffusion > 0
    assert main(["bench", "jumps", "--paths", "10"]) == 2
