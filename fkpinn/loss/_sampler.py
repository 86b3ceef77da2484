"""Samplers: where new collocation and boundary points are placed."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray

from .._compute import FEW_DIMENSIONS
from .._streams import fold
from .._types import Points, Scalar, ScalarField
from ..problem import AbstractMeasure, InBox, Problem, Uniform
from ..sampling import BoundaryPoints, sample_boundary, sample_interior
from ._rows import cast, each

_BEYOND = 0.25  # of the width of a box that holds nearly all paths, on both sides


class AbstractSampler(eqx.Module):
    """Draws new collocation and boundary points during training, under `jit`."""

    @abc.abstractmethod
    def draw(
        self,
        problem: Problem,
        u: ScalarField,
        at: Callable[[Any, Any], Scalar],
        n: int,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Points:
        """Fresh points.

        Args:
            problem: the boundary value problem.
            u: the current network.
            at: its residual, a function of the network and a point.
            n: how many.
            dtype: precision of the points.
            key: random key.
        """

    def draw_boundary(
        self, problem: Problem, n: int, dtype: Any, *, key: PRNGKeyArray
    ) -> BoundaryPoints:
        """Fresh points on the boundary.

        By default uniform points, except that comparatively small surfaces get enough of them
        (`sample_boundary(fair=True)`).

        Args:
            problem: the boundary value problem.
            n: how many.
            dtype: precision of the points.
            key: random key.
        """
        return sample_boundary(problem, n, fair=True, outward=True, dtype=dtype, key=key)


class Spread(AbstractSampler):
    """Points of the whole domain, mixed with points of the problem's measure.

    On all of space, in up to three dimensions, a box is used that contains nearly all paths.

    The equation must hold wherever paths go, not only where the answer is wanted; for a family,
    more points have parameters close to the ends of their ranges.

    Args:
        share: fraction of the points drawn from the measure, if it is not uniform.
    """

    share: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"`share` must lie between 0 and 1; got {self.share}.")

    def draw(
        self,
        problem: Problem,
        u: ScalarField,
        at: Callable[[Any, Any], Scalar],
        n: int,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Points:
        """Independent of the network."""
        del u, at
        return self.points(problem, n, dtype, key=key)

    def points(self, problem: Problem, n: int, dtype: Any, *, key: PRNGKeyArray) -> Points:
        """The same before there is a network.

        Args:
            problem: the boundary value problem.
            n: how many.
            dtype: precision of the points.
            key: random key.
        """
        wanted = 0 if isinstance(problem.measure, Uniform) else int(self.share * n)
        whole = _whole(problem)
        wanted = n if whole is None else wanted
        parts = []
        if whole is not None and wanted < n:
            own = fold(key, "domain")
            parts.append(
                sample_interior(
                    problem, n - wanted, measure=whole, outward=True, dtype=dtype, key=own
                )
            )
        if wanted:
            own = fold(key, "measure")
            parts.append(sample_interior(problem, wanted, outward=True, dtype=dtype, key=own))
        return jnp.concatenate(parts)


def _whole(problem: Problem) -> AbstractMeasure | None:
    """The law of points anywhere: of all of space, a box that holds nearly all paths.

    In more dimensions such a box is mostly corners that no path sees, and there is none.
    """
    if problem.domain.parts:
        return Uniform()
    if problem.dim > FEW_DIMENSIONS:
        return None
    lower, upper = problem.box()
    more = _BEYOND * (upper - lower)
    return InBox(lower - more, upper + more)


class PathPoints(AbstractSampler):
    """Places visited by paths, mixed with points drawn by `Spread`.

    Under the occupation measure the mean square of the residual bounds the error, see [where
    residuals matter](../theory/occupation.md); under another distribution it need not.

    Args:
        pool: visited places, all equally likely.
        share: fraction of the points drawn from the pool.
        exits: exit points of paths, all equally likely; the same fraction of the boundary points is
            drawn from them.
    """

    pool: Points
    share: float = eqx.field(static=True, default=0.5)
    exits: BoundaryPoints | None = None

    def __check_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"`share` must lie between 0 and 1; got {self.share}.")

    def draw(
        self,
        problem: Problem,
        u: ScalarField,
        at: Callable[[Any, Any], Scalar],
        n: int,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Points:
        """Independent of the network."""
        wanted = round(self.share * n)
        rows = jr.randint(fold(key, "visited"), (wanted,), 0, len(self.pool))
        visited = self.pool[rows].astype(dtype)
        if wanted == n:
            return visited
        rest = Spread().draw(problem, u, at, n - wanted, dtype, key=fold(key, "spread"))
        return jnp.concatenate([visited, rest])

    def draw_boundary(
        self, problem: Problem, n: int, dtype: Any, *, key: PRNGKeyArray
    ) -> BoundaryPoints:
        """Some of the exits, and points of the whole boundary."""
        wanted = 0 if self.exits is None else round(self.share * n)
        if self.exits is None or wanted == 0:
            return super().draw_boundary(problem, n, dtype, key=key)
        rows = jr.randint(fold(key, "left"), (wanted,), 0, len(self.exits.points))
        left = jax.tree.map(lambda a: a[rows], cast(self.exits, dtype))
        if wanted == n:
            return left
        rest = super().draw_boundary(problem, n - wanted, dtype, key=fold(key, "spread"))
        join = lambda some, others: jnp.concatenate([some.astype(others.dtype), others])
        return jax.tree.map(join, left, rest)


class Adaptive(AbstractSampler):
    r"""Residual-based draws: a point is taken with probability $\propto |R|^k/\overline{|R|^k}+c$.

    The distribution of Wu et al. (Comput. Methods Appl. Mech. Eng. 403, 2023); $k = 0$ or large
    $c$ make it that of the candidates.

    Args:
        power: $k$.
        floor: $c$.
        pool: number of candidates per point.
    """

    power: float = eqx.field(static=True, default=1.0)
    floor: float = eqx.field(static=True, default=1.0)
    pool: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        if self.power < 0 or self.floor < 0 or self.pool < 1:
            raise ValueError(
                "`Adaptive` needs `power` and `floor` of at least 0 and `pool` of at least 1; got "
                f"{self.power}, {self.floor}, {self.pool}."
            )

    def draw(
        self,
        problem: Problem,
        u: ScalarField,
        at: Callable[[Any, Any], Scalar],
        n: int,
        dtype: Any,
        *,
        key: PRNGKeyArray,
    ) -> Points:
        """`n` of the candidates, without repetition."""
        own = fold(key, "pool")
        candidates = Spread().draw(problem, u, at, self.pool * n, dtype, key=own)
        size = jnp.abs(each(at, u, candidates)) ** self.power
        chance = size / jnp.maximum(jnp.mean(size), jnp.finfo(dtype).tiny) + self.floor
        # the n largest of log p + Gumbel noise are a draw without repetition
        noise = jr.gumbel(fold(key, "pick"), (len(candidates),), dtype)
        return candidates[jnp.argsort(-(jnp.log(chance) + noise))[:n]]
