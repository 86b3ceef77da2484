"""Adam, with the paper's learning rates."""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from ._objective import AbstractOptimizer, Objective, Parameters, Report, not_stopped


class Adam(AbstractOptimizer):
    r"""Adam with a learning rate that falls stepwise to `fall` times its start.

    After every `decay_every` of `steps` steps it is multiplied by
    $\exp(\ln(fall)/(steps/decay\_every))$.

    Args:
        steps: steps over which the rate falls.
        learning_rate: initial learning rate.
        fall: last learning rate divided by the first.
        decay_every: steps between two falls.
    """

    reasons: ClassVar[tuple[str, ...]] = ("",)
    dtype: ClassVar[str | None] = None

    steps: int = eqx.field(static=True)
    learning_rate: float = eqx.field(static=True, default=1e-3)
    fall: float = eqx.field(static=True, default=1e-3)
    decay_every: int = eqx.field(static=True, default=1000)

    def __check_init__(self) -> None:
        if self.steps < 1 or self.decay_every < 1:
            raise ValueError(
                f"`steps` and `decay_every` must be at least 1; got {self.steps}, "
                f"{self.decay_every}."
            )
        if not (self.learning_rate > 0 and 0 < self.fall <= 1):
            raise ValueError(
                f"`learning_rate` must be positive and `fall` in (0, 1]; got {self.learning_rate}, "
                f"{self.fall}."
            )

    def init(self, objective: Objective, parameters: Parameters) -> Any:
        """Moments of zero."""
        del objective
        return self._optax().init(parameters)

    def step(
        self, objective: Objective, parameters: Parameters, state: Any
    ) -> tuple[Parameters, Any, Report]:
        """One step along the scaled gradient."""
        (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax relies on it
            update, state = self._optax().update(slope, state)
        return parameters + jnp.asarray(update), state, Report(loss, terms, not_stopped())

    def _optax(self) -> optax.GradientTransformation:
        falls = max(self.steps // self.decay_every, 1)
        factor = math.exp(math.log(self.fall) / falls)
        rates = optax.exponential_decay(
            self.learning_rate, self.decay_every, factor, staircase=True
        )
        return optax.adam(rates)
