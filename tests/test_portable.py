"""What other systems lack, or call by another name; each of them is played here."""

import ast
import ctypes
import errno
import io
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sources import FILES, dotted, in_one_worker, nodes

from fkpinn import _compute, _processes
from fkpinn._records import write_json
from fkpinn.cli import _main
from fkpinn.cli._memory import memory

ONLY_POSIX = {
    "fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty",
    "os.fork", "os.forkpty", "os.killpg", "os.getpgid", "os.setsid", "os.uname", "os.nice",
    "os.getuid", "os.chown", "os.mkfifo", "os.statvfs",
    "signal.SIGKILL", "signal.SIGUSR1", "signal.alarm", "signal.setitimer",
}  # fmt: skip


def told(words, text, code=0):
    """Stands in for a program of another system."""

    def run(command, **_):
        if command[: len(words)] != words:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        return subprocess.CompletedProcess(command, code, text, "")

    return run


@in_one_worker
def test_nothing_is_used_that_windows_lacks():
    for path in FILES:
        used = {a.name for n in nodes(path) if isinstance(n, ast.Import) for a in n.names}
        used |= {n.module or "" for n in nodes(path) if isinstance(n, ast.ImportFrom)}
        used |= {dotted(n) for n in nodes(path) if isinstance(n, ast.Attribute)}
        assert used.isdisjoint(ONLY_POSIX)
        words = {k.arg for n in nodes(path) if isinstance(n, ast.Call) for k in n.keywords}
        assert words.isdisjoint({"start_new_session", "preexec_fn", "process_group"})


@in_one_worker
def test_text_is_read_and_written_in_one_encoding():
    others = {"read_text": 0, "write_text": 1}  # arguments besides
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in others:
                told = "encoding" in {k.arg for k in node.keywords}
                assert told or len(node.args) > others[node.func.attr], f"{path}:{node.lineno}"


# memory


def test_memory_on_windows(monkeypatch):
    def fill(reference):
        assert reference._obj.size == 64  # or Windows would not answer
        reference._obj.most, reference._obj.free = 8 << 30, 3 << 30
        return answers.pop()

    answers = [0, 1]
    kernel = SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=fill))
    monkeypatch.setattr(ctypes, "windll", kernel, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert memory() == (8 << 30, 3 << 30)
    assert memory() is None  # it did not tell


def test_memory_on_a_mac(monkeypatch):
    text = (
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        "Pages free:                               1000.\n"
        "Pages active:                             7000.\n"
        "Pages inactive:                           2000.\n"
        "Pages speculative:                          24.\n"
        "Pages wired down:                         5000.\n"
    )
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 20, "SC_PAGE_SIZE": 16384}.get)
    monkeypatch.setattr("fkpinn.cli._memory._LIMIT", Path("nowhere"))
    monkeypatch.setattr(subprocess, "run", told(["vm_stat"], text))
    assert memory() == (16 << 30, 3024 * 16384)
    monkeypatch.setattr(subprocess, "run", told(["vm_stat"], "no numbers"))
    assert memory() == (16 << 30, 16 << 30)
    monkeypatch.setattr(subprocess, "run", told(["other"], ""))
    assert memory() is None


# compiled code


def test_processors_of_other_systems(monkeypatch):
    monkeypatch.setattr(_compute, "_CPUINFO", Path("nowhere"))
    names = ["sysctl", "-n", "machdep.cpu.brand_string"]
    monkeypatch.setattr(subprocess, "run", told(names, "Apple M4\n"))
    mac = _compute._generation()
    assert _compute._processor() == ["Apple M4"]
    monkeypatch.setattr(platform, "processor", lambda: "Intel64 Family 6, GenuineIntel")
    for other in (told(names, "", code=1), told(["nothing"], "")):
        monkeypatch.setattr(subprocess, "run", other)
        assert _compute._processor() == ["Intel64 Family 6, GenuineIntel"]
        assert _compute._generation() != mac


def test_folders_of_windows_are_trusted(monkeypatch, tmp_path):
    """There every folder has all bits set, and nobody a number."""
    folder = tmp_path / "fkpinn" / "jax"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="written by others"):
        _compute._private(folder)
    monkeypatch.delattr(os, "geteuid")
    assert _compute._private(folder) == folder


# files and pipes


def test_a_file_that_another_reads_is_replaced_a_little_later(monkeypatch, tmp_path):
    """Windows refuses while it is open elsewhere; other systems are not asked twice."""
    real, path, waited = os.replace, tmp_path / "a.json", []

    def replace(source, target):
        if len(waited) < busy:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr("fkpinn._records.time.sleep", waited.append)
    busy = 2
    with pytest.raises(PermissionError, match=r"a\.json` cannot be written"):
        write_json(path, 1)
    assert not waited and not list(tmp_path.iterdir())
    monkeypatch.setattr(sys, "platform", "win32")
    write_json(path, {"a": 1})
    assert len(waited) == 2 and json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    busy = 99
    with pytest.raises(PermissionError, match=r"a\.json` cannot be written"):
        write_json(path, 2)
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EINVAL, errno.EIO])
def test_a_process_that_does_not_read(monkeypatch, number):
    """Its pipe is broken, which Windows calls an invalid argument."""

    class Pipe(io.BytesIO):
        def write(self, _):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(stdin=Pipe()))
    task = _processes.Task("one", ["python"], "words")
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            _processes._start(task, {})
    else:
        assert _processes._start(task, {}).task is task


def test_greek_goes_through_pipes_of_windows(monkeypatch):
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="cp1252"))
    _main._write_utf8()
    assert sys.stdout.encoding == "cp1252"  # other systems know what they want
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    _main._write_utf8()
    sys.stdout.write("Δu")
    sys.stdout.flush()
    assert raw.getvalue() == "Δu".encode()
