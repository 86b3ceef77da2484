"""Gradients corrected by paths: near walls, in time, and what their limits hold."""

import json

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, t

import fkpinn as fk
from fkpinn._compute import using
from fkpinn._streams import Stream
from fkpinn.cli._main import parse
from fkpinn.evaluate import gradient_with_interval
from fkpinn.evaluate._bundles import Axes, _shared_out, _student
from fkpinn.evaluate._lines import NODES, _weights, lines_through
from fkpinn.evaluate._slopes import _shorter
from fkpinn.nn import MLP

DISK = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=2.0, check=False)
LINE = fk.Problem(
    fk.Interval(0.0, 1.0), horizon=0.5, terminal=lambda x: jnp.sin(np.pi * x[0]), check=False
)


@pytest.fixture(autouse=True)
def one_width():
    """Compiles once, whatever the number of paths; no result depends on it."""
    with using(helpers.lanes((256,), 1 << 16, 2)):
        yield


def of_disk(x):
    return 1.0 - jnp.sum(x**2)


def of_line(z):
    return jnp.exp(-0.5 * np.pi**2 * (0.5 - z[0])) * jnp.sin(np.pi * z[1])


class Wave(eqx.Module):
    """A closed form, wrong by a wave."""

    exact: eqx.Partial
    size: jax.Array

    def __call__(self, z):
        return self.exact(z) + self.size * jnp.sin(3.0 * z[-1] + 1.0) * jnp.cos(2.0 * z[0])


def wave(exact, size):
    return Wave(eqx.Partial(exact), jnp.asarray(size))


def true_slopes(problem, exact, points):
    return problem.layout.space(np.asarray(jax.vmap(jax.grad(exact))(jnp.asarray(points))))


def held(problem, exact, found, points):
    truth = true_slopes(problem, exact, points)
    return (found.low <= truth) & (truth <= found.high)


@pytest.mark.broad
def test_gradients_are_corrected_and_their_limits_hold():
    """At 100 points in the plane, a half of them next to the wall; 200 components."""
    rng = Stream(1).generator
    v = rng.standard_normal((100, 2))
    radius = np.append(np.sqrt(rng.random(50)), 1.0 - 10.0 ** (-3.0 * rng.random(50)))
    points = 0.9999 * radius[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)
    candidate = wave(of_disk, 0.2)
    found = gradient_with_interval(DISK, candidate, points, n_paths=1000, seed=2)
    inside = held(DISK, of_disk, found, points)
    assert binom.ppf(1e-3, 200, 0.95) <= np.sum(inside)
    truth = true_slopes(DISK, of_disk, points)
    before = true_slopes(DISK, candidate, points) - truth
    assert np.mean((found.value - truth) ** 2) < 0.5 * np.mean(before**2)
    assert np.all(found.step_effect == 0.0)  # walks on spheres have no step
    np.testing.assert_allclose(found.value - found.correction, before + truth, atol=1e-6)
    score = (found.value - truth) / found.std_error
    assert np.sqrt(np.mean(score[50:] ** 2)) < 1.3  # next to the wall noise is what it says
    assert np.max(found.std_error[50:]) < 10 * np.median(found.std_error[:50])


@pytest.mark.broad
def test_a_perfect_candidate_is_left_alone():
    found = gradient_with_interval(DISK, wave(of_disk, 0.0), [[0.3, 0.4]], n_paths=400)
    np.testing.assert_allclose(found.value, [[-0.6, -0.8]], atol=1e-5)
    assert np.all(found.high - found.low < 1e-4)


@pytest.mark.broad
def test_in_time_and_next_to_a_wall():
    """One dimension; of 100 points limits miss one in twenty."""
    rng = Stream(3).generator
    x = np.append(rng.random(50), 10.0 ** (-3.0 * rng.random(50)))
    points = np.stack([0.45 * rng.random(100), x], axis=1)
    candidate = wave(of_line, 0.1)
    found = gradient_with_interval(LINE, candidate, points, n_paths=960, dt=2e-3, seed=4)
    assert found.value.shape == (100, 1) and found.n_paths == 960
    assert np.sum(held(LINE, of_line, found, points)) >= binom.ppf(1e-3, 100, 0.95)
    assert np.all(found.step_effect > 0)
    # late, lines are as short as what noise does until the end
    late = gradient_with_interval(LINE, candidate, [[0.4999, 0.5]], n_paths=128, dt=2e-3)
    np.testing.assert_allclose(late.reach, 0.5 * np.sqrt(1e-4), rtol=1e-6)


