"""What every reference can do, and how user functions are evaluated in double precision."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._types import Scalar, SpaceTimePoint
from ..problem import Region

_BATCHES = (64, 1024, 16384)  # points a call: few sizes, so that little is compiled
_SLACK = 1e-5  # of the diameter: points drawn in single precision still count as inside


class AbstractReference(abc.ABC):
    """A solution of a problem that is accurate enough to measure errors against.

    Points have one row each: `x`, or time followed by `x` for parabolic problems. Results are
    numpy arrays in double precision, whatever precision the caller works in.

    Attributes:
        error_estimate: estimated rms error relative to the rms solution; None if unknown.
        provenance: how the reference was computed: method, sizes, versions, command.
    """

    error_estimate: float | None
    provenance: dict[str, Any]

    @abc.abstractmethod
    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values `(n,)` and gradients in space `(n, d)`."""

    def values(self, points: Any) -> np.ndarray:
        """Values `(n,)` at points `(n, z)`."""
        return self.values_and_gradients(points)[0]

    def gradients(self, points: Any) -> np.ndarray:
        """Gradients in space `(n, d)` at points `(n, z)`."""
        return self.values_and_gradients(points)[1]


def as_points(points: Any, n_coords: int) -> np.ndarray:
    """`points` as an `(n, z)` array in double precision, or an error that says what came."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`points` must be an array of real numbers; got {type(points).__name__}."
        ) from error
    if array.ndim != 2 or array.shape[1] != n_coords:
        raise ValueError(
            f"`points` must have shape (n, {n_coords}), one point per row; got shape {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argmin(np.all(np.isfinite(array), axis=1)))
        raise ValueError(f"`points` must be finite; row {row} is {array[row].tolist()}.")
    return array


def refuse_outside(points: np.ndarray, outside: np.ndarray) -> None:
    """Raise if any of the points is marked as outside."""
    if np.any(outside):
        first = points[int(np.argmax(outside))].tolist()
        raise ValueError(
            f"`points` must lie in the closed domain; {np.count_nonzero(outside)} of "
            f"{len(points)} do not, the first is {first}."
        )


def check_times(points: np.ndarray, times: np.ndarray, horizon: float) -> None:
    """Raise if a time of the points, their first column, is not in `[0, horizon]`."""
    slack = _SLACK * horizon
    outside = (times < -slack) | (times > horizon + slack)
    if np.any(outside):
        first = points[int(np.argmax(outside))].tolist()
        raise ValueError(
            f"`points` must have times (the first column) in [0, {horizon:g}]; "
            f"{np.count_nonzero(outside)} of {len(points)} do not, the first is {first}."
        )


def check_inside(points: np.ndarray, region: Region) -> None:
    """Raise if a point is outside the domain by more than rounding."""
    distance = evaluate(eqx.Partial(_distance, region), points)
    refuse_outside(points, distance > _SLACK * region.domain.diameter())


def _distance(region: Region, z: SpaceTimePoint) -> Scalar:
    return region.signed_distance(z)


def scattered(n: int, dim: int) -> np.ndarray:
    """Points `(n, dim)` spread evenly over the unit cube, always the same ones.

    Multiples of powers of the root of `x^(dim + 1) = x + 1`, modulo one.
    """
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dim + 1))
    return np.arange(1, n + 1)[:, None] * root ** -np.arange(1.0, dim + 1) % 1.0


def evaluate(function: Callable[..., Any], points: np.ndarray) -> Any:
    """A one-point function at every row, in double precision, as numpy arrays."""
    return Batched(function)(points)


class Batched:
    """A one-point function, compiled for batches and evaluated in double precision.

    Methods of shapes and other modules are compared by what these hold, so that equal ones share
    compiled code; other functions are compiled on their own.
    """

    def __init__(self, function: Callable[..., Any]):
        shared = isinstance(function, eqx.Module)
        self._compiled = eqx.Partial(_at_rows, function) if shared else jax.jit(jax.vmap(function))

    def __call__(self, points: np.ndarray) -> Any:
        """Values at every row, as numpy arrays."""
        step = _BATCHES[-1]
        with precision("float64"):  # here only: the caller's precision stays as it is
            chunks = [
                self._chunk(points[i : i + step]) for i in range(0, max(len(points), 1), step)
            ]
        return jax.tree.map(lambda *parts: np.concatenate(parts), *chunks)

    def _chunk(self, points: np.ndarray) -> Any:
        n = len(points)
        size = next(batch for batch in _BATCHES if n <= batch)
        filled = np.zeros((size, points.shape[1]))
        filled[:] = points[:1] if n else 0.0  # filled up with a point that is surely valid
        filled[:n] = points
        return jax.tree.map(lambda a: np.asarray(a)[:n], self._compiled(jnp.asarray(filled)))


@quickly_compiled
def _at_rows(function: Callable[..., Any], points: Float[Array, "n z"]) -> Any:
    return jax.vmap(lambda row: function(row))(points)
