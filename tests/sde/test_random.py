"""The generator: published answers, moments, independence, and one number for one place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fkpinn.sde._random import PathStream, ahead, normals, philox, seed_words, uniforms
from fkpinn.sde._random import words as words_of

# known answers that accompany the generator's publication (Random123)
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def drawn(draw, of, first, each, steps, dtype=jnp.float32):
    """`each` arrays of shape `(steps, paths)`."""
    return ahead(lambda unit: draw(of, unit, each, dtype), first, each, steps)


def words(values):
    return tuple(jnp.asarray(np.uint32(v)) for v in values)


@pytest.mark.parametrize("wide", [True, False], ids=["64-bit", "32-bit"])
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_answers(counter, key, answer, wide):
    with jax.enable_x64(wide):
        assert tuple(int(w) for w in philox(words(counter), words(key))) == answer


def streams(n, seed=11):
    point = jnp.zeros(n, jnp.uint32)
    return PathStream(words(seed_words(seed)), point, jnp.arange(n, dtype=jnp.uint32))


@pytest.fixture(scope="module")
def sample():
    n = 1 << 19
    found = jax.jit(lambda of: drawn(normals, of, jnp.zeros(n, jnp.uint32), 2, 4))(streams(n))
    return np.stack([np.asarray(a, np.float64) for a in found]).reshape(8, n)  # number, path


def test_normals_are_normal(sample):
    n = sample.size
    assert stats.kstest(sample.ravel(), "norm").pvalue > 1e-4
    for power, (mean, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs(np.mean(sample**power) - mean) < 4 * np.sqrt(variance / n)
    assert 4.9 < np.max(np.abs(sample)) < 6.5  # tails are there: 4e6 draws reach about 5.2


def test_numbers_of_a_path_and_of_different_paths_are_uncorrelated(sample):
    n = sample.shape[1]
    off = np.corrcoef(sample)[~np.eye(8, dtype=bool)]
    assert np.max(np.abs(off)) < 4.5 / np.sqrt(n)
    shifted = np.mean(sample[:, 1:] * sample[:, :-1])
    assert abs(shifted) < 4 / np.sqrt(sample.size)
    squares = np.corrcoef(sample**2)[~np.eye(8, dtype=bool)]
    assert np.max(np.abs(squares)) < 4.5 / np.sqrt(n)


def test_a_number_belongs_to_its_place_alone():
    """The same number, drawn from any starting step and beside any other paths."""
    of = streams(64)
    for draw in (normals, uniforms):
        far = drawn(draw, of, jnp.zeros(64, jnp.uint32), 3, 12)
        near = drawn(draw, of, jnp.full(64, 8, jnp.uint32), 3, 4)
        for a, b in zip(far, near, strict=True):
            np.testing.assert_array_equal(a[8:], b)
        one = PathStream(of.seed, of.point[7:8], of.path[7:8])
        alone = drawn(draw, one, jnp.zeros(1, jnp.uint32), 3, 12)
        np.testing.assert_array_equal(alone[2][:, 0], far[2][:, 7])


@pytest.mark.parametrize("each", [1, 2, 3, 4, 5, 6])
def test_steps_take_consecutive_numbers(each):
    of = streams(2)
    zero = jnp.zeros(2, jnp.uint32)
    whole = np.stack(drawn(normals, of, zero, 4, 6), axis=1).reshape(24, 2)
    some = np.stack(drawn(normals, of, zero, each, 4), axis=1).reshape(4 * each, 2)
    np.testing.assert_array_equal(some, whole[: 4 * each])


def test_uniforms_are_uniform_open_and_independent_of_normals():
    of = streams(1 << 16)
    first = jnp.zeros(1 << 16, jnp.uint32)
    u = np.stack(drawn(uniforms, of, first, 4, 1)).astype(np.float64)
    v = np.stack(drawn(normals, of, first, 4, 1)).astype(np.float64)
    assert 0 < u.min() and u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(u.ravel(), v.ravel())[0, 1]) < 4.5 / np.sqrt(u.size)


def test_normals_are_as_exact_as_their_precision():
    """Against library functions, from the same words."""
    of = streams(4096)
    first = jnp.zeros(4096, jnp.uint32)
    a, b, *_ = (np.asarray(w, np.float64) for w in words_of(of, first, 0))
    radius = np.sqrt(-2 * np.log((a + 0.5) / 2**32))
    half = np.where(b >= 2**31, -1.0, 1.0)
    angle = np.pi * ((2 * b) % 2**32 + 1) / 2**32 - np.pi / 2
    for dtype, close in ((jnp.float64, 1e-7), (jnp.float32, 5e-6)):
        found = normals(of, first, 2, dtype)
        np.testing.assert_allclose(found[0], radius * half * np.cos(angle), atol=close)
        np.testing.assert_allclose(found[1], radius * np.sin(angle), atol=close)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_seeds_that_are_not(seed):
    with pytest.raises(ValueError, match=r"`seed` must be an integer|parameter 'seed'"):
        try:
            seed_words(seed)
        except TypeError as error:  # the annotation, checked while tests run
            raise ValueError(str(error)) from error
