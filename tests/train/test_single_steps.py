"""Single steps of the optimizers on losses of one parameter, where every number is known."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn.loss import Fixed, LabelTerm, Loss
from fkpinn.train import LBFGS, Adam, GradientDescent, NaturalGradient, NystromNewton
from fkpinn.train._fit import next_count, next_stop
from fkpinn.train._lbfgs import _between, _End
from fkpinn.train._nystrom_newton import _solve, nystrom
from fkpinn.train._objective import Objective, split


class Bent(eqx.Module):
    """1 + p + k p^2, with k for the point: from p = 0 a whole step goes to p = -1."""

    p: jax.Array

    def __call__(self, z):
        return 1.0 + self.p[0] + z[0] * self.p[0] ** 2


def objective_at(k) -> tuple[Objective, jax.Array]:
    parameters, static, unravel = split(Bent(jnp.zeros(1)), Fixed())
    term = LabelTerm(jnp.reshape(k, (1, 1)), jnp.zeros(1), jnp.ones(1))
    return Objective(Loss({"labels": term}), jnp.zeros((), jnp.int32), static, unravel), parameters


@functools.cache
def stepper(optimizer):
    @jax.jit
    def step(k, momentum, damping):
        objective, parameters = objective_at(k)
        state = optimizer.init(objective, parameters)
        state = state._replace(momentum=momentum[None], damping=damping)
        return optimizer.step(objective, parameters, state)

    return lambda k, momentum=0.0, damping=1e-6: step(
        *(jnp.asarray(v, float) for v in (k, momentum, damping))
    )


@pytest.mark.parametrize(
    ("k", "length", "factor"),
    [
        (0.0, 1.0, 1 / 3),  # as foretold
        (0.5, 1.0, 1 / 3),  # the loss falls by 0.75 of what was foretold
        (0.8, 1.0, 1.0),  # by 0.36
        (0.97, 1.0, 4.0),  # by 0.06
        (1.5, 0.5, 1.0),
        (3.0, 0.25, 1.0),
        (6.0, 0.125, 4.0),
        (200.0, 2.0**-8, 4.0),
        (300.0, 0.0, 4.0),  # eight halvings are not enough
    ],
)
def test_damping_follows_what_was_foretold(k, length, factor):
    moved, state, report = stepper(NaturalGradient())(k)
    np.testing.assert_allclose(moved, [-length], rtol=2e-6)
    np.testing.assert_allclose(state.damping, 1e-6 * factor, rtol=1e-9)
    np.testing.assert_allclose(state.length, length)
    np.testing.assert_allclose(state.momentum, -moved)
    assert float(report.loss) == 1.0 and int(report.stopped) == 0


@pytest.mark.parametrize(("k", "factor"), [(1.0, 1 / 3), (1.3, 1.0), (1.9, 4.0)])
def test_what_is_foretold_knows_the_damping(k, factor):
    """With as much damping as curvature half a step is left, and 0.75 of the loss foretold."""
    moved, state, _ = stepper(NaturalGradient())(k, damping=1.0)
    np.testing.assert_allclose(moved, [-0.5], rtol=1e-9)
    np.testing.assert_allclose(state.damping, factor, rtol=1e-9)


def test_damping_stays_within_its_limits_and_the_end_is_said():
    narrow = stepper(NaturalGradient(damping=1e-3, least=5e-4, most=2e-3))
    assert float(narrow(0.0, damping=1e-3)[1].damping) == 5e-4
    _, state, report = narrow(300.0, damping=1e-3)
    assert float(state.damping) == 2e-3 and int(report.stopped) == 0
    assert int(narrow(300.0, damping=2e-3)[2].stopped) == 1
    assert int(narrow(0.0, damping=2e-3)[2].stopped) == 0


def test_momentum_is_where_damping_pulls_to():
    r"""$\delta = \beta d + (1 - \beta d)/(1 + \mu)$ for a line of slope one."""
    step = stepper(NaturalGradient(momentum=0.5))
    for last, mu in ((0.4, 1.0), (-0.2, 3.0)):
        moved, *_ = step(0.0, last, mu)
        np.testing.assert_allclose(moved, [-(0.5 * last + (1 - 0.5 * last) / (1 + mu))], rtol=1e-9)


def test_newton_steps_are_damped_and_cut():
    """Loss (1 + p + k p^2)^2: slope 2 and curvature 2 + 4 k at p = 0."""
    optimizer = NystromNewton(damping=0.5, rank=1)

    @jax.jit
    def step(k):
        objective, parameters = objective_at(k)
        return optimizer.step(objective, parameters, optimizer.init(objective, parameters))

    moved, state, _ = step(jnp.asarray(0.25))
    np.testing.assert_allclose(moved, [-2 / 3.5], rtol=1e-9)
    assert int(state.taken) == 1 and int(state.failures) == 0
    # the curvature 2 + 4 k + 0.5 is negative: down the slope, cut until a tenth of the promise
    loss = lambda p, k: (1 + p + k * p**2) ** 2
    k = -2.0
    slope, lengths = 2.0, 0.5 ** np.arange(10)
    enough = [loss(-slope * a, k) <= 1 - 0.1 * a * slope**2 for a in lengths]
    moved, *_ = step(jnp.asarray(k))
    np.testing.assert_allclose(moved, [-slope * lengths[np.argmax(enough)]], rtol=1e-9)


def test_newton_gives_up_after_two_failures():
    """The first length that is low enough is a quarter; one halving does not get there."""
    optimizer = NystromNewton(damping=0.5, rank=1, halvings=1)
    objective, parameters = objective_at(jnp.asarray(-2.0))
    step = jax.jit(lambda state: optimizer.step(objective, parameters, state))
    state = optimizer.init(objective, parameters)
    for failures, stopped in ((1, 0), (2, 1)):
        moved, state, report = step(state)
        assert int(state.failures) == failures and int(report.stopped) == stopped
        np.testing.assert_array_equal(moved, parameters)


def test_conjugate_gradients_solve_the_damped_system():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix, b, mu = jnp.asarray(root @ root.T), jnp.asarray(rng.normal(size=6)), 0.3
    times = lambda v: matrix @ v
    exact = np.linalg.solve(np.asarray(matrix) + mu * np.eye(6), np.asarray(b))
    vectors, values = nystrom(times, b, 6, jax.random.key(1))
    # with the whole matrix for a sketch, one iteration and the rounding of a second
    found = _solve(times, b, vectors, values, mu, 2, 1e-12)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    plain = _solve(times, b, jnp.zeros((6, 1)), jnp.zeros(1), mu, 50, 1e-12)
    np.testing.assert_allclose(plain, exact, rtol=1e-8)
    # stops when the residual has fallen by the tolerance, not before
    rough = _solve(times, b, jnp.zeros((6, 1)), jnp.zeros(1), mu, 50, 0.1)
    left = np.linalg.norm(b - (matrix @ rough + mu * rough)) / np.linalg.norm(b)
    assert 1e-6 < left <= 0.1


def test_sketches_know_no_units():
    """Of a matrix of rank two, in large and in small numbers."""
    root = np.random.default_rng(2).normal(size=(7, 2))
    matrix = jnp.asarray(root @ root.T)
    expected = np.linalg.eigvalsh(root.T @ root)
    sketch = jax.jit(
        lambda scale: nystrom(lambda v: scale * (matrix @ v), jnp.zeros(7), 4, jax.random.key(0))
    )
    for scale in (1e-9, 1.0, 1e9):
        vectors, values = sketch(jnp.asarray(scale))
        np.testing.assert_allclose(np.sort(values)[2:] / scale, expected, rtol=1e-9)
        assert np.all(np.sort(values)[:2] <= 1e-12 * scale)
        rebuilt = (vectors * values[None]) @ vectors.T / scale
        np.testing.assert_allclose(rebuilt, matrix, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "rise", "lowest"),
    [
        (lambda t: (t - 0.4) ** 2, lambda t: 2 * (t - 0.4), 0.4),
        (lambda t: t**3 - t, lambda t: 3 * t**2 - 1, 3**-0.5),
        (lambda t: (t - 0.02) ** 2, lambda t: 2 * (t - 0.02), 0.1),  # not too near to an end
        (lambda t: (t - 0.98) ** 2, lambda t: 2 * (t - 0.98), 0.9),
        (lambda t: np.nan + t, lambda t: 2 * t, 0.5),
    ],
    ids=["parabola", "cubic", "near", "far", "unknown"],
)
def test_a_bracket_shrinks_to_where_the_cubic_is_lowest(loss, rise, lowest):
    end = lambda t: _End(*(jnp.asarray(float(v)) for v in (t, loss(t), rise(t))))
    np.testing.assert_allclose(_between(end(0.0), end(1.0)), lowest, rtol=1e-9)


def test_the_first_steps_of_lbfgs():
    """Looks and stays; then a gradient step of length one; then the secant."""
    optimizer = LBFGS(memory=3)
    objective, parameters = objective_at(jnp.asarray(0.0))
    step = jax.jit(lambda p, state: optimizer.step(objective, p, state))
    state = optimizer.init(objective, parameters)
    moved, state, report = step(parameters, state)
    np.testing.assert_array_equal(moved, [0.0])
    assert float(report.loss) == 1.0
    moved, state, report = step(moved, state)  # slope 2 of (1 + p)^2, shortened to one
    np.testing.assert_allclose(moved, [-1.0], rtol=1e-12)
    assert float(report.loss) == 1.0 and float(state.here.loss) == 0.0
    assert int(report.stopped) == 1  # the gradient vanishes there
    np.testing.assert_allclose(state.memory.steps, [[0.0], [0.0], [-1.0]])
    np.testing.assert_allclose(state.memory.changes, [[0.0], [0.0], [-2.0]])
    # nothing lower to be found, twice
    failed = optimizer.init(objective, parameters)._replace(
        here=state.here._replace(loss=jnp.asarray(-1.0), slope=jnp.asarray([1.0]))
    )
    moved, failed, report = step(parameters, failed)
    assert int(failed.failures) == 1 and int(report.stopped) == 0
    np.testing.assert_array_equal(moved, parameters)
    _, failed, report = step(parameters, failed)
    assert int(failed.failures) == 2 and int(report.stopped) == 2


def test_first_order_steps():
    objective, parameters = objective_at(jnp.asarray(0.0))  # slope 2
    for optimizer, length in ((GradientDescent(0.1), 0.2), (Adam(10, 0.05), 0.05)):
        state = optimizer.init(objective, parameters)
        moved, *_ = optimizer.step(objective, parameters, state)
        np.testing.assert_allclose(moved, [-length], rtol=1e-6)
    assert GradientDescent().learning_rate == 1e-3


def test_blocks_of_steps_end_where_they_should():
    assert next_stop(0, 10, 20, 100) == 30 and next_stop(0, 90, 20, 100) == 100
    assert next_stop(15, 10, 20, 100) == 15 and next_stop(15, 15, 20, 100) == 30
    assert next_stop(15, 15, 5, 100) == 20 and next_stop(15, 95, 20, 100) == 100
    assert next_count(10, 0.1) == 5  # half a second
    assert next_count(10, 1e-3) == 20  # at most twice as many as before
    assert next_count(900, 1e-6) == 1000 and next_count(10, 7.0) == 1


def test_arguments_at_their_limits():
    LBFGS(memory=1, searches=1)
    Adam(1, fall=1.0, decay_every=1)
    Adam(1, fall=1e-9)
    GradientDescent(1e-9)
    NaturalGradient(damping=0.1, least=0.1, most=0.1, momentum=0.0)
    NystromNewton(damping=1e-9, rank=1, sketch_every=1, solves=1, halvings=1)
    for refused in (
        lambda: LBFGS(searches=0),
        lambda: Adam(1, decay_every=0),
        lambda: Adam(1, fall=1.1),
        lambda: Adam(1, fall=0.0),
        lambda: NaturalGradient(damping=0.1, least=0.2),
        lambda: NaturalGradient(damping=0.3, most=0.2),
        lambda: NaturalGradient(momentum=-0.1),
        lambda: NystromNewton(halvings=0),
        lambda: NystromNewton(solves=0),
        lambda: NystromNewton(sketch_every=0),
        lambda: GradientDescent(-1.0),
    ):
        with pytest.raises(ValueError, match="must"):
            refused()
