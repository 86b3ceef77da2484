r"""What labels do to the smallest curvature: Theorem thm:cond-number, measured at a network."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._streams import Stream
from ._curvature import Curvature
from ._lanczos import lanczos
from ._spectrum import gauss_newton_spectrum

_HALVINGS = 20  # of the step of gradient descent, at most


class Coverage(NamedTuple):
    r"""The quantities of [assump:fk-coverage](../theory/equations.md), and the bound that follows.

    `mu_data` is $\lambda_{\min}^+(G_{\mathrm{data}})$, `mu_perp` the smallest positive curvature of
    the equation and its boundary data in directions that labels do not determine, `rho` the
    coupling of the two kinds of directions. For each label weight in `weights`, `bound` is
    $\gamma(\lambda)$ and `measured` is $\lambda_{\min}^+(G_\lambda)$; `largest` is
    $\lambda_{\max}(G_\lambda)$ and `zero` the limit below which a curvature counts as zero, see
    `Spectrum`.
    """

    mu_data: float
    mu_perp: float
    rho: float
    without: float  # smallest positive curvature without labels
    weights: list[float]
    bound: list[float]
    measured: list[float]
    largest: list[float]
    zero: list[float]

    @property
    def least_weight(self) -> float:
        r"""The smallest $\lambda$ for which $\gamma(\lambda) > 0$."""
        return self.rho**2 / (self.mu_data * self.mu_perp)

    def to_dict(self) -> dict[str, Any]:
        """As a plain record."""
        return {**self._asdict(), "least_weight": self.least_weight}


def bound(weight: float, mu_data: float, mu_perp: float, rho: float) -> float:
    r"""$\gamma(\lambda)$, a lower bound of $\lambda_{\min}^+(G_\lambda)$.

    Equation: [eq:lambda-min-emp](../theory/equations.md).

    Args:
        weight: $\lambda$, of the labels.
        mu_data: smallest positive curvature of the labels.
        mu_perp: smallest positive curvature of the rest in directions that labels do not determine.
        rho: coupling of both kinds of directions.
    """
    if not weight >= 0 or min(mu_data, mu_perp, rho) < 0:
        raise ValueError(
            f"`weight`, `mu_data`, `mu_perp` and `rho` must not be negative; got {weight}, "
            f"{mu_data}, {mu_perp}, {rho}."
        )
    a, b = weight * mu_data, mu_perp
    # the smaller root of t² - (a + b) t + ab - rho², without the cancellation
    return 2 * (a * b - rho**2) / ((a + b) + math.hypot(a - b, 2 * rho)) if a + b + rho else 0.0


def measure_coverage(
    equation: Float[Array, "n p"], labels: Float[Array, "k p"], weights: Sequence[float]
) -> Coverage:
    r"""The quantities of the assumption from the Jacobians of the two parts of the loss.

    No matrix of parameters by parameters is made: the range of $G_{\mathrm{data}}$ is spanned by
    right singular vectors of the labels' Jacobian.

    Args:
        equation: of residual and boundary terms.
        labels: of the label term, with weight 1.
        weights: values of $\lambda$.
    """
    if equation.shape[1] != labels.shape[1]:
        raise ValueError(
            f"`equation` and `labels` must have a column for each parameter; got "
            f"{equation.shape[1]} and {labels.shape[1]}."
        )
    p = labels.shape[1]
    _, s, right = jnp.linalg.svd(labels, full_matrices=False)
    size = float(s[0])
    seen = right[np.asarray(s) > max(labels.shape) * np.finfo(np.float64).eps * size]
    if size == 0:
        raise ValueError("`labels` is zero: no parameter changes the network at the labels.")
    mu_data = float(s[len(seen) - 1]) ** 2
    inside = equation @ seen.T
    outside = equation - inside @ seen
    outside = outside - (outside @ seen.T) @ seen  # rounding leaves a little the first time
    rho = float(jnp.linalg.norm(inside.T @ outside, ord=2))
    mu_perp = gauss_newton_spectrum(outside).smallest_positive if len(seen) < p else math.inf
    stacked = [jnp.concatenate([equation, math.sqrt(w) * labels]) for w in weights]
    spectra = [gauss_newton_spectrum(jacobian) for jacobian in stacked]
    return Coverage(
        mu_data=mu_data,
        mu_perp=mu_perp,
        rho=rho,
        without=gauss_newton_spectrum(equation).smallest_positive,
        weights=[float(w) for w in weights],
        bound=[bound(float(w), mu_data, mu_perp, rho) for w in weights],
        measured=[spectrum.smallest_positive for spectrum in spectra],
        largest=[spectrum.largest for spectrum in spectra],
        zero=[spectrum.zero for spectrum in spectra],
    )


def coverage(curvature: Curvature, weights: Sequence[float]) -> Coverage:
    r"""Theorem [thm:cond-number](../theory/equations.md), measured at a network.

    Args:
        curvature: of a loss with labels.
        weights: factors of the labels' mean square.
    """
    names = tuple(curvature.objective.loss.terms)
    if "labels" not in names:
        raise ValueError(f"`curvature` must be of a loss with labels; it has the terms {names}.")
    with precision("float64"):
        rest = curvature.jacobian([name for name in names if name != "labels"])
        own = curvature.weights.get("labels", 1.0)
        return measure_coverage(rest, curvature.jacobian(["labels"]) / math.sqrt(own), weights)


class Descent(NamedTuple):
    """Gradient descent compared with its theory.

    `condition` is the smoothness divided by the smallest eigenvalue of the tangent kernel at the
    start, `predicted` the number of steps that suffice by [eq:kappa-def](../theory/equations.md) to
    reduce the loss by `factor`, `measured` the number of steps needed; None if it was not reached.
    """

    condition: float
    pl_constant: float
    step_size: float
    factor: float
    predicted: float
    measured: int | None
    losses: list[float]


def compare_descent(curvature: Curvature, *, steps: int, factor: float = 10.0) -> Descent:
    r"""Run gradient descent with a step size that always reduces the loss, and compare with theory.

    By [lem:gn-to-pl](../theory/equations.md) the Polyak-Łojasiewicz constant is
    $\mu = \lambda_{\min}(JJ^\top)$, and a step of length $1/\beta$ lowers the loss by the factor
    $1 - 1/\kappa$ with $\kappa = \beta/\mu$, so that $\kappa\log(\text{factor})$ steps suffice.
    That needs a loss whose minimum is zero: more parameters than points, and labels that agree.
    Here $\beta$ is the Hessian's largest eigenvalue at the start, doubled until the loss falls at
    every step.

    Args:
        curvature: the loss, and where to start.
        steps: maximum number of steps.
        factor: by which the loss is to be reduced.
    """
    if not factor > 1:
        raise ValueError(f"`factor` must be larger than 1; got {factor}.")
    with precision("float64"):
        jacobian = curvature.jacobian()
        n, p = jacobian.shape
        s = np.asarray(jnp.linalg.svd(jacobian, compute_uv=False))
        mu = float(s[-1]) ** 2 if n <= p else 0.0
        largest = _largest_of_hessian(curvature, float(s[0]) ** 2)
        for _ in range(_HALVINGS):
            losses = np.asarray(_descend(curvature, jnp.asarray(1.0 / largest), steps))
            if np.all(np.diff(losses) <= 1e-12 * losses[:-1]):
                break
            largest *= 2  # the Hessian grows on the way
        else:
            raise RuntimeError("Gradient descent does not lower the loss, however short its steps.")
    reached = np.flatnonzero(losses <= losses[0] / factor)
    return Descent(
        condition=largest / mu if mu else math.inf,
        pl_constant=mu,
        step_size=1.0 / largest,
        factor=factor,
        predicted=largest / mu * math.log(factor) if mu else math.inf,
        measured=int(reached[0]) if len(reached) else None,
        losses=losses.tolist(),
    )


def _largest_of_hessian(curvature: Curvature, least: float) -> float:
    """Smoothness at the start: the Hessian's largest eigenvalue, or that of its first part."""
    key = Stream(0).key
    found = lanczos(curvature.hessian_product, len(curvature.parameters), 30, key=key)
    return max(float(np.max(np.abs(found.values))), least)


@eqx.filter_jit
def _descend(curvature: Curvature, rate: Array, steps: int) -> Array:
    """Losses before every step, and after the last."""
    half = lambda parameters: 0.5 * curvature.objective(parameters)

    def step(parameters, _):
        loss, slope = jax.value_and_grad(half)(parameters)
        return parameters - rate * slope, loss

    last, losses = jax.lax.scan(step, curvature.parameters, None, length=steps)
    return jnp.append(losses, half(last))
