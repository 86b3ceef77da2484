"""Points of a certificate where the measure is not uniform: some count less, rare ones are seen."""

import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.evaluate._certify import _points

PROBLEM = fk.Problem(
    fk.Space(1), horizon=1.0, terminal=lambda x: x[0] ** 2, measure=fk.Along([0.0]), check=False
)
EDGE = 2.2  # beyond lie 1 % of the measure


def exact(z):
    return z[1] ** 2 + 1.0 - z[0]


def wrong_at_the_edge(z):
    return exact(z) + jnp.maximum(jnp.abs(z[1]) - EDGE, 0.0) ** 2


def test_points_that_count_less_have_the_same_means():
    points, sample = _points(PROBLEM, wrong_at_the_edge, 2048, Stream(0))
    assert np.all(sample.weights <= 2.0 + 1e-12) and sample.pool == 32 * 2048
    assert abs(np.mean(sample.weights) - 1.0) < 0.05
    far = np.abs(points[:, 1]) > EDGE
    assert np.mean(far) > 0.3  # half of them are chosen by their residuals
    draws = np.random.default_rng(0).normal(size=400_000) * np.random.default_rng(1).random(
        400_000
    ) ** 0.5  # fmt: skip
    share = np.mean(np.abs(draws) > EDGE)
    assert abs(np.mean(sample.weights * far) / share - 1.0) < 0.2


def test_uniform_points_all_count_the_same():
    box = fk.poisson(fk.Box([0.0, 0.0], [1.0, 1.0]), source=1.0)
    _, sample = _points(box, lambda x: x[0], 64, Stream(0))
    assert np.all(sample.weights == 1.0) and np.isinf(sample.pool)


@pytest.mark.broad
def test_an_error_at_few_points_is_held():
    found = fk.certify(PROBLEM, wrong_at_the_edge, n_points=1024, n_paths=16, dt=0.02)
    rng = np.random.default_rng(2)
    t = rng.random(2_000_000)
    x = rng.normal(size=t.size) * np.sqrt(t)
    error = np.maximum(np.abs(x) - EDGE, 0.0) ** 2
    true = float(np.sqrt(np.mean(error**2) / np.mean((x**2 + 1.0 - t) ** 2)))
    assert found.ci_low <= true <= found.ci_high
    assert found.ci_high < 2.0 * true
