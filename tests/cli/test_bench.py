"""`fkpinn bench` at tiny sizes: what the records hold, and that the yardsticks are right."""

import json
import shutil

import numpy as np
import pytest

from fkpinn.cli import _bench, main
from fkpinn.reference import load_reference

paths = _bench._load("paths")
from benchmarks._common import met_points  # noqa: E402
from benchmarks.paths._c import Kernel  # noqa: E402
from benchmarks.paths._numpy import time_numpy  # noqa: E402

POINTS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1.5]], np.float32)
BIAS = 0.01  # of the walk at dt = 1e-2, relative

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def assert_near_reference(result, truth):
    assert np.all(np.abs(result.mean - truth) <= 4 * result.stderr + BIAS * truth)


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


def test_numpy_exit_times():
    assert_near_reference(time_numpy(POINTS, 200, 1e-2, 1), load_reference("met").values(POINTS))


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
    for entry in (record, *record["sweep"]):
        assert entry["path_steps"] > 0 and entry["path_steps_per_s"] > 0
        assert entry["seconds"]["compile"] >= 0 and entry["seconds"]["run"] > 0
        assert entry["peak_memory_mib"] > 10


def test_points_are_single_precision():
    assert met_points(4).dtype == np.float32


def test_options_of_the_other_benchmark(capsys):
    assert main(["bench", "paths", "--max-paths", "1"]) == 2
    assert "`--max-paths` belongs to `fkpinn bench labels`" in capsys.readouterr().err
    assert main(["bench", "labels", "--repeats", "1"]) == 2
    assert "`--repeats` belongs to `fkpinn bench paths`" in capsys.readouterr().err


def test_sizes(capsys):
    assert main(["bench", "paths", "--paths", "1"]) == 2
    assert "`--paths` at least 2" in capsys.readouterr().err
    assert main(["bench", "labels", "--points", "0"]) == 2
    assert "`--points` must be at least 1" in capsys.readouterr().err


def test_a_wheel_has_no_benchmarks(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("fkpinn.__file__", str(tmp_path / "fkpinn" / "__init__.py"))
    assert main(["bench", "paths"]) == 2
    assert "comes with the source" in capsys.readouterr().err
