"""Labels: right on average, the same however they are computed, honest in what they refuse."""

import helpers
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.labels import Steps, choose_scheme
from fkpinn.labels._moments import merge, moments, segment_starts
from fkpinn.sde._random import PathStream, ahead, normals, seed_words

CASES = [
    ("exit-ball-3d", 1.0),
    ("ornstein-uhlenbeck", 1e-2),
    pytest.param("robin", 2e-2, marks=pytest.mark.slow),
    pytest.param("variable-diffusion", 4e-3, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "dt"), CASES)
def test_labels_match_the_exact_solution(name, dt):
    """Within what the labels say of themselves: noise, and bias from two step sizes."""
    case = helpers.case(name)
    points = fk.sample_interior(case.problem, 24, dtype=jnp.float32, key=jr.key(0))
    labels = fk.estimate_labels(case.problem, points, n_paths=500, dt=dt, seed=1, bias=True)
    error = np.asarray(labels.value - helpers.at(case.exact, points), float)
    low, high = labels.interval(0.9999)
    bias = 3 * np.asarray(labels.bias, float)
    value = np.asarray(labels.value, float)
    assert np.all(low - bias <= value - error) and np.all(value - error <= high + bias)
    # over all points noise averages out, and what is left is the bias
    noise = float(np.sqrt(np.sum(np.asarray(labels.stderr, float) ** 2)))
    assert abs(np.sum(error)) <= 4 * noise + float(np.sum(bias))
    assert np.all(np.asarray(labels.unfinished) == 0)
    assert labels.provenance["path_steps"] > 24 * 500


def test_euler_is_the_algorithm_of_the_paper():
    """Algorithm alg:fk-mc with the discount of eq:fk-Y-delta-Tmax, written out as a loop."""
    problem = fk.Problem(
        fk.Ball([0.0, 0.0], 1.0),
        drift=lambda x: -x,
        diffusion=0.8,
        reaction=lambda x: x[0] ** 2,
        source=lambda x: 1.0 + x[1],
        boundary=lambda x: x[0] * x[1],
    )
    points, dt, n_paths, seed, t_max = jnp.array([[0.1, 0.2], [-0.3, 0.4]]), 0.02, 3, 5, 1.5
    labels = fk.estimate_labels(
        problem, points, n_paths=n_paths, dt=dt, scheme="euler", seed=seed, t_max=t_max, throw=False
    )
    cut = 0
    close = 1e-11
    for i, start in enumerate(np.asarray(points)):
        payoffs = []
        for j in range(n_paths):
            of = PathStream(
                tuple(map(jnp.asarray, seed_words((Stream(seed) / "paths").seed))),
                jnp.full(1, i, jnp.uint32), jnp.full(1, j, jnp.uint32),
            )  # fmt: skip
            draw = lambda unit, of=of: normals(of, unit, 2, points.dtype)
            drawn = ahead(draw, jnp.zeros(1, jnp.uint32), 2, 100)
            noise = np.stack([np.asarray(a)[:, 0] for a in drawn], axis=1)
            x, total, exponent, n = start, 0.0, 0.0, 0
            while x @ x < 1 and n < int(t_max / dt):
                total += np.exp(-exponent) * (1.0 + x[1]) * dt
                exponent += x[0] ** 2 * dt
                x = x - x * dt + 0.8 * np.sqrt(dt) * noise[n]
                n += 1
            cut += x @ x < 1
            payoffs.append(total + np.exp(-exponent) * x[0] * x[1])
        np.testing.assert_allclose(labels.value[i], np.mean(payoffs), rtol=close)
        error = np.std(payoffs, ddof=1) / np.sqrt(n_paths)
        np.testing.assert_allclose(labels.stderr[i], error, rtol=close)
    assert int(jnp.sum(labels.unfinished)) == cut


@pytest.mark.parametrize(
    "name",
    [
        "met",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("robin", "poisson-5d", "poisson-50d")),
    ],
)
def test_labels_do_not_depend_on_how_the_work_is_cut(name):
    problem = fk.catalogue(name).problem
    points = fk.sample_interior(problem, 5, dtype=jnp.float32, key=jr.key(2))
    run = lambda compute: fk.estimate_labels(
        problem, points, n_paths=300, dt=0.05, seed=9, compute=compute
    )
    one = run(helpers.lanes((512, 64), 1 << 16, 1))
    # compiled code may order a sum over many coordinates by the number of lanes
    rounding = 0.0 if problem.dim < 16 else problem.dim * float(jnp.finfo(jnp.float32).eps)
    for compute in (helpers.lanes((64,), 300, 1), helpers.lanes((512, 64), 600, 2)):
        other = run(compute)
        np.testing.assert_allclose(one.value, other.value, rtol=rounding, atol=0)
        np.testing.assert_allclose(one.stderr, other.stderr, rtol=rounding, atol=0)
        assert one.provenance["path_steps"] == other.provenance["path_steps"]


