"""Multilevel Picard iteration against known values."""

import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.evaluate import picard_value


@pytest.mark.broad
def test_values_of_mild_equations():
    problem, _ = fk.catalogue("allen-cahn-20d")
    found = picard_value(problem, np.zeros(21), levels=4, repeats=20, seed=1)
    assert abs(found.value - 0.30869855) < 4 * found.stderr < 0.01
    assert found.evaluations > 20 * 4**4
    fewer = picard_value(problem, np.zeros(21), levels=2, repeats=20, seed=1)
    assert fewer.stderr > 2 * found.stderr
    assert picard_value(problem, np.zeros(21), levels=2, repeats=20, seed=1).value == fewer.value


@pytest.mark.broad
def test_all_terms_of_low_order_count():
    """u_t + 2 u_xx + 0.5 u_x - u / 2 + 1 + u / 4 = 0, u(1) = x: linear in x."""
    problem = fk.semilinear(
        fk.Space(1), lambda t, x, u, p: 0.25 * u, horizon=1.0, terminal=lambda x: x[0], drift=[0.5],
        diffusion=2.0, reaction=0.5, source=1.0, measure=fk.Along([0.0]), check=False,
    )  # fmt: skip
    found = picard_value(problem, [0.5, 1.0], levels=5, samples=6, repeats=8, seed=0)
    # u = a x + b: a = exp(-t/4), b' = -(a/2 + 1 - b/4) backward from 0, t the time left
    t = 0.5
    a = np.exp(-t / 4)
    b = 0.5 * t * a + 4 * (1 - a)
    assert abs(found.value - (a + b)) < 4 * found.stderr + 1e-3


@pytest.mark.broad
def test_gradients_in_one_dimension():
    """u_t + u_xx + u_x / 2 = 0 as a nonlinearity: x + t/2 with t the time left."""
    problem = fk.semilinear(
        fk.Space(1), lambda t, x, u, p: 0.5 * p[0], horizon=1.0, terminal=lambda x: x[0],
        diffusion=2.0**0.5, measure=fk.Along([0.0]), check=False,
    )  # fmt: skip
    found = picard_value(problem, [0.2, 1.0], levels=4, samples=6, repeats=10, seed=0)
    assert abs(found.value - 1.4) < 4 * found.stderr < 0.6


REFUSED = {
    "walls": (lambda: picard_value(fk.catalogue("bratu").problem, [0.0, 0.0]), "on all of space"),
    "noise": (
        lambda: picard_value(
            fk.semilinear(
                fk.Space(1), lambda t, x, u, p: u, horizon=1.0, terminal=0.0,
                diffusion=lambda t, x: 1.0 + 0.1 * jnp.sin(x[0]), measure=fk.Along([0.0]),
                check=False), [0.0, 0.0]), "constant drift"),
    "levels": (
        lambda: picard_value(fk.catalogue("allen-cahn-20d").problem, np.zeros(21), levels=0),
        "`levels` and `samples` must be at least 1"),
    "point": (
        lambda: picard_value(fk.catalogue("allen-cahn-20d").problem, np.zeros(20)),
        "`point` must be 21 finite numbers"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_iterated(kind):
    make, words = REFUSED[kind]
    with pytest.raises(ValueError, match=words):
        make()
