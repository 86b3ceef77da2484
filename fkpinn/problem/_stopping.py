"""Optimal stopping, and American options, as an equation with a penalty."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from .._types import Scalar
from ..domain import AbstractDomain
from ._coefficient import bind
from ._layout import Layout
from ._problem import Problem

_PENALTY = 1000.0  # over the horizon: a rate


def optimal_stopping(
    domain: AbstractDomain,
    reward: Any,
    *,
    horizon: float,
    penalty: float | None = None,
    boundary: Any = None,
    name: str = "optimal stopping",
    **data: Any,
) -> Problem:
    r"""The largest expected reward of a process that may be stopped at any time up to a horizon.

    The value is at least the reward, and where it is more it solves the linear equation. Here
    the equation holds everywhere, with $\lambda\max(\psi - u, 0)$ added: what lies below the reward
    is pulled up at a rate $\lambda$. The value found is too small by about $1/\lambda$ times what
    waiting costs; `fkpinn.evaluate.stopping_bounds` has limits that hold the true value.

    Args:
        domain: where.
        reward: $\psi$, a function of `x`.
        horizon: when the process is stopped at the latest.
        penalty: $\lambda$; by default 1,000 over the horizon.
        boundary: as in `Problem`; by default the reward.
        name: a name for reports.
        data: drift, diffusion, reaction (the rate of discount) and measure, as in `Problem`.
    """
    if not callable(reward):
        raise TypeError(f"`reward` must be a function of `x`; got {reward!r:.80}.")
    rate = _PENALTY / horizon if penalty is None else float(penalty)
    if not 0 < rate < np.inf:
        raise ValueError(f"`penalty` must be a positive rate; got {penalty!r}.")
    pays = bind("reward", reward, ((),), Layout(domain.dim))
    walls = {} if not domain.parts else {"boundary": boundary}
    if domain.parts and boundary is None:
        walls = {"boundary": lambda t, x: pays(x)}
    return Problem(
        domain, horizon=horizon, terminal=pays, nonlinearity=Below(pays, rate), name=name, **walls,
        **data,
    )  # fmt: skip


class Below(eqx.Module):
    """What pulls a value up to a reward."""

    reward: Any
    rate: float = eqx.field(static=True)

    def __call__(self, t: Array, x: Array, u: Scalar, p: Array) -> Scalar:
        """A rate times what is lacking."""
        del t, p
        return self.rate * jax.nn.relu(self.reward(x) - u)


def reward_of(problem: Problem) -> Below:
    """Reward and penalty of a problem that `optimal_stopping` made."""
    given = problem.nonlinearity
    if given is None or not isinstance(given.function, Below):
        raise ValueError("`problem` must be one that `optimal_stopping` made.")
    return given.function
