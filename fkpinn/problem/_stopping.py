"""Optimal stopping, and American options, as an equation with a source that holds values up."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import Scalar, SpaceTimePoint
from ..domain import AbstractDomain, known_domain
from ._coefficient import Coefficient, bind
from ._layout import Layout
from ._measure import some_points
from ._problem import Problem

_WIDTH = 0.01  # over the size of a typical reward
_MOST = 2.0  # of what waiting costs; without a limit small errors would make large residuals


def optimal_stopping(
    domain: AbstractDomain,
    reward: Any,
    *,
    horizon: float,
    width: float | None = None,
    boundary: Any = None,
    name: str = "optimal stopping",
    **data: Any,
) -> Problem:
    r"""The largest expected reward of a process that may be stopped at any time up to a horizon.

    The value is at least the reward, and where it is larger it solves the linear equation. Here the
    equation holds everywhere, with an additional penalty source $c\,h$ added: $c =
    \max\{-(\mathcal{L}\psi - V\psi + f), 0\}$ is the cost of waiting, and $h = \tfrac12 + (\psi -
    u)/\varepsilon$, clipped to the interval from 0 to 2. In the stopping region the value is about
    $\psi - \varepsilon/2$, and close to it too large by as much, so that most of both errors
    cancels elsewhere. `fkpinn.evaluate.stopping_bounds` bounds the true value.

    Args:
        domain: the domain.
        reward: $\psi$, a function of `x`; its kinks must be convex, like those of a maximum.
        horizon: the latest stopping time.
        width: $\varepsilon$, in units of the reward; by default a hundredth of a typical reward.
        boundary: as in `Problem`; by default the reward.
        name: a name for reports.
        data: drift, diffusion, reaction (the rate of discount), source (paid while waiting) and
            measure, as in `Problem`.
    """
    if not callable(reward):
        raise TypeError(f"`reward` must be a function of `x`; got {reward!r:.80}.")
    if width is not None and not 0 < width < np.inf:
        raise ValueError(f"`width` must be positive; got {width!r}.")
    pays = bind("reward", reward, ((),), Layout(known_domain(domain).dim))
    walls = {} if not domain.parts else {"boundary": boundary}
    if domain.parts and boundary is None:
        walls = {"boundary": lambda t, x: pays(x)}
    given = {"horizon": horizon, "terminal": pays, "name": name, **walls, **data}
    waiting = Problem(domain, **given)
    wide = _width(waiting, pays) if width is None else float(width)
    return Problem(domain, nonlinearity=Below(pays, waiting, wide), **given)


class Below(eqx.Module):
    """What pulls a value up to a reward."""

    reward: Coefficient
    waiting: Problem  # without a choice
    width: float = eqx.field(static=True)

    def __call__(self, t: Array, x: Array, u: Scalar, p: Array) -> Scalar:
        """What waiting costs, more of it the more is lacking."""
        del p
        cost = _cost(self.waiting, self.reward, self.waiting.layout.joined(t, x))
        return cost * jnp.clip(0.5 + (self.reward(x) - u) / self.width, 0.0, _MOST)


def reward_of(problem: Problem) -> Below:
    """Reward and width of a problem that `optimal_stopping` made."""
    given = problem.nonlinearity
    if given is None or not isinstance(given.function, Below):
        raise ValueError("`problem` must be created by `optimal_stopping`.")
    return given.function


def _cost(waiting: Problem, reward: Coefficient, z: SpaceTimePoint) -> Scalar:
    """What is lost in a unit of time by whoever keeps the reward and waits."""
    pays = lambda z: reward(waiting.space(z))
    gain = waiting.dynamics.generator(pays, z) - waiting.reaction(z) * pays(z)
    return jax.nn.relu(-(gain + waiting.source(z)))


def _width(waiting: Problem, reward: Coefficient) -> float:
    """A small part of a typical reward."""
    points = some_points(waiting.region, waiting.measure)
    pays = np.asarray(_rewards(waiting, reward, points), np.float64)
    size = float(np.sqrt(np.mean(pays**2)))
    if not np.isfinite(size):
        raise ValueError("`reward` must be finite where the answer is wanted.")
    return _WIDTH * size if size > 0 else 1.0


@eqx.filter_jit
def _rewards(
    waiting: Problem, reward: Coefficient, points: Float[Array, "n z"]
) -> Float[Array, " n"]:
    return jax.vmap(lambda z: reward(waiting.space(z)))(points)
