"""DeepXDE and jinns, each in a process of an environment of its own."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fkpinn.nn import MLP

from .._common import say

PEERS = ("deepxde", "deepxde_forward", "jinns")
_VARIABLE = "FKPINN_PEERS"
_MISSING = (
    f"{_VARIABLE} is not set: it names the Python of an environment with DeepXDE and jinns; see "
    "benchmarks/step/_run.py."
)


class Peer:
    """A running `_peer.py`, compiled when this is made; each line sent to it is one timing."""

    def __init__(self, python: str, name: str, folder: Path):
        # its packages and not ours; and room on a GPU of which this process holds most
        own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        own |= {"JAX_ENABLE_X64": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self._gradient = folder / f"{name}.npy"
        self._errors = folder / f"{name}.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [python, str(Path(__file__).with_name("_peer.py")), name, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=own,
            )
        self._wait()

    def turn(self) -> None:
        """One timing there, while nothing is timed here."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.write("turn\n")
            self._process.stdin.flush()
            self._wait()

    def result(self) -> tuple[dict[str, Any], np.ndarray]:
        """Record and gradient, when all turns are over."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            lines = self._errors.read_text().strip().splitlines()
            lines = [line for line in lines if "Error" in line] or lines or ["it said nothing"]
            return absent(f"exit code {self._process.returncode}: {lines[-1]}")
        return json.loads(out.splitlines()[-1]), np.load(self._gradient)

    def end(self) -> None:
        """Whatever it is doing."""
        self._process.kill()
        self._process.communicate()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                return
        self._process.wait()  # it has ended; `result` says how


def absent(note: str) -> tuple[dict[str, Any], np.ndarray]:
    """What stands for a peer that could not be run."""
    return {"forward": None, "gradient": None, "note": note}, np.array([])


@contextlib.contextmanager
def started(u: MLP, points: np.ndarray) -> Iterator[tuple[dict[str, Peer], str]]:
    """All peers, ready for their turns; without any, why."""
    if not (python := os.environ.get(_VARIABLE)):
        yield {}, _MISSING
        return
    if not os.access(python, os.X_OK):
        yield {}, f"{_VARIABLE}={python} is not a program."
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        here = Path(folder)
        np.save(here / "points.npy", points)
        for i, (weight, bias) in enumerate(zip(u.weights, u.biases, strict=True)):
            np.save(here / f"weight{i}.npy", weight)
            np.save(here / f"bias{i}.npy", bias)
        peers = {}
        for name in PEERS:
            say(f"step: compiling {name}")
            peers[name] = Peer(python, name, here)
            stack.callback(peers[name].end)
        yield peers, ""
