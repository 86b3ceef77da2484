"""Functions of one path, run for many paths, with small vectors taken apart.

`jax.vmap` of a function of a point in the plane works on arrays of shape `(paths, 2)`, and each
`stack`, slice or transposed gradient in it moves memory. `apart` runs the same function on separate
arrays, one per coordinate: what is left is arithmetic on arrays of shape `(paths,)`, which
compilers turn into one loop.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_SMALL = 128  # entries; larger arrays, such as the layers of a network, stay whole

_ELEMENTWISE = frozenset(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp
    convert_element_type copy copy_p cos cosh div
    eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le
    lgamma log log1p logistic lt max min mul ne neg nextafter not or pow reduce_precision rem round
    rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square
    stop_gradient sub tan tanh xor""".split()
)
_REDUCE = {
    "reduce_sum": jax.lax.add,
    "reduce_max": jax.lax.max,
    "reduce_min": jax.lax.min,
    "reduce_prod": jax.lax.mul,
    "reduce_and": jax.lax.bitwise_and,
    "reduce_or": jax.lax.bitwise_or,
}
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


def apart(function: Callable[..., Any], *example: Any) -> Callable[..., Any]:
    """`function` for many paths at once.

    Args:
        function: of pytrees of scalars and vectors that belong to one path.
        example: arguments of one path, or their shapes.

    Returns:
        A function of the same pytrees. A scalar of one path is an array of shape `(paths,)`; a
        vector is a tuple of such arrays.
    """
    closed, out = jax.make_jaxpr(function, return_shape=True)(*example)
    given, result = jax.tree.structure(example), jax.tree.structure(out)

    def run(*arguments: Any) -> Any:
        leaves = [_boxed(leaf) for leaf in given.flatten_up_to(arguments)]
        lanes = _Lanes(next(leaf.flat[0].shape[0] for leaf in leaves if leaf.size))
        found = lanes.run(closed.jaxpr, closed.consts, leaves)
        entries = [lanes.entries(value) for value in found]
        return jax.tree.unflatten(result, [_unboxed(value) for value in entries])

    return run


def _boxed(value: Any) -> np.ndarray:
    """Arrays as entries of a NumPy array, which must not look into them."""
    return _filled(list(value), (len(value),)) if isinstance(value, tuple) else _filled([value], ())


def _unboxed(entries: np.ndarray) -> Any:
    return entries.item() if entries.ndim == 0 else tuple(entries)


def _dtype(entry: Any) -> np.dtype:
    return np.dtype(entry.dtype)


def _filled(values: list, shape: tuple[int, ...]) -> np.ndarray:
    flat = np.empty(len(values), object)
    for k, value in enumerate(values):
        flat[k] = value
    return flat.reshape(shape)


class _Unsplit:
    """An array that is not taken apart; `batched` if its first axis runs over paths."""

    def __init__(self, array: Any, batched: bool):
        self.array, self.batched = array, batched