@pytest.mark.slow
def test_corners_and_reflecting_walls():
    """u = x (2 - x) between a wall at zero and a mirror at one."""
    mixed = {
        "bottom": fk.Neumann(0.0),
        "top": fk.Neumann(0.0),
        "left": 0.0,
        "right": fk.Neumann(0.0),
    }
    square = fk.Box([0.0, 0.0], [1.0, 1.0], name=("left", "right", "bottom", "top"))
    problem = fk.Problem(square, source=1.0, boundary=mixed)
    exact = lambda x: x[0] * (2.0 - x[0])
    points = np.array([[0.02, 0.01], [0.98, 0.99], [0.5, 0.5], [0.01, 0.6]])
    candidate = lambda x: exact(x) + 0.1 * x[0] * jnp.cos(x[1])
    found = gradient_with_interval(problem, candidate, points, n_paths=960, dt=2e-3, level=0.9999)
    assert np.all(held(problem, exact, found, points))


FAMILY = fk.Problem(
    fk.Ball([0.0, 0.0], 1.0),
    diffusion=lambda x, kappa: (2 * kappa) ** 0.5,
    source=lambda x, a: a,
    parameters={"kappa": (0.5, 2.0), "a": fk.Parameter(0.1, 10.0, log=True)},
    check=False,
)


def of_family(z):
    return z[1] * (1.0 - z[2] ** 2 - z[3] ** 2) / (4.0 * z[0])


