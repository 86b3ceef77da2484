import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import fkpinn as fk
from fkpinn.labels import choose_scheme
from fkpinn.labels._scheme import family_noise, step_size
from fkpinn.problem import Layout, generator, residual, residual_by_hessian
from fkpinn.sampling import sample_boundary, sample_interior, sample_terminal

DISK = fk.Ball([0.0, 0.0], 1.0)


def _disk(**more):
    return fk.Problem(
        DISK, diffusion=lambda x, kappa: (2 * kappa) ** 0.5, source=1.0,
        parameters={"kappa": (0.5, 2.0)}, **more,
    )  # fmt: skip


def _heat():
    """`exp(-a kappa t) sin(x)`, decaying at a rate of two parameters."""
    return fk.Problem(
        fk.Box([0.0], [np.pi]), diffusion=lambda t, x, kappa: (2 * kappa) ** 0.5,
        reaction=lambda t, x, rate: rate, horizon=1.0, initial=lambda x: jnp.sin(x[0]),
        parameters={"rate": fk.Parameter(0.1, 10.0, log=True), "kappa": (0.5, 2.0)},
    )  # fmt: skip


def _heat_exact(z):
    rate, kappa, t, x = z
    return jnp.exp(-(rate + kappa) * t) * jnp.sin(x)


def test_a_layout_has_parameters_then_time_then_place():
    layout = _heat().layout
    z = jnp.array([0.3, 1.5, 0.25, 2.0])
    assert layout.n_coords == 4 and layout.n_parameters == 2 and layout.n_ahead == 3
    assert layout.time(z) == 0.25
    np.testing.assert_array_equal(layout.space(z), [2.0])
    np.testing.assert_array_equal(layout.values(z), [0.3, 1.5])
    np.testing.assert_array_equal(layout.without_time(z), [0.3, 1.5, 2.0])
    np.testing.assert_array_equal(layout.later(z, jnp.array(0.25), jnp.ones(1)), [0.3, 1.5, 0, 1])
    np.testing.assert_array_equal(layout.at_end(jnp.array([0.3, 1.5, 2.0])), [0.3, 1.5, 0.0, 2.0])
    np.testing.assert_array_equal(layout.direction(jnp.ones(1), 1.0), [0.0, 0.0, -1.0, 1.0])
    assert layout.named(z, ("kappa",)) == {"kappa": 1.5}
    lower, upper = layout.bounds(np.zeros(1), np.ones(1))
    np.testing.assert_array_equal(lower, [0.1, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(upper, [10.0, 2.0, 1.0, 1.0])
    assert layout.single == Layout(1, 1.0, True) and layout.timeless.n_coords == 3


def test_functions_get_the_parameters_they_name():
    problem = _heat()
    z = jnp.array([0.3, 1.5, 0.25, 2.0])
    assert problem.diffusion(z) == pytest.approx(3.0**0.5)
    assert problem.reaction(z) == pytest.approx(0.3)
    assert problem.diffusion.reads == ("kappa",) and problem.reaction.reads == ("rate",)
    every = fk.Problem(DISK, source=lambda x, **all: all["a"], parameters={"a": (1.0, 2.0)})
    assert every.source(jnp.array([1.5, 0.0, 0.0])) == 1.5


@pytest.mark.broad
def test_the_residual_of_the_solution_is_zero_for_all_parameters(getkey):
    problem = _heat()
    z = sample_interior(problem, 50, key=getkey())
    found = jax.vmap(lambda z: residual(problem, _heat_exact, z))(z)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)
    slow = jax.vmap(lambda z: residual_by_hessian(problem, _heat_exact, z))(z)
    np.testing.assert_allclose(slow, 0.0, atol=1e-12)


def test_one_problem_of_a_family_is_that_problem(getkey):
    family, values = _heat(), jnp.array([0.3, 1.5])
    one = family.at(rate=0.3, kappa=1.5)
    assert one.layout == Layout(1, 1.0, True) and not one.parameters
    assert one.name == "problem, rate = 0.3, kappa = 1.5"
    u = lambda z: jnp.sin(z[0]) * z[1] ** 3
    for z in sample_interior(one, 5, key=getkey()):
        whole = jnp.concatenate([values, z])
        of_family = generator(family, lambda z: u(z[2:]), whole)
        np.testing.assert_allclose(generator(one, u, z), of_family, rtol=1e-14)
        np.testing.assert_allclose(one.reaction(z), family.reaction(whole))
        np.testing.assert_allclose(one.terminal(z[1:]), jnp.sin(z[1]))


@pytest.mark.broad
def test_labels_of_a_family_are_those_of_its_problems():
    family = _disk()
    one = family.at(kappa=1.25)
    x = np.array([[0.2, 0.1], [-0.5, 0.6]])
    z = np.concatenate([np.full((2, 1), 1.25), x], axis=1)
    assert choose_scheme(family).name == choose_scheme(one).name == "heun"
    how = {"n_paths": 256, "dt": 1e-2, "seed": 4}
    ours = fk.estimate_labels(family, jnp.asarray(z), **how)
    theirs = fk.estimate_labels(one, jnp.asarray(x), **how)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-6)
    exact = (1 - np.sum(x**2, axis=1)) / 5.0
    assert np.all(np.abs(ours.value - exact) < 5 * ours.stderr + 1e-3)


