"""Kinks of data in several dimensions, smoothed as a diffusion does it in a short time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.scipy.stats import norm

from .._types import Scalar, SpaceTimePoint
from ._problem import Problem

_SOON = 1e-12  # times in units of the horizon that count as the end
_COMPARED = {"gt": 1.0, "ge": 1.0, "lt": -1.0, "le": -1.0}
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where a call keeps what it calls


class Softened(eqx.Module):
    r"""Smoothing of kinks of terminal data by a diffusion in a short time: $G(t, x) - g(x)$.

    If the data choose between $A$ and $B$ by the sign of $D$ (as `maximum(a, b)` does by that of $a
    - b$, and similarly `minimum`, `abs`, `where` and the maximum of an array), their mean over a
    short time $\tau$ is $B + (A - B)\,\Phi(y) + c\,\varphi(y)$ with $y = D/s$, where $s^2 =
    \tau\,|\sigma^\top\nabla D|^2$ and $c = \tau\,\sigma^\top\nabla D\cdot\sigma^\top\nabla(A -
    B)/s$, with $D$ and $A - B$ shifted by the drift. Nested choices are treated in the order in
    which the data evaluate them.

    Args:
        problem: a problem with terminal data.
    """

    problem: Problem

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """What is added to the data."""
        problem, layout = self.problem, self.problem.layout
        data = problem.terminal
        assert layout.horizon is not None and data is not None
        gone = layout.pace * (layout.time(z) - layout.end)
        left = jnp.where(gone > 0.0, gone, -gone) + _SOON * layout.horizon
        values, x = layout.values(z), layout.space(z)
        place = lambda x: layout.timeless.placed(values, x)
        moves = jnp.concatenate(
            [jnp.sqrt(left) * problem.sigma(z).T, left * problem.drift(z)[None]]
        )
        traced = jax.make_jaxpr(lambda x: jnp.asarray(data(place(x)), x.dtype))(x)
        (soft,) = _follow(
            traced.jaxpr, [_Moving(c, None) for c in traced.consts], [_Moving(x, moves)]
        )
        return soft.value - data(place(x))


def chooses(problem: Problem) -> bool:
    """Whether the terminal data choose between values in a way that can be smoothed."""
    if problem.terminal is None or problem.diffusion.is_zero:
        return False
    if problem.nonlinearity is not None and problem.nonlinearity.second:
        return False  # the noise is not known beforehand
    data = problem.terminal
    x = jax.ShapeDtypeStruct((problem.layout.timeless.n_coords,), jnp.result_type(float))
    return _any_choice(jax.make_jaxpr(lambda x: data(x))(x).jaxpr)


def _any_choice(jaxpr: Jaxpr) -> bool:
    own = {"max", "min", "abs", "sign", "reduce_max", "reduce_min", *_COMPARED}
    inner = (_inner(equation) for equation in jaxpr.eqns)
    return any(e.primitive.name in own for e in jaxpr.eqns) or any(
        _any_choice(_open(found)[0]) for found in inner if found is not None
    )


class _Moving(NamedTuple):
    """A value, and by how much it changes along each direction of the noise, last along the drift.

    No change at all is None. What comes of a comparison has the difference whose sign it tells.
    """

    value: Any
    change: Any
    tells: "_Moving | None" = None


def _follow(jaxpr: Jaxpr, consts: Sequence[_Moving], given: Sequence[_Moving]) -> list[_Moving]:
    """Go through a program with values that move, smoothing its choices."""
    known: dict[Any, _Moving] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, given, strict=True))
    read = lambda atom: _Moving(atom.val, None) if isinstance(atom, Literal) else known[atom]
    for equation in jaxpr.eqns:
        name, ins = equation.primitive.name, [read(atom) for atom in equation.invars]
        called = _inner(equation)
        if called is not None:
            inside, own = _open(called)
            outs = _follow(inside, [_Moving(c, None) for c in own], ins[-len(inside.invars) :])
        elif name in ("max", "min"):
            outs = [
                _chosen(_less(*ins), *ins) if name == "max" else _chosen(_less(*ins), *ins[::-1])
            ]
        elif name == "abs" and ins[0].change is not None:
            outs = [_chosen(ins[0], ins[0], _scaled(ins[0], -1.0))]
        elif name == "sign" and ins[0].change is not None:
            one = jnp.ones_like(ins[0].value)
            outs = [_chosen(ins[0], _Moving(one, None), _Moving(-one, None))]
        elif name in ("reduce_max", "reduce_min"):
            outs = [_largest(ins[0], equation.params["axes"], 1.0 if name[7:] == "max" else -1.0)]
        elif name == "select_n" and ins[0].tells is not None and _floats(ins[1:]):
            outs = [_chosen(ins[0].tells, ins[2], ins[1])]
        else:
            outs = _pushed(equation, ins)
        if name in _COMPARED and _floats(ins):
            outs = [outs[0]._replace(tells=_scaled(_less(*ins), _COMPARED[name]))]
        known |= dict(zip(equation.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _inner(equation: Any) -> ClosedJaxpr | Jaxpr | None:
    """The program that a call runs once; loops and branches are no such calls."""
    if equation.primitive.name in ("scan", "while", "cond"):
        return None
    return next((equation.params[key] for key in _INNER if key in equation.params), None)


def _open(called: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, Sequence[Any]]:
    return (called.jaxpr, called.consts) if isinstance(called, ClosedJaxpr) else (called, ())


def _floats(values: Sequence[_Moving]) -> bool:
    return all(jnp.issubdtype(jnp.result_type(v.value), jnp.floating) for v in values)


def _chosen(difference: _Moving, above: _Moving, below: _Moving) -> _Moving:
    """The mean of `above` where a moving difference is positive, else of `below`."""
    gain = _less(above, below)
    up = difference.value > 0
    sharp = jnp.where(up, above.value, below.value)
    if difference.change is None:
        return _Moving(sharp, _either(up, above, below))
    noise = difference.change[:-1]
    s = jnp.sqrt(jnp.sum(noise**2, axis=0) + jnp.finfo(sharp.dtype).tiny ** 0.5)
    y = (difference.value + difference.change[-1]) / s
    share, width = norm.cdf(y), norm.pdf(y)
    change = jnp.zeros_like(difference.change) if gain.change is None else gain.change
    slope = jnp.sum(noise * change[:-1], axis=0) / s
    soft = below.value + (gain.value + change[-1]) * share + slope * width
    # where a branch that is not taken is no number, it is not looked at
    value = jnp.where(jnp.isfinite(soft), soft, sharp)
    under = jnp.zeros_like(change) if below.change is None else below.change
    return _Moving(value, under + change * share[None])


def _either(up: Any, above: _Moving, below: _Moving) -> Any:
    if above.change is None and below.change is None:
        return None
    a, b = (0.0 if v.change is None else v.change for v in (above, below))
    return jnp.where(up[None], a, b)


def _largest(given: _Moving, axes: Sequence[int], sign: float) -> _Moving:
    """Of an array along axes: one entry after the other."""
    value = jnp.moveaxis(given.value, tuple(axes), tuple(range(len(axes))))
    value = jnp.reshape(value, (-1, *value.shape[len(axes) :]))
    change = None
    if given.change is not None:
        change = jnp.moveaxis(given.change, [a + 1 for a in axes], range(1, len(axes) + 1))
        change = jnp.reshape(change, (change.shape[0], -1, *value.shape[1:]))
    entry = lambda k: _Moving(value[k], None if change is None else change[:, k])
    best = entry(0)
    for k in range(1, value.shape[0]):
        best = _chosen(_scaled(_less(entry(k), best), sign), entry(k), best)
    return best


def _less(a: _Moving, b: _Moving) -> _Moving:
    value = jnp.asarray(a.value) - jnp.asarray(b.value)
    if a.change is None or b.change is None:
        only = _scaled(b, -1.0).change if a.change is None else a.change
        wide = None if only is None else jnp.broadcast_to(only, (only.shape[0], *value.shape))
        return _Moving(value, wide)
    return _Moving(value, a.change - b.change)


def _scaled(a: _Moving, factor: float) -> _Moving:
    return _Moving(factor * a.value, None if a.change is None else factor * a.change)


def _pushed(equation: Any, ins: Sequence[_Moving]) -> list[_Moving]:
    """Any other operation: its value, and its derivative along the changes."""

    def call(*moving):
        rest = iter(moving)
        values = [v.value if v.change is None else next(rest) for v in ins]
        found = equation.primitive.bind(*values, **equation.params)
        return list(found) if equation.primitive.multiple_results else [found]

    moving = [v for v in ins if v.change is not None]
    values = [v.value for v in moving]
    if not moving:
        return [_Moving(value, None) for value in call()]
    along = lambda *changes: jax.jvp(call, values, list(changes))
    found, changes = jax.vmap(along, out_axes=(None, 0))(*(v.change for v in moving))
    return [
        _Moving(value, change if jnp.issubdtype(value.dtype, jnp.floating) else None)
        for value, change in zip(found, changes, strict=True)
    ]
