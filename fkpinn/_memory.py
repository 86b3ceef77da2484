"""Memory that compilers have freed is given back to the system, which glibc would not do."""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

_ARENA_MAX = -8  # of glibc's `mallopt`
_COMPILED = "/jax/core/compile/backend_compile_duration"
_LONG = 0.5  # seconds of compiling after which there is something to give back


def share_freed_memory() -> None:
    """Threads give back memory to one place; with places of their own glibc keeps it from others.

    Compilers of several threads would hold some hundred megabytes in this way.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


@functools.cache
def give_back_freed_memory() -> None:
    """From now on, freed memory goes back to the system whenever something was compiled for long.

    Large arrays, which have memory of their own, cannot use what lies between small pieces.
    """
    import jax

    trim = _trim()
    if trim is None:
        return

    def compiled(event: str, duration_secs: float, **_: Any) -> None:
        if event == _COMPILED and duration_secs > _LONG:
            trim(0)

    jax.monitoring.register_event_duration_secs_listener(compiled)


def _trim() -> Callable[[int], int] | None:
    """Of glibc; other C libraries have none."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(OSError, AttributeError):
        return ctypes.CDLL(None).malloc_trim
    return None
