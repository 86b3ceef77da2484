"""Wrappers with which a network satisfies boundary or terminal data exactly."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._field import AbstractField, Directions, Layers, Taylor, Weights, product, taylor, total
from .._types import Scalar, SpaceTimePoint
from ..domain import AbstractDomain, inverse_shares
from ..problem import Layout, Region
from ._data import EndData


class AbstractHard(AbstractField):
    r"""$u(z) = G(z) + D(z)\,N(z)$, with $D$ zero and $G$ right where data are given."""

    network: eqx.AbstractVar[AbstractField]

    @abc.abstractmethod
    def factor(self, z: SpaceTimePoint) -> Scalar:
        """$D$, zero where data are given."""

    @abc.abstractmethod
    def extension(self, z: SpaceTimePoint) -> Scalar:
        """$G$, equal to the data where they are given."""

    @property
    @abc.abstractmethod
    def is_zero(self) -> bool:
        """Whether $G$ vanishes everywhere."""

    def scaled(self, factor: Any) -> "AbstractHard | None":
        """The data stay as they are."""
        inner = self.network.scaled(factor)
        return None if inner is None else eqx.tree_at(lambda u: u.network, self, inner)

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        value = self.network(z)
        shaped = self.factor(z).astype(value.dtype) * value
        return shaped if self.is_zero else self.extension(z).astype(value.dtype) + shaped

    def layers(self, z: SpaceTimePoint) -> Layers | None:
        """Those of the network, whose value counts as much as the factor says."""
        inner, times = self.network.layers(z), self.factor(z)
        return None if inner is None else [(a, times.astype(b.dtype) * b) for a, b in inner]

    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value and derivatives along the directions, by the product rule."""
        at = self.network.taylor(z, directions, weights)
        like = lambda other: jax.tree.map(lambda leaf: leaf.astype(at.value.dtype), other)
        shaped = product(like(taylor(self.factor, z, directions, weights)), at, like(weights))
        if self.is_zero:
            return shaped
        return total(like(taylor(self.extension, z, directions, weights)), shaped)


class HardDirichlet(AbstractHard):
    r"""$u(z) = G(z) + D(x)\,N(z)$: satisfies the Dirichlet data exactly, with a network $N$.

    $D$ is `domain.factor`: zero on the Dirichlet parts and approximately the distance to them, so
    `N` has the size of the solution divided by that distance. $G$ is the data itself if all parts
    have the same data, and otherwise the mean of the data weighted by the inverse squares of the
    factors of the parts. Data are also evaluated inside the domain, so they must be smooth there.

    Only the parameters of `network` are trained: shape and data are constants to the compiler,
    arrays inside the data functions included.

    Args:
        network: any field.
        domain: the set the equation holds in.
        data: the solution on each Dirichlet part, by name: a number, or a function of one point `z`
            (`x`, or time followed by `x`). Parts with other conditions are left out.
        layout: layout of the points; by default points have space coordinates only.
        power: exponent of the factor; solutions of equations with the fractional Laplacian vanish
            as the distance to the power $\alpha/2$.

    Example:
        ```python
        import jax.random as jr
        from fkpinn import catalogue
        from fkpinn.nn import MLP, HardDirichlet

        problem, _ = catalogue("committor")
        network = MLP(*problem.bounds(), [32, 32], key=jr.key(0))
        u = HardDirichlet(network, problem.domain, {"A": 0.0, "B": 1.0})
        ```
    """

    network: AbstractField
    domain: AbstractDomain
    groups: tuple[tuple[str, ...], ...] = eqx.field(static=True)  # parts with the same data
    data: tuple[float | Callable[..., Any], ...] = eqx.field(static=True)  # of each group
    layout: Layout
    power: float = eqx.field(static=True)

    def __init__(
        self,
        network: AbstractField,
        domain: AbstractDomain,
        data: Mapping[str, Any],
        *,
        layout: Layout | None = None,
        power: float = 1.0,
    ):
        self.network, self.domain, self.power = network, domain, power
        self.layout = layout or Layout(domain.dim)
        n_coords = self.layout.n_coords
        groups: list[tuple[list[str], Any]] = []
        for part, given in data.items():
            given = _checked(part, given, n_coords)
            same = [parts for parts, other in groups if bool(eqx.tree_equal(given, other))]
            if same:
                same[0].append(part)
            else:
                groups.append(([part], given))
        self.groups = tuple(tuple(parts) for parts, _ in groups)
        self.data = tuple(_constant(given) for _, given in groups)
        point = jax.ShapeDtypeStruct((n_coords,), jnp.result_type(float))
        jax.eval_shape(lambda z: (self.factor(z), self.extension(z)), point)  # refuses now

    def factor(self, z: SpaceTimePoint) -> Scalar:
        """$D$, zero on the Dirichlet parts."""
        domain = Region(self.domain, self.layout).at(z)
        found = domain.factor(self.layout.space(z), sum(self.groups, ()))
        if self.power == 1.0:
            return found
        return jnp.maximum(found, jnp.finfo(found.dtype).tiny) ** self.power

    def extension(self, z: SpaceTimePoint) -> Scalar:
        """$G$, equal to the data on the Dirichlet parts."""
        values = [_evaluate(given, z) for given in self.data]
        if len(values) == 1:
            return values[0]
        x, domain = self.layout.space(z), Region(self.domain, self.layout).at(z)
        factors = jnp.stack([domain.factor(x, group) for group in self.groups])
        weights = inverse_shares(factors) ** 2
        return jnp.sum(weights * jnp.stack(values)) / jnp.sum(weights)

    @property
    def is_zero(self) -> bool:
        """Whether all data are zero."""
        return self.data == (0.0,)


