"""Several processes, on one machine or many, that run the same program and share its work.

Each of them does all that is cheap, so that all know the same; paths and rows of the loss are split
over all devices. What they decide must not depend on who decides: they read one clock.
"""

import contextlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_PATIENCE = 20  # seconds until a process that says nothing counts as dead


def join(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None
) -> None:
    """Become one of several processes; SLURM, Open MPI and Kubernetes tell what is left out.

    Args:
        coordinator: address and port of the first process.
        num_processes: how many there are.
        process_id: which of them this is, from 0 on.
    """
    given = {"coordinator": coordinator, "num_processes": num_processes, "process_id": process_id}
    missing = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        raise ValueError(
            f"`--distributed` needs --coordinator, --num-processes and --process-id, or none of "
            f"them under SLURM, Open MPI or Kubernetes; {', '.join(missing)} is missing."
        )
    if num_processes is not None and not 0 <= (process_id or 0) < num_processes:
        raise ValueError(
            f"`--process-id` must be from 0 to {num_processes - 1}, one less than "
            f"`--num-processes`; got {process_id}."
        )
    try:
        jax.distributed.initialize(
            coordinator, num_processes, process_id, heartbeat_timeout_seconds=_PATIENCE
        )
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f"The processes could not connect: {error}. Outside SLURM, Open MPI and Kubernetes, "
            f"give `--coordinator HOST:PORT --num-processes N --process-id K` to each of them."
        ) from None
    with _no_chatter():
        _sent(b"0", 1)  # connects


@contextlib.contextmanager
def _no_chatter() -> Iterator[None]:
    """What libraries write to standard output, below Python, goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def several() -> bool:
    """Whether there are other processes; if not, no device is initialized."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def leads() -> bool:
    """Whether this process writes and speaks for all."""
    return not several() or jax.process_index() == 0


def clock() -> float:
    """Seconds, the same in all processes, so that what depends on them is too."""
    now = time.perf_counter()
    if not several():
        return now
    return float(np.frombuffer(_sent(np.float64(now).tobytes(), 8))[0])


def replicated(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays that every device of all processes has; as they are without other processes."""
    if mesh is None or not several():
        return tree
    return placed(tree, jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), tree))


def placed(tree: Any, where: Any) -> Any:
    """Arrays in their places; with several processes each of them has all of the numbers.

    Args:
        tree: arrays.
        where: a sharding for each of them.
    """
    return jax.tree.map(_place, tree, where) if several() else jax.device_put(tree, where)


def _place(leaf: Any, where: NamedSharding) -> Any:
    if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, int, float)):
        return leaf
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        inside = _place(jax.random.key_data(leaf), where)
        return jax.random.wrap_key_data(inside, impl=jax.random.key_impl(leaf))
    known = np.asarray(leaf)
    return jax.make_array_from_callback(known.shape, where, lambda part: known[part])


def localized(tree: Any) -> Any:
    """Arrays that every device has, as arrays of this process."""
    if not several():
        return tree
    own = lambda leaf: leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf
    return jax.tree.map(own, tree)


def fetched(arrays: Any) -> Any:
    """All of arrays that may be split over processes, brought here at once."""
    return jax.tree.map(_whole, arrays) if several() else jax.device_get(arrays)


def _whole(array: Any) -> np.ndarray:
    here = not isinstance(array, jax.Array) or array.is_fully_addressable
    if here or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


@contextlib.contextmanager
def own_copy(path: Path | None) -> Iterator[Path | None]:
    """A place for each process to write to: the first has `path` itself, others a copy for a while.

    All of them find there what the first one has, whatever disks they see.

    Args:
        path: of a file or a folder, which need not be there yet.
    """
    if path is None or not several():
        yield path
        return
    packed = _packed(path) if leads() else b""
    length = int(np.frombuffer(_sent(np.int64(len(packed)).tobytes(), 8), np.int64)[0])
    packed = _sent(packed, length) if length else b""
    if leads():
        yield path
        return
    folder = Path(tempfile.mkdtemp(prefix="fkpinn-"))
    try:
        with tarfile.open(fileobj=io.BytesIO(packed or _EMPTY)) as archive:
            archive.extractall(folder, filter="data")
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _packed(path: Path) -> bytes:
    """The file or folder, and files beside it that begin with its name."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        for found in sorted(path.parent.glob(f"{path.name}*")) if path.parent.is_dir() else []:
            if found == path or found.is_file():
                archive.add(found, arcname=found.name, filter=_no_locks)
    return memory.getvalue()


def _no_locks(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith(".lock") else member


def _sent(given: bytes, length: int) -> bytes:
    """Bytes of the first process, in all of them."""
    there = np.frombuffer(given if leads() else bytes(length), np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(there), np.uint8).tobytes()


def _no_files() -> bytes:
    memory = io.BytesIO()
    tarfile.open(fileobj=memory, mode="w").close()
    return memory.getvalue()


_EMPTY = _no_files()
