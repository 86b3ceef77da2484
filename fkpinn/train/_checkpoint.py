"""Training states in files: exact, whole or not at all, and never able to run code."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._files import pack, parse, unpack
from .._records import write_bytes

FORMAT = 1


def save_state(path: Path, state: Any, about: dict[str, Any]) -> None:
    """Write the arrays of a pytree, and a record that tells what they are."""
    leaves = jax.device_get(jax.tree.leaves(eqx.filter(state, eqx.is_array)))
    arrays = {f"leaf{i}": _plain(leaf) for i, leaf in enumerate(leaves)}
    about = about | {"format": FORMAT, "leaves": len(leaves)}
    write_bytes(path, pack(arrays | {"about": np.array(json.dumps(about))}))


def load_about(path: Path) -> dict[str, Any]:
    """What the file says of itself."""
    about = parse(path, unpack(path, ["about"], "checkpoint")["about"])
    if about.get("format") != FORMAT or type(about.get("leaves")) is not int:
        raise ValueError(
            f"`{path}` is not a checkpoint of this version (format {about.get('format')!r:.80}, "
            f"expected {FORMAT})."
        )
    return about


def load_state(path: Path, like: Any) -> Any:
    """The pytree `like` with the arrays of the file in place of its own."""
    arrays, rest = eqx.partition(like, eqx.is_array)
    own, tree = jax.tree.flatten(arrays)
    count = load_about(path)["leaves"]
    if count != len(own):
        raise ValueError(
            f"`{path}` holds {count} arrays and this run has {len(own)}: it belongs to another "
            f"configuration."
        )
    found = unpack(path, [f"leaf{i}" for i in range(count)], "checkpoint")
    leaves = []
    for i, leaf in enumerate(own):
        array = found[f"leaf{i}"]
        want = _plain(leaf)
        if array.shape != want.shape or array.dtype != want.dtype:
            raise ValueError(
                f"`{path}` holds an array of shape {array.shape} and type {array.dtype} where this "
                f"run has {want.shape} and {want.dtype}: it belongs to another configuration."
            )
        leaves.append(_like(array, leaf))
    return eqx.combine(jax.tree.unflatten(tree, leaves), rest)


def check_history(history: Any, stopped: Any) -> None:
    """Refuse what no training tells of itself: reports with a step and numbers, and sentences."""
    if not (isinstance(history, list) and all(isinstance(r, dict) for r in history)):
        raise ValueError("`history` is no list of reports")
    for record in history:
        rest = {name: value for name, value in record.items() if name != "phase"}
        if type(record.get("step")) is not int or not isinstance(record.get("phase", ""), str):
            raise ValueError(f"a report of `history` has no step or phase: {record!r:.80}")
        if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in rest.values()):
            raise ValueError(f"a report of `history` holds no numbers: {record!r:.80}")
    if not (isinstance(stopped, list) and all(isinstance(words, str) for words in stopped)):
        raise ValueError("`stopped` is no list of sentences")


def _plain(leaf: Any) -> np.ndarray:
    if jnp.issubdtype(getattr(leaf, "dtype", np.dtype(float)), jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def _like(array: np.ndarray, leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array))
    return jnp.asarray(array)
