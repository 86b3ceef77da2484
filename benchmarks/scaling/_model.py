"""The model: seconds as sums of a few products of sizes, each with a coefficient to be fitted."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls


class Sizes(NamedTuple):
    """Of a training: rows of the loss, parameters of the network, dimensions, terms of the loss."""

    rows: int
    parameters: int
    dim: int
    terms: int = 2


class Costs(NamedTuple):
    """Seconds of one device for a unit of each kind of work.

    Args:
        derivative: of one row by one parameter and one direction.
        product: of two entries of derivatives, in the matrix of a step.
        solution: of a cube of that matrix's size, for its factors.
        step: of anything else in a step.
        coordinate: of a step of one coordinate of a path.
        along: of a parameter and a direction of a network, where a path of a certificate steps.
        visit: of anything else in such a step.
    """

    derivative: float
    product: float
    solution: float
    step: float
    coordinate: float
    along: float
    visit: float

    def train(self, sizes: Sizes, devices: int = 1, bandwidth: float = np.inf) -> float:
        """Seconds of a step of the natural gradient.

        Several devices add up matrices of all parameters; one takes the smaller of the two kinds.

        Args:
            sizes: of the training.
            devices: that share its rows.
            bandwidth: bytes a second at which a device sends.
        """
        n, p = sizes.rows, sizes.parameters
        small = min(n, p) if devices == 1 else p
        shared = self.derivative * n * p * (sizes.dim + 2) + self.product * n * p * small
        sent = 0.0 if devices == 1 else 2.0 * sent_bytes(sizes) * (devices - 1) / devices
        return shared / devices + self.solution * small**3 + self.step + sent / bandwidth

    def labels(self, path_steps: float, dim: int, devices: int = 1) -> float:
        """Seconds of paths that take so many steps in all."""
        return self.coordinate * path_steps * dim / devices

    def certificate(self, path_steps: float, sizes: Sizes, devices: int = 1) -> float:
        """Seconds of paths along which the residual of a network is added up."""
        network = self.along * sizes.parameters * (sizes.dim + 2)
        return (self.coordinate * sizes.dim + network + self.visit) * path_steps / devices


def sent_bytes(sizes: Sizes) -> int:
    """What a device adds to the sums of a step, however many rows there are."""
    p = sizes.parameters
    return 8 * (p * p + p) * sizes.terms


def fitted(design: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[np.ndarray, Any]:
    """Coefficients that are not negative, by least squares of relative errors, and these errors."""
    rows, times = np.asarray(design, float), np.asarray(seconds, float)
    scale = np.maximum(np.max(rows, axis=0), 1e-300)
    found, _ = nnls(rows / scale / times[:, None], np.ones(len(times)))
    found = found / scale
    return found, rows @ found / times - 1.0