@pytest.mark.broad
def test_by_parameters():
    """At 60 points, some at the ends of ranges and next to the wall; 120 derivatives."""
    rng = Stream(6).generator
    kappa = np.append([0.5, 2.0, 0.52], rng.uniform(0.5, 2.0, 57))
    a = np.append([0.1, 10.0, 9.9], 10.0 ** rng.uniform(-1.0, 1.0, 57))
    angle, radius = rng.uniform(0.0, 2 * np.pi, 60), np.sqrt(rng.uniform(0.0, 0.99, 60))
    points = np.stack([kappa, a, radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    candidate = lambda z: of_family(z) * (1.0 + 0.1 * jnp.sin(2.0 * z[0] + z[2] + 0.1 * z[1]))
    found = gradient_with_interval(
        FAMILY, candidate, points, by="parameters", n_paths=1000, dt=5e-3, seed=7
    )
    truth, before = (np.asarray(jax.vmap(jax.grad(f))(jnp.asarray(points)))[:, :2]
                     for f in (of_family, candidate))  # fmt: skip
    assert found.value.shape == (60, 2) and found.reach.shape == (60, 2)
    np.testing.assert_allclose(found.reach[:, 0], 0.15)
    np.testing.assert_allclose(found.reach[:, 1], 0.1 * np.log(100.0) * a)
    inside = (found.low <= truth) & (truth <= found.high)
    assert np.sum(inside) >= binom.ppf(1e-3, 120, 0.95)
    gained = np.mean((found.value - truth) ** 2, axis=0) / np.mean((before - truth) ** 2, axis=0)
    assert np.all(gained < 0.5)
    np.testing.assert_allclose(found.value - found.correction, before, atol=1e-5)


def test_by_parameters_refuses():
    point = [[1.0, 1.0, 0.2, 0.1]]
    ask = lambda p, u, x, by: gradient_with_interval(p, u, x, by=by, n_paths=1000)
    with pytest.raises(ValueError, match="`by` must be 'space' or 'parameters'; got 'time'"):
        ask(FAMILY, of_family, point, "time")
    with pytest.raises(ValueError, match="needs a family of problems; `problem` has no parameters"):
        ask(DISK, of_disk, [[0.1, 0.2]], "parameters")
    with pytest.raises(ValueError, match=r"kappa = 0.5, a = 0.1.*1 of 1 have not, the first kappa"):
        ask(FAMILY, of_family, [[2.5, 1.0, 0.2, 0.1]], "parameters")
    with pytest.raises(ValueError, match="needs a candidate written in JAX"):
        ask(FAMILY, fk.outside(lambda z: z[:, 0], steps=1e-3), point, "parameters")


@pytest.mark.broad
def test_half_width_finds_the_paths():
    candidate = wave(of_disk, 0.02)
    found = gradient_with_interval(DISK, candidate, [[0.2, 0.1]], half_width=0.02, seed=5)
    assert np.all(found.high - found.low <= 0.045) and found.n_paths > 960


@pytest.mark.parametrize(
    ("points", "how", "message"),
    [
        ([0.0, 0.0], {}, r"`points` must have shape \(n, 2\)"),
        ([[0.0, 2.0]], {}, "`points` must lie inside the domain and not at its wall"),
        ([[0.0, 0.1], [0.0, 1.0]], {}, r"1 of 2 do not, the first at \[0\. 1\.\]"),
        ([[0.0, np.nan]], {}, "`points` must lie inside"),
        ([[0.0, 0.0]], {"half_width": -1.0}, "`half_width` must be positive"),
        ([[0.0, 0.0]], {"half_width": 1.0, "n_paths": 9}, "not both"),
        ([[0.0, 0.0]], {"n_paths": 0}, "`n_paths` must be positive"),
        ([[0.0, 0.0]], {"level": 1.0}, "`level` must lie between 0 and 1"),
        ([[0.0, 0.0]], {"seconds": 0.0}, "`seconds` must be positive"),
    ],
)
def test_gradients_refuse(points, how, message):
    with pytest.raises(ValueError, match=message):
        gradient_with_interval(DISK, of_disk, points, **how)


def test_gradients_refuse_the_time_of_the_data_and_what_is_not_finite():
    with pytest.raises(ValueError, match=r"must have times strictly before paths end.* 0.5"):
        gradient_with_interval(LINE, of_line, [[0.5, 0.5]])
    pointed = lambda x: jnp.sqrt(jnp.sum(x**2)) + 0.0
    with pytest.raises(ValueError, match="the gradient of `candidate` is not finite at"):
        gradient_with_interval(DISK, pointed, [[0.0, 0.0]], n_paths=128)


@pytest.mark.broad
def test_solutions_have_them():
    network = MLP(*DISK.bounds(), (4,), key=Stream(0).key)
    solution = fk.Solution(DISK, network)
    found = solution.gradient_with_interval([0.3, 0.4], n_paths=960)
    own = np.asarray(solution.gradient([0.3, 0.4]))
    np.testing.assert_allclose(found.value - found.correction, own[None], rtol=1e-4)
    assert np.all(held(DISK, of_disk, found, np.array([[0.3, 0.4]])))


@pytest.mark.slow
def test_of_nonlinear_equations_limits_are_wider():
    """u'' / 2 + u'^2 / 2 + f = 0, with u = x (1 - x)."""
    exact = lambda x: x[0] * (1.0 - x[0])
    source = lambda x: 1.0 - 0.5 * (1.0 - 2.0 * x[0]) ** 2
    square = lambda x, u, p: 0.5 * p[0] ** 2
    problem = fk.Problem(fk.Interval(0.0, 1.0), source=source, nonlinearity=square)
    candidate = lambda x: exact(x) * (1.0 + 0.05 * jnp.sin(3.0 * x[0]))
    points = np.array([[0.02], [0.3], [0.9]])
    found = gradient_with_interval(problem, candidate, points, n_paths=4000)
    assert np.all(held(problem, exact, found, points))
    assert np.all(found.high - found.low > 4.0 * found.std_error)


@pytest.mark.slow
def test_of_functions_from_outside():
    guess = fk.outside(lambda x: 0.95 * (1.0 - np.sum(x**2, axis=1)))
    points = np.array([[0.3, 0.4], [0.0, 0.99]])
    found = gradient_with_interval(DISK, guess, points, n_paths=960)
    assert np.all(held(DISK, of_disk, found, points))
    assert np.all(found.high - found.low < 1.0)


@pytest.mark.slow
def test_the_benchmark_tells_coverage(capsys):
    words = ["bench", "slopes", "--problems", "disk", "--points", "60", "--paths", "960", "--json"]
    parse(words).run()
    record = json.loads(capsys.readouterr().out)
    assert record["components"] == 120 and record["covered"] >= binom.ppf(1e-3, 120, 0.95) / 120
    with pytest.raises(ValueError, match="`--problems` must be some of"):
        parse(["bench", "slopes", "--problems", "moon"]).run()


# ---- lines


def test_weights_differentiate_cubic_polynomials():
    at = np.sort(Stream(0).generator.uniform(-1.0, 1.0, (20, NODES)), axis=1)
    powers = [np.sum(_weights(at) * at**k, axis=1) for k in range(NODES)]
    np.testing.assert_allclose(powers, np.array([[0.0], [1.0], [0.0], [0.0]]) + 0 * at[:, 0],
                               atol=1e-6)  # fmt: skip


def test_lines_end_at_walls_where_data_are_known():
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), boundary=lambda x: 3.0 + x[0])
    points, along = np.array([[0.9, 0.0], [0.0, 0.0]]), np.eye(2)[None].repeat(2, axis=0)
    lines = lines_through(problem, points, along, np.full(2, 0.3), np.array([0.1, 1.0]), walls=True)
    ends = lines.nodes[..., [0, -1]]
    across = np.sqrt(1.0 - 0.81)
    np.testing.assert_allclose(ends[0], [[-0.3, 0.1], [-0.3, 0.3]], rtol=1e-4)
    assert across > 0.3  # that line ends by its length
    np.testing.assert_array_equal(lines.known[0], [[False] * 3 + [True], [False] * 4])
    assert not lines.known[1].any()
    np.testing.assert_allclose(lines.data[0, 0, -1], 4.0, rtol=1e-4)
    np.testing.assert_allclose(lines.starts[0, 0, -1], 0.099, rtol=1e-3)
    slope, less = lines.slopes(np.where(lines.known, np.nan, 3.0 + 0.9 + lines.nodes))
    np.testing.assert_allclose(slope[0, 0], 1.0, rtol=1e-3)
    np.testing.assert_allclose(less[0, 0], 0.0, atol=1e-3)