class HardTerminal(AbstractHard):
    r"""$u(t, x) = g(x) + \frac{T - t}{T} N(t, x)$: satisfies the terminal data exactly.

    Second derivatives of the data enter the equation, so kinks must be smoothed as the diffusion
    does: then $g$ is replaced by $g(x) + S(t, x)$ with $S(T, \cdot) = 0$.

    Args:
        network: any field.
        terminal: the data, a function of position.
        layout: of the points.
        smoothing: $S$, a function of one point, see `fkpinn.problem.smoothing`.

    Example:
        ```python
        import jax.random as jr
        from fkpinn import catalogue
        from fkpinn.nn import MLP, HardTerminal

        problem, _ = catalogue("allen-cahn-20d")
        network = MLP(*problem.bounds(), [32, 32], key=jr.key(0))
        u = HardTerminal(network, problem.terminal, problem.layout)
        ```
    """

    network: AbstractField
    terminal: Callable[..., Any] = eqx.field(static=True)
    layout: Layout

    def __init__(
        self,
        network: AbstractField,
        terminal: Callable[..., Any],
        layout: Layout,
        *,
        smoothing: Callable[..., Any] | None = None,
    ):
        if not layout.timed:
            raise ValueError("`layout` must be that of points with a time; got one without.")
        data = EndData(terminal, layout, smoothing)
        checked = _checked("terminal", data, layout.n_coords)
        self.network, self.terminal, self.layout = network, checked, layout

    def factor(self, z: SpaceTimePoint) -> Scalar:
        """The share of time that is left."""
        layout = self.layout
        assert layout.horizon is not None
        return layout.pace * (layout.end - layout.time(z)) / layout.horizon

    def extension(self, z: SpaceTimePoint) -> Scalar:
        """The data at any time, smoothed."""
        return _evaluate(self.terminal, z)

    @property
    def is_zero(self) -> bool:
        """Never known of a function."""
        return False


def _constant(given: Any) -> float | Callable[..., Any]:
    """Numbers as they are; functions as closures, which hash whatever the function holds."""
    return (lambda z: given(z)) if callable(given) else given


def _evaluate(given: float | Callable[..., Any], z: SpaceTimePoint) -> Scalar:
    return jnp.asarray(given(z) if callable(given) else given, z.dtype)


def _checked(part: str, given: Any, n_coords: int) -> Any:
    """A finite float, or a function whose values are numbers."""
    label = f"`data[{part!r}]` must be a number or a function of one point `z`"
    if not callable(given):
        try:
            number = float(given)
        except (TypeError, ValueError):
            raise TypeError(f"{label}; got {given!r}. Try `lambda z: ...`.") from None
        if not math.isfinite(number):
            raise ValueError(f"{label}, and finite; got {given!r}.")
        return number
    point = jax.ShapeDtypeStruct((n_coords,), jnp.result_type(float))
    shape = jnp.shape(jax.eval_shape(lambda z: given(z), point))
    if shape != ():
        raise ValueError(
            f"{label} with values of shape (); got shape {shape} from a point of shape "
            f"({n_coords},). Try `lambda z: jnp.sum(...)` or pick one entry."
        )
    return given
