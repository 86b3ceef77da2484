"""The nonlinear part of an equation, and the linear problem next to a candidate."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._field import taylor
from .._types import Matrix, Scalar, SpaceTimePoint, Vector
from ._coefficient import accepts, inputs_read, spelled
from ._layout import Layout

_SAMPLES = 64  # random matrices that tell whether only the diagonal counts
_READ = ("u", "p", "Q")


class Slopes(NamedTuple):
    """Of a nonlinearity at one place: its value, and derivatives by `u`, `p` and `Q`."""

    value: Scalar
    by_u: Scalar
    by_p: Vector
    by_q: Matrix | None


class Nonlinearity(eqx.Module):
    r"""$F(x, u, \nabla u)$ or $F(x, u, \nabla u, D^2u)$, added to the left-hand side.

    Args:
        function: of `x, u, p` or `x, u, p, Q`, with the time in front where there is one.
        layout: of the points.
        second: whether it takes `Q`.
        reads: which of `u`, `p`, `Q` its value depends on.
        diagonal: whether of `Q` only the diagonal counts.
    """

    function: Callable[..., Any]
    layout: Layout
    second: bool = eqx.field(static=True)
    reads: frozenset[str] = eqx.field(static=True)
    diagonal: bool = eqx.field(static=True)

    def __call__(self, z: SpaceTimePoint, u: Scalar, p: Vector, q: Matrix | None) -> Scalar:
        """Its value, from value, gradient and second derivatives in space."""
        more = (q,) if self.second else ()
        found = self.function(*self.layout.arguments(z), u, p, *more)
        return jnp.reshape(jnp.asarray(found, z.dtype), ())

    def slopes(self, z: SpaceTimePoint, u: Scalar, p: Vector, q: Matrix | None) -> Slopes:
        """Value and derivatives; that by `Q` symmetric."""
        both = jax.value_and_grad(lambda u, p, q: self(z, u, p, q), argnums=(0, 1, 2))
        value, (by_u, by_p, by_q) = both(u, p, q)
        return Slopes(value, by_u, by_p, None if by_q is None else 0.5 * (by_q + by_q.T))

    def hessian(self, w: Callable[..., Any], z: SpaceTimePoint) -> Float[Array, "d d"]:
        """Second derivatives in space of a candidate; where others do not count, the diagonal."""
        axes = self.layout.direction_rows(z.dtype)
        if self.diagonal:
            one = jnp.ones(1, z.dtype)
            bends = jax.vmap(lambda c: taylor(w, z, c[None], one).curvature)(axes)
            return jnp.diag(bends.astype(z.dtype))
        along = lambda c: jax.jvp(jax.grad(lambda y: w(y)), (z,), (c,))[1]
        return self.layout.space(jax.vmap(along)(axes))


def bind_nonlinearity(given: Any, layout: Layout) -> Nonlinearity:
    """Check what the user gave and wrap it."""
    if isinstance(given, Nonlinearity):
        return given
    own = ["t", "x"] if layout.timed else ["x"]
    if not callable(given):
        raise TypeError(
            f"`nonlinearity` must be a function called with `{', '.join(own)}, u, p` or `"
            f"{', '.join(own)}, u, p, Q`; got {spelled(given)}."
        )
    n = len(own)
    second = not accepts(given, n + 2)
    if second and not accepts(given, n + 3):
        raise TypeError(
            f"`nonlinearity` must be a function called with `{', '.join(own)}, u, p` or `"
            f"{', '.join(own)}, u, p, Q` (value, gradient and second derivatives in space); got "
            f"{spelled(given)}. Try `lambda {', '.join(own)}, u, p: ...`."
        )
    dtype, d = jnp.result_type(float), layout.dim
    number = jax.ShapeDtypeStruct((), dtype)
    vector, matrix = jax.ShapeDtypeStruct((d,), dtype), jax.ShapeDtypeStruct((d, d), dtype)
    arguments = [*([number] if layout.timed else []), vector, number, vector]
    arguments += [matrix] if second else []
    found = jax.eval_shape(lambda *a: given(*a), *arguments)
    if not hasattr(found, "shape") or found.shape not in ((), (1,)):
        raise ValueError(
            f"`nonlinearity` must return one number; got "
            f"{'shape ' + str(found.shape) if hasattr(found, 'shape') else type(found).__name__}. "
            f"It is called with one point, a number `u` and arrays of shape ({d},)"
            f"{f' and ({d}, {d})' if second else ''}."
        )
    used = inputs_read(given, arguments)[n:]
    reads = frozenset(name for name, read in zip(_READ, used, strict=False) if read)
    made = Nonlinearity(given, layout, second, reads, False)
    if not second:
        return made
    return Nonlinearity(given, layout, second, reads, _only_diagonal(made))


def _only_diagonal(given: Nonlinearity) -> bool:
    """Whether entries off the diagonal of `Q` never change the value, at random places."""
    rng, d, dtype = np.random.default_rng(0), given.layout.dim, jnp.result_type(float)
    size = np.exp(rng.uniform(-3.0, 3.0, _SAMPLES))
    draw = lambda *shape: jnp.asarray(
        rng.normal(size=(_SAMPLES, *shape)) * size.reshape(-1, *(1,) * len(shape)), dtype
    )
    z, u, p, q = draw(given.layout.n_coords), draw(), draw(d), draw(d, d)
    q = q + jnp.swapaxes(q, 1, 2)
    diagonal = q * jnp.eye(d, dtype=dtype)[None]
    value = jax.vmap(lambda *a: given(*a))
    both, alone = (np.asarray(value(z, u, p, m)) for m in (q, diagonal))
    return bool(np.array_equal(both, alone, equal_nan=True))


def derivatives(
    nonlinearity: Nonlinearity, w: Callable[..., Any], z: SpaceTimePoint
) -> tuple[Scalar, Vector, Matrix | None]:
    """Value, gradient and, where they count, second derivatives in space of a candidate."""
    layout = nonlinearity.layout
    value, slope = jax.value_and_grad(lambda y: w(y))(z)
    if not nonlinearity.second:
        return value, layout.space(slope), None
    return value, layout.space(slope), nonlinearity.hessian(w, z)
