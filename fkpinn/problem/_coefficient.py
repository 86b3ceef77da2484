"""Constants and user functions behind one call: `coefficient(z)`."""

import abc
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Array, Float

from .._types import SpaceTimePoint
from ..domain import frozen
from ._layout import Layout


class Coefficient(eqx.Module):
    """A coefficient of the equation: a constant, or a function of one point.

    Functions given by the user take `x`, or `t, x` for parabolic problems; a coefficient
    always takes the point `z` of the problem, which is `x`, or `t` followed by `x`. Results
    are cast to the precision of `z`.
    """

    function: Callable[..., Any] | None
    constant: Any = eqx.field(static=True)
    layout: Layout
    shape: tuple[int, ...] = eqx.field(static=True)
    reads: tuple[str, ...] = eqx.field(static=True, default=())  # parameters that it asks for
    moves: bool = eqx.field(static=True, default=True)  # as a path does, where it is a function

    def __call__(self, z: SpaceTimePoint) -> Float[Array, "..."]:
        """Value at one point."""
        if self.function is None:
            return jnp.asarray(np.asarray(self.constant), z.dtype)
        return jnp.reshape(jnp.asarray(self.found(z), z.dtype), self.shape)

    def found(self, z: SpaceTimePoint) -> Any:
        """What the function returns at one point, as it is."""
        assert self.function is not None
        if isinstance(self.function, OfPoint):
            return self.function(z)
        named = self.layout.named(z, self.reads)
        return self.function(*self.layout.arguments(z), **named)

    @property
    def is_zero(self) -> bool:
        """Whether it is the constant zero."""
        return self.function is None and not np.any(np.asarray(self.constant))

    @property
    def is_constant(self) -> bool:
        """Whether it is the same all along a path: a number, or a function of parameters alone."""
        return self.function is None or not self.moves

    def at(self, values: Float[Array, " k"]) -> "Coefficient":
        """The same for given values of the parameters."""
        single = self.layout.single
        if self.function is None or not (self.reads or isinstance(self.function, OfPoint)):
            return Coefficient(self.function, self.constant, single, self.shape)
        moves = self.moves
        return Coefficient(_AtValues(self, values), None, single, self.shape, (), moves)


class OfPoint(eqx.Module):
    """A function of a whole point of the problem, not of what functions of the user take."""

    @abc.abstractmethod
    def __call__(self, z: SpaceTimePoint) -> Float[Array, "..."]:
        """Value at one point: parameters, time and place."""


class OfCandidate(OfPoint):
    """A function with a candidate in it, a network say: no formula to compile into steps."""


class _AtValues(OfPoint):
    """A coefficient of a family, for one of its problems."""

    family: Coefficient
    values: Float[Array, " k"]

    def __call__(self, z: SpaceTimePoint) -> Float[Array, "..."]:
        return self.family(jnp.concatenate([self.values.astype(z.dtype), z]))


def bind(
    argument: str, given: Any, shapes: tuple[tuple[int | None, ...], ...], layout: Layout
) -> Coefficient:
    """Check what the user gave and wrap it.

    Args:
        argument: name of the argument, for messages.
        given: a number, an array, or a function of one point.
        shapes: shapes allowed, the preferred first; None stands for any size.
        layout: of the points; it says what functions are called with.
    """
    wanted = " or ".join(_spell(shape) for shape in shapes)
    if isinstance(given, Coefficient):
        return given
    if not callable(given):
        return _bind_constant(argument, given, shapes, wanted, layout)
    reads = _names_read(given, layout)
    signature = "t, x" if layout.timed else "x"
    point = jax.ShapeDtypeStruct((layout.n_coords,), jnp.result_type(float))
    made = Coefficient(given, None, layout, (), reads)
    arguments = jax.eval_shape(layout.arguments, point)
    if not isinstance(given, OfPoint) and not accepts(given, len(arguments), reads):
        known = [name for name, _ in layout.parameters]
        also = f", and with parameters by name ({', '.join(known)})" if known else ""
        raise TypeError(
            f"`{argument}` must be a function of one point, called with `{signature}`{also}; got "
            f"{spelled(given)}. Try `lambda {', '.join([signature, *reads])}: ...`."
        )
    result = jax.eval_shape(made.found, point)
    leaves = jax.tree.leaves(result)
    if len(leaves) != 1 or not hasattr(result, "shape"):
        raise TypeError(
            f"`{argument}` must return one array of shape {wanted}; got {type(result).__name__}. "
            f"Try `jnp.stack([...])` to make an array of several numbers."
        )
    if not jnp.issubdtype(result.dtype, jnp.floating) and not result.weak_type:
        raise TypeError(
            f"`{argument}` must return real floating-point numbers; got dtype {result.dtype}. "
            f"Try `jnp.asarray(value, float)`."
        )
    if jnp.issubdtype(result.dtype, jnp.complexfloating):
        raise TypeError(f"`{argument}` must return real numbers; got dtype {result.dtype}.")
    shape = _match(tuple(result.shape), shapes)
    if shape is None:
        raise ValueError(
            f"`{argument}` must return shape {wanted} at one point; got shape "
            f"{tuple(result.shape)}. It is called with one point of shape ({layout.dim},), not "
            f"with a batch."
        )
    return Coefficient(given, None, layout, shape, reads, _moves(given, layout, reads, point.dtype))