@pytest.mark.broad
@pytest.mark.parametrize("name", ["met", pytest.param("committor", marks=pytest.mark.slow)])
def test_kernels_for_graphics_processors_walk_the_same_paths(name):
    """Interpreted here, so every operation of the walk must be one that kernels know."""
    problem = fk.catalogue(name).problem
    points = fk.sample_interior(problem, 3, dtype=jnp.float32, key=jr.key(2))
    dt = 0.05 if name == "met" else 1e-4
    run = lambda **how: fk.estimate_labels(
        problem,
        points,
        n_paths=100,
        dt=dt,
        seed=9,
        warn=False,  # of the few that hit the smaller disk
        compute=helpers.lanes((256,), 1 << 16, 1, **how),
    )
    plain, kernel = run(), run(unroll=4, kernel="interpret")
    np.testing.assert_allclose(kernel.value, plain.value, rtol=1e-5, atol=1e-6)
    assert kernel.provenance["path_steps"] == plain.provenance["path_steps"]


def test_moments_merge_to_those_of_all_paths():
    rng = np.random.default_rng(0)
    y, n_points, n_paths = rng.exponential(size=(3, 2500)) + 1e3, 3, 2500
    starts = segment_starts(n_points, n_paths)
    late = np.zeros(y.size, bool)
    found = merge(moments(y.reshape(-1), late, starts), n_points)
    np.testing.assert_allclose(found.mean, y.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(found.square / (n_paths - 1), y.var(axis=1, ddof=1), rtol=1e-10)
    np.testing.assert_array_equal(found.largest, y.max(axis=1))


def test_default_looks_at_the_problem():
    assert choose_scheme(fk.catalogue("met").problem).name == "heun"
    assert choose_scheme(fk.catalogue("laplace-10d").problem).name == "spheres"
    assert choose_scheme(fk.catalogue("variable-diffusion").problem).name == "platen"
    assert choose_scheme(fk.catalogue("robin").problem).name == "euler-shifted"
    assert choose_scheme(fk.catalogue("met").problem, "euler").reason == "asked for"
    with pytest.raises(ValueError, match="`scheme` must be 'default' or one of"):
        choose_scheme(fk.catalogue("met").problem, "magic")


@pytest.mark.broad
@pytest.mark.parametrize(("scheme", "dim"), [("default", 200), ("spheres", 60)])
def test_exit_times_of_a_ball_in_hundreds_of_dimensions(scheme, dim):
    """Steps and layers for the size of the domain alone would make them a tenth longer, and more.

    The last point is a twentieth of the radius from the wall.
    """
    problem = fk.poisson(fk.Ball([0.0] * dim, 1.0), 1.0)
    ways = np.random.default_rng(3).normal(size=(3, dim))
    points = np.array([[0.3], [0.7], [0.95]]) * ways / np.linalg.norm(ways, axis=1, keepdims=True)
    exact = (1 - np.sum(points**2, axis=1)) / (2 * dim)
    many = {"default": 1000, "spheres": 200}[scheme]
    labels = fk.estimate_labels(
        problem, jnp.asarray(points, jnp.float32), n_paths=many, scheme=scheme, seed=1
    )
    error = np.abs(np.asarray(labels.value) - exact)
    assert np.all(error < 3.5 * np.asarray(labels.stderr) + 0.01 * exact)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["spheres", "heun"])
def test_paths_see_a_small_ball_in_many_dimensions(scheme):
    """The chance to hit it before the outer sphere; steps for the size of the domain lose most."""
    dim, inner, outer = 30, 0.1, 0.15 if scheme == "heun" else 1.0
    domain = fk.Ball([0] * dim, outer) - fk.Ball([0] * dim, inner, name="hole")
    boundary = {"outer": fk.Dirichlet(0.0), "hole": fk.Dirichlet(1.0)}
    problem = fk.Problem(domain, boundary=boundary)
    radius = np.array([0.103, 0.11])
    points = np.zeros((2, dim), np.float32)
    points[:, 0] = radius
    power = lambda r: r ** (2.0 - dim)
    exact = (power(radius) - power(outer)) / (power(inner) - power(outer))
    labels = fk.estimate_labels(problem, jnp.asarray(points), n_paths=4000, scheme=scheme, seed=1)
    error = np.abs(np.asarray(labels.value) - exact)
    assert np.all(error < 4 * np.asarray(labels.stderr) + 0.01 * exact)


