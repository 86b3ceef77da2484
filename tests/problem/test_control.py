"""Recipes of nonlinear equations, and controls that come back as functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.problem import residual
from fkpinn.problem._control import _in_box

BALL = fk.Ball([0.0, 0.0], 1.0)
PLACES = jax.random.uniform(jax.random.key(0), (12, 2), minval=-0.7, maxval=0.7)
field = lambda z: jnp.sin(2 * z[0]) * z[-1] + 1.5 * z[0] ** 2 - z[-1]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_quadratic_costs_have_their_exact_minimum(scale):
    """At once, however flat they are; outside the box it is the nearest corner's."""
    center, box = jnp.array([0.3, -2.0]), fk.Box([-1.0, -1.0], [1.0, 1.0])
    cost = lambda a: scale * jnp.sum(jnp.array([1.0, 2.0]) * (a - center) ** 2)
    found = jax.jit(lambda: _in_box(cost, box, float))()
    np.testing.assert_allclose(found, [0.3, -1.0], atol=1e-12)


def steered(controls, **more):
    """Velocity is the control, and half its square the cost."""
    how = {"drift": lambda x, a: a, "cost": lambda x, a: 1.0 + 0.5 * jnp.sum(a**2)}
    return fk.hjb(BALL, **how, controls=controls, diffusion=0.8, check=False, **more)


def values(problem):
    return np.asarray(jax.jit(jax.vmap(lambda z: residual(problem, field, z)))(PLACES))


def test_the_best_control_of_a_box_is_the_slope_cut_to_it():
    """-min(|p|, 1) p/|p| in each coordinate, and the residual of the equation it makes."""
    problem = steered(fk.Box([-1.0, -1.0], [1.0, 1.0]))
    slopes = np.asarray(jax.jit(jax.vmap(jax.grad(field)))(PLACES))
    assert np.any(np.abs(slopes) > 1) and np.any(np.abs(slopes) < 1)
    best = np.clip(-slopes, -1.0, 1.0)
    found = jax.jit(jax.vmap(fk.optimal_control(problem, field)))(PLACES)
    np.testing.assert_allclose(found, best, atol=1e-4)
    plain = fk.Problem(BALL, diffusion=0.8, check=False)
    own = np.sum(best * slopes + 0.5 * best**2, axis=1) + 1.0
    np.testing.assert_allclose(values(problem), values(plain) + own, rtol=1e-6)


def test_a_formula_and_a_fine_set_of_controls_agree_with_the_box():
    box = steered(fk.Box([-1.0, -1.0], [1.0, 1.0]))
    formula = steered(lambda x, p: jnp.clip(-p, -1.0, 1.0))
    axis = np.linspace(-1.0, 1.0, 41)
    grid = steered(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    np.testing.assert_allclose(values(formula), values(box), rtol=1e-6)
    np.testing.assert_allclose(values(grid), values(box), atol=0.5 * 2 * 0.025**2)
    # the linear problem drives paths by the control
    near = formula.linearized(field)
    drift = jax.jit(jax.vmap(near.drift))(PLACES)
    np.testing.assert_allclose(
        drift, jax.jit(jax.vmap(fk.optimal_control(formula, field)))(PLACES), rtol=1e-6
    )


def test_gains_are_maximized():
    cheap = steered(np.array([[1.0, 0.0], [0.0, 1.0]]))
    dear = steered(np.array([[1.0, 0.0], [0.0, 1.0]]), maximize=True)
    slopes = np.asarray(jax.jit(jax.vmap(jax.grad(field)))(PLACES))
    plain = values(fk.Problem(BALL, diffusion=0.8, check=False)) + 1.5
    np.testing.assert_allclose(values(cheap), plain + slopes.min(axis=1), rtol=1e-9)
    np.testing.assert_allclose(values(dear), plain + slopes.max(axis=1), rtol=1e-9)


@pytest.mark.broad
def test_controlled_noise_is_uncertain_volatility():
    """The dearest of two volatilities, as a control problem and as the recipe."""
    market, low, high = fk.Box([0.5, 0.5], [2.0, 2.0]), 0.1, 0.4
    how = {"horizon": 1.0, "boundary": 0.0, "check": False}
    control = fk.hjb(
        market, drift=lambda t, x, a: 0.05 * x, cost=lambda t, x, a: 0.0,
        noise=lambda t, x, a: a * x, diffusion=lambda t, x: high * x, maximize=True, reaction=0.05,
        controls=np.array([[low, low], [low, high], [high, low], [high, high]]),
        terminal=1.0, **how,
    )  # fmt: skip
    recipe = fk.uncertain_volatility(
        market, 1.0, low=low, high=high, rate=0.05, horizon=1.0, boundary=0.0
    )
    points = jnp.concatenate([jnp.full((12, 1), 0.3), 1.2 + 0.5 * PLACES], axis=1)
    each = lambda problem: jax.jit(jax.vmap(lambda z: residual(problem, field, z)))(points)
    np.testing.assert_allclose(each(control), each(recipe), rtol=1e-6)
    bends = jax.jit(jax.vmap(jax.hessian(field)))(points)[:, 1:, 1:]
    wanted = np.where(np.diagonal(bends, axis1=1, axis2=2) > 0, high, low)
    found = jax.jit(jax.vmap(fk.optimal_control(control, field)))(points)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_reaction_and_diffusion_run_forward():
    problem = fk.reaction_diffusion(
        fk.Interval(0.0, 1.0), lambda u: u - u**3, 0.5, horizon=2.0, conductivity=0.1
    )
    w = lambda z: jnp.exp(-z[0]) * jnp.sin(z[1])
    z = jnp.array([0.7, 0.4])
    u, bend = w(z), -w(z)
    np.testing.assert_allclose(residual(problem, w, z), u + 0.1 * bend + u - u**3, rtol=1e-9)


REFUSED = {
    "second derivatives": (
        lambda: fk.semilinear(BALL, lambda x, u, p, Q: 0.1 * jnp.sin(Q[0, 0])),
        ValueError, "so the equation is not semilinear"),
    "conductivity": (
        lambda: fk.reaction_diffusion(BALL, lambda u: u, 0.0, horizon=1.0, conductivity=-1.0),
        ValueError, "`conductivity` must be a positive number; got -1.0"),
    "volatilities": (
        lambda: fk.uncertain_volatility(BALL, 1.0, low=0.3, high=0.2, horizon=1.0),
        ValueError, "`low` and `high` must satisfy"),
    "drift": (
        lambda: fk.hjb(BALL, drift=lambda x: x, cost=lambda x, a: 1.0, controls=[1.0]),
        TypeError, "`drift` must be a function of `x, a`"),
    "controls": (lambda: steered([[np.nan, 1.0]]), ValueError, "`controls` must be finite numbers"),
    "a formula": (lambda: steered(lambda x: x), TypeError, "must take 2 arguments"),
    "no control problem": (
        lambda: fk.optimal_control(fk.catalogue("bratu").problem, field),
        ValueError, "`problem` must be created by `hjb`"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_recipes_refuse_what_cannot_be_meant(kind):
    make, error, words = REFUSED[kind]
    with pytest.raises(error, match=words):
        make()
