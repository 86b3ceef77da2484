"""Jumps in the equation: closed forms solve it, laws have their means, nonsense is refused."""

import math

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._words import Words
from fkpinn.problem import merton_price, residual, residual_by_hessian
from fkpinn.problem._levy import fractional_composite
from fkpinn.problem._stable import _directions
from fkpinn.reference import fingerprint, grid_reference
from fkpinn.sampling import sample_terminal

LINE = fk.Interval(-1.0, 1.0)
POISSON = fk.CompoundPoisson(2.0, fk.NormalJump(0.1, 0.5))
LOG = lambda x: jnp.log(-x[0] - 9.0)
OPTION = {"spot": 1.0, "volatility": 0.2, "interest": 0.0, "horizon": 1.0, "rate": 1.0}
REFLECTS = {"exterior": 0.0, "boundary": fk.Neumann(0.0)}
LAWS = {
    "normal": fk.NormalJump(0.1, 0.5),
    "double exponential": fk.DoubleExponentialJump(0.3, 0.4, 0.2),
    "discrete": fk.DiscreteJump([-0.5, 0.2, 1.0], [0.2, 0.5, 0.3]),
    "sampled": fk.SampledJump(lambda u: 2.0 * u[0] - 1.0 + 0.5 * u[1], 2),
}


def problem_of(law, **more):
    given = {"source": 1.0, "exterior": 0.0, "jumps": fk.CompoundPoisson(2.0, law)} | more
    return fk.Problem(LINE, **given)


def jumping_at(rate, **bound):
    return fk.Problem(LINE, jumps=fk.CompoundPoisson(rate, LAWS["normal"], **bound), exterior=0.0)


def residuals(problem, u, points):
    return np.asarray(jax.jit(jax.vmap(lambda z: residual(problem, u, z)))(jnp.asarray(points)))


@pytest.mark.parametrize("dim", helpers.of_which_fast([1, 2, 3], 2))
@pytest.mark.parametrize("alpha", [0.6, 1.5])
def test_the_known_exit_time_of_a_stable_process_solves_its_equation(dim, alpha):
    """Also close to the wall, where it is not smooth."""
    jumps = fk.Stable(alpha, scale=1.3)
    problem = fk.jump_exit_time(fk.Ball([0.2] * dim, 2.0), jumps)
    time = jumps.ball_time(dim) * 2.0**alpha
    exact = lambda x: time * (1.0 - jnp.sum((x - 0.2) ** 2) / 4.0) ** (alpha / 2)
    x = 0.2 + np.linspace(0.01, 1.95, 4)[:, None] * np.eye(dim)[0]
    assert np.abs(residuals(problem, exact, x)).max() < 1e-8


def test_the_fractional_laplacian_in_a_box_of_many_directions():
    """On a line the box is a ball."""
    jumps = fk.Stable(1.2)
    problem = fk.jump_exit_time(LINE, jumps)
    exact = lambda x: jumps.ball_time(1) * (1.0 - x[0] ** 2) ** 0.6
    assert np.abs(residuals(problem, exact, [[-0.9], [0.3]])).max() < 1e-8


@pytest.mark.broad
def test_mertons_prices_solve_his_equation():
    problem, exact = fk.catalogue("merton")
    points = [[0.0, 4.5], [0.5, 4.7], [0.7, 4.6]]
    assert np.abs(residuals(problem, exact, points)).max() < 1e-5


@pytest.mark.broad
def test_polynomials_in_a_ball_have_known_sources():
    """In the plane, of degrees 1 and 2 and radial ones; in space, many random directions."""
    problem, exact = fractional_composite(2, 1.2)
    points = [[0.1, 0.2], [-0.5, 0.3], [0.0, -0.8]]
    assert np.abs(residuals(problem, exact, points)).max() < 1e-6
    problem, exact = fractional_composite(5)
    points = jnp.asarray([[0.3, -0.1, 0.2, 0.4, 0.1]]) + 1e-7 * jnp.arange(4000.0)[:, None]
    found = residuals(problem, exact, points)
    assert abs(found.mean()) < 4.0 * found.std() / 4000**0.5 < 0.1
    frame = _directions(points[0], points[0])
    np.testing.assert_allclose(frame[:5] @ frame[:5].T, np.eye(5), atol=1e-12)


