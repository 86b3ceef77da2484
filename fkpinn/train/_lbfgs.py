"""L-BFGS that runs its budget."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from ._objective import AbstractOptimizer, Objective, Parameters, Report


class State(NamedTuple):
    """Optax's state, and how many steps in a row came to nothing."""

    inner: Any
    failures: Int[Array, ""]


class LBFGS(AbstractOptimizer):
    """Limited-memory BFGS with a zoom line search, in double precision.

    Where the line search finds nothing lower, the memory is forgotten and the next step goes
    down the gradient; only if that fails too is the end reached, and said.

    Args:
        memory: pairs of steps and gradients kept.
        searches: evaluations of a line search.
        tolerance: it stops where no entry of the gradient is larger.
    """

    reasons: ClassVar[tuple[str, ...]] = (
        "",
        "the gradient vanishes",
        "the line search finds nothing lower, not even down the gradient",
    )
    dtype: ClassVar[str | None] = "float64"

    memory: int = eqx.field(static=True, default=50)
    searches: int = eqx.field(static=True, default=25)
    tolerance: float = eqx.field(static=True, default=1e-12)

    def __check_init__(self):
        if self.memory < 1 or self.searches < 1:
            raise ValueError(
                f"`memory` and `searches` must be at least 1; got {self.memory}, {self.searches}."
            )

    def init(self, objective: Objective, parameters: Parameters) -> State:
        """Nothing remembered."""
        del objective
        return State(self._optax().init(parameters), jnp.zeros((), jnp.int32))

    def step(
        self, objective: Objective, parameters: Parameters, state: State
    ) -> tuple[Parameters, State, Report]:
        """Direction from the memory, length from the line search."""
        (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax relies on it
            update, inner = self._optax().update(
                slope, state.inner, parameters, value=loss, grad=slope, value_fn=objective
            )
        moved = parameters + jnp.asarray(update)
        # the search keeps the value at the point it found
        found = optax.tree.get(inner, "value")
        lower = jnp.isfinite(found) & (found < loss)
        failures = jnp.where(lower, 0, state.failures + 1)
        fresh = self._optax().init(parameters)
        inner = jax.tree.map(lambda a, b: jnp.where(lower, a, b), inner, fresh)
        flat = jnp.max(jnp.abs(slope)) <= self.tolerance
        why = jnp.where(flat, 1, jnp.where(failures > 1, 2, 0)).astype(jnp.int32)
        report = Report(loss, terms, why)
        return jnp.where(lower, moved, parameters), State(inner, failures), report

    def _optax(self) -> optax.GradientTransformationExtraArgs:
        search = optax.scale_by_zoom_linesearch(
            self.searches, initial_guess_strategy="one", max_learning_rate=None
        )
        return optax.lbfgs(memory_size=self.memory, linesearch=search)
