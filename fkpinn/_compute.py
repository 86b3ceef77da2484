"""Where and how the numerics run: device, precision, sizes of chunks, compiled code on disk."""

import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, PartitionSpec

from ._memory import give_back_freed_memory
from ._miscompiled import refuse_wrong_sums

_R = TypeVar("_R")
_SWITCH = "FKPINN_CACHE"
_OFF = ("0", "off", "no", "false", "none")
_CPUINFO = Path("/proc/cpuinfo")
_MOST_BYTES = 2 << 30  # of compiled code on disk; the longest unused goes first
_WORTH_KEEPING = 0.05  # seconds of compilation
FEW_DIMENSIONS = 3  # where all points of a domain can be seen, and paths are cheap
_KERNEL_DIMENSIONS = 32  # up to which a kernel keeps a path in registers
# coordinates of a path up to which each is an array of its own: as far as registers go
_APART = 7 if platform.machine().lower() in ("aarch64", "arm64") else 16
_COORDINATES = 1 << 24  # of all paths that an accelerator moves at a time


_AXIS = "devices"
OVER_DEVICES = PartitionSpec(_AXIS)  # of arrays whose leading axis is split over devices


class Lanes(NamedTuple):
    """How many paths run side by side, from wide to narrow, and how many make a batch.

    Where starting a loop is dear, `unroll` steps are compiled into one piece, and with `kernel`
    (`triton`, or `interpret` to try it anywhere) whole rounds into one launch. Ended paths are
    replaced `refills` times in the life of a path. `room` is the least number of payoffs of a batch
    that arrays are made for, so that batches of many sizes share compiled code. In up to `apart`
    dimensions each coordinate is an array of its own, in more they are rows, in plain loops.
    """

    widths: tuple[int, ...]
    batch: int
    threads: int
    unroll: int = 0
    kernel: str = ""
    refills: int = 8
    room: int = 1 << 17
    apart: int = 16