def test_jumps_are_in_both_forms_of_the_residual():
    problem, u, z = problem_of(LAWS["normal"]), lambda x: jnp.cos(x[0]), jnp.asarray([0.3])
    both = jax.jit(lambda z: (residual(problem, u, z), residual_by_hessian(problem, u, z)))(z)
    np.testing.assert_allclose(*both, rtol=1e-10)
    assert abs(float(both[0]) - float(residual(fk.Problem(LINE, source=1.0), u, z))) > 0.1


@pytest.mark.parametrize("jumps", [POISSON, fk.Stable(1.1)], ids=["poisson", "stable"])
def test_what_is_the_same_everywhere_does_not_change_by_jumps(jumps):
    """Inside and outside alike."""
    problem = fk.Problem(LINE, jumps=jumps, exterior=3.0)
    at = [[-0.8], [0.0], [0.6]]
    assert np.abs(residuals(problem, lambda x: 3.0 + 0.0 * x[0], at)).max() < 1e-7
    inside = residuals(problem, lambda x: 4.0 + 0.0 * x[0], at)  # jumps out lose one
    assert np.all(inside < -1e-2)


@pytest.mark.parametrize("name", LAWS)
def test_jumps_follow_their_law(name):
    """Means of samples are those of the nodes, within four standard errors."""
    law = LAWS[name].checked(1)
    streams = Words(jnp.arange(1 << 14, dtype=jnp.uint32) * np.uint32(2654435761))
    draw = jax.jit(jax.vmap(lambda words: law.jump(words, 1, jnp.float64)[1]))
    z = np.asarray(draw(streams))[:, 0]
    known = law.nodes(1)
    if known is None:
        mean, square = 0.25, 1.0 / 3.0 + 0.25 * (1.0 / 12.0 + 0.25)
    else:
        nodes, weights = known
        mean, square = weights @ nodes[:, 0], weights @ nodes[:, 0] ** 2
    for found, wanted in ((z, mean), (z**2, square)):
        assert abs(found.mean() - wanted) < 4.0 * found.std() / len(z) ** 0.5
    if (cut := law.between(jnp.asarray(-0.3), jnp.asarray(0.6))) is not None:
        nodes, weights = (np.asarray(a) for a in cut)
        share = np.mean((z > -0.3) & (z < 0.6))
        assert abs(weights.sum() - share) < 4.0 * (share * (1.0 - share) / len(z)) ** 0.5
        assert nodes.min() >= -0.3 and nodes.max() <= 0.6


def test_laws_without_nodes_are_right_on_average():
    """Random jumps differ from point to point."""
    sampled = fk.SampledJump(lambda u: 0.8 * u[0] - 0.4, 1)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    known = fk.SampledJump(lambda u: 0.8 * u[0] - 0.4, 1, (0.4 * nodes, 0.5 * weights))
    u = lambda x: jnp.cos(2.0 * x[0])
    at = np.linspace(-0.5, 0.5, 400)[:, None]
    lack = residuals(problem_of(sampled), u, at) - residuals(problem_of(known), u, at)
    assert abs(lack.mean()) < 4.0 * lack.std() / len(at) ** 0.5
    assert lack.std() > 1e-3


@pytest.mark.broad
def test_finite_differences_know_jumps():
    """Order two towards a spectral solution; also where the rate depends on the place."""
    problem = fk.catalogue("jump-exit").problem
    center = [float(grid_reference(problem, h=h).values([[0.0]])[0]) for h in (0.04, 0.02)]
    errors = np.abs(np.asarray(center) - 0.74815006)
    assert errors[1] < 2e-4 and errors[0] > 3.0 * errors[1]
    slower = fk.CompoundPoisson(lambda x: 2.0 - x[0] ** 2, fk.NormalJump(0.0, 0.5), bound=2.0)
    other = grid_reference(fk.jump_exit_time(LINE, slower), h=0.02).values([[0.0]])
    assert float(other[0]) > center[1] + 5e-3


def test_problems_that_differ_in_jumps_alone_differ():
    numbers = [
        fingerprint(problem_of(law, exterior=outside))
        for law, outside in ((LAWS["normal"], 0.0), (fk.NormalJump(0.1, 0.6), 0.0))
    ]
    assert not np.allclose(*numbers)
    outside = fingerprint(fk.Problem(LINE, jumps=POISSON, exterior=1.0, boundary=0.0))
    inside = fingerprint(fk.Problem(LINE, jumps=POISSON, exterior=0.0, boundary=0.0))
    assert not np.allclose(outside, inside)


