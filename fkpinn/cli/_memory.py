"""How much memory is there, and how much of it is free?"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container
_FREE = Path("/proc/meminfo")


class Memory(NamedTuple):
    """Of this machine, or of the container that we are in, in bytes."""

    most: int
    free: int


class _Status(ctypes.Structure):
    """What Windows tells, as `GlobalMemoryStatusEx` fills it in."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("most", "free", "page", "free_page")),
        *((name, ctypes.c_uint64) for name in ("virtual", "free_virtual", "extended")),
    )


def memory() -> Memory | None:
    """What there is, and what programs can have of it; None if the system does not tell."""
    if sys.platform == "win32":
        status = _Status(size=ctypes.sizeof(_Status))
        told = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return Memory(status.most, status.free) if told else None
    try:
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        free = _free_on_mac() if sys.platform == "darwin" else _free_on_linux()
    except (AttributeError, ValueError, OSError):  # not on every system
        return None
    limit = _LIMIT.read_text(encoding="utf-8").strip() if _LIMIT.exists() else ""
    most = min(most, int(limit)) if limit.isdigit() else most
    return Memory(most, most if free is None else min(most, free))


def _free_on_linux() -> int | None:
    told = _FREE.read_text(encoding="utf-8") if _FREE.exists() else ""
    found = re.search(r"MemAvailable:\s*(\d+)", told)
    return int(found[1]) << 10 if found else None


def _free_on_mac() -> int | None:
    """Pages that nobody has, and those that are kept only in case they are asked for again."""
    told = subprocess.run(["vm_stat"], capture_output=True, text=True).stdout
    size = re.search(r"page size of (\d+) bytes", told)
    pages = re.findall(r"^Pages (?:free|inactive|speculative):\s*(\d+)", told, re.M)
    return int(size[1]) * sum(map(int, pages)) if size and pages else None
