"""Nonlinear equations: what may be declared, linear problems next to them, known solutions."""

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ncx2

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn.problem import residual, residual_by_hessian, sampled_residual

SQUARE = fk.Box([-1.0, -1.0], [1.0, 1.0])
PLACE = jnp.array([0.3, -0.2])
wave = lambda z: jnp.sin(2 * z[0]) * z[-1] + z[0] ** 3
bump = lambda z: jnp.cos(z[-1] + 0.3 * z[0]) * jnp.exp(0.2 * z[0])


def bent(x, u, p, Q):
    return 0.1 * jnp.abs(Q[0, 0]) + 0.2 * jnp.sin(Q[0, 1]) * u - jnp.sum(p**2)


KINDS = {
    "values": dict(nonlinearity=lambda x, u, p: jnp.exp(u), reaction=lambda x: x[0]),
    "gradients": dict(nonlinearity=lambda x, u, p: u * p[0] - jnp.sum(p**2), drift=[1.0, 2.0]),
    "diagonal": dict(nonlinearity=lambda x, u, p, Q: 0.2 * jnp.sum(jnp.sin(jnp.diag(Q)))),
    "matrix": dict(nonlinearity=bent, diffusion=[1.0, 1.5], source=1.0),
    "slanted": dict(
        nonlinearity=lambda x, u, p: u * jnp.sum(p**3), diffusion=[[1.0, 0.5], [0.0, 0.7]]
    ),
}


@pytest.mark.parametrize("kind", helpers.of_which_fast(KINDS, "matrix", "gradients"))
def test_the_linear_problem_is_the_derivative(kind):
    """By finite differences; at the candidate itself both residuals are the same."""
    problem = fk.Problem(SQUARE, **KINDS[kind], check=False)
    near = problem.linearized(wave)
    assert near.linear and not problem.linear
    here = residual(problem, wave, PLACE)
    np.testing.assert_allclose(residual(near, wave, PLACE), here, rtol=1e-9)
    np.testing.assert_allclose(residual_by_hessian(problem, wave, PLACE), here, rtol=1e-9)
    shifted = lambda eps: residual(problem, lambda z: wave(z) + eps * bump(z), PLACE)
    slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5
    linear = residual(near, lambda z: wave(z) + bump(z), PLACE) - here
    np.testing.assert_allclose(linear, slope, rtol=1e-7)


def test_what_is_not_read_stays_as_it_was():
    drift, noise = [1.0, 2.0], 1.3
    how = dict(drift=drift, diffusion=noise, reaction=0.5, check=False)
    values = fk.Problem(SQUARE, nonlinearity=lambda x, u, p: u**2, **how)
    assert values.nonlinearity.reads == {"u"} and not values.nonlinearity.second
    assert values.linearized(wave).dynamics is values.dynamics
    slopes = fk.Problem(SQUARE, nonlinearity=lambda x, u, p: jnp.sum(p**2) + x[0], **how)
    assert slopes.nonlinearity.reads == {"p"}
    near = slopes.linearized(wave)
    assert near.reaction is slopes.reaction and near.diffusion is slopes.diffusion
    bends = fk.Problem(SQUARE, nonlinearity=lambda x, u, p, Q: 0.1 * jnp.sin(Q[0, 0]), **how)
    assert bends.nonlinearity.reads == {"Q"} and bends.nonlinearity.diagonal
    assert bends.linearized(wave).diffusion.shape == (2,)
    mixed = fk.Problem(SQUARE, nonlinearity=bent, **how)
    assert not mixed.nonlinearity.diagonal and mixed.linearized(wave).diffusion.shape == (2, 2)
    plain = fk.Problem(SQUARE, **how)
    assert plain.linearized(wave) is plain


@pytest.mark.broad
def test_the_linear_problem_of_a_minimum_is_that_of_the_best_control():
    """Howard's policy iteration: drift and cost are those of the control that is best at `w`."""
    drifts, costs = np.array([[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]]), np.array([0.2, 0.1, 0.4])

    def best(x, u, p):
        return jnp.min(jnp.asarray(drifts, p.dtype) @ p + jnp.asarray(costs, p.dtype))

    problem = fk.Problem(SQUARE, nonlinearity=best, drift=[0.1, 0.2], check=False)
    near = problem.linearized(wave)
    for place in jax.random.uniform(jax.random.key(0), (20, 2), minval=-1.0):
        k = int(np.argmin(drifts @ np.asarray(jax.grad(wave)(place)) + costs))
        np.testing.assert_allclose(near.drift(place), drifts[k] + [0.1, 0.2], rtol=1e-9)
        np.testing.assert_allclose(near.source(place), costs[k], atol=1e-9)


