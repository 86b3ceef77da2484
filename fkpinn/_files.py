"""Arrays and records in files: checked when read, and never able to run code."""

import contextlib
import io
import json
import math
import re
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._records import plain, write_json

# what the readers of zip files and arrays raise on changed bytes
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, OSError, OverflowError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# plain numbers and strings, as `np.savez` writes them; no other reader of arrays is needed
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biufU]\d{1,9})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n"
)


class Damaged(ValueError):
    """A file that cannot be used; the message names it."""


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
        found = read_arrays(content, None if others else names)
    except _UNREADABLE as error:
        raise Damaged(
            f"`{path}` is damaged or not a {kind}: {brief(error)}. Delete it and run again."
        ) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise Damaged(
            f"`{path}` is not a {kind}: it has no {missing[0]!r}. Was it written by another "
            f"version or another tool?"
        )
    return found


def read_arrays(
    content: bytes, names: Collection[str] | None = None, *, most: int = 1
) -> dict[str, np.ndarray]:
    """The arrays of a `.npz` file; all of them, or those that are named and there.

    Args:
        content: the bytes of the file.
        names: which arrays.
        most: limit of their size, relative to the size of the file; more than 1 if compressed.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {m.filename.removesuffix(".npy"): m for m in file.infolist()}
        if len(members) < len(file.infolist()):
            raise ValueError("two arrays have the same name")
        if any(m.compress_type not in _COMPRESSION for m in members.values()):
            raise ValueError("it is compressed in an unknown way")
        if sum(m.file_size for m in members.values()) > most * len(content):
            raise ValueError("it says that its arrays are larger than the file")
        found = {}
        for name, member in members.items():
            if names is None or name in names:
                with file.open(member) as stream:  # never more than was said
                    found[name] = _array(name, stream.read(member.file_size))
        return found


def _array(name: str, content: bytes) -> np.ndarray:
    end = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content, 10, end)
    if content[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise ValueError(f"{name!r} is no array of numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(map(int, re.findall(rb"\d+", header[3])))
    if math.prod(shape) * dtype.itemsize != len(content) - end:
        raise ValueError(f"{name!r} has another size than its header says")
    order = "F" if header[2] == b"True" else "C"
    return np.ndarray(shape, dtype, content[end:], order=order)


def parse(path: Path, text: np.ndarray) -> dict[str, Any]:
    """A JSON object that travels as an array of one string."""
    with reading(path):
        if text.shape != () or text.dtype.kind != "U":
            raise ValueError("its record is no text")
        return _object(path, str(text))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    with reading(path):
        return _object(path, path.read_text(encoding="utf-8"))


def _object(path: Path, text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise Damaged(f"`{path}` is damaged or of another version: its record is no JSON object.")
    return found


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A record from its file, or made now and written there."""
    if path.exists():
        return read_json(path)
    record = make()
    write_json(path, plain(record))
    return record


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"`{path}` is not a TOML file: {brief(error)}.") from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Inside, what is found in a file is put to use; where that fails, the file is damaged."""
    try:
        yield
    except (OSError, Damaged):
        raise
    except (*_UNREADABLE, ArithmeticError, AttributeError) as error:
        text = brief(error)
        text = text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
        raise Damaged(
            f"`{path}` is damaged: {text}. Was it written by another version? If not, delete it."
        ) from error


def brief(error: Exception) -> str:
    """What an error says, without long values that a file may hold."""
    text = str(error)
    return text if len(text) <= 500 else f"{text[:500]}…"