@pytest.mark.broad
def test_paths_of_the_measure_jump_too():
    """Their variance is that of the diffusion and of the jumps."""
    problem, _ = fk.catalogue("merton")
    z = np.asarray(sample_terminal(problem, 20_000, key=jax.random.key(0)))
    wanted = 0.2**2 + 1.0 * (0.1**2 + 0.15**2)
    fourth = 3.0 * wanted**2 + (0.1**4 + 6 * 0.1**2 * 0.15**2 + 3 * 0.15**4)
    assert abs(z[:, 1].var() - wanted) < 5.0 * ((fourth - wanted**2) / 20_000) ** 0.5


@pytest.mark.broad
def test_paths_of_the_measure_have_all_their_jumps():
    """Thirty on average: the variance is that of as many."""
    jumps = fk.CompoundPoisson(30.0, fk.NormalJump(0.0, 0.2))
    problem = fk.Problem(
        fk.Space(1), horizon=1.0, terminal=0.0, measure=fk.Along([0.0]), jumps=jumps, diffusion=0.1
    )
    x = np.asarray(sample_terminal(problem, 20_000, key=jax.random.key(0)))[:, 1]
    wanted = 0.01 + 30.0 * 0.04
    fourth = 3.0 * wanted**2 + 30.0 * 3.0 * 0.2**4
    assert abs(x.var() - wanted) < 5.0 * ((fourth - wanted**2) / 20_000) ** 0.5


def test_merton_without_jumps_is_black_and_scholes():
    how = {"volatility": 0.2, "interest": 0.05, "mean": 0.0, "std": 0.1}
    price = merton_price(jnp.asarray(100.0), jnp.asarray(1.0), 100.0, rate=0.0, **how)
    np.testing.assert_allclose(price, 10.450583572185565, rtol=1e-10)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: fk.Problem(LINE, jumps=POISSON), "`exterior` must give"),
        (lambda: fk.Problem(LINE, exterior=0.0), "paths have no jumps"),
        (
            lambda: fk.Problem(
                fk.Space(1), horizon=1.0, terminal=0.0, measure=fk.Along([0.0]), jumps=POISSON,
                exterior=0.0,
            ),
            "all of space",
        ),
        (lambda: fk.Problem(LINE, jumps=2.0, exterior=0.0), "`jumps` must be"),
        (lambda: problem_of(fk.NormalJump(0.0, -1.0)), "std"),
        (lambda: problem_of(fk.NormalJump(math.nan, 1.0)), "mean"),
        (lambda: problem_of(fk.DoubleExponentialJump(1.5, 0.1, 0.1)), "probability"),
        (lambda: problem_of(fk.DiscreteJump([1.0], [0.5])), "sum one"),
        (lambda: problem_of(fk.SampledJump(lambda u: u[0] / 0.0 * 0.0, 1)), "finite jumps"),
        (lambda: fk.CompoundPoisson(1.0, "normal"), "distribution of jumps"),
        (lambda: jumping_at(-1.0), "negative"),
        (lambda: jumping_at(math.inf), "finite"),
        (lambda: jumping_at(lambda x: 1.0), "`bound` is required"),
        (lambda: jumping_at(lambda x: x[0], bound=1.0), "not be negative"),
        (lambda: jumping_at(lambda x: 2.0 + x[0], bound=1.0), "exceed its `bound`"),
        (lambda: fk.Stable(2.0), "alpha"),
        (lambda: fk.Stable(0.0), "alpha"),
        (lambda: fk.Stable(1.0, scale=-1.0), "scale"),
        (lambda: fk.Problem(LINE, jumps=POISSON, exterior=LOG), "`exterior` must be finite"),
        (lambda: fk.Problem(LINE, jumps=POISSON, **REFLECTS), "across reflecting walls"),
        (lambda: fk.kou(lambda s: s, **OPTION, up=0.5, mean_up=1.5, mean_down=0.1), "mean_up"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(build, words):
    with pytest.raises((TypeError, ValueError), match=words):
        build()


def test_finite_elements_refuse_jumps():
    with pytest.raises(ValueError, match="do not support"):
        fk.reference.fem_reference(problem_of(LAWS["normal"]))
