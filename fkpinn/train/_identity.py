"""What a training is made of, as a record: a checkpoint belongs to one training only."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..loss import AbstractWeighting, Loss
from ..problem import Problem
from ..reference import fingerprint

if TYPE_CHECKING:
    from ._fit import Phase

_SAME = 1e-6  # relative: another machine rounds otherwise


def identity(
    network: Any, loss: Loss, phases: Sequence["Phase"], key: PRNGKeyArray
) -> dict[str, Any]:
    """Network, loss, problem, phases, weightings and key, each in a few numbers or words.

    Args:
        network: before the first step.
        loss: before the first step.
        phases: what is to be done.
        key: for fresh points.
    """
    is_problem = lambda leaf: isinstance(leaf, Problem)
    leaves = jax.tree.leaves(loss, is_leaf=is_problem)
    problems = list({id(leaf): leaf for leaf in leaves if is_problem(leaf)}.values())
    rest = [leaf for leaf in leaves if not is_problem(leaf)]
    weightings = [_weighting(phase.weighting) for phase in phases]
    return {
        "problem": [np.nan_to_num(fingerprint(problem)).tolist() for problem in problems],
        "network": [type(network).__name__, _numbers(network)],
        "loss": [{name: _static(term) for name, term in loss.terms.items()}, _numbers(rest)],
        "phases": [
            f"{p.name}: {p.optimizer!r} x {p.steps}, redraw {p.redraw}, times {p.times:g}"
            + ", continued" * p.continues
            for p in phases
        ],
        "weighting": weightings,
        "key": np.asarray(jax.random.key_data(key)).tolist(),
    }


def difference(stored: Any, here: dict[str, Any]) -> str | None:
    """The part in which two records differ by more than rounding; None if they agree."""
    stored = stored if isinstance(stored, dict) else {}
    return next((part for part in here if not _alike(stored.get(part), here[part])), None)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(b, dict):
        return isinstance(a, dict) and a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(b, float) and isinstance(a, (int, float)):
        return bool(np.isclose(a, b, rtol=_SAME, atol=_SAME * max(1e-30, abs(b))))
    return a == b


def _static(module: Any) -> str:
    """The class and its plain fields, tables of plain values among them."""
    plain = lambda value: isinstance(value, (int, float, str, bool, tuple, type(None)))
    fields = {}
    for name, value in vars(module).items():
        if plain(value):
            fields[name] = value
        elif isinstance(value, dict) and all(map(plain, value.values())):
            fields[name] = sorted(value.items())
    return f"{type(module).__name__} {fields}"


def _weighting(weighting: AbstractWeighting | None) -> list[Any]:
    if weighting is None:
        return ["as before"]
    return [_static(weighting), _numbers(weighting)]


def _numbers(tree: Any) -> list[Any]:
    """Of each array: type, shape, root mean square, and a sum in which every entry counts apart.

    The sum is in units of the root mean square, so at most one, and one is added: relative
    differences of it are those of the array.
    """
    found = []
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue
        array = np.asarray(leaf)
        flat = array.astype(np.float64).ravel()
        size = float(np.sqrt(np.mean(flat**2))) if flat.size else 0.0
        mixed = float(np.mean(np.cos(np.arange(flat.size)) * flat)) / size if size else 0.0
        found.append([str(array.dtype), list(array.shape), size, 1.0 + mixed])
    return found
