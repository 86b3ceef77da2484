"""What runs leave behind: plain records that go to and from JSON."""

import dataclasses
import importlib.metadata
import json
import os
import tempfile
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
