"""Kinks of data at the end of time: where they are, and what a diffusion makes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._solve import settings_for
from fkpinn.nn import MLP, HardTerminal
from fkpinn.problem import find_kinks, residual, smoothing
from fkpinn.problem._kinks import _range


def test_kinks_and_jumps_are_found():
    """At their places to rounding, with their sizes; between other data, steep ones too."""
    data = lambda x: jnp.where(x[0] > 0.3, 1.5, 0.0) + jnp.abs(x[0] - 0.7) + jnp.tanh(50 * x[0])
    jump, bend = find_kinks(data, -2.0, 2.0)
    np.testing.assert_allclose([jump.place, bend.place], [0.3, 0.7], atol=1e-13)
    np.testing.assert_allclose(jump.leaps, (1.5, 0.0, 0.0, 0.0), atol=1e-6)
    np.testing.assert_allclose(bend.leaps, (0.0, 2.0, 0.0, 0.0), atol=1e-6)
    (call,) = find_kinks(lambda x: jnp.maximum(jnp.exp(2.0 * x[0]) - 1.0, 0.0), -1.0, 1.0)
    np.testing.assert_allclose(call.leaps, (0.0, 2.0, 4.0, 8.0), rtol=1e-6)


def test_kinks_are_looked_for_around_the_answers_and_within_the_domain():
    def wanted(mean):
        problem = fk.Problem(
            fk.Interval(-1.0, 40.0), diffusion=0.5, horizon=1.0, terminal=0.0,
            measure=fk.Along([mean]), check=False,
        )  # fmt: skip
        low, high = (float(end[0]) for end in problem.box())
        assert low < mean < high and high - low < 5.0
        return _range(problem), (2 * low - high, 2 * high - low)

    found, expected = wanted(20.0)
    assert found == pytest.approx(expected)
    found, expected = wanted(1.0)
    assert found == pytest.approx((-1.0, expected[1]))


@pytest.mark.parametrize(
    "smooth",
    [lambda x: jnp.sin(20 * x[0]), lambda x: x[0] ** 3, lambda x: 2.0 * x[0], lambda x: 1.0],
    ids=["steep", "cube", "line", "constant"],
)
def test_smooth_data_have_none(smooth):
    assert find_kinks(smooth, -1.0, 1.3) == ()


def _timed(data, **more):
    given = {"horizon": 0.5, "terminal": data, "measure": fk.Along([0.0])} | more
    return fk.Problem(fk.Space(1), **given, check=False)


@pytest.mark.broad
def test_with_constant_coefficients_the_smoothed_data_are_the_solution():
    """Of polynomials up to the third degree, each from a place on: the residual is zero."""

    def data(x):
        cubic = jnp.where(x[0] > -0.3, (x[0] + 0.3) ** 3 - 0.5 * (x[0] + 0.3), 0.0)
        return jnp.maximum(x[0] - 0.1, 0.0) - jnp.where(x[0] > 0.2, 1.0, 0.0) + cubic

    problem = _timed(data, drift=np.array([0.4]), diffusion=0.7)
    adds = smoothing(problem)
    u = lambda z: adds(z) + data(z[1:])
    points = jnp.array([[0.0, 0.3], [0.4, -0.2], [0.499, 0.12], [0.49999, 0.1004]])
    left = jax.jit(jax.vmap(lambda z: residual(problem, u, z)))(points)
    np.testing.assert_allclose(left, 0.0, atol=1e-7)


NAMES = ["uncertain-volatility", "american-put", "merton"]


@pytest.mark.broad
@pytest.mark.parametrize("name", NAMES)
def test_residuals_of_smoothed_data_stay_bounded(name):
    """Those of the data themselves would be a point mass, and here grow as one over the root."""
    problem = fk.catalogue(name).problem
    adds = smoothing(problem)
    u = lambda z: problem.terminal(problem.space(z)) + adds(z)
    found = jax.jit(jax.vmap(lambda z: residual(problem, u, z)))
    worst = []
    for left in (1e-2, 1e-4):
        kink = adds.kinks[0]
        spread = kink.noise[0] * left**0.5
        x = kink.place + spread * jnp.linspace(-3.0, 3.1, 24)
        z = jnp.stack([jnp.full(24, problem.layout.end - left), x], axis=1)
        worst.append(float(jnp.max(jnp.abs(found(z)))))
    assert worst[1] < 1.3 * worst[0]
    # of the data smoothed with another variance it is of the size of one over the spread
    assert worst[1] < 0.05 * float(abs(kink.leaps[1]) * spread / left)


@pytest.mark.broad
def test_a_kink_takes_the_volatility_that_its_sign_chooses():
    """The dearest price takes the larger one where data bend upwards, else the smaller."""
    problem = fk.catalogue("uncertain-volatility").problem
    adds = smoothing(problem)
    found = [(kink.noise[0] / kink.place, kink.noise[1]) for kink in adds.kinks]
    np.testing.assert_allclose(found, [(0.2, 0.2), (0.1, 0.1), (0.2, 0.2)], rtol=1e-6)


@pytest.mark.broad
def test_networks_of_such_problems_have_the_data_built_in():
    """Those of smooth data and without noise have not."""
    call = lambda x: jnp.maximum(x[0], 0.0)
    problem = _timed(call)
    assert settings_for("quick", problem).network.hard
    assert not settings_for("quick", _timed(lambda x: jnp.sin(x[0]))).network.hard
    assert not settings_for("paper", problem).network.hard
    assert smoothing(_timed(call, diffusion=0.0)) is None
    plane = fk.Problem(
        fk.Space(2), horizon=0.5, terminal=call, measure=fk.Along([0.0, 0.0]), check=False
    )
    assert smoothing(plane) is None  # it is smoothed otherwise, see `test_soften`
    assert settings_for("quick", plane).network.hard
    network = MLP(*problem.bounds(), [4], key=jax.random.key(0))
    u = HardTerminal(network, problem.terminal, problem.layout, smoothing=smoothing(problem))
    x = jnp.array([[-0.3], [0.0], [0.2]])
    at_end = jax.vmap(u)(problem.layout.at_end(x))
    np.testing.assert_allclose(at_end, jnp.maximum(x[:, 0], 0.0), atol=1e-6)


def test_the_width_of_a_stopping_problem_is_a_share_of_its_reward():
    """Of any size; with no reward at all there is nothing to compare with."""
    width = lambda size: (
        fk.optimal_stopping(
            fk.Interval(-1.0, 1.0), lambda x: size * (1.0 + x[0] ** 2), horizon=1.0, check=False
        )
        .nonlinearity.function.width
    )  # fmt: skip
    large, small, none = width(100.0), width(0.1), width(0.0)
    assert large == pytest.approx(1000 * small, rel=1e-6)
    assert 0.005 < small / 0.1 < 0.05 and none == 1.0
