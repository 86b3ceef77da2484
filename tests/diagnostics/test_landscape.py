"""Losses over a plane of parameters."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.diagnostics import (
    Curvature,
    landscape,
    random_directions,
    top_directions,
)
from fkpinn.loss import make_loss
from fkpinn.nn import MLP


def problem():
    return fk.catalogue("poisson").problem


@pytest.fixture(scope="module")
def curvature():
    network = MLP(*problem().bounds(), (12,), key=jr.key(0))
    return Curvature(network, make_loss(problem(), 20, 8, None, dtype=jnp.float64, key=jr.key(1)))


@pytest.mark.slow
def test_nodes_are_where_they_say(curvature):
    network = curvature.objective.network(curvature.parameters)
    plane = random_directions(network, key=jr.key(2))
    found = landscape(curvature, plane, reach=0.5, n=5, kind="random")
    assert found.loss.shape == (5, 5) and found.reach[2] == 0
    assert found.loss[2, 2] == pytest.approx(curvature.value(), rel=1e-12)
    moved = curvature.parameters + found.reach[0] * plane[0] + found.reach[3] * plane[1]
    expected = 0.5 * float(curvature.objective(moved))
    assert found.loss[0, 3] == pytest.approx(expected, rel=1e-12)
    assert found.to_dict()["kind"] == "random" and 0 <= found.roughness <= 1


def test_random_directions_have_the_rows_of_the_network(curvature):
    network = curvature.objective.network(curvature.parameters)
    first, second = random_directions(network, key=jr.key(2))
    moved = curvature.objective.network(first)
    for own, other in zip(network.weights, moved.weights, strict=True):
        norms = lambda a: np.linalg.norm(np.asarray(a), axis=1)
        np.testing.assert_allclose(norms(own), norms(other), rtol=1e-12)
    assert all(not np.any(np.asarray(b)) for b in moved.biases)
    cosine = float(first @ second / jnp.linalg.norm(first) / jnp.linalg.norm(second))
    assert abs(cosine) < 4 / np.sqrt(len(first))


@pytest.mark.slow
def test_top_directions_are_eigenvectors(curvature):
    first, second = top_directions(curvature, steps=60, key=jr.key(0))
    values, vectors = np.linalg.eigh(np.asarray(curvature.hessian()))
    length = float(jnp.linalg.norm(curvature.parameters))
    for found, k in ((first, -1), (second, -2)):
        cosine = abs(float(np.asarray(found) @ vectors[:, k])) / length
        assert cosine == pytest.approx(1.0, abs=1e-6)
    assert values[-1] > values[-2]


def test_a_quadratic_is_smooth_and_waves_are_rough():
    from fkpinn.diagnostics import Landscape

    x = np.linspace(-1, 1, 31)
    bowl = np.exp(x[:, None] ** 2 + x[None] ** 2)
    waves = np.exp(np.sin(20 * x)[:, None] + np.sin(20 * x)[None])
    assert Landscape(x, bowl, "").roughness == 0
    assert 0.3 < Landscape(x, waves, "").roughness < 0.7


def test_bad_grids_are_named(curvature):
    plane = (curvature.parameters, curvature.parameters)
    with pytest.raises(ValueError, match=r"`n` must be odd and at least 3; got 4"):
        landscape(curvature, plane, n=4)
    with pytest.raises(ValueError, match=r"`reach` must be positive"):
        landscape(curvature, plane, reach=0.0)
    with pytest.raises(ValueError, match=r"`directions` must be two vectors"):
        landscape(curvature, plane[:1])