@pytest.mark.broad
def test_labels_of_a_family_with_time():
    z = np.array([[0.2, 0.6, 0.8, 1.0], [5.0, 1.8, 0.3, 2.0]])
    found = fk.estimate_labels(_heat(), jnp.asarray(z), n_paths=2048, dt=5e-3, seed=0)
    exact = np.array([_heat_exact(row) for row in z])
    assert np.all(np.abs(found.value - exact) < 5 * found.stderr + 2e-3)


@pytest.mark.broad
def test_spheres_read_parameters_in_source_and_data():
    family = fk.Problem(
        DISK, source=lambda x, a: 2.0 * a, boundary=lambda x, b: b,
        parameters={"a": (1.0, 3.0), "b": (0.0, 5.0)},
    )  # fmt: skip
    assert choose_scheme(family).name == "spheres"
    z = np.array([[1.5, 4.0, 0.3, 0.0], [3.0, 1.0, 0.0, -0.5]])
    found = fk.estimate_labels(family, jnp.asarray(z), n_paths=4096, seed=1)
    exact = z[:, 1] + z[:, 0] * (1 - np.sum(z[:, 2:] ** 2, axis=1))
    assert np.all(np.abs(found.value - exact) < 5 * found.stderr + 2e-3)


def test_points_follow_the_laws_of_the_parameters(getkey):
    problem, n = _heat(), 20_000
    z = np.asarray(sample_interior(problem, n, key=getkey()))
    uniform = [
        np.log(z[:, 0] / 0.1) / np.log(100.0),
        (z[:, 1] - 0.5) / 1.5,
        z[:, 2],
        z[:, 3] / np.pi,
    ]
    for share in uniform:  # a mean of n uniform numbers has deviation 1/sqrt(12 n)
        assert abs(share.mean() - 0.5) < 5 / np.sqrt(12 * n)
        assert np.all((share >= 0) & (share <= 1))
    on = sample_boundary(problem, 1000, key=getkey()).points
    assert set(np.asarray(on[:, 3]).round(6)) <= {0.0, round(np.pi, 6)}
    assert np.ptp(np.asarray(on[:, 0])) > 5
    last = sample_terminal(problem, 1000, key=getkey())
    assert np.all(np.asarray(last[:, 2]) == 0.0) and np.ptp(np.asarray(last[:, 1])) > 1


