"""A coefficient that is not known: a smooth function of space made of a few parameters."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import Numbers
from ._layout import Parameter

_LEAST = 4  # cubic splines an axis


class UnknownField:
    r"""A function of space whose parameters are those of a family: $q(x) = \sum_i q_i\, b_i(x)$.

    The $b_i$ are cubic splines on a regular grid, positive and with sum one, so the field stays in
    the range of its parameters. It is called like a coefficient, with the parameters by name, and
    uses its own. `fkpinn.infer` infers them, and `Inference.band` gives the uncertainty of the
    field.

    Args:
        name: parameters are called `name_0`, `name_1`, ...; with several axes `name_0_0`, ...
        lower: smallest coordinates of a box around the domain.
        upper: largest coordinates.
        n: splines per axis, at least 4; one number, or one per axis.
        range: range of all parameters, and so of the field.

    Example:
        ```python
        import fkpinn as fk

        q = fk.UnknownField("q", [0.0], [1.0], 6, range=(0.0, 8.0))
        family = fk.Problem(
            fk.Interval(0.0, 1.0), diffusion=2**0.5, reaction=q, source=1.0, parameters=q.parameters
        )
        ```
    """

    name: str
    lower: np.ndarray
    upper: np.ndarray
    counts: tuple[int, ...]
    spacing: np.ndarray
    law: Parameter
    names: tuple[str, ...]

    def __init__(
        self,
        name: str,
        lower: Numbers,
        upper: Numbers,
        n: int | Sequence[int],
        *,
        range: tuple[float, float],
    ):
        low, high = (np.atleast_1d(np.asarray(end, float)) for end in (lower, upper))
        if low.shape != high.shape or low.ndim != 1 or not np.all(low < high):
            raise ValueError(
                f"`UnknownField(lower, upper)` must be corners of a box, with the same number of "
                f"coordinates; got {lower}, {upper}."
            )
        counts = np.broadcast_to(np.asarray(n), low.shape)
        if not np.issubdtype(counts.dtype, np.integer) or np.any(counts < _LEAST):
            raise ValueError(
                f"`UnknownField(n=...)` must be whole numbers of at least {_LEAST}; got {n}."
            )
        self.name, self.lower, self.upper = name, low, high
        self.counts = tuple(int(count) for count in counts)
        self.spacing = (high - low) / (counts - 3)
        self.law = Parameter(*range)
        places = itertools.product(*(np.arange(count).tolist() for count in self.counts))
        self.names = tuple("_".join([name, *map(str, place)]) for place in places)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Laws of the parameters, for `Problem(parameters=...)`."""
        return dict.fromkeys(self.names, self.law)

    def __call__(self, *at: Any, **values: Any) -> Array:
        """The field at one place, the last of the arguments, for given parameters by name."""
        x = jnp.asarray(at[-1])
        found = jnp.stack([jnp.asarray(values[name], x.dtype) for name in self.names])
        found = found.reshape(self.counts)
        for axis, count in enumerate(self.counts):  # each takes one axis away
            lower, spacing = float(self.lower[axis]), float(self.spacing[axis])
            grid = jnp.asarray(np.arange(-1.0, count - 1.0), x.dtype)
            found = jnp.tensordot(_bump((x[axis] - lower) / spacing - grid), found, axes=1)
        return found

    def smooth(self, bend: float) -> Callable[..., Array]:
        """A prior for `fkpinn.infer`, with a typical size of the second derivatives along axes.

        Args:
            bend: standard deviation of the second derivatives.
        """
        if not bend > 0:
            raise ValueError(f"`smooth(bend=...)` must be positive; got {bend}.")

        return _Smooth(self, float(bend))


@dataclasses.dataclass(frozen=True)
class _Smooth:
    """A log density of the parameters of a field, by their names; equal ones are compiled once."""

    field: UnknownField
    bend: float

    def __call__(self, **values: Any) -> Array:
        found = jnp.stack([jnp.asarray(values[name]) for name in self.field.names])
        found, total = found.reshape(self.field.counts), jnp.zeros((), found.dtype)
        for axis, spacing in enumerate(self.field.spacing):
            second = jnp.diff(found, 2, axis=axis) / (self.bend * float(spacing) ** 2)
            total = total - 0.5 * jnp.sum(second**2)
        return total


def _bump(s: Array) -> Array:
    """The cubic spline with knots at -2, -1, 0, 1, 2."""
    near = jnp.abs(s)
    inner = 2.0 / 3.0 - near**2 + 0.5 * near**3
    outer = jnp.maximum(2.0 - near, 0.0) ** 3 / 6.0
    return jnp.where(near < 1.0, inner, outer)