def test_random_directions_find_the_residual_on_average():
    problem = fk.Problem(SQUARE, nonlinearity=lambda x, u, p: u * jnp.sum(p**2), check=False)
    keys = jax.random.split(jax.random.key(0), 4000)
    found = jax.jit(jax.vmap(lambda key: sampled_residual(problem, wave, PLACE, 2, key=key)))(keys)
    sure = 4 * float(jnp.std(found)) / len(keys) ** 0.5
    assert abs(float(jnp.mean(found) - residual(problem, wave, PLACE))) < sure
    bends = fk.Problem(SQUARE, nonlinearity=bent, check=False)
    with pytest.raises(ValueError, match=r"Random directions.*Set `points.directions` to 0"):
        sampled_residual(bends, wave, PLACE, 2, key=keys[0])


REFUSED = {
    "a number": (3.0, TypeError, r"`nonlinearity` must be a function called with `x, u, p`"),
    "too few arguments": (lambda x: x[0], TypeError, r"`x, u, p` or `x, u, p, Q`"),
    "a vector": (lambda x, u, p: p, ValueError, r"must return one number; got shape \(2,\)"),
    "a pair": (lambda x, u, p: (u, u), ValueError, r"must return one number; got tuple"),
    "not finite": (lambda x, u, p: jnp.log(u), ValueError, r"must be finite.*logarithm"),
    "not elliptic": (
        lambda x, u, p, Q: -2.0 * jnp.trace(Q), ValueError, r"leave the equation elliptic"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_a_nonlinearity_is_refused(kind):
    given, error, words = REFUSED[kind]
    with pytest.raises(error, match=words):
        fk.Problem(SQUARE, nonlinearity=given)


def test_labels_are_for_linear_problems():
    problem = fk.Problem(SQUARE, nonlinearity=lambda x, u, p: u**2, check=False)
    with pytest.raises(ValueError, match=r"`problem` is nonlinear.*`problem.linearized\(w\)`"):
        fk.estimate_labels(problem, jnp.zeros((1, 2)), n_paths=4)


# ---- all of space


def in_space(dim=3, **more):
    how = {"horizon": 0.5, "terminal": lambda x: jnp.sum(x**2), "measure": fk.Along([1.0] * dim)}
    return fk.Problem(fk.Space(dim), **(how | more))


def test_space_has_no_boundary_and_the_extent_of_its_law():
    problem = in_space(diffusion=2.0, drift=[1.0, 0.0, 0.0])
    space = problem.domain
    assert space.parts == () and problem.conditions() == () and problem.paths_end()
    assert float(space.signed_distance(jnp.ones(3))) == -np.inf
    assert np.isnan(float(space.level(jnp.array([1.0, np.nan, 0.0]))))
    lower, upper = space.bounding_box()
    # a uniform time t up to 1/2: variance 4 t of the noise, and t itself along the drift
    std = np.sqrt(4 * 0.25 + np.array([1.0, 0.0, 0.0]) * 0.5**2 / 12)
    np.testing.assert_allclose(upper - lower, 6 * std, rtol=0.1)
    np.testing.assert_allclose(0.5 * (lower + upper), [1.25, 1.0, 1.0], atol=0.1)
    np.testing.assert_array_equal(problem.measure.named_center(), [1.0, 1.0, 1.0])


@pytest.mark.broad
def test_paths_in_space_end_with_time():
    """The heat equation: |x|^2 grows by the dimension times the variance."""
    problem = in_space(diffusion=1.0)
    points = jnp.asarray([[0.1, 1.0, 0.0, -1.0], [0.4, 0.0, 0.0, 0.0]])
    found = fk.estimate_labels(problem, points, n_paths=1000, seed=0)
    wanted = np.sum(np.asarray(points)[:, 1:] ** 2, axis=1) + 3 * (0.5 - np.asarray(points)[:, 0])
    assert np.all(np.abs(found.value - wanted) < 4 * found.stderr)


@pytest.mark.broad
def test_points_along_paths_have_the_law_of_the_process():
    """Ornstein-Uhlenbeck: exponential mean, and a variance that saturates."""
    problem = in_space(drift=lambda t, x: -2.0 * x, diffusion=0.5)
    last = np.asarray(fk.sampling.sample_terminal(problem, 4000, key=jax.random.key(0)))
    np.testing.assert_allclose(last[:, 0], 0.5)
    mean, variance = np.exp(-1.0), 0.25 / 4 * (1 - np.exp(-2.0))
    np.testing.assert_allclose(last[:, 1:].mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(last[:, 1:].var(axis=0), variance, rtol=0.08)
    inside = np.asarray(fk.sample_interior(problem, 4000, key=jax.random.key(1)))
    late = inside[:, 0] > 0.25
    np.testing.assert_allclose(np.mean(late), 0.5, atol=0.03)
    assert inside[late, 1:].mean() < inside[~late, 1:].mean()


SPACES = {
    "no measure": (dict(measure=None), r"`measure` is required.*`measure=Along\(start\)`"),
    "no horizon": (dict(horizon=None, terminal=None, measure=fk.Normal([0.0] * 3, 1.0)),
                   r"`domain` has no boundary, so the problem needs a `horizon`"),
    "another length": (dict(measure=fk.Along([0.0])), r"`Along\(start\)` must have 3 finite"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPACES)
def test_what_space_needs(kind):
    more, words = SPACES[kind]
    with pytest.raises(ValueError, match=words):
        in_space(**more)
    with pytest.raises(ValueError, match=r"`Space\(dim\)` must be a dimension"):
        fk.Space(0)
    with pytest.raises(ValueError, match=r"`Along\(start\)` is for problems with a `horizon`"):
        fk.Problem(SQUARE, measure=fk.Along([0.0, 0.0]))


# ---- known solutions

VALUES = {  # at the start of time and the center, made elsewhere
    "allen-cahn-20d": 0.30869855, "allen-cahn-100d": 0.05278136, "sine-gordon-10d": 0.3229264,
    "sine-gordon-100d": 0.0528094, "semilinear-heat-10d": 0.4695499,
    "semilinear-heat-100d": 0.3166278, "hjb-lq-20d": 2.921015, "hjb-lq-100d": 4.590162,
    "bsb-100d": 77.104879,
}  # fmt: skip
FAST = ["bratu", "allen-cahn-20d", "fully-nonlinear-20d"]
OTHERS = [*VALUES, "fully-nonlinear-100d", "fisher-kpp", "fisher-kpp-10d"]
OTHERS = [name for name in OTHERS if name not in FAST]


@pytest.mark.parametrize(
    "name",
    helpers.of_which_fast(
        [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)], "bratu"
    ),
)
def test_solutions_of_the_catalogue_solve_their_equations(name):
    problem, exact = fk.catalogue(name)
    points = fk.sample_interior(problem, 16, key=jax.random.key(3))
    size = float(jnp.max(jnp.abs(jax.jit(jax.vmap(exact))(points))))
    left = jax.jit(jax.vmap(lambda z: residual(problem, exact, z)))(points)
    assert float(jnp.max(jnp.abs(left))) < 1e-4 * size
    if name in VALUES:
        start = problem.layout.points(0.0, problem.measure.named_center())
        with precision("float64"):
            value = jax.jit(exact)(jnp.asarray(start))
        # half a unit of the last digit that is known, and three parts in ten million
        np.testing.assert_allclose(value, VALUES[name], rtol=3e-7, atol=5e-8)
    if problem.timed:
        last = fk.sampling.sample_terminal(problem, 8, key=jax.random.key(4))
        data = jax.jit(jax.vmap(lambda z: problem.terminal(problem.space(z))))(last)
        np.testing.assert_allclose(jax.jit(jax.vmap(exact))(last), data, rtol=1e-5, atol=1e-9)


def test_the_price_of_a_hundred_assets_is_the_published_one():
    problem, exact = fk.catalogue("bsb-100d")
    center = problem.measure.named_center()
    with precision("float64"):
        start = jnp.concatenate([jnp.zeros(1), jnp.asarray(center)])
        np.testing.assert_allclose(exact(start), VALUES["bsb-100d"], rtol=1e-8)
        np.testing.assert_allclose(exact(start.at[0].set(problem.horizon)), np.sum(center**2))


@pytest.mark.broad
def test_linear_quadratic_control_by_quadrature():
    """An expectation under a noncentral chi-square law."""
    exact = jax.jit(fk.catalogue("hjb-lq-20d").exact)
    for t, radius in ((0.0, 0.0), (0.3, 4.0), (0.9, 6.0)):
        left = 1.0 - t
        law = ncx2(20, radius**2 / (2 * left))
        mean = quad(lambda s, law=law, left=left: law.pdf(s) * 2 / (1 + 2 * left * s), 0, 400)[0]
        z = jnp.zeros(21).at[0].set(t).at[3].set(radius)
        np.testing.assert_allclose(exact(z), -np.log(mean), rtol=1e-6)


def test_laws_that_name_a_center_and_those_that_do_not():
    assert fk.Radial([1.0, 2.0], 1.0).named_center() is None  # its own field is another thing
    assert fk.Uniform().named_center() is None
    np.testing.assert_array_equal(fk.Along([1.0, 2.0]).named_center(), [1.0, 2.0])


def test_a_law_of_paths_says_where_to_look():
    """Between far walls: inputs of networks and scales of equations follow the paths."""
    problem = fk.Problem(
        fk.Interval(-50.0, 2.0), diffusion=1.0, horizon=1.0, terminal=0.0, measure=fk.Along([0.0])
    )
    lower, upper = problem.box()
    # at a uniform time the variance is 1/2 on average
    assert lower[0] == pytest.approx(-3 * 0.5**0.5, rel=0.1)
    assert upper[0] == pytest.approx(2.0, rel=0.05)  # the wall, about as far
    np.testing.assert_array_equal(problem.bounds()[0], [0.0, lower[0]])
    again = problem.with_data("other", diffusion=5.0, dynamics=None)
    np.testing.assert_array_equal(again.box()[0], lower)  # the law stays what it was
    plain = problem.with_measure(fk.Uniform())
    assert plain.box()[0][0] == -50.0
