"""Labels at points of a problem's measure, beside its exact solution."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fkpinn._compute import precision
from fkpinn._streams import Stream
from fkpinn.labels import estimate_labels
from fkpinn.problem import catalogue
from fkpinn.reference import catalogue_reference
from fkpinn.sampling import sample_interior

from .._common import say, surroundings

PROBLEMS = ("ou-exit-10d", "ou-exit-50d", "two-body-100d", "two-body-1000d")
_LEVEL = 0.95


def run(
    problems: Sequence[str] = PROBLEMS, n_points: int = 1000, n_paths: int = 256
) -> dict[str, Any]:
    """How far labels of the default scheme and step are off on average, and what intervals hold.

    The relative bias is the mean of label minus solution over the mean of the solution; its
    standard error is that of the mean over the points.

    Args:
        problems: names from the catalogue, with an exact solution.
        n_points: points of the measure.
        n_paths: paths a label.
    """
    if n_points < 2 or n_paths < 2:
        raise ValueError(f"`--points` and `--paths` must be at least 2; got {n_points}, {n_paths}.")
    records = [_one(name, n_points, n_paths) for name in problems]
    return {"benchmark": "intervals", "level": _LEVEL, "records": records, **surroundings()}


def _one(name: str, n_points: int, n_paths: int) -> dict[str, Any]:
    problem = catalogue(name).problem
    stream = Stream(0) / "intervals" / name
    points = sample_interior(problem, n_points, dtype=jnp.float32, key=(stream / "points").key)
    say(f"intervals: {name}, {n_points} points x {n_paths} paths")
    labels = estimate_labels(problem, points, n_paths=n_paths, seed=(stream / "paths").seed)
    with precision("float64"):
        places = jnp.asarray(np.asarray(points, np.float64))
        truth = np.asarray(catalogue_reference(name).values(places), np.float64)
    off = np.asarray(labels.value, np.float64) - truth
    low, high = (np.asarray(limit, np.float64) for limit in labels.interval(_LEVEL))
    covered = float(np.mean((low <= truth) & (truth <= high)))
    bias, noise = np.mean(off) / np.mean(truth), np.std(off) / n_points**0.5 / abs(np.mean(truth))
    say(f"intervals: bias {bias:+.2%} (standard error {noise:.2%}), {covered:.1%} covered")
    return {
        "problem": name,
        "n_points": n_points,
        "n_paths": n_paths,
        "scheme": labels.provenance["scheme"],
        "dt": labels.provenance["dt"],
        "relative_bias": float(bias),
        "standard_error": float(noise),
        "covered": covered,
        "seconds": labels.provenance["seconds"],
    }
