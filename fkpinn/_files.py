"""Arrays in files: checked when read, and never able to run code."""

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

# what the zip and array readers raise on changed bytes; `NotImplementedError` for unknown flags
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OSError)


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a `.npz` file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(
    path: Path, names: list[str], kind: str = "label file", others: bool = False
) -> dict[str, np.ndarray]:
    """The named arrays of a file that `pack` made, or an error that says what is wrong.

    With `others`, those that are not named come too.
    """
    content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            wanted = file.files if others else names
            found = {} if missing else {name: file[name] for name in wanted}
    except _DAMAGED as error:
        raise ValueError(f"`{path}` is damaged: {error}. Delete it and run again.") from error
    except (ValueError, TypeError, AttributeError) as error:  # not a zip file, or pickled objects
        raise ValueError(f"`{path}` is not a {kind}: {error}.") from error
    if missing:
        raise ValueError(
            f"`{path}` is not a {kind}: it has no {missing[0]!r}. Was it written by another "
            f"version or another tool?"
        )
    return found


def parse(path: Path, text: np.ndarray) -> dict[str, Any]:
    """A JSON object that travels as an array of one string."""
    try:
        found = json.loads(str(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"`{path}` is damaged: {error}. Delete it and run again.") from error
    if not isinstance(found, dict):
        raise ValueError(f"`{path}` is damaged: its record is no JSON object. Delete it.")
    return found
