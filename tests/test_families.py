"""Families of problems: one network for all values of their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_folders import SMALL

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn.sampling import sample_interior

pytestmark = [pytest.mark.xdist_group("families"), pytest.mark.broad]

FAMILY = fk.Problem(
    fk.Interval(0.0, 1.0), diffusion=lambda x, kappa: (2 * kappa) ** 0.5, source=1.0,
    parameters={"kappa": (0.5, 2.0)}, name="rods",
)  # fmt: skip
HOW = SMALL.changed(
    {"network.widths": (12, 12), "points.n_collocation": 150, "training.steps": 40,
     "certificate.seconds": 1.0}
)  # fmt: skip


def _exact(z):
    return z[1] * (1 - z[1]) / (2 * z[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("families") / "run"


@pytest.fixture(scope="module")
def solution(folder):
    return fk.solve(FAMILY, settings=HOW, seed=0, out=folder)


def test_one_network_for_all_values(solution, getkey):
    z = sample_interior(FAMILY, 2000, key=getkey())
    exact = np.asarray(jax.vmap(_exact)(z))
    error = np.sqrt(np.mean((np.asarray(solution(z)) - exact) ** 2) / np.mean(exact**2))
    constant = np.std(exact) / np.sqrt(np.mean(exact**2))
    assert error < 0.1 * constant
    size = solution.network.output_scale  # one over kappa, from noisy labels
    assert np.divide(*size.at(np.array([[0.5, 0.5], [2.0, 0.5]]))) == pytest.approx(4.0, rel=0.4)
    found = solution.certificate
    assert found["ci_low"] <= 1.3 * error and found["ci_high"] >= error / 1.3


def test_values_by_name(solution):
    x = np.array([[0.3], [0.5]])
    whole = np.concatenate([np.full((2, 1), 0.7), x], axis=1)
    np.testing.assert_array_equal(solution(x, kappa=0.7), solution(whole))
    np.testing.assert_allclose(solution([0.3], kappa=0.7), solution(whole)[0], rtol=1e-6)
    np.testing.assert_array_equal(solution.gradient(x, kappa=0.7), solution.gradient(whole))
    assert solution.gradient(x, kappa=0.7).shape == (2, 1)


def test_derivatives_by_parameters(solution):
    x = jnp.array([0.4])
    slope = jax.grad(lambda k: solution(x, kappa=k))(1.0)
    h = 1e-3
    step = (solution(x, kappa=1.0 + h) - solution(x, kappa=1.0 - h)) / (2 * h)
    assert float(slope) == pytest.approx(float(step), rel=2e-3)
    assert float(slope) == pytest.approx(-0.12, rel=0.2)  # of x (1 - x) / (2 kappa)


def test_one_problem_of_the_family(solution):
    one = solution.at(kappa=0.7)
    x = np.array([[0.3], [0.5]])
    np.testing.assert_allclose(one(x), solution(x, kappa=0.7), rtol=1e-6)
    np.testing.assert_allclose(one.gradient(x), solution.gradient(x, kappa=0.7), rtol=1e-5)
    assert one.name == "rods, kappa = 0.7" and one.problem.dim == 1
    with precision("float64"):
        found = one.certify(n_points=128, n_paths=8, dt=2e-3)
        exact = lambda z: z[0] * (1 - z[0]) / 1.4
        z = jnp.linspace(0.005, 0.995, 100)[:, None]
        truth = np.asarray(jax.vmap(exact)(z))
        error = np.sqrt(np.mean((np.asarray(one(z)) - truth) ** 2) / np.mean(truth**2))
    assert found.ci_low <= 1.3 * error and found.ci_high >= error / 1.3


def test_a_folder_is_resumed_and_loaded(solution, folder):
    again = fk.resume(folder, FAMILY)
    np.testing.assert_array_equal(again([0.3], kappa=0.7), solution([0.3], kappa=0.7))
    assert again.layout == FAMILY.layout
    other = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=lambda x, kappa: kappa, source=1.0,
        parameters={"kappa": (0.5, 2.0)},
    )  # fmt: skip
    with pytest.raises(ValueError, match="a different problem"):
        fk.load(folder / "solution.fkpinn", other)


def test_pictures_are_of_the_middle(solution, tmp_path):
    assert solution.plot(tmp_path / "u.png").is_file()
    assert "kappa = 1.25" in solution._repr_html_()
    assert "kappa" in FAMILY._repr_html_()
    with pytest.raises(ValueError, match=r"solution\.at"):
        solution.to_xarray()
    with pytest.raises(ValueError, match="for the whole family"):
        solution.plot(certificate=solution.certify(n_points=16, n_paths=4, dt=1e-2))


@pytest.mark.parametrize(
    ("points", "values", "words"),
    [
        ([0.3], {"kappa": 5.0}, "between 0.5 and 2"),
        ([0.3], {"beta": 1.0}, "has the parameters kappa"),
        ([0.3], {}, "shape"),
        ([[0.3, 0.4]], {"kappa": 1.0}, "shape"),
        ([5.0, 0.3], {}, "ranges of the parameters"),
    ],
)
def test_what_is_refused(solution, points, values, words):
    with pytest.raises(ValueError, match=words):
        solution(points, **values)


def test_only_families_have_members(solution):
    with pytest.raises(ValueError, match="families"):
        solution.at(kappa=1.0).at(kappa=1.0)


@pytest.mark.slow
def test_families_with_time_and_kinks_in_a_folder(tmp_path):
    calls = fk.Problem(
        fk.Space(1), drift=lambda t, x, sigma: jnp.ones(1, x.dtype) * (-0.5 * sigma**2),
        diffusion=lambda t, x, sigma: sigma, horizon=1.0, measure=fk.Along([0.0], spread=0.2),
        terminal=lambda x, strike: jnp.maximum(jnp.exp(x[0]) - strike, 0.0),
        parameters={"sigma": (0.1, 0.5), "strike": (0.8, 1.2)}, name="calls",
    )  # fmt: skip
    found = fk.solve(calls, settings=HOW, seed=0, out=tmp_path / "run")
    assert found.certificate["ci_high"] < 1.0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "strike" in page and "sigma" in page
    one = found.at(sigma=0.3, strike=1.0)
    assert one.animate(tmp_path / "u.gif", frames=3).is_file()
    assert float(one([0.0, 0.0])) == pytest.approx(0.119, abs=0.03)  # Black and Scholes


def test_a_rod_of_unknown_length():
    """A shape with a parameter: solved, certified, differentiated and inferred from data."""
    rods = fk.Problem(
        lambda length: fk.Interval(0.0, length), diffusion=2**0.5, source=1.0,
        parameters={"length": (0.5, 1.0)}, name="rods",
    )  # fmt: skip
    found = fk.solve(rods, settings=HOW, seed=0, certify=True)
    z = np.asarray(sample_interior(rods, 1000, key=jax.random.key(1)))
    exact = 0.5 * z[:, 1] * (z[:, 0] - z[:, 1])
    error = np.sqrt(np.mean((np.asarray(found(z)) - exact) ** 2) / np.mean(exact**2))
    assert error < 0.1
    assert (
        found.certificate["ci_low"] <= 1.3 * error and found.certificate["ci_high"] >= error / 1.3
    )

    at = np.array([[0.5, 0.25], [0.75, 0.3], [1.0, 0.9], [0.9, 0.02]])
    slopes = found.gradient_with_interval(at, by="parameters", n_paths=2000)
    true = 0.5 * at[:, 1:]
    slack = 0.5 * (slopes.high - slopes.low)  # eight limits at 95 %: twice as wide
    assert np.all((slopes.low - slack <= true) & (true <= slopes.high + slack))
    assert slopes.reach[2, 0] < slopes.reach[0, 0]  # the end of the rod is near

    x = np.linspace(0.05, 0.45, 15)[:, None]
    noise = np.random.default_rng(0).normal(size=15)
    data = fk.Observations.of(x, 0.5 * x[:, 0] * (0.8 - x[:, 0]) + 2e-3 * noise, 2e-3)
    low, high = fk.infer(found, data, n_samples=200).interval(0.999)["length"]
    assert low < 0.8 < high and high - low < 0.05
    with pytest.raises(ValueError, match="inside the domain for all values of the parameters"):
        fk.infer(found, fk.Observations.of([[0.3], [0.7]], [0.1, 0.1], 0.01))
    with pytest.raises(ValueError, match="closed domain"):
        found([0.7], length=0.6)
