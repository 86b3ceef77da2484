"""Solutions of other tools as candidates: functions of many points, called on the host.

Compiled code asks for values and derivatives through `jax.pure_callback`.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision
from .._field import AbstractField, Directions, Taylor, Weights
from .._streams import Stream
from .._types import Scalar, SpaceTimePoint, Vector
from ..problem import Problem
from ..sampling import sample_interior
from ._host import AbstractHost, Differences, Refused, Torch, Window, is_torch_module, pytorch

_KINDS = ("differences", "torch")
_LOOK = 64  # points at which a function is tried
_LARGEST, _SMALLEST = 6, 18  # steps that are tried, as powers of 1/2 of the problem's extent


class Outside(AbstractField):
    """The solution of another tool as a function of one point; made by `outside`."""

    host: AbstractHost = eqx.field(static=True)

    def __call__(self, z: SpaceTimePoint) -> Scalar:
        """Value at one point."""
        return _value(self.host, z)

    def taylor(self, z: SpaceTimePoint, directions: Directions, weights: Weights) -> Taylor:
        """Value and derivatives in one call."""
        found = _asked(self.host, 1 + 2 * len(directions), z, directions.astype(z.dtype))
        slopes, seconds = jnp.split(found[1:], 2)
        return Taylor(found[0], slopes, jnp.sum(weights.astype(z.dtype) * seconds))

    def coarser(self) -> "Outside | None":
        """The same with twice the steps; None where there are none."""
        return Outside(self.host.times(2.0)) if isinstance(self.host, Differences) else None


def outside(function: Any, derivatives: str | None = None, *, steps: Any = None) -> Outside:
    """Wrap the solution of another tool for `certify`.

    Args:
        function: of many points, one per row (time first where there is one), with one value per
            row, shape `(n,)` or `(n, 1)`: a NumPy function, a `predict` method, a PyTorch module.
            It must not call JAX.
        derivatives: `differences`, or `torch` for a module or a function of tensors, which PyTorch
            then differentiates in double precision. By default chosen from the type of `function`.
        steps: step sizes of the finite differences, one per coordinate or one for all; by default
            found by trial.

    Example:
        ```python
        import fkpinn as fk
        import numpy as np

        problem, _ = fk.catalogue("exit-ball-3d")
        guess = lambda x: 0.33 * (1.0 - np.sum(x**2, axis=1))
        fk.certify(problem, fk.outside(guess), n_points=64, n_paths=8).l2_rel
        ```
    """
    if not callable(function):
        raise TypeError(
            f"`function` must be a function of many points; got {type(function).__name__}. For an "
            f"object with such a method, pass the method: `fk.outside(model.predict)`."
        )
    kind = derivatives or ("torch" if is_torch_module(function) else "differences")
    if kind not in _KINDS:
        raise ValueError(f"`derivatives` must be one of {_KINDS}; got {derivatives!r}.")
    if kind == "torch":
        if steps is not None:
            raise ValueError("`steps` are for finite differences; `derivatives='torch'` uses none.")
        return Outside(Torch(function))
    if is_torch_module(function):
        function = _of_arrays(function)
    if steps is None:
        return Outside(Differences(function))
    given = np.atleast_1d(np.asarray(steps, float))
    if given.ndim != 1 or not np.all(np.isfinite(given) & (given > 0)):
        raise ValueError(f"`steps` must be positive numbers; got {steps!r}.")
    return Outside(Differences(function, given))


def _of_arrays(module: Any) -> Callable[..., Any]:
    """A PyTorch module as a function of arrays, in its own precision."""
    torch = pytorch()

    def function(z: np.ndarray) -> np.ndarray:
        own = next(iter(module.parameters()), torch.zeros(()))
        with torch.no_grad():
            return module(torch.as_tensor(z).to(own)).cpu().numpy()

    return function


def fitted(problem: Problem, candidate: Callable[..., Any]) -> Callable[..., Any]:
    """The candidate, ready for the problem.

    Functions from outside are tried at some points, and refused in words if they will not do; the
    steps of differences are those at which these change least.
    """
    if is_torch_module(candidate):
        candidate = outside(candidate)
    if not isinstance(candidate, Outside):
        return candidate
    host, n = candidate.host, problem.n_coords
    with precision("float64"):
        key = (Stream(0) / "outside").key
        points = np.asarray(sample_interior(problem, _LOOK, key=key), np.float64)
    _check_finite("`function`", host.values(points), points)
    axes = np.broadcast_to(np.eye(n), (len(points), n, n))
    if isinstance(host, Differences):
        window = Window(*problem.layout.bounds(*problem.domain.bounding_box()))
        if host.steps is None:
            steps = _best_steps(problem, host.function, points, window)
        elif len(host.steps) in (1, n):
            steps = np.broadcast_to(host.steps, (n,)).copy()
        else:
            raise ValueError(
                f"`steps` must be one number, or one for each of {n} coordinates; got "
                f"{len(host.steps)}."
            )
        host = Differences(host.function, steps, window)
    found = host.along(points, axes)
    for each in (found.first, found.second):
        _check_finite("a derivative of `function`", np.sum(each, axis=1), points)
    return Outside(host)


def _check_finite(what: str, values: np.ndarray, points: np.ndarray) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(np.argmax(bad))
        raise Refused(
            f"{what} must be finite in the domain, and a little beyond its walls; got "
            f"{values[first]} at {points[first]} ({int(bad.sum())} of {len(points)} points are "
            f"not finite)."
        )


def _best_steps(
    problem: Problem, function: Callable[..., Any], points: np.ndarray, window: Window
) -> np.ndarray:
    """Along each coordinate the step from which twice of it differs least.

    Long ones miss what the function does, and short ones see its rounding, whatever that is.
    """
    lower, upper = problem.bounds()
    extent = np.where(np.isfinite(upper - lower), upper - lower, np.ptp(points, axis=0))
    extent = np.where(extent > 0, extent, 1.0)
    n, shares = problem.n_coords, 0.5 ** np.arange(_LARGEST - 1, _SMALLEST + 1)
    steps = np.zeros(n)
    for axis in range(n):
        direction = np.broadcast_to(np.eye(n)[axis], (len(points), 1, n))
        found = []
        for share in shares:
            at = Differences(function, share * extent, window).along(points, direction)
            found.append(at.first if axis < n - problem.dim else at.second)
        change = [np.sqrt(np.mean((a - b) ** 2)) for a, b in zip(found[1:], found, strict=False)]
        change = np.where(np.isfinite(change), change, np.inf)
        steps[axis] = shares[1 + int(np.argmin(change))] * extent[axis]
    return steps


@contextlib.contextmanager
def watched(candidate: Callable[..., Any]) -> Iterator[None]:
    """Inside, what a function from outside does wrong is told in words."""
    try:
        yield
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            "`candidate` is not written in JAX. If it is a function of many points that returns "
            "one value per row, pass `fk.outside(candidate)`."
        ) from error
    except Exception:
        _tell(candidate)
        raise
    _tell(candidate)


def _tell(candidate: Callable[..., Any]) -> None:
    """Raise what went wrong while compiled code ran, which goes on with NaN."""
    if isinstance(candidate, Outside) and candidate.host.failure is not None:
        failure, candidate.host.failure = candidate.host.failure, None
        raise failure


# ---- what compiled code calls


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(host: AbstractHost, z: SpaceTimePoint) -> Scalar:
    return _asked(host, 1, z)[0]


@_value.defjvp
def _value_jvp(host: AbstractHost, at: tuple, change: tuple) -> tuple[Scalar, Scalar]:
    (z,), (dz,) = at, change
    return _value(host, z), jnp.dot(_gradient(host, z), dz)  # a product: `jax.grad` can turn it


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _gradient(host: AbstractHost, z: SpaceTimePoint) -> Vector:
    n = len(z)
    return _asked(host, 1 + 2 * n, z, jnp.eye(n, dtype=z.dtype))[1 : n + 1]


@_gradient.defjvp
def _gradient_jvp(host: AbstractHost, at: tuple, change: tuple) -> tuple[Vector, Vector]:
    (z,), (dz,) = at, change
    return _gradient(host, z), _hessian(host, z) @ dz


def _hessian(host: AbstractHost, z: SpaceTimePoint) -> Float[Array, "z z"]:
    r"""From second derivatives along $e_i$, $e_i + e_j$ and $e_i - e_j$."""
    n = len(z)
    rows, columns = np.triu_indices(n, 1)
    axes = np.eye(n)
    given = np.concatenate([axes, axes[rows] + axes[columns], axes[rows] - axes[columns]])
    found = _asked(host, 1 + 2 * len(given), z, jnp.asarray(given, z.dtype))[1 + len(given) :]
    plus, minus = jnp.split(found[n:], 2)
    mixed = jnp.zeros((n, n), z.dtype).at[rows, columns].set(0.25 * (plus - minus))
    return mixed + mixed.T + jnp.diag(found[:n])


def _asked(host: AbstractHost, n: int, *arrays: Array) -> Float[Array, " n"]:
    """Ask the host for `n` numbers at one point: the value, and derivatives along directions.

    Numbers travel as words of 32 bits: JAX calls from a thread of its own, which does not know
    that double precision is on and would keep half of each.
    """
    dtype = arrays[0].dtype
    bits = [jax.lax.bitcast_convert_type(array, jnp.uint32) for array in arrays]
    shape = jax.ShapeDtypeStruct((n, 2) if dtype.itemsize == 8 else (n,), jnp.uint32)
    answer = _Answer(host, str(dtype))
    found = jax.pure_callback(answer, shape, *bits, vmap_method="expand_dims")
    return jax.lax.bitcast_convert_type(found, dtype)


class _Answer(NamedTuple):
    """Called by JAX, which must not be called back: threads would wait for each other."""

    host: AbstractHost
    dtype: str

    def __call__(self, *bits: Any) -> np.ndarray:
        z, *rest = map(self._numbers, bits)
        lead, n = z.shape[:-1], 1
        if rest:
            directions = rest[0]
            lead, n = np.broadcast_shapes(lead, directions.shape[:-2]), 1 + 2 * directions.shape[-2]
            directions = np.broadcast_to(directions, (*lead, *directions.shape[-2:]))
            rest = [directions.reshape(-1, *directions.shape[-2:])]
        z = np.broadcast_to(z, (*lead, z.shape[-1]))
        found = self._careful(n, z.reshape(-1, z.shape[-1]), *rest)
        found = np.ascontiguousarray(found.reshape(*lead, n), self.dtype)
        return found.view(np.uint32).reshape(*found.shape, *([2] if found.itemsize == 8 else []))

    def _numbers(self, bits: Any) -> np.ndarray:
        found = np.ascontiguousarray(np.asarray(bits)).view(self.dtype)
        return (found[..., 0] if found.itemsize == 8 else found).astype(np.float64)

    def _careful(self, n: int, z: np.ndarray, *directions: np.ndarray) -> np.ndarray:
        """What is asked for; NaN if that fails, which is remembered."""
        try:
            if not directions:
                return self.host.values(z)[:, None]
            at = self.host.along(z, *directions)
            return np.concatenate([at.value[:, None], at.first, at.second], axis=1)
        except Exception as error:
            self.host.failure = self.host.failure or error
            return np.full((len(z), n), np.nan)
