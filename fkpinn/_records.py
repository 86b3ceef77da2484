"""What runs leave behind: plain records that go to and from JSON."""

import dataclasses
import importlib.metadata
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Errors:
    """Distance to a reference: root mean squares over points, and the largest difference."""

    l2_abs: float
    l2_rel: float
    h1_abs: float
    h1_rel: float
    linf: float

    def to_dict(self) -> dict[str, float]:
        """As a dictionary."""
        return dataclasses.asdict(self)


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


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A record from its file, or made now and written there."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    record = make()
    write_json(path, plain(record))
    return record


def write_json(path: Path, record: Any) -> None:
    """Write a record whole or not at all."""
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    write_bytes(path, (text + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, then rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
