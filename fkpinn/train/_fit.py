"""The training loop."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .._progress import AbstractProgress, SilentProgress
from ..loss import Loss

_BLOCK = 50  # steps between two reports


class Fit(NamedTuple):
    """A trained network, and the loss and its terms at every report."""

    network: Any
    history: list[dict[str, float]]
    compile_seconds: float


def fit(
    network: Any,
    loss: Loss,
    *,
    optimizer: optax.GradientTransformation,
    steps: int,
    progress: AbstractProgress | None = None,
) -> Fit:
    """Minimize the loss; stop with a message if it is no longer a number.

    Args:
        network: an equinox module, called with one point.
        loss: terms and weights.
        optimizer: an optax optimizer.
        steps: how many steps.
        progress: told about losses as the run goes on.
    """
    if steps < 1:
        raise ValueError(f"`steps` must be at least 1; got {steps}.")
    progress = progress or SilentProgress()
    parameters, static = eqx.partition(network, eqx.is_inexact_array)

    @eqx.filter_jit
    def block(parameters, state, loss, count):
        def one(_, carry):
            parameters, state, _ = carry
            value, gradient = jax.value_and_grad(objective, has_aux=True)(parameters)
            with jax.numpy_dtype_promotion("standard"):  # optax relies on it
                updates, state = optimizer.update(gradient, state, parameters)
            return optax.apply_updates(parameters, updates), state, value

        def objective(p):
            return loss(eqx.combine(p, static))

        start = jax.tree.map(jnp.zeros_like, jax.eval_shape(objective, parameters))
        return jax.lax.fori_loop(0, count, one, (parameters, state, start))

    state, history, done = optimizer.init(parameters), [], 0
    progress.start("training", steps)
    begin = time.perf_counter()
    block(parameters, state, loss, jnp.asarray(0))  # compiles; no step is taken
    compile_seconds = time.perf_counter() - begin
    while done < steps:
        count = min(_BLOCK, steps - done)
        parameters, state, (total, terms) = block(parameters, state, loss, jnp.asarray(count))
        done += count
        record = {"step": float(done), "loss": float(total)}
        record |= {name: float(value) for name, value in terms.items()}
        if not jnp.isfinite(total):
            raise FloatingPointError(
                f"The loss is {float(total)} at step {done}. Try a smaller learning rate, or "
                f"float64; the last finite losses were {history[-1:] or 'none'}."
            )
        history.append(record)
        progress.update(done, loss=float(total))
    return Fit(eqx.combine(parameters, static), history, compile_seconds)
