"""Values at points with error bars, wherever they come from."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._compute import precision
from .._files import pack, parse, reading, unpack
from .._interval import skewed_limits
from .._records import write_bytes
from .._types import Numbers
from ..problem import Problem
from ..reference import fem_reference
from ..report import labels_html

_FLOATS = ("float16", "float32", "float64")
_COUNTS = ("int32", "int64")


class Labels(NamedTuple):
    """Estimates of the solution at points, with their errors.

    `unfinished` counts the paths of each point that were cut at `t_max`, and `truncation` estimates
    the resulting error. `bias` is the estimated time-step bias, NaN if it was not measured; `skew`
    is the skewness of a single payoff; `provenance` says how the labels were computed.
    """

    points: Float[Array, "n z"]
    value: Float[Array, " n"]
    stderr: Float[Array, " n"]
    n_paths: int
    unfinished: Int[Array, " n"]
    bias: Float[Array, " n"]
    provenance: dict[str, Any]
    skew: Float[Array, " n"]
    truncation: Float[Array, " n"]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Confidence limits for the mean payoff, widened where payoffs are skewed; without bias."""
        tilt = np.asarray(self.skew, float) / math.sqrt(max(self.n_paths, 1))
        return skewed_limits(self.value, self.stderr, tilt, level)

    def error(self) -> Float[Array, " n"]:
        """Standard error, bias and truncation together; an unknown bias counts as none."""
        with precision(self.stderr.dtype):
            bias = jnp.nan_to_num(self.bias)
            return jnp.sqrt(self.stderr**2 + bias**2 + self.truncation**2)

    def noise(self) -> float:
        """Root mean square of `error`."""
        return float(np.sqrt(np.mean(np.asarray(self.error(), np.float64) ** 2)))

    def size(self) -> float:
        """Root mean square of the values: the typical size of the solution, 1 if that is zero."""
        return float(np.sqrt(np.mean(np.asarray(self.value, np.float64) ** 2))) or 1.0

    def rows(self, rows: np.ndarray) -> "Labels":
        """Some of the labels, by their numbers."""
        with precision(self.value.dtype):
            kept = {
                name: jnp.asarray(getattr(self, name))[rows]
                for name in self._fields
                if name not in ("n_paths", "provenance")
            }
        return self._replace(**kept)

    def joined(self, other: "Labels") -> "Labels":
        """These labels and others of the same kind, as one set."""
        if self.n_paths != other.n_paths or self.points.shape[1] != other.points.shape[1]:
            raise ValueError(
                f"`other` must have the same number of paths per point, and points of the same "
                f"dimension; got {other.n_paths} paths instead of {self.n_paths}, and dimension "
                f"{other.points.shape[1]} instead of {self.points.shape[1]}."
            )
        names = [name for name in self._fields if name not in ("n_paths", "provenance")]
        both = {
            name: jnp.concatenate([jnp.asarray(getattr(labels, name)) for labels in (self, other)])
            for name in names
        }
        scheme = self.provenance.get("scheme")
        parts = [self.provenance, other.provenance]
        return self._replace(**both, provenance={"scheme": scheme, "parts": parts})

    def pooled(self, other: "Labels") -> "Labels":
        """These labels and others from independent paths of the same points, averaged by paths."""
        if self.n_paths < 1 or other.n_paths < 1 or self.points.shape != other.points.shape:
            raise ValueError(
                "`other` must come from paths from the same points; got "
                f"{other.n_paths} paths at points of shape {other.points.shape}, here "
                f"{self.n_paths} at {self.points.shape}."
            )
        total = self.n_paths + other.n_paths
        a, b = self.n_paths / total, other.n_paths / total
        mean = lambda name: a * getattr(self, name) + b * getattr(other, name)
        own, new = self.provenance, other.provenance
        seconds = {k: own["seconds"][k] + new["seconds"][k] for k in own["seconds"]}
        steps = own["path_steps"] + new["path_steps"]
        return self._replace(
            value=mean("value"),
            stderr=jnp.hypot(a * self.stderr, b * other.stderr),
            n_paths=total,
            unfinished=self.unfinished + other.unfinished,
            bias=mean("bias"),
            provenance=own | {"path_steps": steps, "seconds": seconds},
            skew=mean("skew"),
            truncation=mean("truncation"),
        )

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return labels_html(self)

    def save(self, path: Path | str) -> None:
        """Write a `.npz` file, whole or not at all; nothing in it can run code."""
        arrays = {k: np.asarray(v) for k, v in self._asdict().items() if k != "provenance"}
        write_bytes(
            Path(path), pack(arrays | {"provenance": np.array(json.dumps(self.provenance))})
        )

    @classmethod
    def load(cls, path: Path | str) -> "Labels":
        """Read what `save` wrote."""
        path = Path(path)
        found = unpack(path, [*cls._fields])
        provenance = parse(path, found.pop("provenance"))
        n_paths = found.pop("n_paths")
        with reading(path):
            if n_paths.shape != () or n_paths.dtype.kind != "i" or n_paths < 0:
                raise ValueError(f"`n_paths` is {n_paths!r}")
            _check_arrays(found)
        arrays = {name: jnp.asarray(array) for name, array in found.items()}
        return cls(**arrays, n_paths=int(n_paths), provenance=provenance)

    @classmethod
    def from_data(
        cls, points: Numbers, value: Numbers, stderr: Numbers, *, source: str = "data"
    ) -> "Labels":
        """Measured or computed values as labels.

        Args:
            points: one point per row.
            value: one number per point.
            stderr: its standard error, one number or one per point, not negative.
            source: where they come from, for the record.
        """
        points = jnp.asarray(points)
        points = points if jnp.issubdtype(points.dtype, jnp.floating) else points.astype(float)
        if points.ndim != 2 or len(points) == 0:
            raise ValueError(f"`points` must have shape (n, d), n >= 1; got shape {points.shape}.")
        n = len(points)
        arrays = {}
        for name, given in (("value", value), ("stderr", stderr)):
            array = np.asarray(given, float)
            if array.shape not in ((n,), ()) or (name == "value" and array.shape != (n,)):
                raise ValueError(
                    f"`{name}` must have one entry per point, shape ({n},); got shape "
                    f"{array.shape}."
                )
            if not np.all(np.isfinite(array)):
                raise ValueError(f"`{name}` must be finite; got {given!r}.")
            arrays[name] = jnp.asarray(np.broadcast_to(array, (n,)), points.dtype)
        if not np.all(np.isfinite(np.asarray(points))):
            raise ValueError("`points` must be finite.")
        if np.any(np.asarray(stderr) < 0):
            raise ValueError(f"`stderr` must not be negative; got {stderr!r}.")
        zero = jnp.zeros(n, points.dtype)
        none = jnp.zeros(n, jnp.int32)
        return cls(
            points=points, **arrays, n_paths=0, unfinished=none, bias=zero,
            provenance={"scheme": source}, skew=zero, truncation=zero,
        )  # fmt: skip

    @classmethod
    def from_fem(cls, problem: Problem, points: Numbers, *, h: float) -> "Labels":
        """Values of a finite element solution on a mesh of size `h`, with its own error estimate.

        Args:
            problem: a problem in one or two dimensions.
            points: one point per row.
            h: mesh size; a coarse one is enough to start a training.
        """
        reference = fem_reference(problem, h)
        value = reference.values(np.asarray(points))
        size = float(np.sqrt(np.mean(value**2)))
        error = (reference.error_estimate or 0.0) * size
        return cls.from_data(points, value, error, source=f"finite elements, h={h:g}")


def _check_arrays(found: dict[str, np.ndarray]) -> None:
    """Refuse arrays that no labels have."""
    points = found["points"]
    if points.ndim != 2 or len(points) == 0:
        raise ValueError(f"`points` has shape {points.shape}")
    for name, array in found.items():
        counts = name == "unfinished"
        if array.dtype not in (_COUNTS if counts else _FLOATS):
            raise ValueError(f"`{name}` has the type {array.dtype}")
        if not counts and array.dtype != points.dtype:
            raise ValueError(f"`{name}` has the type {array.dtype}, `points` {points.dtype}")
        if name != "points" and array.shape != points.shape[:1]:
            raise ValueError(f"`{name}` has shape {array.shape} for {len(points)} points")
        # the bias may be unknown
        if np.any(np.isinf(array)) or (name != "bias" and np.any(np.isnan(array))):
            raise ValueError(f"`{name}` is not finite")
    if np.any(found["stderr"] < 0) or np.any(found["unfinished"] < 0):
        raise ValueError("`stderr` or `unfinished` is negative")
