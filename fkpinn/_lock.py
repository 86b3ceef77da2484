"""One process at a time on a file or folder."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ._records import writing

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network disks


@contextlib.contextmanager
def alone(lock: Path, what: Path) -> Iterator[None]:
    """Inside, no other process is at `what`; an error if one is there already.

    Args:
        lock: the file to lock, see `locked`.
        what: what it stands for, as the user knows it.
    """
    with locked(lock) as ours:
        if not ours:
            raise RuntimeError(
                f"`{what}` is in use: another process is at work there. Wait until it has ended, "
                f"or choose another `--out`."
            )
        yield


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether we have the file for ourselves while inside.

    The lock is the system's, which takes it back when we die; the file that a killed process leaves
    behind holds nobody up.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _opened(path)
    try:
        yield file is not None
    finally:
        if file is not None:
            with contextlib.suppress(OSError):
                path.unlink()  # before the lock goes, or we might remove that of another
            file.close()


def _opened(path: Path) -> IO[str] | None:
    """The locked file, or None if another process has it."""
    while True:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(path, "a"))
            if not _lock(file):
                return None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    stack.pop_all()  # stays open
                    return file
            # its last owner removed it after we had opened it


def _lock(file: IO[str]) -> bool:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: one process at a time
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
