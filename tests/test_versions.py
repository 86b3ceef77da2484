"""The tool that tries versions: which it takes; and its record, which must be of those stated."""

import importlib.util
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool():
    """It imports its neighbor, as it does when it is run."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        spec = importlib.util.spec_from_file_location(
            "try_versions", ROOT / "tools/try_versions.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def test_the_oldest_that_is_stated(tool):
    listed = "jax (0.10.2)\nAvailable versions: 0.10.2, 0.10.0, 0.10.0rc1, 0.9.2, 0.9.0.1\n"
    assert tool.releases("0.10", listed) == ["0.10.0", "0.10.2"]  # the same version, then others
    assert tool.releases("0.10.1", listed) == ["0.10.2"]
    assert tool.releases("0.9", listed)[0] == "0.9.0.1"  # the first after it that there is
    assert tool.releases("0.11", listed) == tool.releases("0.1", "nothing") == []
    assert tool.numbers("1.10") > tool.numbers("1.9.3") > tool.numbers("1.9")


def test_versions_without_a_wheel_are_passed_over(tool, monkeypatch, tmp_path):
    def run(command, **_):
        if "index" in command:
            return subprocess.CompletedProcess(command, 0, "Available versions: 1.3, 1.2, 1.1", "")
        return subprocess.CompletedProcess(command, int(command[-1] in lacking), "", "")

    monkeypatch.setattr(tool.subprocess, "run", run)
    monkeypatch.setattr("try_wheel.tell", lambda text: None)
    trial = tool.Trial(tmp_path, 9.0)
    lacking = ["a==1.1"]
    assert tool.pins(trial, Path("python"), {"a": "1.1", "b": "1.2"}) == {"a": "1.2", "b": "1.2"}
    assert trial.ok and trial.steps[-1]["said"] == ["a 1.1 has no wheel here, taken: 1.2"]
    lacking = ["a==1.3"]
    assert tool.pins(trial, Path("python"), {"a": "1.3"}) == {}
    assert not trial.ok and trial.steps[-1]["said"] == ["a: nothing from 1.3 on"]


def test_bounds_are_read(tool, monkeypatch, tmp_path):
    assert {"jax", "numpy", "scipy", "filelock"} <= set(tool.stated())
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["jax<2"]\n')
    with pytest.raises(ValueError, match=r"needs 'jax<2'; expected `package>=version`"):
        tool.stated()


def test_an_interpreter_that_is_not_there(tool, monkeypatch, tmp_path):
    """Nor is a stand-in on the path that only says so."""
    stand_in = tmp_path / "python3.99"
    stand_in.write_text("#!/bin/sh\nexit 127\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(tool.shutil, "which", lambda name: str(stand_in))
    assert tool.interpreter("3.99") is None
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr(tool.shutil, "which", lambda name: sys.executable)
    assert tool.interpreter(here) == (sys.executable, platform.python_version())


def test_the_record_is_of_what_is_stated(tool):
    """If not: raise no bound, and lower none, without trying it."""
    path = ROOT / "results/install/versions.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    now = tool.stated()
    assert record["ok"] and {name: now.get(name) for name in record["stated"]} == record["stated"]
    tried = [one for one in record["environments"] if one["tried"]]
    assert {one["kind"] for one in tried if one["python"] == "3.11"} == set(tool.KINDS)
    for one in tried:
        versions = {name.lower(): version for name, version in one["versions"].items()}
        assert one["ok"] and one["l2_rel"] < tool._LEARNT
        assert all(versions[name] == version for name, version in one["pinned"].items())
    (first,) = (o["pinned"] for o in tried if (o["python"], o["kind"]) == ("3.11", "oldest"))
    numbers = tool.numbers
    assert {n: numbers(v) for n, v in first.items()} == {
        n: numbers(v) for n, v in record["stated"].items()
    }
