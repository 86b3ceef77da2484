"""Second derivatives of a loss at a network: by term, as matrices or as products with vectors."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..loss import Fixed, Loss, cast
from ..train import Objective, split

Vector = Float[Array, " p"]


class Curvature(eqx.Module):
    r"""The loss $L = \tfrac12|F|^2$ around a network, in double precision.

    $F$ stacks the violations of all terms, each divided by the root of the number of its points
    and multiplied by the root of its weight ([eq:stacked-F](../theory/equations.md)). With its
    Jacobian $J$, $G = J^\top J$ is the Gauss-Newton matrix
    ([eq:GN-emp-lambda](../theory/equations.md)) and $K = JJ^\top$ the sample tangent kernel. The
    functions must be called with double precision enabled, `jax_enable_x64` in JAX's words.

    Args:
        network: the network at which the loss is expanded.
        loss: the terms of the loss at their points.
        weights: factor of each term's mean square; 1 for terms that are not named.
    """

    objective: Objective
    parameters: Vector
    weights: dict[str, float] = eqx.field(static=True)

    def __init__(self, network: Any, loss: Loss, weights: dict[str, float] | None = None):
        weights = dict(weights or {})
        unknown = set(weights) - set(loss.terms)
        if unknown:
            raise ValueError(
                f"`weights` name terms that the loss does not have: {sorted(unknown)}; it has "
                f"{sorted(loss.terms)}."
            )
        self.weights = weights
        network, loss = cast(network, "float64"), cast(loss, "float64")
        self.parameters, static, unravel = split(network, Fixed(weights))
        self.objective = Objective(loss, jnp.zeros((), jnp.int32), static, unravel)

    def part(self, names: Sequence[str] | None = None) -> Objective:
        """The loss of some terms only."""
        if names is None:
            return self.objective
        terms = self.objective.loss.terms
        unknown = [name for name in names if name not in terms]
        if unknown or not names:
            raise ValueError(f"`names` must be some of {sorted(terms)}; got {list(names)}.")
        some = Loss({name: terms[name] for name in names})
        return dataclasses.replace(self.objective, loss=some)

    def value(self, names: Sequence[str] | None = None) -> float:
        """The loss itself."""
        return 0.5 * float(_value(self.part(names), self.parameters))

    def jacobian(self, names: Sequence[str] | None = None) -> Float[Array, "n p"]:
        """Derivatives of the weighted violations, one row each."""
        return _jacobian(self.part(names), self.parameters)

    def gauss_newton(self, names: Sequence[str] | None = None) -> Float[Array, "p p"]:
        r"""$J^\top J$; for networks with few parameters.

        Equations: [eq:res-GN-emp](../theory/equations.md) and
        [eq:data-GN-emp](../theory/equations.md).
        """
        jacobian = self.jacobian(names)
        return jacobian.T @ jacobian

    def kernel(self, names: Sequence[str] | None = None) -> Float[Array, "n n"]:
        r"""$JJ^\top$, the sample tangent kernel; it has the same eigenvalues that are not zero."""
        jacobian = self.jacobian(names)
        return jacobian @ jacobian.T

    def hessian(self, names: Sequence[str] | None = None) -> Float[Array, "p p"]:
        """The Hessian; for networks with few parameters."""
        return _hessian(self.part(names), self.parameters)

    def gauss_newton_product(self, v: Vector, names: Sequence[str] | None = None) -> Vector:
        """The Gauss-Newton matrix times a vector, without the matrix."""
        return _gauss_newton_product(self.part(names), self.parameters, v)

    def hessian_product(self, v: Vector, names: Sequence[str] | None = None) -> Vector:
        """The Hessian times a vector, without the matrix."""
        return _hessian_product(self.part(names), self.parameters, v)


@eqx.filter_jit
def _value(objective: Objective, parameters: Vector) -> Array:
    return objective(parameters)


@eqx.filter_jit
def _jacobian(objective: Objective, parameters: Vector) -> Array:
    return objective.linearized(parameters)[1]


@eqx.filter_jit
def _hessian(objective: Objective, parameters: Vector) -> Array:
    rows = jnp.eye(len(parameters), dtype=parameters.dtype)
    product = lambda v: _half_slope_along(objective, parameters, v)
    found = jax.lax.map(product, rows, batch_size=64)
    return 0.5 * (found + found.T)


@eqx.filter_jit
def _gauss_newton_product(objective: Objective, parameters: Vector, v: Vector) -> Array:
    _, change = jax.jvp(objective.defects, (parameters,), (v,))
    _, back = jax.vjp(objective.defects, parameters)
    return back(change)[0]


@eqx.filter_jit
def _hessian_product(objective: Objective, parameters: Vector, v: Vector) -> Array:
    return _half_slope_along(objective, parameters, v)


def _half_slope_along(objective: Objective, parameters: Vector, v: Vector) -> Array:
    """Derivative along `v` of the gradient of half the sum of squares."""
    square = lambda p: 0.5 * jnp.sum(objective.defects(p) ** 2)
    return jax.jvp(jax.grad(square), (parameters,), (v,))[1]
