"""Labels of the mean exit time, many paths from one point and a few from each of many."""

import statistics
import time
from typing import Any

import numpy as np

import fkpinn as fk
from fkpinn.sampling import sobol_interior

from .._common import ready_labels, say, surroundings

_POINTS = 1000  # all over the disk
_ALPHAS = (1.0, 1.5)


def run(n_paths: int = 1_000_000, repeats: int = 5) -> dict[str, Any]:
    """Medians of whole calls of `estimate_labels` after the first.

    Args:
        n_paths: paths of each call.
        repeats: calls that are timed.
    """
    if n_paths < 2 * _POINTS or repeats < 1:
        raise ValueError(
            f"`--paths` must be at least {2 * _POINTS} and `--repeats` positive; got {n_paths}, "
            f"{repeats}."
        )
    records = []
    for alpha in _ALPHAS:
        # drift and diffusion are zero: the process only jumps
        problem = fk.fractional_poisson(fk.Ball([0.0, 0.0], 1.0), 1.0, alpha=alpha)
        everywhere = np.asarray(sobol_interior(problem, _POINTS), np.float32)
        for where, points in (("center", np.zeros((1, 2), np.float32)), ("disk", everywhere)):
            how = {"n_paths": n_paths // len(points), "seed": 0}
            seconds = [_seconds(problem, points, how) for _ in range(1 + repeats)][1:]
            rate = n_paths / statistics.median(seconds)
            records.append(
                {"alpha": alpha, "from": where, "paths": n_paths, "seconds": seconds, "rate": rate}
            )
            say(f"exits: alpha {alpha}, from the {where}: {rate / 1e6:.2f} M a second")
    return {"benchmark": "exits", "records": records, **surroundings()}


def _seconds(problem: fk.Problem, points: np.ndarray, how: dict[str, Any]) -> float:
    began = time.perf_counter()
    ready_labels(problem, points, **how)
    return time.perf_counter() - began
