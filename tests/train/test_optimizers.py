"""Every optimizer on small problems whose minimum is known, and what they are made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.labels import Labels
from fkpinn.loss import Annealed, Fixed, LabelTerm, Loss, make_loss
from fkpinn.nn import MLP, HardDirichlet, Input, Size
from fkpinn.train import (
    LBFGS,
    Adam,
    GradientDescent,
    NaturalGradient,
    NystromNewton,
    Phase,
    fit,
)
from fkpinn.train._gram import gram, kernel
from fkpinn.train._lbfgs import Memory, Point, direction, remember, search
from fkpinn.train._nystrom_newton import nystrom
from fkpinn.train._objective import Objective, split


class Line(eqx.Module):
    """A model that is linear in its parameters, badly scaled: least squares has one minimum."""

    slopes: jax.Array

    def __call__(self, z):
        return jnp.dot(self.slopes, jnp.stack([z[0], 30.0 * z[1], 1e-2 + 0.0 * z[0]]))


def data(n=20):
    points = jr.uniform(jr.key(0), (n, 2))
    values = 2.0 * points[:, 0] - 3.0 * points[:, 1] + 0.5 + 0.1 * jr.normal(jr.key(1), (n,))
    return Labels.from_data(points, values, 0.1)


def least_squares():
    labels = data()
    x, y = np.asarray(labels.points.T, float)
    matrix = np.stack([x, 30.0 * y, np.full_like(x, 1e-2)], axis=1)
    found, squares, *_ = np.linalg.lstsq(matrix, np.asarray(labels.value), rcond=None)
    return found, float(squares[0]) / len(x)


def trained(optimizer, steps, **more):
    loss = Loss({"labels": LabelTerm.of(data())})
    return fit(Line(jnp.zeros(3)), loss, [Phase("test", optimizer, steps)], key=jr.key(0), **more)


@pytest.mark.parametrize(
    ("optimizer", "steps"),
    [
        (NaturalGradient(), 60),
        (NaturalGradient(momentum=0.5), 60),
        (NystromNewton(damping=1e-8, rank=3), 25),
    ],
    ids=["natural", "spring", "nncg"],
)
def test_second_order_reaches_the_minimum(optimizer, steps):
    _, least = least_squares()
    run = trained(optimizer, steps)
    np.testing.assert_allclose(run.history[-1]["loss"], least, rtol=1e-4)


def test_lbfgs_reaches_the_minimum_and_says_why_it_stops():
    slopes, least = least_squares()
    run = trained(LBFGS(), 200)
    np.testing.assert_allclose(run.history[-1]["loss"], least, rtol=1e-9)
    np.testing.assert_allclose(run.network.slopes, slopes, rtol=1e-4)
    (why,) = run.stopped
    assert "test stopped after" in why and ("gradient vanishes" in why or "line search" in why)


def two_loops(memory, slope):
    """The inverse Hessian times a vector, one pair after the other."""
    pairs = [(s, y) for s, y in zip(memory.steps, memory.changes, strict=True) if np.any(s)]
    found, shares = np.array(slope), []
    for s, y in reversed(pairs):
        shares.append(s @ found / (s @ y))
        found = found - shares[-1] * y
    s, y = pairs[-1]
    found = found * (s @ y) / (y @ y)
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        found = found + s * (share - y @ found / (s @ y))
    return found


@pytest.mark.parametrize("seen", [1, 3, 5, 12])
def test_lbfgs_directions_are_those_of_two_loops(seen):
    # of a convex parabola, so that every pair is kept; five at most
    p, known = 9, jnp.asarray(True)
    curve = jr.normal(jr.key(0), (p, p))
    zeros = jnp.zeros((5, p)), jnp.zeros((5, p)), jnp.zeros((5, 5)), jnp.zeros((5, 5))
    memory = Memory(*zeros)
    for key in jr.split(jr.key(1), seen):
        step = jr.normal(key, (p,))
        memory = remember(memory, step, curve.T @ (curve @ step) + step, known)
    slope = jr.normal(jr.key(2), (p,))
    expected = -two_loops(jax.tree.map(np.asarray, memory), np.asarray(slope))
    np.testing.assert_allclose(direction(memory, slope), expected, rtol=1e-9)
    # a pair that curves downwards, or is not finite, is left out
    for change in (-step, step * jnp.nan):
        kept = remember(memory, step, change, known)
        np.testing.assert_array_equal(kept.steps, memory.steps)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_line_searches_meet_wolfes_conditions(scale):
    bumpy = lambda x: jnp.sum((scale * x - 1) ** 2) + 0.3 * jnp.sum(jnp.sin(5 * scale * x))

    def evaluate(x):
        loss, slope = jax.value_and_grad(bumpy)(x)
        return Point(loss, {"all": loss}, slope)

    here = evaluate(jnp.zeros(3))
    towards = -here.slope
    length, found = search(evaluate, jnp.zeros(3), towards, here, 25)
    rise = float(here.slope @ towards)
    assert float(found.loss) <= float(here.loss) + 1e-4 * float(length) * rise
    assert float(found.slope @ towards) >= 0.9 * rise
    np.testing.assert_allclose(found.loss, bumpy(length * towards), rtol=1e-12)


def test_lbfgs_knows_that_points_are_fresh():
    opt = LBFGS()
    state = opt.init(*objective_of_labels())
    _, state, report = opt.step(*objective_of_labels(), state)
    assert np.isfinite(report.loss) and np.isfinite(state.here.loss)
    assert np.isinf(opt.redrawn(state).here.loss)
    again, _, _ = opt.step(*objective_of_labels(), opt.redrawn(state))
    np.testing.assert_array_equal(again, objective_of_labels()[1])  # looks, and stays


def objective_of_labels():
    parameters, static, unravel = split(Line(jnp.zeros(3)), Fixed())
    loss = Loss({"labels": LabelTerm.of(data())})
    return Objective(loss, jnp.zeros((), jnp.int32), static, unravel), parameters


def test_gradient_descent_is_its_recursion():
    labels = data()
    x, y = np.asarray(labels.points.T, float)
    matrix = np.stack([x, 30.0 * y, np.full_like(x, 1e-2)], axis=1)
    expected = np.zeros(3)
    for _ in range(40):
        expected -= 1e-3 * 2 / len(x) * matrix.T @ (matrix @ expected - np.asarray(labels.value))
    run = trained(GradientDescent(1e-3), 40)
    np.testing.assert_allclose(run.network.slopes, expected, rtol=1e-9)


def test_adam_goes_down():
    run = trained(Adam(300, 0.05), 300)
    losses = [record["loss"] for record in run.history]
    assert losses[-1] < 0.5 * losses[0]
    assert run.stopped == []


def test_adam_falls_as_the_paper_says():
    rates = Adam(30_000, decay_every=1000)
    assert rates.learning_rate == 1e-3
    optax_rate = lambda step: 1e-3 * np.exp(np.log(1e-3) / 30) ** (step // 1000)
    state = rates._optax().init(jnp.zeros(1))
    for step in (0, 999, 1000, 29_999):
        at = jax.tree.map(
            lambda a, s=step: jnp.asarray(s, a.dtype) if a.dtype == jnp.int32 else a, state
        )
        with jax.numpy_dtype_promotion("standard"):
            update, _ = rates._optax().update(jnp.ones(1), at)
        first = 0.1 / (1 - 0.9 ** (step + 1)) / np.sqrt(0.001 / (1 - 0.999 ** (step + 1)))
        np.testing.assert_allclose(-update[0], optax_rate(step) * first, rtol=1e-5)


@pytest.mark.parametrize("n", [7, 1301])
def test_products_of_rows_are_those_of_all_pairs(n):
    """In blocks of uneven size too, and symmetric to the bit."""
    rows = jr.normal(jr.key(0), (n, 3), jnp.float64)
    found = np.asarray(gram(rows))
    np.testing.assert_allclose(found, np.asarray(rows) @ np.asarray(rows).T, atol=1e-13)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("n", [2, 3, 20])
def test_both_forms_of_the_natural_step_solve_the_damped_problem(n):
    """Fewer rows than parameters, as many, and more: the same formula from the normal equations."""
    from fkpinn.train._natural import _solve

    jacobian, r = jr.normal(jr.key(2), (n, 3)), jr.normal(jr.key(3), (n,))
    small = gram(jacobian if n < 3 else jacobian.T)
    found = _solve(jacobian, small, r, jnp.asarray(0.3))
    expected = np.linalg.solve(jacobian.T @ jacobian + 0.3 * np.eye(3), jacobian.T @ r)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["plain", "built in", "features", "family", "slopes at walls"])
def test_products_of_rows_by_layers_are_those_of_the_rows(kind):
    """Of values alone, of residuals, and across; a field that is not made of layers has others."""
    domain, conditions = fk.Ball([0.1, 0.0], 1.0), {}
    if kind == "slopes at walls":
        domain = domain - fk.Ball([0.0, 0.0], 0.3, name="hole")
        conditions = {"hole": fk.Neumann(1.0)}
    exact = lambda x: jnp.exp(x[0]) * x[1]
    problem = fk.manufactured(domain, exact, boundary=conditions)
    scale = Size(2.0, ((1.0, 0.5),), (0.1,), (1.0,)) if kind == "family" else Size(2.0)
    network = MLP(
        *problem.bounds(), (5, 4), key=jr.key(1), dtype=jnp.float64, output_scale=scale,
        frequencies=1.0 if kind == "features" else None,
        further=[Input(lambda z: jnp.sum(z**2), 0.5, 0.5)] if kind == "features" else (),
    )  # fmt: skip
    if kind == "built in":
        network = HardDirichlet(network, domain, {"outer": exact})
    labels = Labels.from_data(np.full((9, 2), 0.1) * np.arange(9)[:, None] / 9, np.ones(9), 0.1)
    loss = make_loss(problem, 6, 8, labels, dtype=jnp.float64, size=2.0, key=jr.key(2))
    parameters, static, unravel = split(network, Fixed({"boundary": 3.0, "labels": 2.0}))
    objective = Objective(loss, jnp.asarray(0, jnp.int32), static, unravel)
    jacobian = np.asarray(objective.linearized(parameters)[1])
    known = {n for n, own in objective.layers(parameters) if own is not None}
    assert known == ({9} if kind == "slopes at walls" else {8, 9})
    found = np.asarray(kernel(objective, parameters, jnp.asarray(jacobian)))
    np.testing.assert_allclose(found, jacobian @ jacobian.T, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(found, found.T)


def test_linearized_defects_are_derivatives():
    loss = Loss({"labels": LabelTerm.of(data(90), size=2.0)})
    weighting = Annealed({"labels": 7.0}, rate=0.5)
    parameters, static, unravel = split(Line(jnp.array([1.0, 0.1, 2.0])), weighting)
    objective = Objective(loss, jnp.asarray(2, jnp.int32), static, unravel)
    r, jacobian = objective.linearized(parameters)
    np.testing.assert_allclose(r, objective.defects(parameters), rtol=1e-12)
    np.testing.assert_allclose(jnp.sum(r**2), objective(parameters), rtol=1e-12)
    brute = jax.jacobian(objective.defects)(parameters)
    np.testing.assert_allclose(jacobian, brute, rtol=1e-10, atol=1e-14)


def test_sketch_finds_the_leading_eigenvalues():
    """Of a matrix of rank five the sketch of rank eight is exact."""
    q, _ = jnp.linalg.qr(jr.normal(jr.key(4), (30, 30)))
    values = jnp.concatenate([jnp.array([50.0, 20.0, 9.0, 4.0, 1.0]), jnp.zeros(25)])
    matrix = (q * values[None]) @ q.T
    basis, found = nystrom(lambda v: matrix @ v, jnp.zeros(30), 8, jr.key(5))
    np.testing.assert_allclose(np.sort(found)[::-1][:5], values[:5], rtol=1e-8)
    np.testing.assert_allclose(basis.T @ basis, np.eye(8), atol=1e-8)


def test_natural_steps_survive_a_matrix_without_a_factor():
    """Rows of NaN curvature make no step and more damping, not NaN parameters."""
    loss = Loss({"labels": LabelTerm.of(data())})
    parameters, static, unravel = split(Line(jnp.zeros(3)), Fixed())
    objective = Objective(loss, jnp.asarray(0, jnp.int32), static, unravel)
    optimizer = NaturalGradient()
    state = optimizer.init(objective, parameters)._replace(damping=jnp.asarray(-1e9))
    moved, state, _ = optimizer.step(objective, parameters, state)
    np.testing.assert_array_equal(moved, parameters)
    assert float(state.damping) > -1e9 and bool(jnp.all(jnp.isfinite(state.momentum)))


def test_natural_steps_settle():
    """From a step on, the k-th is a k-th of the whole one."""
    loss = Loss({"labels": LabelTerm.of(data())})
    parameters, static, unravel = split(Line(jnp.zeros(3)), Fixed())
    moves = {}
    for step in (2, 3, 4, 6):
        objective = Objective(loss, jnp.asarray(step, jnp.int32), static, unravel)
        optimizer = NaturalGradient(settle=3)
        moved, *_ = optimizer.step(objective, parameters, optimizer.init(objective, parameters))
        moves[step] = np.asarray(moved - parameters)
    np.testing.assert_array_equal(moves[2], moves[3])
    np.testing.assert_allclose(moves[4], moves[3] / 2, rtol=1e-12)
    np.testing.assert_allclose(moves[6], moves[3] / 4, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(0), "`steps` and `decay_every` must be at least 1"),
        (lambda: Adam(10, -1.0), "`learning_rate` must be positive"),
        (lambda: GradientDescent(0.0), "`learning_rate` must be positive"),
        (lambda: LBFGS(memory=0), "`memory` and `searches` must be at least 1"),
        (lambda: NaturalGradient(damping=0.0), "`damping` must lie between"),
        (lambda: NaturalGradient(momentum=1.0), r"`momentum` must lie in \[0, 1\)"),
        (lambda: NystromNewton(damping=0.0), "`damping` must be positive"),
        (lambda: NystromNewton(rank=0), "`rank`, `sketch_every`, `solves` and `halvings`"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
