"""Functions of many points that are no JAX, and their derivatives; all in NumPy.

Compiled code calls these from threads of its own, where calls of JAX would wait for each other.
"""

import abc
import contextlib
import copy
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

_ROWS = 1 << 16  # points that a function is called with at a time
_SHORTER = (8.0, 64.0)  # times, where a function is not finite around a point


class Along(NamedTuple):
    """Values, and first and second derivatives along directions."""

    value: Float[np.ndarray, " n"]
    first: Float[np.ndarray, "n q"]
    second: Float[np.ndarray, "n q"]


class Window(NamedTuple):
    """Least and largest coordinates at which a function need be defined."""

    lower: Float[np.ndarray, " z"]
    upper: Float[np.ndarray, " z"]


class AbstractHost(abc.ABC):
    """A function of many points and its derivatives; several threads may ask.

    `failure` is the first error of those that compiled code went past.
    """

    failure: Exception | None

    @abc.abstractmethod
    def values(self, z: Float[np.ndarray, "n z"]) -> Float[np.ndarray, " n"]:
        """Values at points."""

    @abc.abstractmethod
    def along(self, z: Float[np.ndarray, "n z"], directions: Float[np.ndarray, "n q z"]) -> Along:
        """Derivatives along directions."""


class Differences(AbstractHost):
    """Derivatives of fourth order from five points, which stay in a window where they can.

    Args:
        function: of many points.
        steps: along each coordinate; without them there are values only.
        window: where the function is defined.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        steps: Float[np.ndarray, " z"] | None = None,
        window: Window | None = None,
    ):
        self.failure = None
        self.function = function
        self.steps = steps
        self.window = window
        self._lock = threading.Lock()

    def times(self, factor: float) -> "Differences":
        """The same with steps so many times as long."""
        assert self.steps is not None
        return Differences(self.function, factor * self.steps, self.window)

    def values(self, z: Float[np.ndarray, "n z"]) -> Float[np.ndarray, " n"]:
        """Values at points, so many at a time."""
        parts = [self._call(z[k : k + _ROWS]) for k in range(0, len(z), _ROWS)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _call(self, z: np.ndarray) -> np.ndarray:
        with self._lock, told(z), np.errstate(all="ignore"):
            found = self.function(np.array(z))
        return as_values(found, z)

    def along(self, z: Float[np.ndarray, "n z"], directions: Float[np.ndarray, "n q z"]) -> Along:
        """Where the function is not finite around a point, steps are shorter."""
        if self.steps is None:
            raise ValueError(
                "`fk.outside(function)` has no `steps` for its finite differences yet. Pass them, "
                "or use `fk.certify`, which chooses them."
            )
        # the longest way along a direction that is no longer than the step along any coordinate
        size = np.max(np.abs(directions) / self.steps, axis=2)
        reach = 1.0 / np.where(size > 0, size, 1.0)
        value = self.values(z)
        first, second = self._differences(z, directions, reach, value)
        for shorter in _SHORTER:
            bad = np.isfinite(value) & ~np.all(np.isfinite(first) & np.isfinite(second), axis=1)
            if not bad.any():
                break
            some = z[bad], directions[bad], reach[bad] / shorter, value[bad]
            first[bad], second[bad] = self._differences(*some)
        return Along(value, first, second)

    def _differences(
        self, z: np.ndarray, directions: np.ndarray, h: np.ndarray, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        offsets, ones, twos = (table[2] for table in (_OFFSETS, _FIRST, _SECOND))
        if (near := self._near(z)).any():
            shift = np.full(h.shape, 2)
            shift[near] = self._shift(z[near], directions[near], h[near])
            offsets, ones, twos = (table[shift] for table in (_OFFSETS, _FIRST, _SECOND))
        far = (offsets * h[..., None])[..., None] * directions[:, :, None]
        around = self.values((z[:, None, None] + far).reshape(-1, z.shape[1]))
        around = around.reshape(*h.shape, 4) - value[:, None, None]  # the constant cancels first
        return np.sum(ones * around, axis=2) / h, np.sum(twos * around, axis=2) / h**2

    def _near(self, z: np.ndarray) -> np.ndarray:
        """Whether points are so close to an end of the window that some step may lead out of it."""
        assert self.steps is not None
        if self.window is None:
            return np.zeros(len(z), bool)
        lower, upper = self.window.lower + 2.0 * self.steps, self.window.upper - 2.0 * self.steps
        return np.any((z < lower) | (z > upper), axis=1)

    def _shift(self, z: np.ndarray, directions: np.ndarray, h: np.ndarray) -> np.ndarray:
        """By how many steps the five points are shifted, from -2 to 2, as a row of the tables."""
        assert self.window is not None
        with np.errstate(all="ignore"):
            ends = [(end - z)[:, None] / directions for end in self.window]
        moves = directions != 0
        low = np.max(np.where(moves, np.minimum(*ends), -np.inf), axis=2) / h
        high = np.min(np.where(moves, np.maximum(*ends), np.inf), axis=2) / h
        least = np.ceil(np.clip(low, -4.0, 0.0) + 2.0 - 1e-6)
        most = np.floor(np.clip(high, 0.0, 4.0) - 2.0 + 1e-6)
        return np.where(least <= most, np.clip(0.0, least, most), 0.0).astype(int) + 2


def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets of four points beside the middle one, shifted, and what they count."""
    offsets, first, second = [], [], []
    for shift in range(-2, 3):
        nodes = np.array([k for k in range(shift - 2, shift + 3) if k], float)
        # weights that are right for x, ..., x^4; the value in the middle is subtracted before
        powers = np.linalg.inv(nodes[None] ** np.arange(1, 5)[:, None])
        offsets.append(nodes)
        first.append(powers[:, 0])
        second.append(2.0 * powers[:, 1])
    return np.stack(offsets), np.stack(first), np.stack(second)


