"""Spectra, and what condition number they make."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import polar
from jaxtyping import Array, Float, PRNGKeyArray

from .._compute import current
from .._streams import fold
from ._curvature import Curvature
from ._lanczos import lanczos, spectral_density

_DENSE = 3000  # parameters up to which a whole Hessian is made
_LARGE = 1000  # rows from which on accelerators take another way to singular values


class Spectrum(NamedTuple):
    r"""Eigenvalues of a symmetric matrix, ascending, with the share of all that each stands for.

    What counts as zero: an eigenvalue below `zero`. For $J^\top J$ from the singular values of $J$
    that is $(\max(n, p)\,\epsilon)^2\lambda_{\max}$, what rounding leaves of a zero; for matrices
    that were multiplied out, and for Lanczos' method, $\max(n, p)\,\epsilon\,\lambda_{\max}$.
    Eigenvalues of $J^\top J$ beyond its $\min(n, p)$ singular values are zero and are left out.
    """

    values: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]
    dim: int
    zero: float
    exact: bool

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return float(self.values[-1])

    @property
    def smallest_positive(self) -> float:
        r"""$\lambda_{\min}^+$, [def:lambda-min-plus](../theory/equations.md)."""
        positive = self.values[self.values > self.zero]
        return float(positive[0]) if len(positive) else float("nan")

    @property
    def condition(self) -> float:
        """Largest over smallest positive."""
        return self.largest / self.smallest_positive

    @property
    def rank(self) -> float:
        """How many are positive; of a spectrum that is not exact, about."""
        return float(np.sum(self.weights[self.values > self.zero]) * self.dim)

    @property
    def negative(self) -> float:
        """How many are negative."""
        return float(np.sum(self.weights[self.values < -self.zero]) * self.dim)

    def to_dict(self) -> dict[str, Any]:
        """As a plain record."""
        return {
            "largest": self.largest,
            "smallest": float(self.values[0]),
            "smallest_positive": self.smallest_positive,
            "condition": self.condition,
            "rank": self.rank,
            "negative": self.negative,
            "dim": self.dim,
            "zero": self.zero,
            "exact": self.exact,
            "values": self.values.tolist(),
            "weights": self.weights.tolist(),
        }


def gauss_newton_spectrum(jacobian: Float[Array, "n p"]) -> Spectrum:
    r"""All eigenvalues of $J^\top J$ that may differ from zero, from the singular values of $J$.

    Squaring comes last, so that small eigenvalues keep twice the digits that $J^\top J$ would.

    Args:
        jacobian: $J$, in double precision.
    """
    values = np.sort(np.asarray(_singular_values(jacobian)) ** 2)
    n, p = jacobian.shape
    zero = (max(n, p) * np.finfo(np.float64).eps) ** 2 * float(values[-1])
    return Spectrum(values, np.full(len(values), 1.0 / p), p, zero, True)


def _singular_values(jacobian: Array) -> Array:
    n, p = jacobian.shape
    if 2 * min(n, p) < max(n, p):  # orthogonal steps first, down to a square
        jacobian = jnp.linalg.qr(jacobian.T if n < p else jacobian, mode="r")
    if current().on_cpu or min(n, p) < _LARGE:
        return jnp.linalg.svd(jacobian, compute_uv=False)
    return by_polar_factor(jacobian)


def by_polar_factor(matrix: Float[Array, "n m"]) -> Float[Array, " k"]:
    """Singular values as eigenvalues of the polar factor, in any order: products and factors only.

    As exact as the usual way, which takes minutes on accelerators where this takes seconds.

    Args:
        matrix: of any shape.
    """
    if matrix.shape[0] < matrix.shape[1]:
        matrix = matrix.T
    _, factor = polar(matrix, method="qdwh")
    return jnp.abs(jnp.linalg.eigvalsh(factor))


def matrix_spectrum(matrix: Float[Array, "p p"]) -> Spectrum:
    """All eigenvalues of a symmetric matrix.

    Args:
        matrix: in double precision.
    """
    values = np.linalg.eigvalsh(np.asarray(matrix))
    p = len(values)
    zero = p * np.finfo(np.float64).eps * float(np.max(np.abs(values)))
    return Spectrum(values, np.full(p, 1.0 / p), p, zero, True)


def hessian_spectrum(
    curvature: Curvature,
    *,
    dense: int = _DENSE,
    steps: int = 80,
    probes: int = 8,
    key: PRNGKeyArray,
) -> Spectrum:
    """Eigenvalues of the loss Hessian: all of a small one, else by stochastic Lanczos quadrature.

    Args:
        curvature: the loss at a network.
        dense: parameters up to which all are computed.
        steps: products for each random start.
        probes: random starts.
        key: of the starts.
    """
    p = len(curvature.parameters)
    if p <= dense:
        return matrix_spectrum(curvature.hessian())
    return _by_products(curvature.hessian_product, p, steps, probes, key)


def _by_products(product, p: int, steps: int, probes: int, key: PRNGKeyArray) -> Spectrum:
    ends_key, density_key = fold(key, "ends"), fold(key, "density")
    ends = lanczos(product, p, steps, key=ends_key).values
    values, weights = spectral_density(product, p, steps=steps, probes=probes, key=density_key)
    # the ends carry no share of their own, but they are the best that is known of them
    values = np.concatenate([ends[:1], values, ends[-1:]])
    weights = np.concatenate([[0.0], weights, [0.0]])
    order = np.argsort(values)
    zero = p * np.finfo(np.float64).eps * float(np.max(np.abs(values)))
    return Spectrum(values[order], weights[order], p, zero, False)


def decay_exponent(values: Float[np.ndarray, " k"], first: int = 1) -> tuple[float, float]:
    r"""$2\alpha$ of $\lambda_j \approx C j^{-2\alpha}$, fitted to the eigenvalues, and its error.

    Equation: [eq:poly-decay](../theory/equations.md). The fit is a straight line through the
    logarithms, from the `first` eigenvalue down to those that count.

    Args:
        values: positive eigenvalues in any order.
        first: the largest ones to leave out, plus 1.
    """
    lambdas = np.sort(np.asarray(values, float))[::-1]
    if len(lambdas) < first + 2 or lambdas[-1] <= 0:
        raise ValueError(
            f"`values` must be at least {first + 2} positive numbers; got {len(lambdas)}, the "
            f"smallest {lambdas[-1] if len(lambdas) else 'none'}."
        )
    j = np.arange(1, len(lambdas) + 1)[first - 1 :]
    # one point for each stretch of j that is equally long in the logarithm
    marks = np.unique(np.geomspace(first, len(lambdas), 24).round().astype(int))
    slope, error = fit_line(np.log(j[marks - first]), np.log(lambdas[marks - 1]))
    return -slope, error


def fit_line(x: Float[np.ndarray, " k"], y: Float[np.ndarray, " k"]) -> tuple[float, float]:
    """Slope of the least squares line, and its standard error.

    Args:
        x: where, at least three different ones.
        y: values there.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 3 or np.ptp(x) == 0:
        raise ValueError(f"`x` must contain at least three different values; got {x}.")
    across = x - x.mean()
    slope = float(across @ y / (across @ across))
    rest = y - y.mean() - slope * across
    error = float(np.sqrt(rest @ rest / (len(x) - 2) / (across @ across)))
    return slope, error
