"""The options of commands that compute: which devices share the work, in which processes."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Devices:
    """Hardware to run on."""

    devices: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """How many devices share the work, or which of them: `2`, or `0,3`. By default all devices
    that jax sees. Labels are bitwise the same on any number of devices."""

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """Inside, these devices share the work."""
        if self.devices is None:
            yield
            return
        from fkpinn._compute import Compute, using

        with using(Compute.here().limited(_numbers(self.devices))):
            yield


@dataclasses.dataclass(frozen=True)
class Hardware(Devices):
    """Hardware to run on."""

    distributed: bool = False
    """Share the work with other processes, on this machine or others, started with the
    same command; the first of them writes and prints. Under SLURM, Open MPI and Kubernetes they
    find each other; otherwise give the next three options."""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """Address of the first process."""
    num_processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Total number of processes."""
    process_id: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    """Number of this process, starting with 0."""

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """Inside, these devices share the work, and one process speaks."""
        told = (self.coordinator, self.num_processes, self.process_id)
        if not self.distributed:
            if any(value is not None for value in told):
                raise ValueError(
                    "`--coordinator`, `--num-processes` and `--process-id` need `--distributed`; "
                    "add it."
                )
            with super().chosen():
                yield
            return
        if self.devices is not None:
            raise ValueError(
                "`--devices` and `--distributed` exclude each other: hide devices from a process "
                "by `CUDA_VISIBLE_DEVICES`."
            )
        from fkpinn._together import join, leads

        join(*told)
        try:
            with contextlib.nullcontext() if leads() else _silence():
                yield
        except Exception as error:
            if _other_died(error):
                _leave(
                    "another process has died, or its machine cannot be reached. Saved results are "
                    "kept: repeat the command in all processes, with any number of them, or "
                    "continue with one process by `fkpinn solve --resume`."
                )
            raise


HardwareOptions = tyro.conf.OmitArgPrefixes[Hardware]
DevicesOptions = tyro.conf.OmitArgPrefixes[Devices]
EVERY_DEVICE = Hardware()
ALL_HERE = Devices()


def speaks() -> bool:
    """Whether this process prints, as the first of several."""
    from fkpinn._together import leads

    return leads()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing on standard output, in this process or in what it calls."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _other_died(error: Exception) -> bool:
    """Whether what went wrong is that nobody answers."""
    words = ("gloo", "connection closed by peer", "coordination service", "heartbeat", "nccl")
    return any(word in str(error).lower() for word in words)


def _leave(message: str) -> None:
    """End at once: an orderly end would wait for the others."""
    print(f"fkpinn: {message}", file=sys.stderr, flush=True)
    os._exit(1)


def _numbers(given: str) -> int | list[int]:
    """`2` is a number of devices, `0,3` and `3,` are a list."""
    try:
        if "," not in given:
            return int(given)
        return [int(word) for word in given.split(",") if word.strip()]
    except ValueError:
        raise ValueError(
            f"`--devices` must be a number, or numbers separated by commas; got {given!r}. "
            f"Try `--devices 2`, or `--devices 0,3`."
        ) from None
