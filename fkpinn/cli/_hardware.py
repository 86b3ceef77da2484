"""The option of commands that compute: which devices share the work."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Hardware:
    """What it runs on."""

    devices: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """How many devices share the work, or which of them: `2`, or `0,3`. By default all that jax
    sees. Labels are the same on any number of them, to the bit."""

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """Inside, these devices share the work."""
        if self.devices is None:
            yield
            return
        from fkpinn._compute import Compute, using

        with using(Compute.here().limited(_numbers(self.devices))):
            yield


HardwareOptions = tyro.conf.OmitArgPrefixes[Hardware]
EVERY_DEVICE = Hardware()


def _numbers(given: str) -> int | list[int]:
    """`2` is a number of devices, `0,3` and `3,` are a list."""
    try:
        if "," not in given:
            return int(given)
        return [int(word) for word in given.split(",") if word.strip()]
    except ValueError:
        raise ValueError(
            f"`--devices` must be a number, or numbers with commas between them; got {given!r}. "
            f"Try `--devices 2`, or `--devices 0,3`."
        ) from None