@dataclasses.dataclass(frozen=True)
class Compute:
    """Device and chunk sizes; `Compute.here()` chooses them for the device of this process.

    Chunk sizes are used when a function is compiled. They change the speed, never the results.

    Args:
        backend: jax's name of the device, such as `cpu` or `gpu`.
        threads: CPU cores that share the paths.
        row_chunk: rows of the loss whose derivatives fit into a core's cache; None for as many as
            `row_entries` allows.
        row_entries: numbers that the derivatives of one chunk of rows may keep; 0 for small chunks
            that stay in a cache.
        lanes: how many paths run at the same time; by default chosen from their number.
        devices: devices that share the work, by default all that this process sees. Labels are
            bitwise the same for any number of devices.
        everyone: the devices of all processes, if there are several; they share paths and training
            steps.
    """

    backend: str
    threads: int
    row_chunk: int | None
    row_entries: int
    lanes: Lanes | None = None
    devices: tuple[Any, ...] = ()
    everyone: tuple[Any, ...] = ()

    @classmethod
    def here(cls) -> "Compute":
        """The default device of this process."""
        return _on_backend(jax.default_backend())

    def limited(self, devices: int | Sequence[int]) -> "Compute":
        """The same with this number of devices, or with the devices of these indices."""
        there = jax.local_devices(backend=self.backend)
        which = list(range(devices)) if isinstance(devices, int) else list(devices)
        if not which or len(set(which)) < len(which) or not set(which) <= set(range(len(there))):
            raise ValueError(
                f"`devices` must be a number from 1 to {len(there)}, or different numbers from 0 "
                f"to {len(there) - 1}; got {devices!r}. jax sees {len(there)} "
                f"{self.backend} device{'s' * (len(there) > 1)} here."
            )
        return dataclasses.replace(self, devices=tuple(there[k] for k in which))

    @property
    def mesh(self) -> Mesh | None:
        """The devices that share the work; None if it is one."""
        return _mesh(self.devices) if len(self.devices) > 1 else None

    def with_everyone(self) -> "Compute":
        """The same with the devices of all processes."""
        return dataclasses.replace(self, devices=self.everyone) if self.everyone else self

    @property
    def on_cpu(self) -> bool:
        """Whether paths and networks run on processor cores."""
        return self.backend == "cpu"

    @property
    def first_precision(self) -> str:
        """Of paths that may be run again in double precision.

        On an accelerator most of the time is compilation, which is repeated for each precision.
        """
        return "float32" if self.on_cpu else "float64"

    def rows_at_once(self, entries: int) -> int:
        """Rows whose derivatives are computed at a time, where each keeps so many numbers."""
        return max(64, self.row_entries // max(entries, 1))

    def lanes_for(self, paths: int, dim: int, *, short: bool = False) -> Lanes:
        """Lanes that fit the cache of a core, or that fill an accelerator, for that many paths.

        Paths of few steps, `short` ones, want more lanes: these are refilled all the time.
        """
        if self.lanes is not None:
            return self.lanes
        if self.on_cpu:
            # few paths in many lanes leave most lanes idle while the last paths run, and every
            # width is compiled on its own
            if short and paths > 1 << 18:
                return Lanes((1 << 14, 1 << 10), 1 << 18, self.threads, apart=_APART)
            widths = (2048, 128) if paths > 1 << 14 else (256,)
            return Lanes(widths, 1 << 16, self.threads, apart=_APART)
        room = 1 << 23  # for every batch: an accelerator compiles much longer than it runs
        most, kernel = paths > 1 << 18, "triton" if self.backend == "gpu" else ""
        wide = 1 << (18 if most else 16)
        if dim > _KERNEL_DIMENSIONS:
            widest = min(wide, 1 << (max(_COORDINATES // dim, 1).bit_length() - 1))
            widths = (widest, 1 << 12) if widest > 1 << 12 else (widest,)
            return Lanes(widths, 1 << 22, 1, room=room, refills=2, apart=_KERNEL_DIMENSIONS)
        # where few paths are much longer than others, they go on in few lanes
        if dim > FEW_DIMENSIONS:
            widths, unroll = (wide, 1 << (14 if most else 12)), 1  # more take long to compile
            return Lanes(widths, 1 << 22, 1, unroll, kernel, room=room, apart=_KERNEL_DIMENSIONS)
        if not most:  # a kernel compiles longer than such a run takes
            return Lanes((wide, 1 << 12), 1 << 22, 1, room=room)
        return Lanes((wide, 1 << 14, 1 << 12), 1 << 22, 1, 4, kernel, refills=4, room=room)


@functools.cache
def _on_backend(backend: str) -> Compute:
    cores, devices = usable_cores(), tuple(jax.local_devices(backend=backend))
    everyone = tuple(jax.devices(backend)) if jax.process_count() > 1 else ()
    row_chunk, entries = (512, 0) if backend == "cpu" else (None, 1 << 30)
    return Compute(backend, cores, row_chunk, entries, devices=devices, everyone=everyone)


@functools.cache
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.asarray(devices), (_AXIS,))


def usable_cores() -> int:
    """Processor cores that this process may use, which containers and `taskset` limit."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


_chosen: contextvars.ContextVar[Compute | None] = contextvars.ContextVar("compute", default=None)


def current() -> Compute:
    """What `using` has chosen, or the default device; compiled code is kept from here on."""
    prepare_compiler()
    return _chosen.get() or Compute.here()


@contextlib.contextmanager
def using(compute: Compute | None) -> Iterator[None]:
    """Inside, this is the `current` one; None leaves it as it is."""
    token = _chosen.set(compute or _chosen.get())
    try:
        yield
    finally:
        _chosen.reset(token)


# ---- precision


@contextlib.contextmanager
def precision(dtype: Any = "float64") -> Iterator[None]:
    """Inside, new arrays have this precision, `float32` or `float64`."""
    with jax.enable_x64(jnp.dtype(dtype).itemsize == 8):
        yield


def current_precision() -> str:
    """The precision of new arrays, `float32` or `float64`."""
    return str(jnp.result_type(float))


def in_context(work: Callable[..., _R]) -> Callable[..., _R]:
    """The same function for another thread, which would not inherit precision and device."""
    dtype, compute = current_precision(), _chosen.get()

    def run(*arguments: Any, **how: Any) -> _R:
        with precision(dtype), using(compute):
            return work(*arguments, **how)

    return run


def start_thread(work: Callable[[], Any]) -> threading.Thread:
    """Run something in another thread, in the current precision and on the current device."""
    thread = threading.Thread(
        target=in_context(work)
    )  # no daemon: those that compile at exit crash
    thread.start()
    return thread


# ---- compiled code


def quickly_compiled(function: Callable[..., _R]) -> Callable[..., _R]:
    """`equinox.filter_jit` for what is called a few times.

    On a graphics processor the compiler tries many ways for every product of matrices, which takes
    up to a minute and pays in loops of hundreds of steps only. Here it takes the first.
    """
    options: Any = {"compiler_options": {"xla_gpu_autotune_level": 0}}
    compiled = eqx.filter_jit(function, **options)

    @functools.wraps(function)
    def call(*arguments: Any, **how: Any) -> _R:
        # as part of something that is compiled or differentiated it has no say
        return (function if is_traced(arguments, how) else compiled)(*arguments, **how)

    return call


def is_traced(*arguments: Any) -> bool:
    """Whether this is part of something that is being compiled or differentiated."""
    return has_tracers(jnp.zeros(()), *arguments)


def has_tracers(*arguments: Any) -> bool:
    """Whether some of these numbers are known only when what is being compiled runs."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments))


def few_sizes(n: int) -> int:
    """Rows to compile for where `n` are wanted: 4096, 32768, ..."""
    return 1 << 3 * max(4, -(-(n - 1).bit_length() // 3))


def prepare_compiler() -> None:
    """To be called before a program compiles something for the first time; more often does no harm.

    Compiled code is kept for the next run, and memory of the compiler is given back.
    """
    refuse_wrong_sums()
    keep_compiled_code()
    give_back_freed_memory()


@functools.cache
def keep_compiled_code() -> Path | None:
    """Keep compiled code in the user's cache folder, once a process; None where it is not kept.

    The variable `FKPINN_CACHE` names another folder, or `off`. A folder that jax was told of before
    stays. Compiled code runs when it is loaded, so a folder that others may write to is refused,
    and every version of jax and kind of processor has its own.
    """
    told = os.environ.get(_SWITCH, "")
    if told.lower() in _OFF or jax.config.values["jax_compilation_cache_dir"]:
        return None
    try:
        folder = _private(_cache_root(told) / _generation())
    except OSError as error:
        warnings.warn(
            f"Compiled code is not cached for the next run: {error}. Set `{_SWITCH}` to a folder "
            f"of your own, or to `off`.",
            stacklevel=2,
        )
        return None
    _prune(folder.parent, _MOST_BYTES)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()  # what was compiled before has made jax look away
    return folder


def _cache_root(told: str) -> Path:
    if told:
        return Path(told).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "fkpinn"


def _generation() -> str:
    """Versions and processor that compiled code belongs to."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    about = [*versions, platform.machine(), platform.python_version(), *_processor()]
    digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
    return f"jax-{jax.__version__}-{digest}"


def _processor() -> list[str]:
    """What tells this processor from others of its kind, as the system has it."""
    with contextlib.suppress(OSError):  # Linux
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        known = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
        return known[:2]
    with contextlib.suppress(OSError):  # macOS
        words = ["sysctl", "-n", "machdep.cpu.brand_string"]
        told = subprocess.run(words, capture_output=True, text=True)
        if told.returncode == 0:
            return [told.stdout.strip()]
    return [platform.processor()]  # Windows


def _private(folder: Path) -> Path:
    """The folder, made if it is not there; an error if others could write to it."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    for path in (folder.parent, folder):
        about = path.lstat()
        # Windows has neither such users nor such bits: there the user's own folder is trusted
        posix = hasattr(os, "geteuid")
        others = posix and (about.st_uid != os.geteuid() or about.st_mode & 0o022)
        if others or not path.is_dir() or path.is_symlink():
            raise PermissionError(f"`{path}` can be written by others")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"`{folder}` cannot be written")
    return folder


def _prune(root: Path, most: int) -> None:
    """Remove what has not been used for longest until the rest is small enough."""
    with contextlib.suppress(OSError):
        found = [(path, path.stat()) for path in root.rglob("*") if path.is_file()]
        total = sum(about.st_size for _, about in found)
        for path, about in sorted(found, key=lambda pair: pair[1].st_atime):
            if total <= most:
                break
            path.unlink(missing_ok=True)
            total -= about.st_size