_OFFSETS, _FIRST, _SECOND = _tables()


class Torch(AbstractHost):
    """Derivatives by PyTorch, in double precision, forward twice; a module is copied first."""

    def __init__(self, function: Callable[..., Any]):
        self.failure = None
        if is_torch_module(function):
            module: Any = copy.deepcopy(function)
            function = module.cpu().double().eval().requires_grad_(False)
        self.function = function
        self._lock = threading.Lock()

    def values(self, z: Float[np.ndarray, "n z"]) -> Float[np.ndarray, " n"]:
        """Values at points."""
        torch = pytorch()
        with self._lock, told(z), torch.no_grad():
            return self._called(torch.tensor(z)).detach().numpy().astype(np.float64)

    def along(self, z: Float[np.ndarray, "n z"], directions: Float[np.ndarray, "n q z"]) -> Along:
        """A pass for each direction."""
        torch, jvp = pytorch(), pytorch().func.jvp
        first, second, value = [], [], None
        with self._lock, told(z), torch.no_grad():
            at = torch.tensor(z)
            for k in range(directions.shape[1]):
                c = torch.tensor(directions[:, k])
                slope = lambda y, c=c: jvp(self._called, (y,), (c,))
                (value, one), (_, two) = jvp(slope, (at,), (c,))
                first.append(one.numpy())
                second.append(two.numpy())
        assert value is not None
        columns = (np.stack(found, axis=1).astype(np.float64) for found in (first, second))
        return Along(value.numpy().astype(np.float64), *columns)

    def _called(self, z: Any) -> Any:
        found = self.function(z)
        as_values(found, z, look=False)
        return found.reshape(-1)


def pytorch() -> Any:
    """The package, which is no part of what we need."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "`derivatives='torch'` needs PyTorch: pip install torch, or leave out `derivatives`."
        ) from error


def is_torch_module(function: Any) -> bool:
    """Whether this is a module of PyTorch, which need not be installed."""
    return any(
        kind.__module__.split(".")[0] == "torch" and kind.__name__ == "Module"
        for kind in type(function).__mro__
    )


@contextlib.contextmanager
def told(z: Any) -> Iterator[None]:
    """Errors of a function say what it was called with."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(
            f"`function` raised {type(error).__name__}: {error}; it was called with points of "
            f"shape {tuple(z.shape)}, one per row."
        ) from error


class Refused(ValueError):
    """A function from outside will not do; the message says why."""


def as_values(found: Any, z: Any, look: bool = True) -> Any:
    """One number a row, or a refusal; with `look` as an array of double precision."""
    module = type(found).__module__.split(".")[0]
    if module in ("jax", "jaxlib"):
        raise Refused(
            "`function` is written in JAX, which must not be called from compiled code. Pass it "
            "without `fk.outside`, as a function of one point."
        )
    shape = getattr(found, "shape", None)
    if look and shape is None:
        found = np.asarray(found)
        shape = found.shape
    if shape is None or tuple(shape) not in ((len(z),), (len(z), 1)):
        what = type(found).__name__ if shape is None else f"shape {tuple(shape)}"
        raise Refused(
            f"`function` must return one value per row, shape ({len(z)},) or ({len(z)}, 1), for "
            f"points of shape {tuple(z.shape)}; got {what}."
        )
    if not look:
        return found
    try:
        return np.asarray(found, np.float64).reshape(-1)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Refused(f"`function` must return real numbers; got {found!r:.80}.") from error
