"""The martingale defect of a candidate along pieces of paths, from single steps to whole paths."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from .._streams import fold
from .._types import Points, Scalar, ScalarField, SpaceTimePoint
from ..nn import Size
from ..problem import Problem
from ..sampling import sample_interior
from ..sde import absorbed_value
from ._terms import AbstractTerm, size_at, times_as_many

_STEP = 0.01  # of the horizon, for pieces


class MartingaleTerm(AbstractTerm):
    r"""The defect of the martingale that a solution forms along a path.

    Along a path of the process, for the exact solution $u(X_t) + \int_0^t (F + f - Vu)\,ds -
    \int_0^t \nabla u\cdot\sigma\,dW$ is constant, also where the equation is nonlinear. Over one
    step this is the diffusion loss; over whole paths, which end with the data, it is that of Deep
    BSDE. No second derivative is needed. Steps are those of Euler, so that the term has the bias of
    the step.

    Equations: [eq:bsde-forward-appendix](../theory/equations.md),
    [eq:bsde-backward-appendix](../theory/equations.md).

    Args:
        problem: the boundary value problem; its walls, if any, must be absorbing.
        starts: starting points of the pieces, one per row.
        noise: standard normals of all steps.
        step: the time step; None divides the remaining time, so that paths run to the horizon.
        size: typical size of the solution.
    """

    problem: Problem
    starts: Points
    noise: Float[Array, "n k m"]
    step: float | None = eqx.field(static=True, default=None)
    size: float | Size = eqx.field(static=True, default=1.0)

    @classmethod
    def of(
        cls,
        problem: Problem,
        n: int,
        n_steps: int,
        *,
        whole: bool = False,
        size: float | Size = 1.0,
        dtype: Any,
        key: PRNGKeyArray,
    ) -> "MartingaleTerm":
        """The term at new pieces.

        Args:
            problem: the boundary value problem.
            n: how many pieces.
            n_steps: of each.
            whole: whether pieces run to the end of time; they start at the center of the measure,
                if it names one.
            size: typical size of the solution.
            dtype: precision.
            key: random key.
        """
        if not all(problem.absorbing()):
            raise ValueError(
                "The martingale term (`points.path_steps`) is for problems with absorbing "
                "(Dirichlet) walls only."
            )
        if problem.jumps is not None:
            raise ValueError(
                "The martingale term (`points.path_steps`) is for problems without `jumps`."
            )
        if not problem.timed:
            raise ValueError(
                "The martingale term (`points.path_steps`) is for problems with a `horizon`."
            )
        if problem.nonlinearity is not None and problem.nonlinearity.second:
            raise ValueError(
                "The martingale term (`points.path_steps`) has no second derivatives, but "
                "`nonlinearity` needs them."
            )
        assert problem.horizon is not None
        step = None if whole else _STEP * problem.horizon
        shape = (n, n_steps, problem.dynamics.noise_dim)
        empty = jnp.zeros((n, problem.n_coords), dtype), jnp.zeros(shape, dtype)
        return cls(problem, *empty, step, size)._drawn(key, 1.0)

    def rows(self) -> tuple[Points, Float[Array, "n k m"]]:
        """Starts and noise."""
        return self.starts, self.noise

    def at(self, u: ScalarField, row: tuple[SpaceTimePoint, Float[Array, "k m"]]) -> Scalar:
        """What is lacking over one piece."""
        problem, layout = self.problem, self.problem.layout
        start, noise = row
        whole = layout.time_left(start) / len(noise)

        def advance(state, normals):
            z, total, running = state
            dt = whole if self.step is None else jnp.minimum(self.step, layout.time_left(z))
            value, slope = jax.value_and_grad(lambda y: u(y))(z)
            p, moves = layout.space(slope), problem.dynamics
            push = moves.push(z, jnp.sqrt(dt) * normals)
            income = problem.source(z) - problem.reaction(z) * value
            if problem.nonlinearity is not None:
                income = income + problem.nonlinearity(z, value, p, None)
            x = layout.space(z) + moves.drift(z) * dt + push
            gain = income * dt - jnp.dot(p, push)
            after = layout.later(z, dt, x)
            kept = lambda new, old: jnp.where(running, new, old)
            inside = running & (problem.domain.level(x) < 0)
            return (kept(after, z), total + kept(gain, jnp.zeros_like(gain)), inside), None

        first = start, jnp.zeros((), start.dtype), jnp.array(True)
        (end, total, running), _ = jax.lax.scan(advance, first, noise)
        return (total + self._value_at_end(u, end, running) - u(start)) / size_at(self.size, start)

    def redrawn(self, u: ScalarField, key: PRNGKeyArray, times: float = 1.0) -> "MartingaleTerm":
        """Fresh pieces."""
        del u
        return self._drawn(key, times)

    def _drawn(self, key: PRNGKeyArray, times: float) -> "MartingaleTerm":
        n, dtype = times_as_many(times, self.starts), self.starts.dtype
        problem = self.problem
        center = problem.measure.named_center()
        if self.step is None and center is not None and not problem.parameters:
            one = problem.layout.points(problem.layout.start, center)
            starts = jnp.broadcast_to(jnp.asarray(one, dtype), (n, len(one)))
        else:
            starts = sample_interior(problem, n, dtype=dtype, key=fold(key, "starts"))
        noise = jr.normal(fold(key, "noise"), (n, *self.noise.shape[1:]), dtype)
        return eqx.tree_at(lambda term: (term.starts, term.noise), self, (starts, noise))

    def _value_at_end(self, u: ScalarField, end: SpaceTimePoint, running: Array) -> Scalar:
        """The data where there are any, the candidate elsewhere."""
        problem, layout = self.problem, self.problem.layout
        assert problem.terminal is not None and problem.horizon is not None
        last = layout.time_left(end) <= 1e-6 * problem.horizon
        value = jnp.where(last, problem.terminal(layout.without_time(end)), u(end))
        if not problem.domain.parts:
            return value
        wall = layout.placed(layout.ahead(end), problem.domain.project(layout.space(end)))
        return jnp.where(running, value, absorbed_value(problem, wall))
