"""Printing one JSON value on standard output, and keeping everything else away from there."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from fkpinn._records import plain


def print_json(value: Any) -> None:
    """Print `value` as one JSON document.

    Paths become strings, numpy and jax scalars numbers, and NaN and infinities `null`, since JSON
    has no word for them.
    """
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


@contextlib.contextmanager
def stdout_reserved(reserved: bool) -> Iterator[None]:
    """While inside, what anybody prints goes to standard error if `reserved`."""
    with contextlib.redirect_stdout(sys.stderr) if reserved else contextlib.nullcontext():
        yield
