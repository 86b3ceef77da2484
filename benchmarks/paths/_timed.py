"""The result of one timed run, whoever made it."""

from typing import NamedTuple

import numpy as np


class Timed(NamedTuple):
    """Seconds and path-steps of one run, with mean exit times and their errors by point."""

    seconds: float
    path_steps: int
    mean: np.ndarray
    stderr: np.ndarray


def timed(seconds: float, exit_times: np.ndarray, path_steps: int) -> Timed:
    """From exit times, one row a point."""
    mean = exit_times.mean(axis=1)
    stderr = exit_times.std(axis=1, ddof=1) / exit_times.shape[1] ** 0.5
    return Timed(seconds, path_steps, mean, stderr)
