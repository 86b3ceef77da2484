"""Labels of processes that jump agree with closed forms and with grids."""

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn import Compute
from fkpinn._compute import Lanes
from fkpinn.evaluate import picard_value
from fkpinn.loss import MartingaleTerm
from fkpinn.reference import grid_reference
from fkpinn.sde import Spheres, StableSpheres

LINE = fk.Interval(-1.0, 1.0)
AT = jnp.asarray([[-0.9], [0.0], [0.6]])


def within(labels, exact, errors=4.5):
    lack = np.abs(np.asarray(labels.value) - np.asarray(exact))
    return np.all(lack <= errors * np.asarray(labels.stderr) + 1e-12)


@pytest.mark.broad
@pytest.mark.parametrize("rate", ["constant", "function"])
def test_exit_times_with_jumps(rate):
    """By thinning where the rate depends on the place."""
    given = 2.0 if rate == "constant" else lambda x: 2.0 - 1.5 * x[0] ** 2
    jumps = fk.CompoundPoisson(given, fk.NormalJump(0.1, 0.5), bound=2.0)
    problem = fk.jump_exit_time(LINE, jumps)
    labels = fk.estimate_labels(problem, AT, n_paths=4000, dt=0.01, refine=16, seed=1)
    assert within(labels, grid_reference(problem, h=0.02).values(AT))


@pytest.mark.broad
def test_data_outside_reach_the_inside():
    """The probability to leave upwards, by a jump or not; and jumps alone, without noise."""
    up = lambda x: jnp.where(x[0] > 0.0, 1.0, 0.0)
    jumps = fk.CompoundPoisson(3.0, fk.NormalJump(0.2, 0.7))
    problem = fk.Problem(LINE, jumps=jumps, exterior=up, diffusion=0.5, drift=0.3)
    labels = fk.estimate_labels(problem, AT, n_paths=4000, dt=0.01, refine=16, seed=2)
    assert within(labels, grid_reference(problem, h=0.01).values(AT))
    steps = fk.CompoundPoisson(1.5, fk.DiscreteJump([-2.5, 2.5], [0.25, 0.75]))
    alone = fk.Problem(LINE, jumps=steps, exterior=up, diffusion=0.0, source=1.0)
    labels = fk.estimate_labels(alone, AT, n_paths=4000, seed=3)
    assert within(labels, np.full(3, 0.75 + 1.0 / 1.5))  # one jump leads out


@pytest.mark.broad
def test_calls_in_mertons_model():
    problem, exact = fk.catalogue("merton")
    points = jnp.asarray([[0.0, 4.6], [0.5, 4.5]])
    labels = fk.estimate_labels(problem, points, n_paths=8000, dt=0.1, seed=4)
    assert within(labels, jax.vmap(exact)(points))


@pytest.mark.parametrize(
    ("dim", "alpha"), helpers.of_which_fast([(2, 1.5), (2, 1.0), (3, 0.7)], (2, 1.0))
)
def test_stable_processes_leave_balls_in_the_known_time(dim, alpha):
    """Without a step; the source as a constant and as a function."""
    jumps = fk.Stable(alpha)
    points = np.zeros((3, dim))
    points[:, 0] = 0.2, 0.6, 0.95
    exact = jumps.ball_time(dim) * (1.0 - np.sum(points**2, axis=1)) ** (alpha / 2)
    for source in (1.0, lambda x: 1.0 + 0.0 * x[0]):
        problem = fk.fractional_poisson(fk.Ball([0.0] * dim, 1.0), source, alpha=alpha)
        labels = fk.estimate_labels(problem, jnp.asarray(points), n_paths=4000, seed=5)
        assert labels.provenance["scheme"] == "stable-spheres"
        assert within(labels, exact)


