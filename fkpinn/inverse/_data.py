"""Measurements of a solution."""

from typing import Any, NamedTuple

import numpy as np


class Observations(NamedTuple):
    """Noisy values of a solution, or of averages of it.

    Args:
        points: the points of measurement, one per row (with the time first if the problem has one),
            without parameters.
        values: the measured values.
        noise: standard deviation of each value, or one for all.
        weights: for measured averages, one row per value: the mean of the `i`-th value is the sum
            of `weights[i]` times the solution at all points. Without weights there is one value per
            point.
    """

    points: Any
    values: Any
    noise: Any
    weights: Any = None

    @classmethod
    def of(cls, points: Any, values: Any, noise: Any, weights: Any = None) -> "Observations":
        """From arrays or lists, which are checked.

        Args:
            points: as above; one number per row may be given as a plain list.
            values: as above.
            noise: as above, positive.
            weights: as above.
        """
        points = np.asarray(points, float)
        points = points[:, None] if points.ndim == 1 else points
        values = np.atleast_1d(np.asarray(values, float))
        weights = None if weights is None else np.atleast_2d(np.asarray(weights, float))
        n = len(points) if weights is None else len(weights)
        if points.ndim != 2 or values.shape != (n,):
            raise ValueError(
                f"`values` must have {n} numbers, one for each of the "
                f"{'points' if weights is None else 'rows of weights'}; got shape {values.shape}."
            )
        if weights is not None and weights.shape[1] != len(points):
            raise ValueError(
                f"`weights` must have {len(points)} columns, one per point; got shape "
                f"{weights.shape}."
            )
        noise = np.broadcast_to(np.asarray(noise, float), (n,))
        if not np.all(np.isfinite(points)) or not np.all(np.isfinite(values)):
            raise ValueError("`points` and `values` must be finite.")
        if not np.all((noise > 0) & np.isfinite(noise)):
            raise ValueError(f"`noise` must be positive; got {float(np.min(noise)):g}.")
        return cls(points, values, noise, weights)

    @classmethod
    def of_samples(cls, points: Any, samples: Any) -> "Observations":
        """From repeated measurements whose mean is the solution, such as exit times.

        Args:
            points: one place per row.
            samples: for each point its measurements, at least eight.
        """
        rows = [np.asarray(row, float) for row in samples]
        if any(row.ndim != 1 or len(row) < _FEWEST for row in rows):
            raise ValueError(f"`samples` must have {_FEWEST} numbers or more for each point.")
        means = [float(np.mean(row)) for row in rows]
        return cls.of(points, means, [float(np.std(row, ddof=1)) / len(row) ** 0.5 for row in rows])

    def observed(self, values: Any) -> Any:
        """What would be measured without noise, of the solution at all points."""
        return values if self.weights is None else self.weights @ values

    def noise_of(self, errors: Any) -> Any:
        """Standard deviations of what is measured, from independent ones at the points."""
        return errors if self.weights is None else (self.weights**2 @ errors**2) ** 0.5


_FEWEST = 8  # samples that tell their spread