def test_without_data_at_walls_lines_stay_inside():
    points, along = np.array([[0.9, 0.0]]), np.array([[[1.0, 0.0]]])
    lines = lines_through(DISK, points, along, np.array([0.3]), np.array([0.1]), walls=False)
    assert not lines.known.any()
    np.testing.assert_allclose(lines.nodes[0, 0, [0, -1]], [-0.3, 0.095], rtol=1e-4)


def test_lines_are_short_where_the_residual_oscillates():
    points, reach = np.array([[0.0, 0.0], [0.3, 0.2]]), np.full(2, 0.3)
    axes = Axes(np.ones((2, 2)), np.eye(2)[None].repeat(2, axis=0))
    how = DISK, points, axes, reach, Stream(0)
    shorter = lambda w: _shorter(how[0], w, how[1], *how[2:])
    np.testing.assert_array_equal(shorter(lambda x: 0.5 * of_disk(x)), reach)
    fine = shorter(lambda x: of_disk(x) + jnp.sin(20.0 * x[0]))
    assert np.all((fine > 0.5 * 1.5 / 20.0) & (fine < 2.0 * 1.5 / 20.0))
    np.testing.assert_allclose(shorter(lambda x: of_disk(x) + jnp.sin(999.0 * x[0])), 0.1 * reach)


def test_few_frames_have_students_law():
    for freedom in (15, 63):
        np.testing.assert_allclose(_student(1.959964, freedom), t.ppf(0.975, freedom), rtol=1e-3)


@pytest.mark.parametrize(
    ("n_paths", "dim", "shared"),
    [
        (1, 2, (60, 2)),
        (1, 9, (16, 2)),
        (1000, 1, (125, 2)),
        (4096, 1, (512, 2)),
        (81920, 2, (512, 20)),
    ],
)
def test_paths_are_shared_out(n_paths, dim, shared):
    assert _shared_out(n_paths, dim) == shared