@pytest.mark.broad
def test_green_and_exit_laws_of_stable_processes_have_their_moments():
    r"""$(-\Delta)^{\alpha/2}(1-|x|^2)_+^{1+\alpha/2} = K(1+\alpha/2)(1 - (1+\alpha/d)|x|^2)$.

    So a source that is no constant is read at the right places (Dyda, 2012).
    """
    dim, alpha = 3, 1.3
    constant = (1.0 + alpha / 2) / fk.Stable(alpha).ball_time(dim)
    source = lambda x: constant * (1.0 - (1.0 + alpha / dim) * jnp.sum(x**2))
    problem = fk.fractional_poisson(fk.Ball([0.0] * dim, 1.0), source, alpha=alpha)
    points = jnp.asarray([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    labels = fk.estimate_labels(problem, points, n_paths=6000, seed=6)
    assert within(labels, (1.0 - np.array([0.0, 0.25])) ** (1.0 + alpha / 2))
    u = lambda x: (1.0 - jnp.sum(x**2)) ** (1.0 + alpha / 2)
    at = lambda x: fk.problem.residual(problem, u, x)
    many = 0.4 * np.asarray(jax.random.normal(jax.random.key(0), (400, dim)))
    many = many[np.sum(many**2, axis=1) < 0.9]
    found = np.asarray(jax.jit(jax.vmap(at))(jnp.asarray(many)))
    assert np.abs(found).max() < 1e-9  # frames of directions are random, their means exact here


@pytest.mark.broad
def test_steps_of_a_stable_process_come_close_to_spheres():
    """Seen at grid times, late by a power of the step."""
    problem = fk.jump_exit_time(fk.Ball([0.0, 0.0], 1.0), fk.Stable(1.0))
    points = jnp.asarray([[0.3, 0.2]])
    exact = 2.0 / np.pi * (1.0 - 0.13) ** 0.5
    lacks = []
    for dt in (0.16, 0.04):
        labels = fk.estimate_labels(problem, points, n_paths=20_000, dt=dt, scheme="euler", seed=7)
        lacks.append(float(labels.value[0]) - exact)
    assert lacks[0] > lacks[1] > 0
    assert 1.3 < np.log(lacks[0] / lacks[1]) / np.log(2.0) < 2.7  # order one, about


@pytest.mark.broad
def test_labels_do_not_depend_on_how_the_work_is_cut():
    problem = fk.catalogue("jump-exit").problem
    how = {"n_paths": 64, "dt": 0.01, "seed": 8}
    found = [
        fk.estimate_labels(problem, AT, **how, compute=Compute("cpu", 1, 512, 0, lanes))
        for lanes in (Lanes((64,), 1 << 10, 1), Lanes((16,), 40, 1))
    ]
    np.testing.assert_array_equal(found[0].value, found[1].value)


def test_a_rate_above_its_bound_is_met_and_said():
    """Between the sample points of the check."""
    peak = lambda x: 1.0 + 50.0 * jnp.exp(-((x[0] - 0.12345) ** 2) * 1e8)
    jumps = fk.CompoundPoisson(peak, fk.DiscreteJump([0.0]), bound=1.0)
    problem = fk.Problem(LINE, jumps=jumps, exterior=0.0, diffusion=0.0, reaction=1.0, source=1.0)
    points = jnp.asarray([[0.12345]])
    with pytest.raises(ValueError, match=r"`rate` exceeds its `bound`, 1.*path \d+ from point"):
        fk.estimate_labels(problem, points, n_paths=4, dt=0.1)


def test_walks_refuse_what_they_do_not_solve():
    problem = fk.catalogue("jump-exit").problem
    with pytest.raises(ValueError, match="without jumps"):
        Spheres().check(problem)
    with pytest.raises(ValueError, match="Stable"):
        StableSpheres().check(problem)
    both = fk.Problem(LINE, jumps=fk.Stable(1.0), exterior=0.0, diffusion=1.0)
    with pytest.raises(ValueError, match="diffusion"):
        StableSpheres().check(both)


@pytest.mark.broad
def test_the_error_of_a_candidate_is_measured():
    """Five percent too much everywhere, seen by paths that jump."""
    problem, exact = fk.catalogue("stable-exit-2d")
    points = jnp.asarray([[0.0, 0.1], [0.5, 0.3]])
    labels = fk.estimate_defect(problem, lambda x: 1.05 * exact(x), points, n_paths=500, seed=9)
    assert within(labels, -0.05 * np.asarray(jax.vmap(exact)(points)))
    line = fk.catalogue("jump-exit").problem
    guess = lambda x: 0.9 * (1.0 - x[0] ** 2)
    truth = grid_reference(line, h=0.02).values(AT) - np.asarray(jax.vmap(guess)(AT))
    labels = fk.estimate_defect(line, guess, AT, n_paths=2000, dt=0.01, refine=16, seed=10)
    assert within(labels, truth)


def test_what_knows_no_jumps_refuses_them():
    """In words, rather than leave them out."""
    problem = fk.Problem(
        fk.Space(1), horizon=1.0, terminal=lambda x: jnp.cos(x[0]), measure=fk.Along([0.0]),
        jumps=fk.CompoundPoisson(1.0, fk.NormalJump()), nonlinearity=lambda t, x, u, p: u**2,
    )  # fmt: skip
    points = jnp.zeros((1, 2))
    with pytest.raises(ValueError, match="not support `jumps`"):
        fk.estimate_labels(problem, points, n_paths=4, scheme="branching")
    with pytest.raises(ValueError, match="without `jumps`"):
        picard_value(problem, [0.0, 0.0])
    with pytest.raises(ValueError, match="without `jumps`"):
        MartingaleTerm.of(problem, 4, 8, key=jax.random.key(0), dtype=jnp.float64)
