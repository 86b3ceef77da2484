"""Arrays in files: compressed, checked when read, and never able to run code."""

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a `.npz` file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """The named arrays of a file that `pack` made, or an error that says what is wrong."""
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file.files]
            if missing:
                raise ValueError(
                    f"`{path}` is not a label file: it has no {missing[0]!r}. Was it written by "
                    f"another version or another tool?"
                )
            return {name: file[name] for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ValueError(f"`{path}` is damaged: {error}. Delete it and run again.") from error
    except ValueError as error:
        if "label file" in str(error):
            raise
        raise ValueError(f"`{path}` is not a label file: {error}.") from error
