"""How the terms of a loss are weighed against each other."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Scalar


class AbstractWeighting(eqx.Module):
    """Weights of named terms; their arrays are trained along with the network.

    `changing` says whether they depend on the step.
    """

    changing: ClassVar[bool] = True

    @abc.abstractmethod
    def weights(self, names: tuple[str, ...], step: Array) -> dict[str, Scalar]:
        """Factor of each term's mean square at a step of the phase."""

    @abc.abstractmethod
    def penalty(self) -> Scalar | float:
        """What is added to the weighted sum."""

    def total(self, values: dict[str, Scalar], step: Array) -> Scalar:
        """The weighted sum.

        Equation: [eq:fk-pinn-loss](../theory/equations.md).
        """
        weights = self.weights(tuple(values), step)
        dtype = next(iter(values.values())).dtype
        terms = [weights[name].astype(dtype) * value for name, value in values.items()]
        return jnp.sum(jnp.stack(terms)) + jnp.asarray(self.penalty(), dtype)


class Fixed(AbstractWeighting):
    """Constant weights; a term without one has weight 1.

    Args:
        given: weights by name.
    """

    changing: ClassVar[bool] = False

    given: dict[str, float] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        _check("given", self.given)

    def weights(self, names: tuple[str, ...], step: Array) -> dict[str, Scalar]:
        """As given."""
        del step
        return {name: jnp.asarray(self.given.get(name, 1.0), float) for name in names}

    def penalty(self) -> float:
        """Nothing."""
        return 0.0


class Annealed(AbstractWeighting):
    """Some weights are multiplied by `rate` at every step, down to `floor`.

    Large initial weights of labels steer the training to the right minimum; once they have faded,
    the noise of the labels does not limit the accuracy.

    Args:
        given: initial weights by name.
        fading: names of the terms that fade.
        rate: factor per step, below 1.
        floor: smallest factor.
        hold: steps before fading begins.
    """

    given: dict[str, float]
    fading: tuple[str, ...] = eqx.field(static=True, default=("labels",))
    rate: float = eqx.field(static=True, default=0.9)
    floor: float = eqx.field(static=True, default=0.0)
    hold: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        _check("given", self.given)
        if not 0 < self.rate <= 1:
            raise ValueError(f"`rate` must lie in (0, 1]; got {self.rate}.")

    def weights(self, names: tuple[str, ...], step: Array) -> dict[str, Scalar]:
        """Those that fade, faded."""
        faded = jnp.power(self.rate, jnp.maximum(step - self.hold, 0).astype(float))
        weights = {}
        for name in names:
            start = jnp.asarray(self.given.get(name, 1.0), float)
            least = jnp.minimum(self.floor, start)
            weights[name] = jnp.maximum(start * faded, least) if name in self.fading else start
        return weights

    def penalty(self) -> float:
        """Nothing."""
        return 0.0


class Uncertainty(AbstractWeighting):
    r"""Weights $e^{-s_j}/2$ with log-variances $s_j$ that are trained, clipped to an interval.

    Equation: [eq:kendall-loss](../theory/equations.md).

    Args:
        names: names of the terms.
        limit: log-variances stay within $[-limit, limit]$.
    """

    changing: ClassVar[bool] = False

    log_variances: dict[str, Float[Array, ""]]
    limit: float = eqx.field(static=True)

    def __init__(self, names: tuple[str, ...], *, limit: float = 5.0, dtype: Any = None):
        if not limit > 0:
            raise ValueError(f"`limit` must be positive; got {limit}.")
        self.log_variances = {name: jnp.zeros((), dtype or float) for name in names}
        self.limit = float(limit)

    def weights(self, names: tuple[str, ...], step: Array) -> dict[str, Scalar]:
        """From the clipped log-variances."""
        del step
        return {name: 0.5 * jnp.exp(-self._clipped(name)) for name in names}

    def penalty(self) -> Scalar:
        r"""$\sum_j \log\sigma_j$."""
        return 0.5 * jnp.sum(jnp.stack([self._clipped(name) for name in self.log_variances]))

    def _clipped(self, name: str) -> Scalar:
        return jnp.clip(self.log_variances[name], -self.limit, self.limit)


def _check(argument: str, weights: dict[str, float]) -> None:
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ValueError(
                f"`{argument}[{name!r}]` must be a finite number of at least 0; got {weight}."
            )