class _Lanes:
    """An interpreter of traced functions, for a number of paths."""

    def __init__(self, paths: int):
        self.paths = paths
        self.same: dict[int, tuple[np.ndarray, Any]] = {}  # arrays that all paths share, once split

    def run(self, jaxpr: Jaxpr, consts: list, arguments: list) -> list:
        values: dict[Any, Any] = {}

        def read(var):
            return self.constant(var.val, var) if isinstance(var, Literal) else values[var]

        for var, const in zip(jaxpr.constvars, consts, strict=True):
            values[var] = self.constant(const, var)
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for eqn in jaxpr.eqns:
            results = self.apply(eqn, [read(var) for var in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def constant(self, value: Any, like: Any = None) -> Any:
        """Small known arrays entry by entry, others whole."""
        if (isinstance(value, Tracer)) or np.size(value) > _SMALL:
            if np.size(value) > _SMALL:
                return _Unsplit(value, False)
            entries = self.split(value, False)
            self.same[id(entries)] = entries, value
            return entries
        known = np.asarray(value, None if like is None else like.aval.dtype)
        return _filled(list(known.reshape(-1)), known.shape)

    def split(self, array: Any, batched: bool) -> np.ndarray:
        """A whole array entry by entry."""
        shape = array.shape[1:] if batched else array.shape
        if batched:
            found = [array[(slice(None), *index)] for index in np.ndindex(shape)]
        else:
            spread = lambda entry: jnp.broadcast_to(entry, (self.paths,))
            found = [spread(array[index]) for index in np.ndindex(shape)]
        return _filled(found, shape)

    def entries(self, value: Any) -> np.ndarray:
        """Entries of shape `(paths,)`, constants spread out."""
        value = self.split(value.array, value.batched) if isinstance(value, _Unsplit) else value
        return _filled([self.spread(entry) for entry in value.reshape(-1)], value.shape)

    def spread(self, entry: Any) -> Any:
        if isinstance(entry, np.generic):
            return jnp.full(self.paths, np.asarray(entry), entry.dtype)
        return entry

    def apply(self, eqn: Any, arguments: list) -> list:
        name, params = eqn.primitive.name, eqn.params
        if params.get("name") == "fkpinn_unsplit":
            return self.batched(eqn, arguments)
        if name in _CALLS:
            inner = params[_CALLS[name]]
            jaxpr, consts = (
                (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])
            )
            return self.run(jaxpr, consts, arguments)
        shapes = [var.aval.shape for var in (*eqn.invars, *eqn.outvars)]
        small = all(np.prod(shape, dtype=int) <= _SMALL for shape in shapes)
        if small and not any(isinstance(a, _Unsplit) for a in arguments):
            if name in _ELEMENTWISE:
                return [self.elementwise(eqn, arguments)]
            if name == "unstack":
                (entries,), axis = arguments, params["axis"]
                rows = np.moveaxis(entries, axis, 0)
                return [rows[k : k + 1].reshape(rows.shape[1:]) for k in range(len(rows))]
            rearrange = getattr(self, f"_{name}", None)
            if rearrange is not None:
                return [rearrange(params, *arguments)]
            if name in _REDUCE:
                return [self.reduce(_REDUCE[name], arguments[0], params["axes"])]
        return self.batched(eqn, arguments)

    def operate(self, function: Callable[..., Any], *entries: Any) -> Any:
        """Apply a function of arrays; known numbers give a known number."""
        if all(isinstance(e, np.generic) for e in entries):
            with jax.ensure_compile_time_eval():
                result = np.asarray(function(*(jnp.asarray(e, e.dtype) for e in entries)))
            return result[()]
        return function(*(self.spread(e) for e in entries))

    def elementwise(self, eqn: Any, arguments: list) -> np.ndarray:
        shape = eqn.outvars[0].aval.shape
        function = lambda *entries: eqn.primitive.bind(*entries, **self._flat(eqn.params))
        spread = [np.broadcast_to(a, shape).reshape(-1) for a in arguments]
        return _filled([self.operate(function, *e) for e in zip(*spread, strict=True)], shape)

    @staticmethod
    def _flat(params: dict) -> dict:
        return {k: (None if k == "sharding" else v) for k, v in params.items()}

    def reduce(self, function: Callable[..., Any], entries: np.ndarray, axes) -> np.ndarray:
        kept = [a for a in range(entries.ndim) if a not in axes]
        shape = tuple(entries.shape[a] for a in kept)
        rows = np.transpose(entries, [*kept, *axes]).reshape(int(np.prod(shape, dtype=int)), -1)
        return _filled([self.fold(function, list(row)) for row in rows], shape)

    def fold(self, function: Callable[..., Any], entries: list) -> Any:
        """One after the other."""
        return functools.reduce(functools.partial(self.operate, function), entries)

    def batched(self, eqn: Any, arguments: list) -> list:
        """Anything else, with whole arrays and JAX's own rule for many at once."""
        whole, axes = [], []
        for argument in arguments:
            if isinstance(argument, _Unsplit):
                whole.append(argument.array)
                axes.append(0 if argument.batched else None)
            elif id(argument) in self.same:
                whole.append(self.same[id(argument)][1])
                axes.append(None)
            elif all(isinstance(e, np.generic) for e in argument.flat) and argument.size:
                known = np.array(argument.tolist(), argument.flat[0].dtype)
                whole.append(jnp.asarray(known.reshape(argument.shape)))
                axes.append(None)
            else:
                rows = [self.spread(e) for e in argument.flat]
                whole.append(jnp.stack(rows, axis=1).reshape(self.paths, *argument.shape))
                axes.append(0)

        def call(*values):
            results = eqn.primitive.bind(*values, **eqn.params)
            return results if eqn.primitive.multiple_results else [results]

        if all(axis is None for axis in axes):
            found, batched = call(*whole), False
        else:
            found, batched = jax.vmap(call, in_axes=axes)(*whole), True
        sizes = [np.prod(var.aval.shape, dtype=int) for var in eqn.outvars]
        return [
            self.split(array, batched) if size <= _SMALL else _Unsplit(array, batched)
            for array, size in zip(found, sizes, strict=True)
        ]

    # ---- what only moves entries about; called by the primitive's name

    def _broadcast_in_dim(self, params, entries, *_):
        shape, where = params["shape"], params["broadcast_dimensions"]
        lengths = [1] * len(shape)
        for axis, size in zip(where, entries.shape, strict=True):
            lengths[axis] = size
        return np.broadcast_to(entries.reshape(lengths), shape)

    def _reshape(self, params, entries, *_):
        return entries.reshape(params["new_sizes"])

    def _squeeze(self, params, entries):
        return np.squeeze(entries, axis=params["dimensions"])

    def _expand_dims(self, params, entries):
        return np.expand_dims(entries, params["dimensions"])

    def _transpose(self, params, entries):
        return np.transpose(entries, params["permutation"])

    def _rev(self, params, entries):
        return np.flip(entries, params["dimensions"])

    def _slice(self, params, entries):
        strides = params["strides"] or [1] * entries.ndim
        cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        return entries[tuple(slice(*cut) for cut in cuts)]

    def _stack(self, params, *parts):
        return np.stack(parts, axis=params["axis"])

    def _dynamic_slice(self, params, entries, *starts):
        for axis, (size, start) in enumerate(zip(params["slice_sizes"], starts, strict=True)):
            rows = np.moveaxis(entries, axis, 0)
            found = rows[:size]
            for first in range(1, len(rows) - size + 1):  # the last one that is not too far
                bound = np.asarray(first, _dtype(start.item()))[()]
                reached = self.operate(jax.lax.ge, start.item(), bound)
                pairs = zip(found.reshape(-1), rows[first : first + size].reshape(-1), strict=True)
                chosen = [self.operate(jax.lax.select, reached, b, a) for a, b in pairs]
                found = _filled(chosen, found.shape)
            entries = np.moveaxis(found, 0, axis)
        return entries

    def _concatenate(self, params, *parts):
        return np.concatenate(parts, axis=params["dimension"])

    def _pad(self, params, entries, value):
        config = [tuple(map(int, c)) for c in params["padding_config"]]
        # lay out with room for negative paddings, then cut those off
        room, inside, cuts = [], [], []
        for size, (low, high, inner) in zip(entries.shape, config, strict=True):
            start, span = max(low, 0), max((size - 1) * (inner + 1) + 1, 0)
            room.append(start + span + max(high, 0))
            inside.append(slice(start, start + span, inner + 1))
            cuts.append(slice(max(-low, 0), room[-1] + min(high, 0)))
        result = _filled([value.item()] * int(np.prod(room, dtype=int)), tuple(room))
        result[tuple(inside)] = entries
        return result[tuple(cuts)]

    def _argmin(self, params, entries):
        return self._arg(params, entries, jax.lax.lt)

    def _argmax(self, params, entries):
        return self._arg(params, entries, jax.lax.gt)

    def _arg(self, params, entries, better):
        (axis,) = params["axes"]
        rows = np.moveaxis(entries, axis, -1)
        index = [np.asarray(k, params["index_dtype"])[()] for k in range(rows.shape[-1])]
        found = []
        for row in rows.reshape(-1, rows.shape[-1]):
            best, where = row[0], index[0]
            for entry, k in zip(row[1:], index[1:], strict=True):
                wins = self.operate(better, entry, best)
                # NaN wins once and stays, as in NumPy
                wins = self.operate(
                    jax.lax.bitwise_or, wins, self.operate(jax.lax.ne, entry, entry)
                )
                same = self.operate(jax.lax.eq, best, best)
                wins = self.operate(jax.lax.bitwise_and, wins, same)
                best = self.operate(jax.lax.select, wins, entry, best)
                where = self.operate(jax.lax.select, wins, k, where)
            found.append(where)
        return _filled(found, rows.shape[:-1])

    def _iota(self, params, *_):
        shape, axis = params["shape"], params["dimension"]
        lengths = [1] * len(shape)
        lengths[axis] = shape[axis]
        known = np.arange(shape[axis], dtype=params["dtype"]).reshape(lengths)
        return self.constant(np.broadcast_to(known, shape))

    def _dot_general(self, params, left, right):
        (on_left, on_right), (batch_left, batch_right) = params["dimension_numbers"]
        spec = lambda a, batch, on: [i for i in range(a.ndim) if i not in (*batch, *on)]
        free_left, free_right = spec(left, batch_left, on_left), spec(right, batch_right, on_right)
        a = np.transpose(left, [*batch_left, *free_left, *on_left])
        b = np.transpose(right, [*batch_right, *free_right, *on_right])
        batch = [left.shape[i] for i in batch_left]
        rows, columns = [left.shape[i] for i in free_left], [right.shape[i] for i in free_right]
        inner = int(np.prod([left.shape[i] for i in on_left], dtype=int))
        a = a.reshape(int(np.prod(batch, dtype=int)), int(np.prod(rows, dtype=int)), inner)
        b = b.reshape(a.shape[0], int(np.prod(columns, dtype=int)), inner)
        found = []
        for k, i, j in np.ndindex(a.shape[0], a.shape[1], b.shape[1]):
            pairs = zip(a[k, i], b[k, j], strict=True)
            found.append(self.fold(jax.lax.add, [self.operate(jax.lax.mul, *p) for p in pairs]))
        return _filled(found, (*batch, *rows, *columns))
