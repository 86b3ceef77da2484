"""Device, precision, chunks, and compiled code on disk."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import jax.numpy as jnp
import pytest

from fkpinn import _compute
from fkpinn._compute import Compute, current, in_context, precision, start_thread, using


def test_threads_have_the_precision_and_the_device_of_who_starts_them():
    seen = []
    other = Compute("cpu", 1, row_chunk=7, row_entries=0)
    look = lambda: seen.append((str(jnp.zeros(1).dtype), current().row_chunk))
    with precision("float32"), using(other):
        start_thread(look).join()
        late = in_context(look)
    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
    assert seen == [("float32", 7)] * 2
    assert current().row_chunk != 7


def test_cores_are_those_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    assert _compute.usable_cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert _compute.usable_cores() == 5


def test_lanes_fit_the_device():
    cpu = Compute("cpu", 2, row_chunk=512, row_entries=0)
    assert cpu.lanes_for(1, 2).widths == (256,) and cpu.lanes_for(1 << 20, 2).widths == (2048, 128)
    assert cpu.rows_at_once(10**6) == 64 and cpu.first_precision == "float32"
    gpu = Compute("gpu", 8, row_chunk=None, row_entries=1 << 28)
    assert gpu.lanes_for(1 << 20, 2).kernel == "triton" and gpu.lanes_for(1 << 10, 2).kernel == ""
    assert gpu.rows_at_once(1 << 20) == 256 and gpu.first_precision == "float64"
    # in some dimensions a kernel always, in many none, and no more coordinates than there is room
    some, many = gpu.lanes_for(1 << 10, 10), gpu.lanes_for(1 << 20, 1000)
    assert some.kernel == "triton" and some.widths == (1 << 16, 1 << 12) and some.apart >= 10
    assert many.kernel == "" and many.widths[0] * 1000 <= 1 << 24 and many.apart < 1000
    assert gpu.lanes_for(1 << 20, 10**4).widths == (1 << 10,)


def kept(monkeypatch, tmp_path, told: str | None = None) -> Path | None:
    """The folder that would be used, without telling jax of it."""
    updates = {}
    fake = type("Config", (), {"values": {"jax_compilation_cache_dir": None}})()
    fake.update = updates.__setitem__
    monkeypatch.setattr(_compute.jax, "config", fake)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FKPINN_CACHE", raising=False)
    if told is not None:
        monkeypatch.setenv("FKPINN_CACHE", told)
    found = _compute.keep_compiled_code.__wrapped__()
    assert updates.get("jax_compilation_cache_dir") == (None if found is None else str(found))
    return found


def test_compiled_code_goes_to_the_users_cache_folder(monkeypatch, tmp_path):
    found = kept(monkeypatch, tmp_path)
    assert found is not None and found.parent == tmp_path / "cache" / "fkpinn"
    assert found.stat().st_mode & 0o777 == 0o700 and found.name.startswith("jax-")
    other = kept(monkeypatch, tmp_path, str(tmp_path / "mine"))
    assert other is not None and other.parent == tmp_path / "mine" and other.name == found.name
    for off in ("off", "0", "OFF"):
        assert kept(monkeypatch, tmp_path, off) is None


def test_folders_of_others_are_not_trusted(monkeypatch, tmp_path):
    found = kept(monkeypatch, tmp_path)
    assert found is not None
    found.chmod(0o777)
    with pytest.warns(UserWarning, match="Compiled code is not cached.*written by others"):
        assert kept(monkeypatch, tmp_path) is None
    found.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match="written by others"):
        assert kept(monkeypatch, tmp_path) is None


def test_a_folder_that_cannot_be_made_costs_a_warning_only(monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(UserWarning, match="Set `FKPINN_CACHE` to a folder of your own"):
        assert kept(monkeypatch, tmp_path) is None


def test_other_versions_have_other_folders(monkeypatch):
    here = _compute._generation()
    monkeypatch.setattr(_compute.importlib.metadata, "version", lambda name: "99.0")
    assert _compute._generation() != here


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    for age, name in enumerate(("new", "middle", "old")):
        path = tmp_path / "a" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (10_000 - age, 10_000 - age))
    _compute._prune(tmp_path, 250)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["middle", "new"]


@pytest.mark.broad
def test_a_second_process_finds_what_the_first_has_compiled(tmp_path):
    code = (
        "import jax, jax.numpy as jnp; from fkpinn._compute import current; "
        "jax.jit(jnp.sin)(1.0); current(); "  # kept also if something was compiled before
        "f = jax.jit(lambda x: jnp.linalg.svd(x @ x.T + jnp.eye(40))[1].sum()); "
        "print(f(jnp.ones((40, 40))))"
    )
    told = {"FKPINN_CACHE": str(tmp_path / "kept"), "JAX_PLATFORMS": "cpu"}
    names = ("JAX_COMP", "JAX_PERS", "XLA_FLAGS")
    rest = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    run = lambda: subprocess.run(
        [sys.executable, "-c", code], env=rest | told, check=True, capture_output=True, text=True
    )
    run()
    files = lambda: {p: p.stat().st_mtime_ns for p in (tmp_path / "kept").rglob("*-cache")}
    before = files()
    assert before
    run()
    after = files()  # on a slow machine something small may have become worth keeping
    assert {path: after[path] for path in before} == before
