"""Work in processes of their own, each started again if it dies."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

_LOOK = 0.2  # seconds between looks
_READER_LEFT = (errno.EPIPE, errno.EINVAL)  # the second is Windows' word for it
_REFUSED = 2  # exit code of input that no second try makes better


class Task(NamedTuple):
    """What one process does.

    Args:
        name: for messages.
        words: the program and its arguments; `python` stands for this interpreter.
        given: what it reads from its standard input.
        log: file that what it prints is added to; None passes it on to standard error.
    """

    name: str
    words: Sequence[str]
    given: str = ""
    log: Path | None = None


class _Running(NamedTuple):
    task: Task
    process: subprocess.Popen[bytes]
    log: IO[bytes] | None


def run_tasks(
    tasks: Sequence[Task],
    *,
    at_once: int,
    tries: int = 3,
    environment: Mapping[str, str] | None = None,
    look: Callable[[int], object] = lambda ended: None,
    say: Callable[[str], object] = lambda text: None,
) -> dict[str, int]:
    """Run all of them, some at once; one that is killed or fails is started again.

    If this process is stopped the others are too.

    Args:
        tasks: what to do.
        at_once: processes at the same time.
        tries: how often one is started at most; once only if it leaves with code 2.
        environment: variables besides those of this process.
        look: told from time to time how many have ended well.
        say: told what went wrong.

    Returns:
        Names of the tasks that failed, with their last exit code; negative ones are signals.
    """
    if at_once < 1:
        raise ValueError(f"`at_once` must be at least 1; got {at_once}.")
    waiting, running = list(tasks), []
    started = dict.fromkeys((task.name for task in tasks), 0)
    failed: dict[str, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                task = waiting.pop(0)
                started[task.name] += 1
                running.append(_start(task, environment or {}))
            time.sleep(_LOOK)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                code, name = _close(one), one.task.name
                if code == 0:
                    continue
                again = code != _REFUSED and started[name] < tries
                how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                say(f"{name}: {how}{', restarting it' if again else ''}")
                if again:
                    waiting.append(one.task)
                else:
                    failed[name] = code
            look(len(tasks) - len(waiting) - len(running) - len(failed))
    finally:
        for one in running:
            one.process.terminate()
        for one in running:
            _close(one)
    return failed


def _start(task: Task, environment: Mapping[str, str]) -> _Running:
    log = None
    if task.log is not None:
        task.log.parent.mkdir(parents=True, exist_ok=True)
        log = open(task.log, "ab")
    words = [sys.executable if word == "python" else word for word in task.words]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=log or sys.stderr, stderr=log or sys.stderr,
        env=os.environ | dict(environment),
    )  # fmt: skip
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(task.given.encode())
    except OSError as error:
        if error.errno not in _READER_LEFT:
            raise
    return _Running(task, process, log)


def _close(one: _Running) -> int:
    code = one.process.wait()
    if one.log is not None:
        one.log.close()
    return code
