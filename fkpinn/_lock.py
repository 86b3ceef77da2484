"""One process at a time on a file or folder."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ._records import writing

if TYPE_CHECKING:
    from filelock import BaseFileLock

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network disks
_PATIENCE = 0.1  # seconds: who has just removed the file, on leaving, may be gone by then


@contextlib.contextmanager
def alone(lock: Path, what: Path) -> Iterator[None]:
    """Inside, no other process is at `what`; an error if one is there already.

    Args:
        lock: the file to lock, see `locked`.
        what: its name in messages to the user.
    """
    with locked(lock) as ours:
        if not ours:
            raise RuntimeError(
                f"`{what}` is in use by another process. Wait until that has ended, or choose "
                f"another `--out`."
            )
        yield


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether we have the file for ourselves while inside.

    The lock is the system's, which takes it back when we die; the file that a killed process leaves
    behind holds nobody up.
    """
    from filelock import FileLock

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # a soft lock is the file itself, which would outlive who is killed
        lock = FileLock(path, _PATIENCE, thread_local=False, fallback_to_soft=False)
        ours = _taken(lock)
    try:
        yield ours
    finally:
        if ours:
            # before the lock goes, or we might remove that of another; on Windows this is refused,
            # and the lock removes its file itself
            with contextlib.suppress(OSError):
                path.unlink()
            lock.release()


def _taken(lock: "BaseFileLock") -> bool:
    """Whether the lock is ours now, or the disk has none: there it is up to the user."""
    from filelock import Timeout

    try:
        lock.acquire(poll_interval=_PATIENCE / 10)
    except Timeout:  # an OSError, too
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
