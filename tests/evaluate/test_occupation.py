"""The bound of the error by residuals where paths go."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import at

from fkpinn._solve._certify import second_bound
from fkpinn.domain import Ball
from fkpinn.evaluate import Certificate, occupation_bound
from fkpinn.labels import Labels
from fkpinn.nn import MLP
from fkpinn.problem import catalogue, manufactured
from fkpinn.sampling import sample_interior

BALL = Ball([0.0] * 3, 1.0)


def exact(x):
    return jnp.sin(2 * x[0]) * jnp.exp(0.5 * x[1])


PROBLEM = manufactured(BALL, exact, drift=lambda x: -x, diffusion=1.0, reaction=0.5)
POINTS = sample_interior(PROBLEM, 2000, key=jr.key(7))
TRUE = np.asarray(at(exact, POINTS))


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_for_many_networks(seed):
    network = MLP(*PROBLEM.bounds(), [12, 12], key=jr.key(seed))
    found = occupation_bound(PROBLEM, network, n_points=128, n_paths=32, dt=4e-3, seed=seed)
    error = np.sqrt(np.mean((np.asarray(at(network, POINTS)) - TRUE) ** 2))
    assert error < found.l2_abs < 30 * error
    parts = np.sqrt(found.longest) * found.residual + found.boundary
    np.testing.assert_allclose(found.l2_abs, parts)
    size = np.sqrt(np.mean(np.asarray(at(network, POINTS)) ** 2))
    np.testing.assert_allclose(found.l2_rel, found.l2_abs / size, rtol=0.3)  # by 128 points


@pytest.mark.broad
def test_it_is_nearly_met_by_a_constant_error_of_the_data():
    """With the residual of the solution there is only the boundary, where one is one."""
    problem, solution = catalogue("exit-ball-3d")
    assert solution is not None
    above = lambda x: solution(x) + 1.0
    found = occupation_bound(problem, above, n_points=64, n_paths=32)
    np.testing.assert_allclose(found.boundary, 1.0, rtol=1e-6)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
    # the longest mean time is that of the center, 1 / (2 d)
    assert 0.8 / 6 < found.longest < 1.6 / 6


def test_what_it_does_not_know_is_refused():
    labels = Labels.from_data(POINTS[:2], TRUE[:2], 0.1)
    for name, why in (("committor", "reflecting"), ("ornstein-uhlenbeck", "horizon")):
        problem = catalogue(name).problem
        with pytest.raises(ValueError, match=why):
            occupation_bound(problem, lambda z: jnp.sum(z))
        # a run goes on without it
        certificate = Certificate(0.1, 0.0, 0.2, 0.95, 0.1, 0.0, labels, 1.0)
        assert why in second_bound(problem, None, certificate, seed=0)["why"]