def test_steps_are_told_once():
    problem, points = fk.catalogue("met").problem, jnp.zeros((1, 2))
    steps = Steps(0.05, 4, 3.0)
    how = {"n_paths": 20, "seed": 1}
    ours = fk.estimate_labels(problem, points, dt=steps, **how)
    same = fk.estimate_labels(problem, points, dt=0.05, refine=4, near=3.0, **how)
    np.testing.assert_array_equal(ours.value, same.value)
    with pytest.raises(ValueError, match="`dt` is a `Steps` object, which already sets"):
        fk.estimate_labels(problem, points, dt=steps, refine=2, **how)


def test_a_sum_carried_by_one_path_is_said():
    """A well deep enough that few paths make most of the mean."""
    problem = fk.Problem(fk.Ball([0.0], 1.0), reaction=-1.1, boundary=1.0, check=False)
    with pytest.warns(UserWarning, match="1 of 1 points a single path contributes more than 10%"):
        fk.estimate_labels(problem, jnp.zeros((1, 1)), n_paths=200, dt=1e-2, seed=2)


def test_unfinished_paths_are_counted_or_refused():
    problem = fk.catalogue("exit-ball-3d").problem
    points = jnp.zeros((2, 3))
    run = lambda **how: fk.estimate_labels(problem, points, n_paths=50, dt=1e-3, t_max=0.02, **how)
    with pytest.raises(ValueError, match=r"paths had not ended at `t_max`=0.02.*throw=False"):
        run()
    labels = run(throw=False)
    assert np.all(np.asarray(labels.unfinished) > 0)
    assert np.all(np.asarray(labels.value) <= 0.02 + 1e-12)


ball = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0)
shut = fk.Problem(fk.Ball([0.0, 0.0], 1.0), boundary=fk.Neumann(), check=False)
# finite in the disk, where it is checked, and NaN just beyond it
cliff = fk.Problem(fk.Ball([0.0, 0.0], 1.0), boundary=lambda x: jnp.sqrt(1.00001 - x @ x))
# a hole in the drift that the check of the problem does not see
gap = fk.Problem(
    fk.Ball([0.0, 0.0], 1.0), drift=lambda x: jnp.where(x[0] > 0.9, jnp.nan, x), check=False
)
center = jnp.zeros((1, 2))
refused = [
    (dict(points=jnp.full((3, 2), 2.0)), r"`points` must lie inside the domain; 3 of 3 do not"),
    (
        dict(points=jnp.zeros((3, 1))),
        r"`points` must have shape \(n, 2\), n >= 1; got shape \(3, 1\)",
    ),
    (dict(n_paths=1), r"`n_paths` must be at least 2; got 1"),
    (dict(n_paths=0), r"`n_paths` must be at least 2; got 0"),
    (dict(dt=0.0), r"`dt` must be positive and finite; got 0.0"),
    (dict(dt=-1.0), r"`dt` must be positive and finite; got -1.0"),
    (dict(t_max=0.0), r"`t_max` must be positive; got 0.0"),
    (dict(problem=shut), r"only Neumann boundary parts, no reaction and no horizon, so paths"),
    (
        dict(problem=cliff),
        r"`boundary\['outer'\]: Dirichlet\(value=...\)` is not finite along a path: path \d+ from ",
    ),
    (dict(problem=gap, seed=1), r"`drift` is not finite along a path: path \d+ .* after \d+ steps"),
    (dict(read_every=3), r"`read_every` must be a power of 2 from 1 to 64; got 3"),
    (dict(refine=4, t_max=1.0), r"varying length and does not support `t_max`"),
    (dict(refine=3), r"`refine` must be a power of 2 from 1 to 1024; got 3"),
    (dict(forget=0.5), r"`forget` must lie in \(0, 0.1\]; got 0.5"),
    (dict(antithetic=True, n_paths=21), r"`n_paths` must be even and at least 4 with `antith"),
]


@pytest.mark.parametrize(("change", "message"), refused, ids=lambda v: str(v)[:30])
def test_refused(change, message):
    given = dict(problem=ball, points=center, n_paths=20, dt=1e-2, scheme="euler") | change
    with pytest.raises(ValueError, match=message):
        fk.estimate_labels(given.pop("problem"), given.pop("points"), **given)
