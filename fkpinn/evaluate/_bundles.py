"""Paths that start on lines through points, and the slopes that they tell."""

import abc
import copy
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._compute import precision
from .._interval import skewed_limits
from .._streams import Stream
from ..labels import Labels
from ..problem import Problem
from ._defect_paths import DefectPaths
from ._lines import NODES, lines_through, slopes_on

_FRAMES = 16, 512  # a point, at least and at most; then each start has more paths
_LINES = 120  # of all its frames, at least: next to walls a few tell most
_PILOT = 32  # frames of the run that tells how many are needed
_EACH = 2  # paths of each start, at least
_MOST = 1 << 24  # paths a point
_REST = 0.25  # of what one degree more has changed, for what more degrees might

# Values at the nodes of lines, a frame of lines a row, to slopes, and what one degree less changes.
ToSlopes = Callable[
    [Float[np.ndarray, "n f lines nodes"]],
    tuple[Float[np.ndarray, "n f slopes"], Float[np.ndarray, "n f slopes"]],
]


class Axes(NamedTuple):
    """Of ellipsoids: lengths, one at most, and directions as columns."""

    scale: Float[np.ndarray, "n d"]
    turn: Float[np.ndarray, "n d d"]

    def stretched(self, v: np.ndarray) -> np.ndarray:
        """Vectors of the unit ball, the last axis of `v`, as those of the ellipsoids."""
        return self._each(v, self.scale)

    def slopes(self, v: np.ndarray) -> np.ndarray:
        """Gradients of functions of the unit ball as those of space."""
        return self._each(v, 1.0 / self.scale)

    def _each(self, v: np.ndarray, scale: np.ndarray) -> np.ndarray:
        along = np.einsum("nab,n...a->n...b", self.turn, v)
        between = (slice(None), *[None] * (v.ndim - 2))
        return np.einsum("nab,n...b->n...a", self.turn, along * scale[between])


