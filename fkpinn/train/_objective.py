"""A loss as a function of one vector of parameters."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._compute import current
from .._field import AbstractField, Layers
from .._types import Scalar
from ..loss import AbstractWeighting, Loss, entries_of_a_row, summed_over_devices

Parameters = Float[Array, " p"]


class Normal(NamedTuple):
    r"""$J^\top J$, $J^\top r$, and the number of rows."""

    matrix: Float[Array, "p p"]
    slope: Float[Array, " p"]
    n_rows: Scalar


class Objective(eqx.Module):
    """What an optimizer minimizes: network and weighting rebuilt from a vector, and the loss.

    `step` counts within the phase, for weights that change as it goes on.
    """

    loss: Loss
    step: Int[Array, ""]
    static: Any
    unravel: Callable[[Array], Any] = eqx.field(static=True)

    @property
    def changing(self) -> bool:
        """Whether it is another function at the next step."""
        return self.static[1].changing

    def network(self, parameters: Parameters) -> Any:
        """The network with these parameters."""
        return self._rebuilt(parameters)[0]

    def terms(self, parameters: Parameters) -> tuple[Scalar, dict[str, Scalar]]:
        """The weighted sum, and the mean square of each term."""
        network, weighting = self._rebuilt(parameters)
        values = self.loss.values(network)
        return weighting.total(values, self.step), values

    def __call__(self, parameters: Parameters) -> Scalar:
        """The weighted sum."""
        return self.terms(parameters)[0]

    def defects(self, parameters: Parameters) -> Float[Array, " n"]:
        """Weighted violations of all terms: their squares add up to the loss."""
        network, weighting = self._rebuilt(parameters)
        parts = [
            factor * term.defects(network)
            for term, factor in self._factors(weighting, parameters.dtype)
        ]
        return jnp.concatenate(parts)

    def linearized(self, parameters: Parameters) -> tuple[Float[Array, " n"], Float[Array, "n p"]]:
        """Weighted violations and their derivatives, one row each."""
        _, weighting = self._rebuilt(parameters)
        found = []
        for term, factor in self._factors(weighting, parameters.dtype):

            def at(p, row, term=term, factor=factor):
                return factor * term.at(self._rebuilt(p)[0], row)

            found.append(_in_pieces(at, parameters, term.rows()))
        return tuple(jnp.concatenate(parts) for parts in zip(*found, strict=True))  # pyright: ignore[reportReturnType]

    def layers(self, parameters: Parameters) -> list[tuple[int, Layers | None]]:
        """The number of rows of each term; and where they are values of the network, its layers.

        A row is then the sum of the outer products of these, with what the term multiplies it by.
        """
        network, weighting = self._rebuilt(parameters)
        found = []
        for term, factor in self._factors(weighting, parameters.dtype):
            rows, points = term.rows(), term.values_at()
            own = None if points is None else _layers(network, points)
            if own is not None:
                slope = jax.grad(lambda value, row, term=term: term.at(lambda _: value, row))
                times = factor * jax.vmap(slope)(jax.vmap(network)(points), rows)
                own = [(a, times[:, None] * b) for a, b in own]
            found.append((jax.tree.leaves(rows)[0].shape[0], own))
        return found

    def normal(self, parameters: Parameters) -> "Normal":
        """The normal equations of the linearized problem, added up over all devices."""
        _, weighting = self._rebuilt(parameters)
        total = None
        for term, factor in self._factors(weighting, parameters.dtype):

            def at(p, row, term=term, factor=factor):
                return factor * term.at(self._rebuilt(p)[0], row)

            def own(rows, mine, at=at):
                r, jacobian = _in_pieces(at, parameters, rows)
                r, jacobian = jnp.where(mine, r, 0.0), jnp.where(mine[:, None], jacobian, 0.0)
                count = jnp.sum(mine).astype(r.dtype)
                return Normal(jacobian.T @ jacobian, jacobian.T @ r, count)

            found = summed_over_devices(own, term.rows())
            total = found if total is None else jax.tree.map(jnp.add, total, found)
        assert total is not None
        return total

    def _factors(self, weighting: AbstractWeighting, dtype):
        weights = weighting.weights(tuple(self.loss.terms), self.step)
        for name, term in self.loss.terms.items():
            n = jax.tree.leaves(term.rows())[0].shape[0]
            yield term, jnp.sqrt(weights[name].astype(dtype) / n)

    def _rebuilt(self, parameters: Parameters) -> tuple[Any, AbstractWeighting]:
        return eqx.combine(self.unravel(parameters), self.static)


def split(
    network: Any, weighting: AbstractWeighting
) -> tuple[Parameters, Any, Callable[[Any], Any]]:
    """The trained numbers as one vector, what is left, and the way back."""
    arrays, static = eqx.partition((network, weighting), eqx.is_inexact_array)
    parameters, unravel = ravel_pytree(arrays)
    return parameters, static, unravel


def _layers(network: Any, points: Float[Array, "n z"]) -> Layers | None:
    """Of many points; None if the network does not know them."""
    return jax.vmap(network.layers)(points) if isinstance(network, AbstractField) else None


def _in_pieces(at: Callable[[Any, Any], Scalar], parameters: Parameters, rows: Any) -> Any:
    """Values and gradients, a few rows at a time: what these keep on the way stays small."""
    one = lambda row: jax.value_and_grad(at)(parameters, row)
    n, compute = jax.tree.leaves(rows)[0].shape[0], current()
    entries = entries_of_a_row(at, parameters, rows) if compute.row_entries else 0
    most = compute.rows_at_once(entries)
    return jax.vmap(one)(rows) if n <= most else jax.lax.map(one, rows, batch_size=most)


class Report(NamedTuple):
    """What an optimizer says of a step: the loss before it, its terms, and why it is done.

    `stopped` is an index into the optimizer's `reasons`; 0 means it is not done.
    """

    loss: Scalar
    terms: dict[str, Scalar]
    stopped: Int[Array, ""]


def not_stopped() -> Int[Array, ""]:
    """The optimizer continues."""
    return jnp.zeros((), jnp.int32)


class AbstractOptimizer(eqx.Module):
    """Updates parameters. States are pytrees of arrays, so that runs can be resumed."""

    reasons: eqx.AbstractClassVar[tuple[str, ...]]
    dtype: eqx.AbstractClassVar[str | None]  # precision it insists on

    @abc.abstractmethod
    def init(self, objective: Objective, parameters: Parameters) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def step(
        self, objective: Objective, parameters: Parameters, state: Any
    ) -> tuple[Parameters, Any, Report]:
        """One step; under jit."""

    def redrawn(self, state: Any) -> Any:
        """The state after new points were drawn."""
        return state
