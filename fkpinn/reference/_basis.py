"""One-dimensional bases whose functions vanish at both ends of an interval."""

import abc

import numpy as np


class AbstractBasis(abc.ABC):
    """`size` functions on `[lower, upper]` that vanish at both ends."""

    def __init__(self, lower: float, upper: float, size: int):
        self.lower: float = lower
        self.upper: float = upper
        self.size: int = size

    @abc.abstractmethod
    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and derivatives, both `(n, size)`."""

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """`x` mapped to `[-1, 1]`."""
        return (2.0 * x - self.lower - self.upper) / (self.upper - self.lower)


class SineBasis(AbstractBasis):
    """Sines: the eigenfunctions of the Laplacian.

    Their coefficients decay only algebraically when the right-hand side does not vanish at the
    ends; kept to check the other basis.
    """

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalized sines."""
        width = self.upper - self.lower
        wave = np.pi * np.arange(1, self.size + 1) / width
        phase = np.outer(x - self.lower, wave)
        scale = np.sqrt(2.0 / width)
        return scale * np.sin(phase), scale * wave * np.cos(phase)


class LegendreBasis(AbstractBasis):
    """Differences of Legendre polynomials `P_k - P_(k+2)`, scaled to unit slope norm."""

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By the three-term recurrence; slopes are multiples of `P_(k+1)`."""
        t = self.scaled(x)
        p = np.empty((self.size + 2, len(t)))
        p[0], p[1] = 1.0, t
        for k in range(1, self.size + 1):
            p[k + 1] = ((2 * k + 1) * t * p[k] - k * p[k - 1]) / (k + 1)
        k = np.arange(self.size)[:, None]
        norm = np.sqrt(4.0 * k + 6.0)
        values = (p[:-2] - p[2:]) / norm
        slopes = -(2 * k + 3) * p[1:-1] / norm * 2.0 / (self.upper - self.lower)
        return values.T, slopes.T
