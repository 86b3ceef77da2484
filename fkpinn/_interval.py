"""Confidence limits of means whose samples may be skewed."""

from statistics import NormalDist

import numpy as np


def skewed_limits(value, stderr, tilt, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper confidence limits of a mean.

    The plain interval misses too often on the side of the long tail. Hall's transformation (J. R.
    Statist. Soc. B 54, 1992) moves its limits by the sample's skewness, which is itself uncertain:
    of the two intervals each limit is the outer one.

    Args:
        value: the mean.
        stderr: its standard error.
        tilt: skewness of the samples over the root of their number.
        level: how often the limits should hold, between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level!r}.")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    value, stderr, tilt = (np.asarray(a, float) for a in (value, stderr, tilt))
    below, above = np.maximum(_bend(z, tilt), z), np.minimum(_bend(-z, tilt), -z)
    return np.asarray(value - stderr * below), np.asarray(value - stderr * above)


def _bend(z: float, tilt: np.ndarray) -> np.ndarray:
    """Inverse of Hall's transformation at `z`; `z` itself where there is no skewness."""
    small = np.abs(tilt) < 1e-6
    safe = np.where(small, 1.0, tilt)
    return np.where(small, z, 3.0 * (np.cbrt(1.0 + safe * (z - safe / 6.0)) - 1.0) / safe)