def _names_read(given: Callable[..., Any], layout: Layout) -> tuple[str, ...]:
    """Parameters of the family that a function names among its arguments."""
    if not layout.parameters or isinstance(given, OfPoint):
        return ()
    try:
        own = inspect.signature(given).parameters.values()
    except ValueError:  # builtins without a signature
        return ()
    known = [name for name, _ in layout.parameters]
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in own):
        return tuple(known)
    asked = [each.name for each in own if each.kind is not inspect.Parameter.POSITIONAL_ONLY]
    return tuple(name for name in known if name in asked)


def _moves(given: Callable[..., Any], layout: Layout, reads: tuple[str, ...], dtype: Any) -> bool:
    """Whether a function changes along a path, as far as its formula tells."""
    if not layout.parameters or isinstance(given, OfPoint):
        return True
    single, names = layout.single, [name for name, _ in layout.parameters]

    def of(rest: Array, values: Array) -> Any:
        return given(*single.arguments(rest), **{n: values[names.index(n)] for n in reads})

    shapes = (single.n_coords, layout.n_parameters)
    return inputs_read(of, [jax.ShapeDtypeStruct((n,), dtype) for n in shapes])[0]


def inputs_read(function: Callable[..., Any], arguments: list) -> list[bool]:
    """Which arguments the result depends on; where that is not plain, it does."""
    jaxpr = jax.make_jaxpr(lambda *a: function(*a))(*arguments).jaxpr
    needed = {var for var in jaxpr.outvars if not isinstance(var, Literal)}
    for eqn in reversed(jaxpr.eqns):
        if any(var in needed for var in eqn.outvars):
            needed |= {var for var in eqn.invars if not isinstance(var, Literal)}
    return [var in needed for var in jaxpr.invars]


def _bind_constant(argument: str, given: Any, shapes, wanted: str, layout: Layout) -> Coefficient:
    try:
        array = np.asarray(given)
        if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
            raise TypeError
    except TypeError:
        raise TypeError(
            f"`{argument}` must be a real number, a real array of shape {wanted}, or a function "
            f"of one point; got {spelled(given)}."
        ) from None
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{argument}` must be finite; got {given!r}.")
    if array.ndim == 0 and array == 0 and None not in shapes[0]:
        array = np.zeros(shapes[0])  # zero is zero in any shape
    shape = _match(array.shape, shapes)
    if shape is None:
        raise ValueError(f"`{argument}` must have shape {wanted}; got shape {array.shape}.")
    return Coefficient(None, frozen(array.reshape(shape)), layout, shape)


def _match(shape: tuple[int, ...], allowed) -> tuple[int, ...] | None:
    """`shape` if it is allowed; a scalar also serves for a vector of length one."""
    for want in allowed:
        if len(want) == len(shape) and all(
            w is None or w == s for w, s in zip(want, shape, strict=True)
        ):
            return shape
    return (1,) if shape == () and (1,) in allowed else None


def _spell(shape: tuple[int | None, ...]) -> str:
    inside = ", ".join("m" if s is None else str(s) for s in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def accepts(function: Callable[..., Any], count: int, names: tuple[str, ...] = ()) -> bool:
    """Whether a function can be called with so many arguments, and these by name."""
    try:
        inspect.signature(function).bind(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # builtins without a signature
        return True
    return True


def spelled(given: Any) -> str:
    """What was given, for messages."""
    name = getattr(given, "__name__", None)
    return f"function `{name}`" if callable(given) and name else f"{given!r}"
