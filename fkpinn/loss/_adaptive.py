"""Fresh points where the residual is large."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray

from .._types import Points, Scalar, ScalarField
from ..problem import Problem
from ..sampling import sample_interior
from ._rows import each


class Adaptive(eqx.Module):
    r"""Residual-based draws: a point is taken with probability $\propto |R|^k/\overline{|R|^k}+c$.

    The distribution of Wu et al. (Comput. Methods Appl. Mech. Eng. 403, 2023); $k = 0$ or large
    $c$ make it uniform.

    Args:
        power: $k$.
        floor: $c$.
        pool: uniform candidates for each point that is wanted.
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
        """`n` of the candidates, without repetition; `at` is the size of the violation."""
        pool_key, pick_key = jr.split(key)
        pool = sample_interior(problem, self.pool * n, dtype=dtype, key=pool_key)
        size = jnp.abs(each(at, u, pool)) ** self.power
        chance = size / jnp.maximum(jnp.mean(size), jnp.finfo(dtype).tiny) + self.floor
        # the n largest of log p + Gumbel noise are a draw without repetition
        noise = jr.gumbel(pick_key, (len(pool),), dtype)
        return pool[jnp.argsort(-(jnp.log(chance) + noise))[:n]]
