"""Mean and variance of many payoffs, merged piece by piece in a fixed order."""

from typing import NamedTuple

import numpy as np

SEGMENT = 1024  # paths of one point that are summed together; part of what labels are


class Moments(NamedTuple):
    """For each segment of paths: count, mean, sum of squares about it, largest and total size.

    Segments never depend on how the work was cut into batches, so neither do the sums.
    """

    n: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    largest: np.ndarray
    size: np.ndarray
    late: np.ndarray


def segment_starts(n_points: int, n_paths: int) -> np.ndarray:
    """Number of the first path of each segment; points do not share segments."""
    within = np.arange(0, n_paths, SEGMENT)
    return (np.arange(n_points)[:, None] * n_paths + within[None]).reshape(-1)


def moments(payoff: np.ndarray, late: np.ndarray, starts: np.ndarray) -> Moments:
    """Moments of the segments that begin at the given positions of `payoff`."""
    y = payoff.astype(np.float64)
    count = np.diff(np.append(starts, len(y)))
    mean = np.add.reduceat(y, starts) / count
    square = np.add.reduceat((y - np.repeat(mean, count)) ** 2, starts)
    return Moments(
        count,
        mean,
        square,
        np.maximum.reduceat(np.abs(y), starts),
        np.add.reduceat(np.abs(y), starts),
        np.add.reduceat(late.astype(np.int64), starts),
    )


def merge(parts: Moments, n_points: int) -> Moments:
    """Moments of all paths of each point, from those of its segments in order."""
    rows = Moments(*(field.reshape(n_points, -1) for field in parts))
    count, mean, square = rows.n[:, 0], rows.mean[:, 0], rows.square[:, 0]
    for k in range(1, rows.n.shape[1]):
        total = count + rows.n[:, k]
        gap = rows.mean[:, k] - mean
        square = square + rows.square[:, k] + gap**2 * (count * rows.n[:, k] / total)
        mean = mean + gap * (rows.n[:, k] / total)
        count = total
    return Moments(
        count, mean, square, rows.largest.max(axis=1), rows.size.sum(axis=1), rows.late.sum(axis=1)
    )
