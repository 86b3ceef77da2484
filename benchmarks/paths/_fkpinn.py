"""fkpinn, as a user calls it."""

import time

import numpy as np

from .._common import met_labels
from ._timed import Timed


def time_fkpinn(points: np.ndarray, n_paths: int, dt: float, seed: int) -> Timed:
    """One run of the default scheme; the first at a size compiles."""
    began = time.perf_counter()
    labels = met_labels(points, n_paths=n_paths, dt=dt, scheme="default", seed=seed)
    seconds = time.perf_counter() - began
    mean, stderr = np.asarray(labels.value), np.asarray(labels.stderr)
    return Timed(seconds, int(labels.provenance["path_steps"]), mean, stderr)
