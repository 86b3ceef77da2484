"""A boundary value problem, declared once."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Matrix, Point, SpaceTimePoint
from ..domain import AbstractDomain
from ._boundary import AbstractCondition, Dirichlet
from ._checks import check_problem
from ._coefficient import Coefficient, bind


class Problem(eqx.Module):
    r"""A linear second-order boundary value problem.

    Elliptic:
    $\tfrac12 \mathrm{tr}(\sigma\sigma^\top D^2 u) + b\cdot\nabla u - V u + f = 0$ in $D$.
    Parabolic (when `horizon` is given): the same plus $\partial_t u$, with
    $u(T, \cdot)$ given by `terminal`. Coefficients are numbers, arrays, or functions of
    **one** point: of `x` for elliptic problems, of `t, x` for parabolic ones.

    Equations: [eq:elliptic-dirichlet-appendix](../theory/equations.md),
    [eq:parabolic-diffusion-appendix](../theory/equations.md).

    Args:
        domain: the bounded set $D$.
        drift: $b$, shape `(d,)`.
        diffusion: $\sigma$: a scalar (times the identity), a diagonal `(d,)`, or `(d, m)`.
        reaction: $V$.
        source: $f$.
        boundary: a condition for each boundary part by name; or one condition, number or
            function for the whole boundary (a number or function means `Dirichlet`).
        horizon: final time $T$ of a parabolic problem.
        terminal: $u(T, x)$, a number or a function of `x`.
        name: a name for reports.
        check: evaluate the data at sample points and refuse what cannot be right.

    Example:
        ```python
        import fkpinn as fk

        problem = fk.Problem(
            domain=fk.Box([0, 0], [1, 1], name="wall") - fk.Ball([0.5, 0.5], 0.2, name="hole"),
            drift=lambda x: -x,
            diffusion=0.5,
            source=1.0,
            boundary={"wall": fk.Neumann(0.0), "hole": fk.Dirichlet(0.0)},
        )
        ```
    """

    domain: AbstractDomain
    drift: Coefficient
    diffusion: Coefficient
    reaction: Coefficient
    source: Coefficient
    boundary: dict[str, AbstractCondition]
    horizon: float | None = eqx.field(static=True)
    terminal: Coefficient | None
    name: str = eqx.field(static=True)

    def __init__(
        self,
        domain: AbstractDomain,
        *,
        drift: Any = 0.0,
        diffusion: Any = 1.0,
        reaction: Any = 0.0,
        source: Any = 0.0,
        boundary: Any = 0.0,
        horizon: float | None = None,
        terminal: Any = None,
        name: str = "problem",
        check: bool = True,
    ):
        if not isinstance(domain, AbstractDomain):
            raise TypeError(
                f"`domain` must be a domain such as `Box` or `Ball`; got {type(domain).__name__}."
            )
        if (horizon is None) != (terminal is None):
            raise ValueError(
                "`horizon` and `terminal` go together: give both for a parabolic problem, "
                f"neither for an elliptic one; got horizon={horizon!r}, terminal={terminal!r}."
            )
        if horizon is not None and not (np.isfinite(horizon) and horizon > 0):
            raise ValueError(f"`horizon` must be a positive finite time; got {horizon!r}.")
        d, timed = domain.dim, horizon is not None
        self.domain, self.name = domain, name
        self.horizon = None if horizon is None else float(horizon)
        self.drift = bind("drift", drift, ((d,),), d, timed)
        self.diffusion = bind("diffusion", diffusion, ((), (d,), (d, None)), d, timed)
        self.reaction = bind("reaction", reaction, ((),), d, timed)
        self.source = bind("source", source, ((),), d, timed)
        self.terminal = None if terminal is None else bind("terminal", terminal, ((),), d, False)
        self.boundary = _conditions(domain, boundary, timed)
        if check:
            check_problem(self)

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return self.domain.dim

    @property
    def timed(self) -> bool:
        """Whether the problem is parabolic."""
        return self.horizon is not None

    @property
    def n_coords(self) -> int:
        """Length of a point of the problem: `d`, or `1 + d` with time first."""
        return self.dim + self.timed

    @property
    def noise_dim(self) -> int:
        """Number of driving Brownian motions."""
        shape = self.diffusion.shape
        return shape[1] if len(shape) == 2 else self.dim

    def space(self, z: SpaceTimePoint) -> Point:
        """The part of the point that lies in the domain."""
        return z[1:] if self.timed else z

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each coordinate of a point of the problem."""
        lower, upper = self.domain.bounding_box()
        if self.horizon is None:
            return lower, upper
        return np.append(0.0, lower), np.append(self.horizon, upper)

    def sigma(self, z: SpaceTimePoint) -> Matrix:
        """Diffusion as a `d` by `m` matrix, however it was declared."""
        return as_matrix(self.diffusion(z), self.dim)

    def covariance(self, z: SpaceTimePoint) -> Float[Array, "d d"]:
        r"""$a = \sigma\sigma^\top$."""
        sigma = self.sigma(z)
        return sigma @ sigma.T

    def conditions(self) -> tuple[AbstractCondition, ...]:
        """Boundary conditions in the order of `domain.parts`."""
        return tuple(self.boundary[part] for part in self.domain.parts)


def as_matrix(sigma: Float[Array, "..."], dim: int) -> Matrix:
    """A scalar or diagonal diffusion as a matrix."""
    if sigma.ndim == 2:
        return sigma
    return jnp.diag(jnp.broadcast_to(sigma, (dim,)))


def _conditions(domain: AbstractDomain, given: Any, timed: bool) -> dict[str, AbstractCondition]:
    if not isinstance(given, Mapping):
        one = given if isinstance(given, AbstractCondition) else Dirichlet(given)
        given = dict.fromkeys(domain.parts, one)
    missing = [part for part in domain.parts if part not in given]
    if missing:
        raise ValueError(
            f"`boundary` must have data for every boundary part {domain.parts}; nothing was given "
            f"for {missing}. Try `boundary={{{missing[0]!r}: Dirichlet(0.0), ...}}`."
        )
    unknown = [part for part in given if part not in domain.parts]
    if unknown:
        raise ValueError(
            f"`boundary` has data for {unknown}, which the domain does not have; its boundary "
            f"parts are {domain.parts}. Parts are named where shapes are built: "
            f"`Ball(..., name=...)`."
        )
    conditions = {}
    for part in domain.parts:
        condition = given[part]
        if not isinstance(condition, AbstractCondition):
            condition = Dirichlet(condition)
        conditions[part] = condition.bound(part, domain.dim, timed)
    return conditions