def test_a_law_of_ones_own(getkey):
    law = fk.Parameter(0.0, 1.0, quantile=lambda u: u**0.5)
    problem = fk.Problem(DISK, source=lambda x, a: a, parameters={"a": law})
    z = np.asarray(sample_interior(problem, 20_000, key=getkey()))
    assert abs(z[:, 0].mean() - 2 / 3) < 5 * np.sqrt(1 / 18 / 20_000)
    assert law.middle == pytest.approx(0.5**0.5)


def test_residual_points_crowd_at_the_ends_of_ranges():
    for law in (fk.Parameter(2.0, 10.0), fk.Parameter(1e-2, 1.0, log=True)):
        u = jnp.linspace(0.0, 1.0, 1001)
        moved = law.draw(u, outward=True)
        assert moved.min() == pytest.approx(law.lower) and moved.max() == pytest.approx(law.upper)
        assert np.all(np.diff(np.asarray(moved)) >= 0)
        tenth = law.draw(jnp.array(0.1))  # P(arcsine < 0.1) = 2 asin(sqrt(0.1)) / pi
        assert float(jnp.mean(moved < tenth)) == pytest.approx(0.2048, abs=2e-3)


def test_given_points_with_and_without_parameters(getkey):
    places = _disk(measure=fk.At([[0.1, 0.2]]))
    z = np.asarray(sample_interior(places, 100, key=getkey()))
    assert np.all(z[:, 1:] == np.float32([0.1, 0.2])) or np.allclose(z[:, 1:], [0.1, 0.2])
    assert np.ptp(z[:, 0]) > 0.5
    whole = _disk(measure=fk.At([[1.0, 0.1, 0.2]]))
    assert np.allclose(sample_interior(whole, 3, key=getkey()), [1.0, 0.1, 0.2])
    assert np.allclose(whole.at(kappa=1.0).measure.points, [[0.1, 0.2]])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"x": (0.0, 1.0)}, "other than"),
        ({"a b": (0.0, 1.0)}, "names that arguments"),
        ({"a": (1.0, 0.0)}, "lower below upper"),
        ({"a": 3.0}, "range"),
    ],
)
def test_ranges_that_are_refused(parameters, words):
    with pytest.raises(ValueError, match=words):
        fk.Problem(DISK, parameters=parameters)


def test_what_a_family_cannot_have_is_refused():
    with pytest.raises(ValueError, match="nonlinearity"):
        fk.Problem(DISK, nonlinearity=lambda x, u, p: u**2, parameters={"a": (0.0, 1.0)})
    with pytest.raises(ValueError, match="positive `lower`"):
        fk.Parameter(0.0, 1.0, log=True)
    with pytest.raises(ValueError, match="got both"):
        fk.Parameter(1.0, 2.0, log=True, quantile=lambda u: u)
    with pytest.raises(ValueError, match=r"problem\.at"):
        fk.find_reference(_disk())
    with pytest.raises(TypeError, match="parameters by name"):
        fk.Problem(DISK, source=lambda x, other: other, parameters={"a": (0.0, 1.0)})


def test_a_parameter_that_nothing_reads_is_refused():
    with pytest.raises(ValueError, match="has b, but no function has an argument"):
        fk.Problem(DISK, source=lambda x, a: a, parameters={"a": (0.0, 1.0), "b": (0.0, 1.0)})


def test_a_corner_that_is_ill_posed_is_named():
    with pytest.raises(ValueError, match=r"With a = -60: .*reaction"):
        fk.Problem(DISK, reaction=lambda x, a: a, parameters={"a": (-60.0, 1.0)})
    with pytest.raises(ValueError, match=r"With sigma = 0: .*elliptic"):
        fk.Problem(DISK, diffusion=lambda x, sigma: sigma, parameters={"sigma": (0.0, 1.0)})


@pytest.mark.parametrize(
    ("values", "words"),
    [({}, "got none"), ({"kappa": 5.0}, "between 0.5 and 2"), ({"beta": 1.0}, "parameters kappa")],
)
def test_values_are_checked(values, words):
    with pytest.raises(ValueError, match=words):
        _disk().at(**values)


