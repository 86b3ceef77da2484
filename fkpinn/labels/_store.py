"""Finished work, stored in a file: a killed run continues where it was."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._files import pack, parse, reading, unpack
from .._records import write_bytes
from .._together import clock
from ..reference import fingerprint
from ..sde import Plan
from ._moments import Moments

_INTERVAL = 1.0  # seconds between writes, at least
_FIELDS = [*Moments._fields, "steps", "done", "identity"]


def identity(plan: Plan, scheme: str, **more: Any) -> dict[str, Any]:
    """What a run is made of: two runs with the same identity give the same labels."""
    control = None
    if plan.control is not None:
        control = np.asarray(jax.vmap(plan.control)(plan.points))
    digest = lambda array: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    numbers = np.round(fingerprint(plan.problem).astype(np.float64), 6)
    return {
        "problem": digest(numbers + 0.0),
        "points": digest(np.asarray(plan.points)),
        "n_points": len(plan.points),
        "n_paths": plan.n_paths,
        "dt": plan.dt,
        "n_steps": plan.n_steps,
        "seed": plan.seed,
        "scheme": scheme,
        "antithetic": plan.antithetic,
        "control": None if control is None else digest(control),
        **more,
    }


def check_same(path: Path, stored: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse a file that belongs to another run."""
    stored = stored if isinstance(stored, dict) else {}
    different = [key for key in here if stored.get(key) != here[key]]
    if different:
        key = different[0]
        raise ValueError(
            f"`{path}` contains other labels: its `{key}` is {stored.get(key)!r:.80}, this run's "
            f"is {here[key]!r}. Delete the file or choose another name."
        )


class Store:
    """Moments of the segments that are done, in memory and, if a path is given, in a file."""

    def __init__(self, path: Path | None, who: dict[str, Any], n_segments: int):
        self.path, self.who = path, who
        self.moments = Moments(*(np.zeros(n_segments) for _ in Moments._fields))
        self.steps = np.zeros(n_segments, np.int64)
        self.done = np.zeros(n_segments, bool)
        self._written = clock()
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        found = unpack(path, _FIELDS)
        stored = parse(path, found["identity"])
        check_same(path, stored, self.who)
        own = self.moments._asdict() | {"steps": self.steps, "done": self.done}
        with reading(path):
            for name, array in own.items():
                there = found[name]
                if (there.shape, there.dtype) != (array.shape, array.dtype):
                    raise ValueError(f"`{name}` is {there.dtype} of shape {there.shape}")
                if name in ("n", "mean") and not np.all(np.isfinite(there)):
                    raise ValueError(f"`{name}` is not finite")
                array[:] = there
            if np.any(self.moments.n[self.done] < 1) or np.any(self.steps < 0):
                raise ValueError("a segment that is done has no paths")

    def add(self, where: slice, found: Moments, steps: np.ndarray) -> None:
        """Take in the segments of a batch; write now and then."""
        for mine, new in zip(self.moments, found, strict=True):
            mine[where] = new
        self.steps[where], self.done[where] = steps, True
        if self.path is not None and clock() - self._written > _INTERVAL:
            self.write()

    def write(self) -> None:
        """Write all of it, whole or not at all."""
        if self.path is None:
            return
        began = clock()
        who = np.array(json.dumps(self.who))
        content = pack(
            self.moments._asdict() | {"steps": self.steps, "done": self.done, "identity": who}
        )
        write_bytes(self.path, content)
        # a large file on a slow disk is written less often
        self._written = clock() + 10 * (clock() - began)
