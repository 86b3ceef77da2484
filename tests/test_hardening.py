"""Full disks, folders without rights or in use, clocks that jump: one message, nothing lost."""

import ast
import contextlib
import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax.numpy as jnp
import pytest
from run_folders import finished_run
from sources import FILES, in_one_worker, nodes

import fkpinn as fk
from fkpinn._lock import alone, locked
from fkpinn._records import clear_unfinished, finished, write_bytes, write_json
from fkpinn._solve import run
from fkpinn.cli import main
from fkpinn.labels import estimate_labels

BALL = fk.catalogue("exit-ball-3d").problem
HOLD = """
import sys
from pathlib import Path
from fkpinn._lock import locked
with locked(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def hold(lock):
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "True\n"
    return process


def said(capsys):
    """What went to standard error: one message, no traceback."""
    text = capsys.readouterr().err
    assert "Traceback" not in text and text.count("fkpinn: ") == 1
    return text


def refuse(number):
    """Stands in for a system call that fails."""

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


# locks


def test_a_lock_is_for_one_and_outlives_nobody(tmp_path):
    lock = tmp_path / "deep" / "a.lock"
    with locked(lock) as first, locked(lock) as second:
        assert first and not second and lock.exists()
    assert not lock.exists()
    process = hold(lock)
    with locked(lock) as ours:
        assert not ours
    process.kill()
    process.communicate()
    assert lock.exists()  # left behind, and in nobody's way
    with locked(lock) as ours:
        assert ours
    assert not lock.exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    """Its last owner removes the file between our opening and locking it."""
    import fcntl

    lock, real, seen = tmp_path / "a.lock", fcntl.flock, []

    def late(file, operation):
        if not seen:
            lock.unlink()
        seen.append(file)
        return real(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(lock) as ours:
        assert ours and len(seen) == 2 and lock.exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
def test_disks_without_locks(tmp_path, monkeypatch, number):
    import fcntl

    monkeypatch.setattr(fcntl, "flock", refuse(number))
    if number != errno.EIO:
        (tmp_path / "a.lock").write_text("99999\nelsewhere\n")  # of who died on another machine
        with locked(tmp_path / "a.lock") as ours:
            assert ours
        assert not (tmp_path / "a.lock").exists()
    else:
        with pytest.raises(OSError, match="cannot be written"), locked(tmp_path / "a.lock"):
            pass


def test_a_lock_goes_whoever_leaves(tmp_path):
    """Also where the file cannot be removed while it is locked, or another thread lets it go."""
    lock = tmp_path / "a.lock"
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        assert stack.enter_context(locked(lock))
        patch.setattr(Path, "unlink", refuse(errno.EACCES))  # as on Windows
        thread = threading.Thread(target=stack.pop_all().close)
        thread.start()
        thread.join()
    with locked(lock) as ours:
        assert ours


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    """By `solve`, `solve --resume` and `certify`; what is there stays as it is."""
    with alone(tmp_path / "run.lock", tmp_path):
        assert main(["solve", "met", "--out", str(tmp_path)]) == 1
        assert f"`{tmp_path}` is in use" in said(capsys)
        assert [path.name for path in tmp_path.iterdir()] == ["run.lock"]
    words = ["solve", "met", "--set", "labels.n_paths=7", "--out", str(tmp_path)]
    config = 'problem = "met"\nmethod = "pinn"\npreset = "quick"\nseed = 0\nown = []\n[settings]\n'
    write_bytes(tmp_path / "config.toml", config.encode())
    write_bytes(tmp_path / "solution.fkpinn", b"")
    process = hold(tmp_path / "run.lock")
    for call in (words, ["solve", "--resume", str(tmp_path)], ["certify", str(tmp_path)]):
        assert main(call) == 1
        assert "is in use by another process" in said(capsys)
    process.communicate("")
    assert main(words) == 2  # free again: another run lies there
    assert "contains a different run" in said(capsys)


def test_labels_in_the_making_are_refused(tmp_path, capsys):
    words = ["labels", "exit-ball-3d", "--points", "2", "--paths", "4", "--dt", "0.1"]
    out = tmp_path / "labels.npz"
    with alone(tmp_path / "labels.npz.lock", out):
        assert main([*words, "--out", str(out)]) == 1
        assert f"`{out}` is in use" in said(capsys)
    assert main([*words, "--out", str(out)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["labels.npz"]
    with alone(tmp_path / "labels.npz.lock", out):  # finished labels are read at any time
        assert main([*words, "--out", str(out)]) == 0


# the disk


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    left = [tmp_path / ".a.npz.x1.unfinished", tmp_path / "deep" / ".b.json.x2.unfinished"]
    kept = [tmp_path / ".a.npz", tmp_path / "c.unfinished", tmp_path / ".ab.unfinished"]
    for path in (*left, *kept):
        write_bytes(path, b"")
    clear_unfinished(tmp_path, "a.npz")
    assert not left[0].exists() and left[1].exists() and all(path.exists() for path in kept)
    clear_unfinished(tmp_path)
    assert not left[1].exists() and kept[0].exists() and kept[1].exists()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Free some disk space"),
        (errno.EACCES, "Choose a folder that you may write to"),
        (errno.EIO, "Check the disk"),
    ],
)
def test_errors_of_the_disk_name_the_file(tmp_path, monkeypatch, number, advice):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    monkeypatch.setattr(os, "fsync", refuse(number))
    with pytest.raises(OSError, match=rf"a\.json` cannot be written: .*{advice}") as caught:
        write_json(path, {"new": 2})
    assert caught.value.errno == number
    assert json.loads(path.read_text()) == {"old": 1} and len(list(tmp_path.iterdir())) == 1


def test_a_picture_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError), finished(tmp_path / "a.png") as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_full_disk_loses_nothing(tmp_path, capsys):
    """Files may not grow: the message names one, and the same command goes on later."""
    words = ["labels", "exit-ball-3d", "--points", "300", "--paths", "4", "--dt", "0.1"]
    words += ["--out", str(tmp_path / "labels.npz")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        assert main(words) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    text = said(capsys)
    assert "labels.npz.partial` cannot be written: File too large" in text and "Free some" in text
    assert not list(tmp_path.iterdir())
    assert main(words) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["labels.npz"]


@pytest.mark.slow
def test_training_on_a_full_disk_can_be_resumed(tmp_path, monkeypatch):
    """No space for the log, in the middle: what was written before is used by the next run."""
    from fkpinn._solve import Settings
    from fkpinn.train import _fit as module

    tiny = Settings().changed(
        {
            "network.widths": (4,),
            "points.n_collocation": 20,
            "points.n_boundary": 8,
            "points.n_test": 8,
            "labels.p_data": 0.0,
            "training.steps": 6,
            "certificate.seconds": 0.0,
            "training.checkpoint_seconds": 0.0,
        }
    )
    real, calls = module._Run._save, []

    def save(self, index, state):
        calls.append(int(state.step))
        if len(calls) == 3:
            monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
        real(self, index, state)

    with monkeypatch.context() as patch:
        patch.setattr(module._Run, "_save", save)
        with pytest.raises(OSError, match=r"last\.npz` cannot be written: No space left"):
            run(BALL, method="pinn-engd", settings=tiny, out=tmp_path)
        monkeypatch.undo()
    found = run(BALL, method="pinn-engd", settings=tiny, out=tmp_path)
    quiet = run(BALL, method="pinn-engd", settings=tiny, out=tmp_path / "quiet")
    assert (tmp_path / "solution.fkpinn").is_file() and found["out"] == str(tmp_path)
    one, two = (
        fk.load(folder / "solution.fkpinn", BALL) for folder in (tmp_path, tmp_path / "quiet")
    )
    assert jnp.array_equal(one([0.1, 0.2, 0.3]), two([0.1, 0.2, 0.3]))
    assert quiet["settings"] == found["settings"]


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "met", "--out", "file/run"],
        ["labels", "exit-ball-3d", "--points", "2", "--paths", "4", "--out", "file/labels.npz"],
        ["compare", "a", "b", "--out", "file/page.html"],
    ],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    for name in ("a", "b"):
        finished_run(Path(name))
    assert main(words) == 1
    text = said(capsys)
    assert "`file/" in text and "cannot be written: Not a directory" in text
    assert Path("file").read_text() == "no folder"


# clocks


@in_one_worker
def test_durations_come_from_clocks_that_never_jump():
    """`time.time` may go backwards; nothing in the package asks it."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("time", "time"), path
            if isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
                assert not {"time", "datetime"} & {alias.name for alias in node.names}, path


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    jumps = iter(range(10**6, 0, -1))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    points = jnp.zeros((2, 3), jnp.float32)
    labels = estimate_labels(BALL, points, n_paths=4, dt=0.1, store=tmp_path / "labels.npz")
    assert all(seconds >= 0 for seconds in labels.provenance["seconds"].values())
