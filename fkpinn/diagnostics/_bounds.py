r"""The error bound of the paper as a calculator.

Its constants are not known. Each is an argument whose default is 1, and the result tells what is
shape (how terms grow and fall) and what would be a number.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any


def n_parameters(widths: Sequence[int], dim: int) -> int:
    """Weights and biases of a network with one output.

    Args:
        widths: of the hidden layers.
        dim: of the input.
    """
    sizes = [dim, *widths, 1]
    return sum(a * b + b for a, b in itertools.pairwise(sizes))


def nodes(widths: Sequence[int], dim: int, order: int) -> int:
    r"""Computation nodes of the network that gives derivatives of an order.

    [lem:derivative-network](../theory/equations.md): $N_k = C_{d,k}N_{\mathrm{hid}} + 3$ with
    $C_{d,0} = 1$, $C_{d,1} = 3 + 5d$, $C_{d,2} = 8 + 5d + \tfrac{13}{2}d(d+1)$.

    Args:
        widths: of the hidden layers.
        dim: of the input.
        order: of the derivatives, 0 to 2.
    """
    if order not in (0, 1, 2):
        raise ValueError(f"`order` must be 0, 1 or 2; got {order!r}.")
    each = (1, 3 + 5 * dim, 8 + 5 * dim + 13 * dim * (dim + 1) // 2)[order]
    return each * sum(widths) + 3


def pfaffian_bound(
    parameters: int, nodes: int, *, chain: int, degree: int, node_degree: int, monomials: int
) -> float:
    r"""$\Psi(l, N+1, q, D, d_{\mathrm{poly}}, s+1)$, which bounds the pseudo-dimension.

    Theorem [thm:pdim-pfaffian-km](../theory/equations.md).

    Args:
        parameters: $l$.
        nodes: $N$, without the one that is added for the threshold.
        chain: $q$, length of the Pfaffian chain of the activations.
        degree: $D$, of that chain.
        node_degree: $d_{\mathrm{poly}}$, of each node's polynomial.
        monomials: $s$, in each node's polynomial.
    """
    values = parameters, nodes, chain, degree, node_degree, monomials
    if min(values) < 1:
        raise ValueError(f"All arguments must be at least 1; got {values}.")
    free, all_nodes = parameters, nodes + 1
    lnq = free * all_nodes * chain
    return (
        lnq * (lnq - 1)
        + (16 + 2 * math.log2(node_degree) + 2 * math.log2(monomials + 1)) * free
        + 2 * (free + 2 * lnq) * math.log2(free)
        + 2 * (free + 2 * lnq) * math.log2(node_degree + degree)
    )


def pseudo_dimension(widths: Sequence[int], dim: int, order: int) -> float:
    r"""Bound of the pseudo-dimension of tanh networks, or of one of their derivatives.

    [prop:pdim-tanh-derivatives](../theory/equations.md): tanh is a chain of length 1 and degree 2
    ($\tanh' = 1 - \tanh^2$), nodes are affine or squares, and an affine node has a monomial for
    every unit of the layer before and one for its bias.

    Args:
        widths: of the hidden layers.
        dim: of the input.
        order: of the derivatives, 0 to 2.
    """
    _check_network(widths, dim)
    return pfaffian_bound(
        n_parameters(widths, dim),
        nodes(widths, dim, order),
        chain=1,
        degree=2,
        node_degree=2,
        monomials=max([dim, *widths]) + 1,
    )


@dataclasses.dataclass(frozen=True)
class Constants:
    """Constants that are unknown in the theory; 1 by default."""

    approximation: float = 1.0
    statistics: float = 1.0
    labels: float = 1.0
    bias: float = 1.0
    truncation: float = 1.0
    truncation_rate: float = 1.0
    optimization: float = 1.0
    optimization_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be positive; got {value}.")


def label_bias(dt: float, t_max: float, constants: Constants | None = None) -> float:
    r"""$\varepsilon_{\mathrm{bias}} = C_{\mathrm{bias}}\sqrt{\Delta t} + C_T e^{-\kappa T_{\max}}$.

    Proposition [prop:fk-subexp](../theory/equations.md).

    Args:
        dt: time step.
        t_max: time at which paths are cut; infinite for no cut.
        constants: set by you; 1 otherwise.
    """
    if not (dt > 0 and t_max > 0):
        raise ValueError(f"`dt` and `t_max` must be positive; got {dt} and {t_max}.")
    c = constants or Constants()
    cut = 0.0 if math.isinf(t_max) else c.truncation * math.exp(-c.truncation_rate * t_max)
    return c.bias * math.sqrt(dt) + cut


def master_bound(
    *,
    widths: Sequence[int],
    dim: int,
    smoothness: int,
    n_interior: int,
    n_boundary: int,
    n_labels: int,
    dt: float,
    t_max: float = math.inf,
    steps: float = math.inf,
    level: float = 0.95,
    constants: Constants | None = None,
) -> dict[str, Any]:
    r"""The terms of the error bound, and which of them is the largest.

    Equation: [eq:fk-pinn-master-bound](../theory/equations.md).

    Args:
        widths: of the hidden layers.
        dim: of the domain.
        smoothness: $s$, derivatives that the solution has, at least 3.
        n_interior: collocation points.
        n_boundary: points on the boundary.
        n_labels: points with labels.
        dt: time step of the labels' paths.
        t_max: time at which paths are cut.
        steps: of gradient descent.
        level: probability with which the bound holds, $1 - \delta$.
        constants: set by you; 1 otherwise.

    Returns:
        Terms by name, their sum, the name of the largest, sizes of the network, and a note on what
        these numbers mean.
    """
    _check_network(widths, dim)
    if smoothness < 3:
        raise ValueError(f"`smoothness` must be at least 3; got {smoothness}.")
    if min(n_interior, n_boundary, n_labels) < 1:
        raise ValueError(
            f"`n_interior`, `n_boundary` and `n_labels` must be at least 1; got {n_interior}, "
            f"{n_boundary}, {n_labels}."
        )
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie in (0, 1); got {level}.")
    c = constants or Constants()
    p = n_parameters(widths, dim)
    log = math.log(6 / (1 - level))
    complexity = {order: p * nodes(widths, dim, order) for order in (0, 2)}

    def sampling(order: int, n: int) -> float:
        size = complexity[order]
        return math.sqrt(size) * ((math.log(size) + log) / n) ** 0.25

    epsilon = label_bias(dt, t_max, c)
    terms = {
        "approximation": c.approximation * p ** (-(smoothness - 2) / dim),
        "residual points": c.statistics * sampling(2, n_interior),
        "boundary points": c.statistics * sampling(0, n_boundary),
        "label points": c.labels * sampling(0, n_labels),
        "label noise": c.labels * ((log / n_labels) ** 0.25 + (log / n_labels) ** 0.5),
        "label bias": c.bias * math.sqrt(epsilon + epsilon**2),
        "optimization": c.optimization * math.exp(-c.optimization_rate * steps / 2),
    }
    unset = [f.name for f in dataclasses.fields(c) if getattr(c, f.name) == 1.0]
    return {
        "terms": terms,
        "sum": sum(terms.values()),
        "largest": max(terms, key=lambda name: terms[name]),
        "parameters": p,
        "nodes": {order: nodes(widths, dim, order) for order in (0, 1, 2)},
        "pseudo_dimension": {k: pseudo_dimension(widths, dim, k) for k in (0, 1, 2)},
        "constants": dataclasses.asdict(c),
        "meaning": (
            f"scaling only: the theorem says how each term scales with the sizes, but not how "
            f"large it is, since its constants are unknown; set to 1 here: {', '.join(unset)}."
            if unset
            else "a value, if the given constants are correct."
        ),
    }


def balanced(n_labels: int, *, dim: int, smoothness: int) -> dict[str, float]:
    r"""Width and rate at which approximation and label error balance, for three layers.

    Corollary [cor:balanced-rate](../theory/equations.md): width $N^{d/(4d+8(s-2))}$, error
    $N^{-(s-2)/(2d+4(s-2))}$, up to constants and logarithms.

    Args:
        n_labels: $N$, points with labels.
        dim: of the domain.
        smoothness: $s$, at least 3.
    """
    if n_labels < 1 or dim < 1 or smoothness < 3:
        raise ValueError(
            "`n_labels` and `dim` must be at least 1 and `smoothness` at least 3; got "
            f"{n_labels}, {dim}, {smoothness}."
        )
    extra = smoothness - 2
    wide, rate = dim / (4 * dim + 8 * extra), extra / (2 * dim + 4 * extra)
    return {
        "width": n_labels**wide,
        "width_exponent": wide,
        "error": n_labels**-rate,
        "error_exponent": -rate,
    }


def _check_network(widths: Sequence[int], dim: int) -> None:
    if not widths or min(widths) < 1:
        raise ValueError(f"`widths` must be positive numbers of units; got {tuple(widths)}.")
    if dim < 1:
        raise ValueError(f"`dim` must be at least 1; got {dim}.")
