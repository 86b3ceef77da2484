"""Mean, spread and skewness of many payoffs, merged piece by piece in a fixed order."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from .._compute import current

SEGMENT = 1024  # payoffs of one point that are summed together; part of what labels are
_TOGETHER = 1 << 17  # payoffs that one thread looks at


class Moments(NamedTuple):
    """For each segment: count, mean, sums of squares and cubes about it, largest, total size.

    Segments never depend on how the work was cut into batches, so neither do the sums.
    """

    n: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    cube: np.ndarray
    largest: np.ndarray
    size: np.ndarray
    late: np.ndarray

    def variance(self) -> np.ndarray:
        """Of a single payoff."""
        return self.square / np.maximum(self.n - 1, 1)

    def skew(self) -> np.ndarray:
        """Skewness of a single payoff; zero where all are alike."""
        scale = (self.square / self.n) ** 1.5
        return np.where(scale > 0, self.cube / self.n / np.where(scale > 0, scale, 1.0), 0.0)


def segment_starts(n_points: int, n_paths: int) -> np.ndarray:
    """Number of the first path of each segment; points do not share segments."""
    within = np.arange(0, n_paths, SEGMENT)
    return (np.arange(n_points)[:, None] * n_paths + within[None]).reshape(-1)


def moments(payoff: np.ndarray, late: np.ndarray, starts: np.ndarray) -> Moments:
    """Moments of the segments that begin at the given positions of `payoff`."""
    ends = np.append(starts, len(payoff))
    cuts = np.unique(np.searchsorted(ends, np.arange(0, len(payoff), _TOGETHER)))
    cuts = np.append(cuts[cuts < len(starts)], len(starts))

    def of(cut: tuple[int, int]) -> Moments:
        low, high = cut
        own = slice(ends[low], ends[high])
        return _moments(payoff[own], late[own], starts[low:high] - starts[low])

    with ThreadPoolExecutor(current().threads) as pool:  # an accelerator waits for them
        parts = list(pool.map(of, itertools.pairwise(cuts.tolist())))
    return Moments(*map(np.concatenate, zip(*parts, strict=True)))


def _moments(payoff: np.ndarray, late: np.ndarray, starts: np.ndarray) -> Moments:
    y = payoff.astype(np.float64)
    count = np.diff(np.append(starts, len(y)))
    mean = np.add.reduceat(y, starts) / count
    off = y - np.repeat(mean, count)
    square, size = off * off, np.abs(y)
    return Moments(
        count.astype(np.float64),
        mean,
        np.add.reduceat(square, starts),
        np.add.reduceat(square * off, starts),
        np.maximum.reduceat(size, starts),
        np.add.reduceat(size, starts),
        np.add.reduceat(late.astype(np.float64), starts),
    )


def merge(parts: Moments, n_points: int) -> Moments:
    """Moments of all payoffs of each point, from those of its segments in order."""
    rows = Moments(*(field.reshape(n_points, -1) for field in parts))
    count, mean, square, cube = (field[:, 0] for field in rows[:4])
    for k in range(1, rows.n.shape[1]):
        n, m, s, c = (field[:, k] for field in rows[:4])
        total, gap = count + n, m - mean
        pair = count * n / total
        cube = cube + c + gap**3 * pair * (count - n) / total
        cube = cube + 3.0 * gap * (count * s - n * square) / total
        square = square + s + gap**2 * pair
        mean, count = mean + gap * (n / total), total
    return Moments(
        count, mean, square, cube,
        rows.largest.max(axis=1), rows.size.sum(axis=1), rows.late.sum(axis=1),
    )  # fmt: skip
