"""Newton's method with conjugate gradients and a Nyström preconditioner (NNCG)."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float, Int

from .._streams import Stream, fold
from .._types import Scalar
from ._objective import AbstractOptimizer, Objective, Parameters, Report


class State(NamedTuple):
    """A sketch of the Hessian (vectors and eigenvalues), the step count, failures in a row."""

    vectors: Float[Array, "p s"]
    values: Float[Array, " s"]
    taken: Int[Array, ""]
    failures: Int[Array, ""]


class NystromNewton(AbstractOptimizer):
    r"""NysNewton-CG of Rathore et al. (ICML 2024), to be used after Adam and L-BFGS.

    A step solves $(H + \mu I)d = \nabla L$ by conjugate gradients, preconditioned by a randomized
    low-rank sketch of the Hessian that is renewed periodically; directions of negative curvature
    end the solve. An Armijo line search sets the step length.

    Args:
        damping: $\mu$.
        rank: size of the sketch.
        sketch_every: steps between two sketches.
        solves: maximum number of conjugate gradient iterations.
        tolerance: the iterations end when the residual is reduced by this factor.
        halvings: maximum number of halvings of a step before the optimizer stops.
    """

    reasons: ClassVar[tuple[str, ...]] = ("", "no step reduces the loss any more")
    dtype: ClassVar[str | None] = "float64"

    damping: float = eqx.field(static=True, default=1e-3)
    rank: int = eqx.field(static=True, default=60)
    sketch_every: int = eqx.field(static=True, default=20)
    solves: int = eqx.field(static=True, default=300)
    tolerance: float = eqx.field(static=True, default=1e-10)
    halvings: int = eqx.field(static=True, default=30)

    def __check_init__(self) -> None:
        if not self.damping > 0:
            raise ValueError(f"`damping` must be positive; got {self.damping}.")
        if min(self.rank, self.sketch_every, self.solves, self.halvings) < 1:
            raise ValueError(
                "`rank`, `sketch_every`, `solves` and `halvings` must be at least 1; got "
                f"{self.rank}, {self.sketch_every}, {self.solves}, {self.halvings}."
            )

    def init(self, objective: Objective, parameters: Parameters) -> State:
        """No sketch yet; the first step draws one."""
        del objective
        p, rank = parameters.size, min(self.rank, parameters.size)
        none = jnp.zeros((), jnp.int32)
        dtype = parameters.dtype
        return State(jnp.zeros((p, rank), dtype), jnp.zeros(rank, dtype), none, none)

    def step(
        self, objective: Objective, parameters: Parameters, state: State
    ) -> tuple[Parameters, State, Report]:
        """Sketch if it is time, solve, search."""
        (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(parameters)
        times = lambda v: jax.jvp(jax.grad(objective), (parameters,), (v,))[1]
        due = (state.taken % self.sketch_every == 0) | (state.failures > 0)
        key = fold(Stream(0).key, "sketch", state.taken)
        vectors, values = jax.lax.cond(
            due,
            lambda: nystrom(times, parameters, state.values.size, key),
            lambda: (state.vectors, state.values),
        )
        direction = _solve(times, slope, vectors, values, self.damping, self.solves, self.tolerance)
        descent = jnp.dot(direction, slope)
        direction = jnp.where(descent > 0, direction, slope)
        descent = jnp.where(descent > 0, descent, jnp.dot(slope, slope))
        length = self._search(objective, parameters, direction, loss, descent)
        failures = jnp.where(length > 0, 0, state.failures + 1)
        state = State(vectors, values, state.taken + 1, failures)
        report = Report(loss, terms, (failures > 1).astype(jnp.int32))
        return parameters - length * direction, state, report

    def _search(self, objective: Objective, parameters, direction, loss, descent) -> Scalar:
        """Armijo: the first of 1, 1/2, ... with a tenth of the fall that the slope promises."""

        def low(length):
            return objective(parameters - length * direction) <= loss - 0.1 * length * descent

        def worse(carry):
            _, enough, count = carry
            return ~enough & (count < self.halvings)

        def halve(carry):
            length, _, count = carry
            return 0.5 * length, low(0.5 * length), count + 1

        one = jnp.ones((), loss.dtype)
        length, enough, _ = jax.lax.while_loop(
            worse, halve, (one, low(one), jnp.zeros((), jnp.int32))
        )
        return jnp.where(enough, length, 0.0)


def nystrom(times, at: Parameters, rank: int, key) -> tuple[Array, Array]:
    """Leading eigenvectors and eigenvalues of a matrix known by its products, from a sketch."""
    test, _ = jnp.linalg.qr(jr.normal(key, (at.size, rank), at.dtype))
    sketch = jax.lax.map(times, test.T).T
    shift = jnp.finfo(at.dtype).eps * jnp.linalg.norm(sketch)
    core = test.T @ sketch + shift * jnp.eye(rank, dtype=at.dtype)
    # an indefinite Hessian has no Cholesky factor; negative parts are left to the damping
    values, vectors = jnp.linalg.eigh(0.5 * (core + core.T))
    kept = values > 10 * shift
    root = jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)
    tall = (sketch + shift * test) @ (vectors * root[None])
    basis, singular, _ = jsl.svd(tall, full_matrices=False)
    return basis, jnp.maximum(singular**2 - shift, 0.0)


def _solve(times, b, vectors, values, mu, most: int, tolerance: float) -> Parameters:
    """Preconditioned conjugate gradients on `H + mu`; stops at negative curvature."""
    factor = (jnp.min(values) + mu) / (values + mu)

    def precondition(v):
        inside = vectors.T @ v
        return v + vectors @ ((factor - 1.0) * inside)

    def go_on(carry):
        _, r, _, _, count, convex = carry
        return (count < most) & convex & (jnp.linalg.norm(r) > tolerance * jnp.linalg.norm(b))

    def iterate(carry):
        x, r, direction, rz, count, _ = carry
        image = times(direction) + mu * direction
        bend = jnp.dot(direction, image)
        convex = bend > 0
        step = jnp.where(convex, rz / jnp.where(convex, bend, 1.0), 0.0)
        x, r = x + step * direction, r - step * image
        z = precondition(r)
        new = jnp.dot(r, z)
        return x, r, z + (new / rz) * direction, new, count + 1, convex

    z = precondition(b)
    start = jnp.zeros_like(b), b, z, jnp.dot(b, z), jnp.zeros((), jnp.int32), jnp.array(True)
    x, *_ = jax.lax.while_loop(go_on, iterate, start)
    return jnp.where(jnp.any(x != 0), x, precondition(b))
