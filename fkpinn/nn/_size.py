"""How large a solution is, and in a family for which values of the parameters."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._types import Scalar, SpaceTimePoint

_FITS = 50  # steps of Newton's, at most
_RIDGE = 1e-3  # of the fit, towards no growth
_FACTOR_STEPS = 8
_FACTOR_DEGREE = 4  # of its logarithm, in each parameter: it has many more values to go by


class Size(NamedTuple):
    r"""The typical size of a solution, a function of its parameters.

    $s(\theta) = s_0 \exp \sum_k (a_{k1} \tau_k + a_{k2} \tau_k^2 + \dots)$, with $\tau_k$ the
    parameter scaled to [-1, 1]. Solutions of a family may differ by orders of magnitude, and errors
    are measured relative to their sizes.

    Args:
        typical: $s_0$; the whole size if there are no parameters.
        growth: $(a_{k1}, a_{k2}, \dots)$ of each parameter, the same number for each.
        center: center of the range of each parameter.
        half_width: half-widths of these ranges.
    """

    typical: float
    growth: tuple[tuple[float, ...], ...] = ()
    center: tuple[float, ...] = ()
    half_width: tuple[float, ...] = ()

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """At one point, of which the first coordinates are the parameters."""
        found = jnp.asarray(self.typical, z.dtype)
        if not self.growth:
            return found
        center, half = (jnp.asarray(np.asarray(a), z.dtype) for a in (self.center, self.half_width))
        at = (z[: len(self.growth)] - center) / half
        return found * jnp.exp(jnp.sum(_horner(jnp.asarray(np.asarray(self.growth), z.dtype), at)))

    def at(self, points: np.ndarray) -> np.ndarray:
        """At many points, one per row."""
        if not self.growth:
            return np.full(len(points), self.typical)
        at = (np.asarray(points, float)[:, : len(self.growth)] - self.center) / self.half_width
        return self.typical * np.exp(np.sum(_horner(np.asarray(self.growth), at), axis=1))

    def times(self, other: "Size") -> "Size":
        """The product of two."""
        if not (self.growth and other.growth):
            whole = self if self.growth else other
            return whole._replace(typical=self.typical * other.typical)
        pairs = zip(self.growth, other.growth, strict=True)
        growth = [
            tuple(a + b for a, b in itertools.zip_longest(*both, fillvalue=0.0)) for both in pairs
        ]
        return self._replace(typical=self.typical * other.typical, growth=tuple(growth))


def _horner(growth: Any, at: Any) -> Any:
    """What each parameter adds to the logarithm."""
    found = 0.0 * at
    for column in range(growth.shape[1] - 1, -1, -1):
        found = at * (growth[:, column] + found)
    return found


def _powers(
    points: np.ndarray, center: Sequence[float], half_width: Sequence[float], degree: int = 2
) -> np.ndarray:
    """One, then powers of each scaled parameter: what the logarithm of a size is made of."""
    at = (np.asarray(points, float)[:, : len(center)] - center) / half_width
    all_powers = at[:, :, None] ** np.arange(1, degree + 1)
    return np.concatenate([np.ones((len(at), 1)), all_powers.reshape(len(at), -1)], axis=1)


def _as_size(given: np.ndarray, center: Sequence[float], half_width: Sequence[float]) -> Size:
    """The size whose logarithm has these coefficients, in the order of `_powers`."""
    if not center:
        return Size(float(np.exp(given[0])))
    rows = np.reshape(given[1:], (len(center), -1)).tolist()
    return Size(float(np.exp(given[0])), tuple(map(tuple, rows)), tuple(center), tuple(half_width))


def fit_size(
    points: np.ndarray, value: np.ndarray, center: Sequence[float], half_width: Sequence[float]
) -> Size:
    """The size of values at points, as a function of their first coordinates."""
    found = _log_size(_powers(points, center, half_width), value)
    return _as_size(found, center, half_width)


def _log_size(basis: np.ndarray, value: np.ndarray) -> np.ndarray:
    r"""Coefficients of the logarithm of the deviation that makes normal values most likely.

    The minimum of $\sum_i y_i^2 / s_i^2 + 2 \log s_i$, which is convex in the coefficients; no
    logarithm of a value is taken, so values next to walls do no harm.
    """
    square = np.asarray(value, float) ** 2
    found = np.zeros(basis.shape[1])
    mean = float(np.mean(square))
    if mean == 0:
        return found
    found[0] = 0.5 * np.log(mean)
    penalty = _RIDGE * np.diag([0.0, *np.ones(basis.shape[1] - 1)])

    def loss(c: np.ndarray) -> float:
        level = basis @ c
        with np.errstate(over="ignore"):
            return float(np.mean(square * np.exp(-2 * level) + 2 * level) + c @ penalty @ c)

    for _ in range(_FITS):
        weight = square * np.exp(-2 * basis @ found)
        slope = 2 * basis.T @ (1 - weight) / len(basis) + 2 * penalty @ found
        bend = 4 * (basis.T * weight) @ basis / len(basis) + 2 * penalty
        step = np.linalg.solve(bend + 1e-12 * np.eye(len(bend)), slope)
        length = 1.0
        while length > 1e-6 and not loss(found - length * step) <= loss(found):
            length /= 2
        found = found - length * step
        if np.max(np.abs(length * step)) < 1e-8:
            break
    return found


class Factor(NamedTuple):
    """A correction factor, a function of the parameters, and its significance.

    `share` is the mean relative change of the values; `sure` is the number of standard errors by
    which the factor differs from one.
    """

    size: Size
    share: float
    sure: float


def fit_factor(points: np.ndarray, own: np.ndarray, lack: np.ndarray, beside: Size) -> Factor:
    """The factor that minimizes the error of the values, by least squares.

    Args:
        points: one per row, parameters first.
        own: the values.
        lack: noisy estimates of the error of the values (solution minus value).
        beside: sizes relative to which errors are measured.
    """
    basis = _powers(points, beside.center, beside.half_width, _FACTOR_DEGREE)
    sizes = beside.at(points)
    own, wanted = own / sizes, (own + lack) / sizes
    found = np.zeros(basis.shape[1])
    if beside.growth:
        found = _log_size(basis, wanted) - _log_size(basis, own)
    for _ in range(_FACTOR_STEPS):  # of Gauss and Newton
        here = own * np.exp(basis @ found)
        found = found + np.linalg.lstsq(here[:, None] * basis, wanted - here)[0]
    here = own * np.exp(basis @ found)
    inverse = np.linalg.pinv(here[:, None] * basis)
    noise = inverse * (wanted - here)
    precision = np.linalg.pinv(noise @ noise.T)  # of the coefficients
    sure = float(np.sqrt(max(found @ precision @ found / len(found), 0.0)))
    share = float(np.sqrt(np.mean((here - own) ** 2) / (np.mean(own**2) or 1.0)))
    return Factor(_as_size(found, beside.center, beside.half_width), share, sure)