class Found(NamedTuple):
    """What frames tell: means, their noise, and what lengths of lines and steps may have done."""

    value: np.ndarray
    stderr: np.ndarray
    tilt: np.ndarray
    length_effect: np.ndarray
    step_effect: np.ndarray
    frames: int
    n_paths: int
    seconds: float
    labels: Labels

    def limits(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Confidence limits, of few frames by Student's law; effects add as squares."""
        z = NormalDist().inv_cdf(0.5 + level / 2)
        wide = self.stderr * _student(z, self.frames - 1) / z
        low, high = skewed_limits(self.value, wide, self.tilt, level)
        effect = np.hypot(self.length_effect, self.step_effect)
        below, above = np.hypot(self.value - low, effect), np.hypot(high - self.value, effect)
        return self.value - below, self.value + above


class _Told(NamedTuple):
    """What each frame tells of the gradient, what one degree less changes, and the work."""

    slopes: Float[np.ndarray, "n f d"]
    change: Float[np.ndarray, "n f d"]
    labels: Labels  # of the paths at one node of all lines
    seconds: float

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Over frames, with its standard error."""
        root = math.sqrt(self.slopes.shape[1])
        return np.mean(self.slopes, axis=1), np.std(self.slopes, axis=1, ddof=1) / root

    def tilt(self) -> np.ndarray:
        """Skewness over the root of the number of frames."""
        off = self.slopes - np.mean(self.slopes, axis=1, keepdims=True)
        square = np.maximum(np.mean(off**2, axis=1), 1e-300)
        return np.mean(off**3, axis=1) / square**1.5 / math.sqrt(self.slopes.shape[1])


class AbstractBundles(abc.ABC):
    """Paths from the nodes of lines through points; those of a line take the same random numbers.

    They stay close to each other until one of them ends, and what they do alike is no noise.

    Args:
        paths: those of the points themselves.
        points: one per row.
        n_lines: of a frame, which tells all slopes once.
        stream: of random frames.
    """

    def __init__(
        self,
        paths: DefectPaths,
        points: Float[np.ndarray, "n z"],
        n_lines: int,
        stream: Stream,
    ):
        self.paths: DefectPaths = paths
        self.points: np.ndarray = points
        self.n_lines: int = n_lines
        self.stream: Stream = stream

    @abc.abstractmethod
    def lines(
        self, frames: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "nodes n f lines z"], ToSlopes]:
        """Where paths start, so many frames of each point, and what their means say of slopes."""

    def with_paths(self, n_paths: int) -> "Found":
        """Slopes by about so many paths per point, and what the time step does to them."""
        return self.run(*_shared_out(n_paths, self.n_lines), "slopes", bias=True)

    def needed(self, half_width: float, level: float, seconds: float) -> int:
        """Paths for limits that narrow, for every slope; a part of the width is left to effects."""
        frames = max(_PILOT, math.ceil(_LINES / self.n_lines))
        pilot = self.run(frames, _EACH, "pilot", pilot=True)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        affordable = pilot.n_paths * seconds / max(pilot.seconds, 1e-3) / 1.5
        needed = pilot.n_paths * (z * float(np.max(pilot.stderr)) / (0.9 * half_width)) ** 2
        return int(np.clip(min(needed, affordable), pilot.n_paths, _MOST))

    def run(
        self, frames: int, each: int, name: str, *, bias: bool = False, pilot: bool = False
    ) -> "Found":
        """So many frames of each point, with so many paths from each start."""
        told = self._told(frames, each, name, pilot=pilot)
        (value, stderr), seconds = told.mean(), told.seconds
        step_effect = np.zeros_like(value)
        if bias and self.paths.stepped:
            half = max(_FRAMES[0], frames // 2)
            coarse = self._told(half, each, f"{name}/coarse", coarse=True)
            seconds += coarse.seconds
            step_effect = _share((value, stderr), coarse.mean()) * np.abs(value)
        return Found(
            value=value,
            stderr=stderr,
            tilt=told.tilt(),
            length_effect=_REST * np.abs(np.mean(told.change, axis=1)),
            step_effect=step_effect,
            frames=frames,
            n_paths=NODES * self.n_lines * frames * each,
            seconds=seconds,
            labels=self._pooled(told.labels),
        )

    def _told(self, frames: int, each: int, name: str, **how: bool) -> "_Told":
        """Paths from all nodes of the lines; at each they take the same random numbers."""
        starts, slopes = self.lines(frames, (self.stream / "frames" / name).generator)
        shape, ends = starts.shape[1:4], []
        for start in starts:
            paths = copy.copy(self.paths)
            with precision(paths.dtype):
                paths.points = jnp.asarray(start.reshape(-1, start.shape[-1]), paths.dtype)
            ends.append(paths.run(each, stream=name, **how))
        values = [np.asarray(e.value, np.float64).reshape(shape) for e in ends]
        seconds = sum(e.provenance["seconds"]["run"] for e in ends)
        return _Told(*slopes(np.stack(values, axis=-1)), labels=ends[1], seconds=seconds)

    def _pooled(self, labels: Labels) -> Labels:
        """All paths from around a point as labels of the point."""
        rows = lambda a: np.asarray(a, np.float64).reshape(len(self.points), -1)
        count = labels.n_paths * rows(labels.value).shape[1]
        spread = np.mean(rows(labels.stderr) ** 2, axis=1) * labels.n_paths
        with precision(self.paths.dtype):
            array = lambda a: jnp.asarray(a, self.paths.dtype)
            return labels._replace(
                points=self.paths.points, value=array(np.mean(rows(labels.value), axis=1)),
                stderr=array(np.sqrt(spread / count)), n_paths=count,
            )  # fmt: skip


class Frames(AbstractBundles):
    """Lines in space: random frames around each point.

    Args:
        paths: those of the points themselves.
        lacks: the problem of the defect, in double precision.
        points: one per row.
        way: of each to the nearest wall.
        axes: the shape of what frames are made from.
        reach: of their lines.
        stream: of random frames.
    """

    def __init__(
        self,
        paths: DefectPaths,
        lacks: Problem,
        points: Float[np.ndarray, "n z"],
        way: Float[np.ndarray, " n"],
        axes: Axes,
        reach: Float[np.ndarray, " n"],
        stream: Stream,
    ):
        super().__init__(paths, points, lacks.dim, stream)
        self.lacks: Problem = lacks
        self.way: np.ndarray = way
        self.axes: Axes = axes
        self.reach: np.ndarray = reach

    def lines(
        self, frames: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "nodes n f lines z"], ToSlopes]:
        """Along the directions of random frames, as far as walls let them go."""
        n, d, layout = len(self.points), self.lacks.dim, self.lacks.layout
        # directions are rows, and with both signs they are uniform on the sphere
        frame = np.swapaxes(np.linalg.qr(rng.standard_normal((n, frames, d, d)))[0], 2, 3)
        jumps, diffusion = self.lacks.jumps, self.lacks.diffusion
        lines = lines_through(
            self.lacks, self.points, self.axes.stretched(frame), self.reach, self.way,
            walls=jumps is None or not diffusion.is_zero,
        )  # fmt: skip
        with precision("float64"):
            at = jnp.asarray(self.points)[None, :, None, None]
            along = np.moveaxis(lines.starts, -1, 0)[..., None] * lines.directions
            starts = np.asarray(layout.placed(layout.ahead(at), layout.space(at) + along))

        def slopes(values):
            both = (np.einsum("nfk,nfka->nfa", s, frame) for s in lines.slopes(values))
            first, second = (self.axes.slopes(each) for each in both)
            return first, second

        return starts, slopes


class Sweeps(AbstractBundles):
    """Lines along the parameters of a family, one for each; the place stays.

    Args:
        paths: those of the points themselves.
        problem: the family.
        points: one per row, parameters first.
        reach: how far values go to both sides, as far as they have a range, one column per
            parameter.
        stream: of random frames.
    """

    def __init__(
        self,
        paths: DefectPaths,
        problem: Problem,
        points: Float[np.ndarray, "n z"],
        reach: Float[np.ndarray, "n k"],
        stream: Stream,
    ):
        super().__init__(paths, points, problem.layout.n_parameters, stream)
        values = problem.layout.values(points)
        lower, upper = problem.layout.ranges()
        first = np.maximum(values - reach, lower) - values
        last = np.minimum(values + reach, upper) - values
        self.nodes: np.ndarray = np.linspace(first, last, NODES, axis=-1)

    def lines(
        self, frames: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "nodes n f lines z"], ToSlopes]:
        """All frames alike: the random numbers of their paths are not."""
        n, k = self.nodes.shape[:2]
        starts = np.broadcast_to(
            self.points[:, None, None], (NODES, n, frames, k, self.points.shape[1])
        ).copy()
        for j in range(k):
            starts[:, :, :, j, j] += self.nodes[:, j].T[..., None]
        nodes = np.broadcast_to(self.nodes[:, None], (n, frames, k, NODES))
        return starts, lambda values: slopes_on(nodes, values)


def _share(fine: tuple[np.ndarray, np.ndarray], coarse: tuple[np.ndarray, np.ndarray]) -> float:
    """What the step does, as one share of all gradients: a single difference drowns in noise."""
    noise = np.maximum(fine[1] ** 2 + coarse[1] ** 2, np.finfo(np.float32).tiny)
    norm = max(float(np.sum(fine[0] ** 2 / noise)), np.finfo(float).tiny)
    share = float(np.sum(fine[0] * (coarse[0] - fine[0]) / noise)) / norm
    return max(abs(share), norm**-0.5)


def _student(z: float, freedom: int) -> float:
    """The quantile of Student's law where the normal one has `z` (Cornish and Fisher)."""
    first, second = (z**3 + z) / 4.0, (5 * z**5 + 16 * z**3 + 3 * z) / 96.0
    return z + first / freedom + second / freedom**2


def _shared_out(n_paths: int, n_lines: int) -> tuple[int, int]:
    """Frames, and paths of each start, that make about so many paths."""
    least = max(_FRAMES[0], math.ceil(_LINES / n_lines))
    frames = int(np.clip(round(n_paths / (NODES * n_lines * _EACH)), least, _FRAMES[1]))
    return frames, max(_EACH, round(n_paths / (NODES * n_lines * frames)))
