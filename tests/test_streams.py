"""Random streams: named, reproducible, and none of them meets another."""

import ast

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sources import FILES, ROOT, dotted, in_one_worker, nodes

from fkpinn._streams import Stream, fold, fold_each

PURPOSES = [
    "labels", "labels/first", "labels/first/paths", "labels/first/coarse", "labels/points",
    "network", "points", "training", "test", "rounds/0/certificate", "rounds/3/paths",
    "rounds/3/steps/0/points", "rounds/3/steps/0/training", "rounds/13/paths", "coarse", "paths",
    "1", "0", "2", "certificate/float32/defect/batches/0",
]  # fmt: skip


def test_streams_of_a_thousand_seeds_and_purposes_do_not_meet():
    seeds = [*range(40), *(2**k for k in range(6, 16))]
    seeds = list(dict.fromkeys(seeds))[:50]
    found = [(Stream(seed) / name).seed for seed in seeds for name in PURPOSES]
    assert len(found) == len(set(found)) == 1000
    assert not set(found) & set(range(1 << 20))  # nor a seed that a person would give
    words = {(value >> 32, value & 0xFFFFFFFF) for value in found}
    assert len(words) == 1000


def test_numbers_of_streams_are_independent():
    """First numbers of many streams are as uniform, and as uncorrelated, as those of one."""
    keys = [(Stream(seed) / name).key for seed in range(50) for name in PURPOSES[:10]]
    first = np.asarray(jax.vmap(lambda key: jr.uniform(key, (2,)))(jnp.stack(keys)))
    n = len(first)
    assert abs(first.mean() - 0.5) < 4 * (1 / 12 / (2 * n)) ** 0.5
    assert abs(np.corrcoef(first.T)[0, 1]) < 4 / n**0.5
    by_seed = first[:, 0].reshape(50, 10)
    assert abs(np.corrcoef(by_seed[:-1].ravel(), by_seed[1:].ravel())[0, 1]) < 4 / 490**0.5


def test_names_are_paths_and_numbers_do_not_change():
    assert Stream(7) / "labels/coarse" == Stream(7) / "labels" / "coarse"
    assert Stream(7) / "rounds" / 3 == Stream(7) / "rounds/3"
    assert Stream(7) / "labels" != Stream(8) / "labels"
    # runs can be repeated with later versions only as long as this stays
    assert (Stream(0) / "labels").seed == 1259643593349763935


def test_children_of_keys_do_not_meet():
    key = Stream(3).key
    children = [fold(key, name, k) for name in ("points", "fresh points", "a") for k in range(20)]
    children += [*fold_each(key, "b", 20), *jr.split(key, 20), *(fold(key, n) for n in "cdef")]
    children += [jr.fold_in(key, k) for k in range(20, 40)]
    data = {tuple(np.asarray(jr.key_data(child)).tolist()) for child in children}
    assert len(data) == len(children)
    same = jax.jit(lambda k: fold(key, "points", k))(jnp.asarray(5))
    np.testing.assert_array_equal(jr.key_data(same), jr.key_data(fold(key, "points", 5)))


@pytest.mark.parametrize("seed", [-1, 2**64, True])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match="`seed` must be an integer from 0"):
        Stream(seed)


@in_one_worker
def test_nothing_else_derives_one_key_from_another():
    """`split(key)[i]` is `fold_in(key, i)`: two ways to derive keys would meet."""
    names = {"split", "fold_in", "PRNGKey"}
    found = []
    for path in FILES:
        if path.name == "_streams.py":
            continue
        for node in nodes(path):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = dotted(node.func.value)
            if owner in ("jr", "jax.random") and node.func.attr in {*names, "key"}:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
