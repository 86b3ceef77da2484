"""Printing one JSON value on standard output, and keeping everything else away from there."""

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from typing import Any


def print_json(value: Any) -> None:
    """Print `value` as one JSON document.

    Paths become strings, numpy and jax scalars numbers, and NaN and infinities `null`, since JSON
    has no word for them.
    """
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


@contextlib.contextmanager
def stdout_reserved(reserved: bool) -> Iterator[None]:
    """While inside, what anybody prints goes to standard error if `reserved`."""
    with contextlib.redirect_stdout(sys.stderr) if reserved else contextlib.nullcontext():
        yield


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case _ if getattr(value, "shape", None) is not None:
            return _plain(value.tolist())
        case _:
            return str(value)
