"""Processes that die are started again."""

import os
import time

import pytest

from fkpinn._processes import Task, run_tasks


def script(text):
    return ("python", "-c", text)


def test_what_is_killed_or_fails_is_started_again(tmp_path):
    """One is killed the first time, one always fails, one is refused, one reads."""
    mark = tmp_path / "mark"
    dies = (
        f"import os, pathlib\np = pathlib.Path({str(mark)!r})\n"
        "if not p.exists():\n    p.touch()\n    os.kill(os.getpid(), 9)\nprint('done')"
    )
    fails, refused = (f"import sys; print('tried', flush=True); sys.exit({k})" for k in (1, 2))
    tasks = [
        Task("dies", script(dies), log=tmp_path / "logs" / "dies.txt"),
        Task("fails", script(fails), log=tmp_path / "f"),
        Task("refused", script(refused), log=tmp_path / "r"),
        Task("reads", script("import sys; print(sys.stdin.read())"), "some words", tmp_path / "w"),
    ]
    said, ended = [], []
    failed = run_tasks(tasks, at_once=2, tries=2, look=ended.append, say=said.append)
    assert failed == {"fails": 1, "refused": 2}
    assert (tmp_path / "logs" / "dies.txt").read_text() == "done\n"
    assert (tmp_path / "f").read_text() == "tried\n" * 2  # both tries
    assert (tmp_path / "r").read_text() == "tried\n"
    assert (tmp_path / "w").read_text() == "some words\n"
    assert "dies: killed by signal 9, restarting it" in said
    assert "fails: exit code 1, restarting it" in said and "fails: exit code 1" in said
    assert "refused: exit code 2" in said
    assert ended[-1] == 2 and max(ended) == 2


def test_no_more_at_once_than_asked_for(tmp_path):
    """Each looks how many others are there while it is."""
    look = (
        "import os, pathlib, time, uuid\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\nmine = folder / f'here-{{uuid.uuid4()}}'\n"
        "mine.touch()\ntime.sleep(0.3)\nprint(len(list(folder.glob('here-*'))))\nmine.unlink()"
    )
    logs = [tmp_path / f"log-{k}" for k in range(5)]  # in one, lines of two may mix
    tasks = [Task(log.name, script(look), log=log) for log in logs]
    assert run_tasks(tasks, at_once=2) == {}
    counts = [int(log.read_text()) for log in logs]
    assert max(counts) == 2
    with pytest.raises(ValueError, match="`at_once` must be at least 1; got 0"):
        run_tasks(tasks, at_once=0)


def test_variables_are_added(tmp_path):
    show = script("import os; print(os.environ['FKPINN_TRIED'], 'PATH' in os.environ)")
    run_tasks([Task("a", show, log=tmp_path / "a")], at_once=1, environment={"FKPINN_TRIED": "7"})
    assert (tmp_path / "a").read_text() == "7 True\n"


def test_when_we_are_stopped_the_others_are_too(tmp_path):
    pid = tmp_path / "pid"
    write = f"open({str(pid)!r}, 'w').write(str(os.getpid()))"
    waits = script(f"import os, time; {write}; time.sleep(60)")

    def look(_):
        if pid.exists() and pid.read_text():
            raise KeyboardInterrupt  # where the user's arrives

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task("waits", waits, log=tmp_path / "log")], at_once=1, look=look)
    assert time.monotonic() - began < 30
    with pytest.raises(OSError):  # there is no such process
        os.kill(int(pid.read_text()), 0)
