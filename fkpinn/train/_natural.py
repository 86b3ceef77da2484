"""Natural gradient: damped Gauss-Newton steps with line search and momentum."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

from .._compute import current
from .._types import Scalar
from ._gram import gram, kernel
from ._objective import AbstractOptimizer, Objective, Parameters, Report


class State(NamedTuple):
    """Damping relative to the mean curvature, the last step, and how far it went."""

    damping: Scalar
    momentum: Float[Array, " p"]
    length: Scalar


class NaturalGradient(AbstractOptimizer):
    r"""Energy natural gradient descent (ENGD), with the momentum of SPRING.

    A step solves $\min_\delta |J\delta - r|^2 + \mu|\delta - \beta\delta_{old}|^2$ for the weighted
    residuals $r$ and their Jacobian $J$: with $J^\top J$ if there are fewer parameters than rows,
    otherwise with the kernel $JJ^\top$. A backtracking line search then halves the step until the
    loss decreases. The damping decreases while full steps are taken and the model predicts the
    decrease of the loss, and increases when steps are shortened.

    Müller and Zeinhofer (ICML 2023); Goldshlager, Abrahamsen and Lin (J. Comput. Phys. 2024);
    Guzmán-Cordero et al. (2025).

    Args:
        damping: $\mu$ at the start, in units of the mean diagonal of $JJ^\top$.
        least: smallest damping.
        momentum: $\beta$; 0 is plain ENGD.
        halvings: maximum number of halvings of a step before it is rejected and the damping
            increased.
        settle: step of the phase after which the `k`-th step is scaled by `1/k`. With new points in
            every step, this averages over the random draws of points.
    """

    reasons: ClassVar[tuple[str, ...]] = ("", "no step reduces the loss any more")
    dtype: ClassVar[str | None] = "float64"

    damping: float = eqx.field(static=True, default=1e-3)
    least: float = eqx.field(static=True, default=1e-13)
    most: float = eqx.field(static=True, default=1e3)
    momentum: float = eqx.field(static=True, default=0.0)
    halvings: int = eqx.field(static=True, default=8)
    settle: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if not 0 < self.least <= self.damping <= self.most:
            raise ValueError(
                f"`damping` must lie between `least` and `most`; got {self.damping}, {self.least}, "
                f"{self.most}."
            )
        if not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must lie in [0, 1); got {self.momentum}.")

    def init(self, objective: Objective, parameters: Parameters) -> State:
        """No momentum yet."""
        del objective
        one = jnp.ones((), parameters.dtype)
        return State(self.damping * one, jnp.zeros_like(parameters), one)

    def step(
        self, objective: Objective, parameters: Parameters, state: State
    ) -> tuple[Parameters, State, Report]:
        """Linearize, solve, search."""
        before, terms = objective.terms(parameters)
        drift = self.momentum * state.momentum
        solve = _by_rows if current().mesh is None else _by_sums
        delta, foretold = solve(objective, parameters, drift, state.damping)
        length, after = self._search(objective, parameters, delta, before)
        taken = length > 0
        gain = (before - after) / jnp.maximum(foretold, jnp.finfo(before.dtype).tiny)
        good = (length == 1.0) & (gain > 0.5)
        bad = (length < 0.25) | (gain < 0.1)
        factor = jnp.where(good, 1 / 3, jnp.where(bad, 4.0, 1.0))
        damping = jnp.clip(state.damping * factor, self.least, self.most)
        if self.settle is not None:
            length = length / jnp.maximum(objective.step - self.settle + 1, 1).astype(length.dtype)
        delta = jnp.where(taken, length * delta, 0.0)  # it is NaN where the matrix had no factor
        stuck = ~taken & (state.damping >= self.most)
        state = State(damping, delta, length)
        return parameters - delta, state, Report(before, terms, stuck.astype(jnp.int32))

    def _search(self, objective: Objective, parameters, delta, before) -> tuple[Scalar, Scalar]:
        """The first of 1, 1/2, 1/4, ... that lowers the loss, and the loss there; 0 if none."""

        def worse(carry):
            _, after, count = carry
            return ~(after < before) & (count < self.halvings)

        def halve(carry):
            length, _, count = carry
            length = 0.5 * length
            return length, objective(parameters - length * delta), count + 1

        one = jnp.ones((), before.dtype)
        start = one, objective(parameters - delta), jnp.zeros((), jnp.int32)
        length, after, _ = jax.lax.while_loop(worse, halve, start)
        lower = after < before
        return jnp.where(lower, length, 0.0), jnp.where(lower, after, before)


def _by_rows(
    objective: Objective, parameters: Parameters, drift: Parameters, damping: Scalar
) -> tuple[Parameters, Scalar]:
    """The step, and how far the linear model says that the loss falls."""
    r, jacobian = objective.linearized(parameters)
    n, p = jacobian.shape
    small = kernel(objective, parameters, jacobian) if n < p else gram(jacobian.T)
    mean = jnp.trace(small) / len(small)
    delta = drift + _solve(jacobian, small, r - jacobian @ drift, damping * mean)
    return delta, jnp.sum(r**2) - jnp.sum((r - jacobian @ delta) ** 2)


def _by_sums(
    objective: Objective, parameters: Parameters, drift: Parameters, damping: Scalar
) -> tuple[Parameters, Scalar]:
    """The same where rows are spread over devices: each adds its part of the normal equations.

    What travels in a step is one matrix of the size of the parameters, however many rows there are.
    """
    normal = objective.normal(parameters)
    size = len(parameters)
    mean = jnp.trace(normal.matrix) / jnp.minimum(normal.n_rows, size)
    damped = normal.matrix + damping * mean * jnp.eye(size, dtype=normal.matrix.dtype)
    factor = jsl.cho_factor(damped, lower=True)
    delta = drift + jsl.cho_solve(factor, normal.slope - normal.matrix @ drift)
    return delta, 2.0 * jnp.dot(delta, normal.slope) - jnp.dot(delta, normal.matrix @ delta)


def _solve(
    jacobian: Float[Array, "n p"], small: Float[Array, "m m"], r: Float[Array, " n"], mu: Scalar
) -> Array:
    """The least squares step, damped, through the smaller one of the two matrices, `small`."""
    damped = small + mu * jnp.eye(len(small), dtype=small.dtype)
    factor = jsl.cho_factor(damped, lower=True)
    if jacobian.shape[0] < jacobian.shape[1]:
        return jacobian.T @ jsl.cho_solve(factor, r)
    return jsl.cho_solve(factor, jacobian.T @ r)
