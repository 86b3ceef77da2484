"""Plain gradient descent."""

from typing import Any, ClassVar

import equinox as eqx
import jax

from ._objective import AbstractOptimizer, Objective, Parameters, Report, not_stopped


class GradientDescent(AbstractOptimizer):
    """Steps of fixed length along the gradient, as in the paper's convergence theory.

    Args:
        learning_rate: factor of the gradient.
    """

    reasons: ClassVar[tuple[str, ...]] = ("",)
    dtype: ClassVar[str | None] = None

    learning_rate: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self) -> None:
        if not self.learning_rate > 0:
            raise ValueError(f"`learning_rate` must be positive; got {self.learning_rate}.")

    def init(self, objective: Objective, parameters: Parameters) -> tuple[()]:
        """It has no memory."""
        del objective, parameters
        return ()

    def step(
        self, objective: Objective, parameters: Parameters, state: Any
    ) -> tuple[Parameters, Any, Report]:
        """One step down the gradient."""
        (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(parameters)
        report = Report(loss, terms, not_stopped())
        return parameters - self.learning_rate * slope, state, report
