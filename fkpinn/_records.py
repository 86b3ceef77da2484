"""What runs leave behind: plain records that go to and from JSON."""

import contextlib
import dataclasses
import errno
import glob
import importlib.metadata
import json
import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNFINISHED = ".unfinished"
_WAITS = (0.01, 0.05, 0.2, 0.5)  # seconds
_SPACE = "Free some disk space, then repeat the command: files written before are intact."
_RIGHTS = "Choose a folder that you may write to."
_ADVICE = {
    errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.EFBIG: _SPACE,
    errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS, errno.EROFS: _RIGHTS, errno.ENOTDIR: _RIGHTS,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Errors:
    """Distance to a reference: root mean squares over points, and the largest difference.

    `constant` and `linear` are the relative L2 errors of the best constant and of the best affine
    function, and `skill` is `l2_rel` divided by the smaller of them: one for a network that has
    learnt nothing. `linear` is NaN if there are too few points to fit an affine function.
    """

    l2_abs: float
    l2_rel: float
    h1_abs: float
    h1_rel: float
    linf: float
    constant: float
    linear: float
    skill: float

    def to_dict(self) -> dict[str, float | None]:
        """As a dictionary; None for what is no finite number."""
        return plain(dataclasses.asdict(self))


def plain(value: Any) -> Any:
    """What JSON can hold: paths become strings, arrays lists, NaN and infinities None."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case _ if getattr(value, "shape", None) is not None:
            return plain(value.tolist())
        case _:
            return str(value)


def write_json(path: Path, record: Any) -> None:
    """Write a record whole or not at all."""
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    write_bytes(path, (text + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with finished(Path(path)) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def finished(path: Path) -> Iterator[Path]:
    """A temporary file next to `path` to write to; at the end it is renamed, or removed."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_UNFINISHED}")
        # readable by whom the user lets read, unlike a file of `tempfile`
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            yield temporary
            _replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _replace(source: Path, target: Path) -> None:
    """Rename; on Windows this is refused while another process reads the target."""
    for wait in (*_WAITS, None) if sys.platform == "win32" else (None,):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if wait is None:
                raise
            time.sleep(wait)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside, a file is written; where the system refuses, the error says which and what to do."""
    try:
        yield
    except OSError as error:
        number, why = error.errno, error.strerror or str(error)
        if number == errno.EEXIST:  # a file where a folder should be
            number, why = errno.ENOTDIR, os.strerror(errno.ENOTDIR)
        advice = _ADVICE.get(number or 0, "Check the disk, or write to another folder.")
        text = f"`{path}` cannot be written: {why}. {advice}"
        raise (OSError(number, text) if number else OSError(text)) from error


def clear_unfinished(folder: Path, name: str = "") -> None:
    """Remove what killed processes were writing; for who has the folder, or the file, alone.

    Args:
        folder: where to look.
        name: only what was to become a file here whose name begins so; else at any depth.
    """
    start = f".{glob.escape(name)}*" if name else "**/.*"
    for path in folder.glob(start + _UNFINISHED):
        path.unlink(missing_ok=True)


def installed_versions() -> dict[str, str]:
    """Versions of the packages that decide the numbers."""
    versions = {}
    for package in ("fkpinn", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[package] = "not installed"
    return versions


def source_commit() -> str | None:
    """The commit of this checkout, with `+` if files differ from it; None elsewhere.

    The variable `FKPINN_COMMIT` tells it where the files are a copy without their history.
    """
    if told := os.environ.get("FKPINN_COMMIT"):
        return told
    folder = str(Path(__file__).parents[1])
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", folder, *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changes else "")
