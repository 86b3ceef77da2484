"""A trained network as a function anyone can call, save and load."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from .._field import AbstractField
from .._files import blame
from ..evaluate import Certificate, Values, certify, value_with_interval
from ..nn import MLP, HardDirichlet
from ..problem import Problem, catalogue
from ..reference import fingerprint, same_problem
from ..report import draw_slice
from ..train import check_history, load_about, load_state, save_state
from ._phases import harden

_KIND = "fkpinn solution"


class Solution(eqx.Module):
    """A network that solves a problem: call it with a point, or with points, one a row.

    `stopped` says which phases of the training ended before their budget, and why, and whether a
    target was reached. `certificate` is the record of the error that paths measured, if they did.
    """

    problem: Problem
    network: AbstractField
    history: list[dict[str, Any]] = eqx.field(default_factory=list)
    stopped: list[str] = eqx.field(default_factory=list)
    name: str = eqx.field(static=True, default="")
    certificate: dict[str, Any] | None = eqx.field(static=True, default=None)

    def __call__(self, points: Any) -> Float[Array, "..."]:
        """Value at one point, or values at many."""
        return self._at(self.network, points)

    def gradient(self, points: Any) -> Float[Array, "..."]:
        """Gradient in space at one point, or at many."""
        return self._at(lambda z: self.problem.space(jax.grad(self.network)(z)), points)

    def _at(self, function: Callable[..., Any], points: Any) -> Array:
        """In the network's own precision; the result comes in the caller's."""
        wanted = jnp.result_type(float)
        with jax.enable_x64(_is_double(self.network)):
            array = jnp.asarray(np.asarray(points), float)
            found = np.asarray(_at_points(function, self.problem, array))
        return jnp.asarray(found, wanted)

    def certify(self, **how: Any) -> Certificate:
        """Relative L2 error with confidence limits, by paths, without a reference.

        Args:
            how: as for `fkpinn.evaluate.certify`: `n_points`, `n_paths`, `seconds`, `seed`.
        """
        return certify(self.problem, self.network, **how)

    def value_with_interval(self, points: Any, **how: Any) -> Values:
        """Values corrected by paths, with confidence limits.

        Args:
            points: inside the domain, one a row, or a single one.
            how: as for `fkpinn.evaluate.value_with_interval`: `n_paths` or `half_width`, `seconds`.
        """
        rows = np.atleast_2d(np.asarray(points, float))
        return value_with_interval(self.problem, self.network, rows, **how)

    def plot(self, path: Path | str) -> Path:
        """Draw the solution over the first two axes, at time zero, into a picture."""
        axes, values, _ = slice_through(self.problem, self.network, None)
        title = self.name or self.problem.name
        return draw_slice(Path(path), title, axes, values, None, None)

    def save(self, path: Path | str) -> None:
        """Write a file that `load` reads; nothing in it can run code."""
        hard = isinstance(self.network, HardDirichlet)
        plain = self.network.network if isinstance(self.network, HardDirichlet) else self.network
        if not isinstance(plain, MLP):
            raise TypeError(
                f"`save` knows `MLP`, with or without `HardDirichlet`; got {type(plain).__name__}. "
                f"Use `equinox.tree_serialise_leaves` for networks of your own."
            )
        lower, upper = self.problem.bounds()
        if not np.allclose(plain.center, 0.5 * (lower + upper)):
            raise ValueError("`save` needs a network whose inputs are scaled to its problem.")
        about = {
            "kind": _KIND,
            "name": self.name,
            "fingerprint": [None if np.isnan(v) else v for v in fingerprint(self.problem).tolist()],
            "hard": hard,
            "center": plain.center,
            "half_width": plain.half_width,
            "widths": [len(b) for b in plain.biases[:-1]],
            "features": plain.features,
            "output_scale": plain.output_scale,
            "dtype": str(plain.weights[0].dtype),
            "history": self.history,
            "stopped": self.stopped,
            "certificate": self.certificate,
        }
        save_state(Path(path), plain, about)


def load(path: Path | str, problem: Problem | None = None) -> Solution:
    """Read a solution that `Solution.save` wrote.

    Args:
        path: the file.
        problem: the problem it solves; not needed for those of the catalogue. A file cannot hold
            functions, so a problem of your own must be given, and is checked to be the same.
    """
    path = Path(path)
    about = load_about(path)
    if about.get("kind") != _KIND:
        raise ValueError(f"`{path}` is not a solution but another file of fkpinn.")
    try:
        problem = problem or catalogue(about["name"]).problem
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"`{path}` holds the solution of {about.get('name')!r:.80}, which is not in the "
            f"catalogue. Pass the problem: `load(path, problem)`."
        ) from error
    with blame(path):
        plain = _empty_network(about, problem, path.stat().st_size)
        stored = np.array([np.nan if v is None else v for v in about["fingerprint"]], float)
        history, stopped = about["history"], about["stopped"]
        check_history(history, stopped)
        name, certificate, hard = about["name"], about.get("certificate"), about["hard"]
        for key, kind in (("name", str), ("hard", bool), ("certificate", (dict, type(None)))):
            if not isinstance(about.get(key), kind):
                raise ValueError(f"`{key}` is {about.get(key)!r:.80}")
    if not same_problem(problem, stored):
        raise ValueError(
            f"`{path}` holds the solution of another problem than the one given: coefficients, "
            f"domain or boundary data differ."
        )
    with jax.enable_x64(about["dtype"] == "float64"):
        plain = load_state(path, plain)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(plain)):
            raise ValueError(f"`{path}` is damaged: a parameter is not a finite number.")
    network = harden(problem, plain) if hard else plain
    return Solution(problem, network, history, stopped, name, certificate)


def _empty_network(about: dict[str, Any], problem: Problem, n_bytes: int) -> MLP:
    """A network of the shape the file tells, before its parameters are read."""
    widths = about["widths"]
    if not (isinstance(widths, list) and all(type(w) is int and w > 0 for w in widths)):
        raise ValueError(f"`widths` is {widths!r:.80}")
    features = tuple(tuple(float(v) for v in row) for row in about.get("features", ()))
    sizes = [problem.n_coords + 2 * len(features), *widths, 1]
    if sum(a * b for a, b in itertools.pairwise(sizes)) > n_bytes:
        raise ValueError(
            f"`widths` is {widths!r:.80}, and the file is too small for so many numbers"
        )
    if about["dtype"] not in ("float32", "float64"):
        raise ValueError(f"`dtype` is {about['dtype']!r:.80}")
    if not 0 < about["output_scale"] < math.inf:
        raise ValueError(f"`output_scale` is {about['output_scale']!r:.80}")
    with jax.enable_x64(about["dtype"] == "float64"):
        network = MLP(
            *problem.bounds(),
            widths,
            frequencies=features or None,
            output_scale=float(about["output_scale"]),
            dtype=jnp.dtype(about["dtype"]),
            key=jr.key(0),
        )
    if [list(network.center), list(network.half_width)] != [about["center"], about["half_width"]]:
        raise ValueError("the inputs are scaled to another domain")
    return network


def _is_double(network: Any) -> bool:
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return any(leaf.dtype == jnp.float64 for leaf in leaves)


def _at_points(function: Callable[..., Any], problem: Problem, array: Array) -> Array:
    if array.ndim not in (1, 2) or array.shape[-1] != problem.n_coords:
        raise ValueError(
            f"`points` must have shape ({problem.n_coords},) or (n, {problem.n_coords}); "
            f"got shape {array.shape}."
        )
    inside = jax.vmap(lambda z: problem.domain.signed_distance(problem.space(z)))
    # NaN is not inside
    fine = np.asarray(inside(jnp.atleast_2d(array))) <= 1e-6 * problem.domain.diameter()
    if not np.all(fine):
        first = np.asarray(jnp.atleast_2d(array))[int(np.argmin(fine))]
        raise ValueError(
            f"`points` must lie in the closed domain; {np.count_nonzero(~fine)} do not, the "
            f"first at {first}."
        )
    return batched(function, array) if array.ndim == 2 else function(array)


@eqx.filter_jit
def batched(function: Callable[..., Any], points: Float[Array, "n z"]) -> Array:
    """The function at every point."""
    return jax.vmap(lambda z: function(z))(points)


def slice_through(problem: Problem, network: AbstractField, truth: Any, nodes: int | None = None):
    """The network and the reference on a grid over the first two axes, NaN outside."""
    lower, upper = problem.domain.bounding_box()
    n = nodes or (160 if problem.dim > 1 else 400)
    axes = [np.linspace(lower[i], upper[i], n) for i in range(min(problem.dim, 2))]
    grid = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, len(axes))
    rest = np.tile(0.5 * (lower + upper)[len(axes) :], (len(grid), 1))
    with jax.enable_x64(_is_double(network)):
        space = jnp.asarray(np.concatenate([grid, rest], axis=1), float)
        inside = np.asarray(jax.jit(jax.vmap(problem.domain.contains))(space))
        points = jnp.pad(space, ((0, 0), (1, 0))) if problem.timed else space  # time zero
        shape = (n,) * len(axes)

        def spread(found) -> np.ndarray:
            full = np.full(len(grid), np.nan)
            full[inside] = np.asarray(found)
            return full.reshape(shape)

        values = spread(batched(network, points[inside]))
        exact = None if truth is None else spread(truth.values(points[inside]))
    return axes, values, exact