def test_recipes_with_a_range_of_temperatures():
    hexagon = fk.RegularPolygon(sides=6, circumradius=2.0)
    family = fk.mean_exit_time(hexagon, lambda x: jnp.sum(x**2), beta=(2.0, 10.0))
    assert list(family.parameters) == ["beta"]
    one = fk.mean_exit_time(hexagon, lambda x: jnp.sum(x**2), beta=4.0)
    z = jnp.array([0.3, 0.2])
    assert family.at(beta=4.0).diffusion(z) == pytest.approx(float(one.diffusion(z)))
    np.testing.assert_allclose(family.at(beta=4.0).drift(z), one.drift(z))
    both = fk.mean_exit_time(hexagon, lambda x, beta: beta * x[0], beta=fk.Parameter(1.0, 2.0))
    np.testing.assert_allclose(both.drift(jnp.array([1.5, 0.0, 0.0])), [-1.5, 0.0])


@pytest.mark.broad
def test_all_of_space_along_paths(getkey):
    calls = fk.Problem(
        fk.Space(1), drift=lambda t, x, sigma: jnp.ones(1, x.dtype) * (-0.5 * sigma**2),
        diffusion=lambda t, x, sigma: sigma, horizon=1.0, measure=fk.Along([0.0]),
        terminal=lambda x, strike: jnp.maximum(jnp.exp(x[0]) - strike, 0.0),
        parameters={"sigma": (0.1, 0.5), "strike": (0.8, 1.2)},
    )  # fmt: skip
    z = np.asarray(sample_interior(calls, 4000, key=getkey()))
    sigma, time, x = z[:, 0], z[:, 2], z[:, 3]
    normal = (x + 0.5 * sigma**2 * time) / (sigma * np.sqrt(time))
    assert abs(normal.mean()) < 5 / 4000**0.5 and abs(normal.std() - 1) < 5 / 8000**0.5
    last = np.asarray(sample_terminal(calls, 100, key=getkey()))
    assert np.all(last[:, 2] == 1.0) and np.ptp(last[:, 1]) > 0.3
    at = jnp.array([[0.2, 0.9, 0.0, 0.0], [0.4, 1.1, 0.5, 0.1]])
    found = fk.estimate_labels(calls, at, n_paths=4096, seed=0)
    exact = []
    for vol, strike, t, x in np.asarray(at):
        spread = vol * (1 - t) ** 0.5
        up = (x - np.log(strike)) / spread + 0.5 * spread
        exact.append(np.exp(x) * norm.cdf(up) - strike * norm.cdf(up - spread))
    assert np.all(np.abs(found.value - np.array(exact)) < 5 * found.stderr + 1e-4)


@pytest.mark.broad
def test_each_problem_has_its_own_step():
    """A family's paths take the steps that each of its problems would be given by itself."""
    family = fk.Problem(
        fk.Ball([0.0, 0.0], 1.0),
        drift=lambda x: -x,
        diffusion=lambda x, kappa: (2 * kappa) ** 0.5,
        source=1.0,
        parameters={"kappa": (0.1, 0.4)},
    )
    x = jnp.array([[0.2, 0.3]])
    for kappa in (0.1, 0.4):
        point = jnp.array([[kappa, 0.2, 0.3]])
        assert step_size(family, point) == pytest.approx(step_size(family.at(kappa=0.4), x))
        many = fk.estimate_labels(family, point, n_paths=50, seed=3)
        one = fk.estimate_labels(family.at(kappa=kappa), x, n_paths=50, seed=3)
        np.testing.assert_allclose(many.value, one.value, rtol=1e-6)
        assert many.provenance["path_steps"] == one.provenance["path_steps"]
    assert family_noise(family) == pytest.approx(0.8)
    timed = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda t, x, kappa: kappa, horizon=1.0, terminal=0.0,
        boundary=0.0, parameters={"kappa": (0.1, 0.4)},
    )  # fmt: skip
    assert family_noise(timed) == 0.0 == family_noise(family.at(kappa=0.1))
