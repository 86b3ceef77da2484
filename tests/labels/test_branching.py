"""Labels from branching paths: unbiased, and refused where their variance may be infinite."""

import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.labels._branching import branching_law


def in_space(f, dim=1, **more):
    how = {
        "horizon": 0.5, "terminal": lambda x: 0.3 + 0.2 * jnp.cos(x[0]),
        "measure": fk.Along([0.0] * dim), "check": False,
    }  # fmt: skip
    return fk.semilinear(fk.Space(dim), lambda t, x, u, p: f(u), **(how | more))


@pytest.mark.parametrize(
    "name", ["fisher-kpp", pytest.param("fisher-kpp-10d", marks=pytest.mark.broad)]
)
def test_trees_are_right_on_average(name):
    problem, exact = fk.catalogue(name)
    points = fk.sample_interior(problem, 200, key=jax.random.key(0))
    found = fk.estimate_labels(problem, points, n_paths=500, scheme="branching", seed=1)
    off = np.asarray(found.value) - np.asarray(jax.vmap(exact)(points))
    stderr = np.asarray(found.stderr)
    assert abs(np.mean(off)) < 4 * np.sqrt(np.mean(stderr**2) / len(off))
    assert 0.9 <= np.mean(np.abs(off) < 1.96 * stderr) <= 0.99  # 5 deviations of 200 tries
    assert found.provenance["scheme"] == "branching" and found.n_paths == 500


EQUATIONS = {
    # logistic equations, whose solutions without space are known
    "growth": (lambda u: u - u**2, {}, lambda g, t: g * np.exp(t) / (1 + g * (np.exp(t) - 1))),
    "linear": (lambda u: -0.5 * u, {"reaction": 1.0}, lambda g, t: g * np.exp(-1.5 * t)),
    "constant": (lambda u: 0.0 * u**2 + 0.7, {"source": 0.3}, lambda g, t: g + t),
    "cube": (lambda u: -(u**3), {}, lambda g, t: g / np.sqrt(1 + 2 * g**2 * t)),
}


@pytest.mark.parametrize("kind", helpers.of_which_fast(EQUATIONS, "growth", "linear"))
def test_powers_of_every_kind(kind):
    f, more, solution = EQUATIONS[kind]
    problem = in_space(f, terminal=0.4, **more)
    points = jnp.asarray([[0.0, 0.0], [0.3, 1.0]])
    found = fk.estimate_labels(problem, points, n_paths=8000, scheme="branching", seed=2)
    wanted = solution(0.4, 0.5 - np.asarray(points)[:, 0])
    assert np.all(np.abs(np.asarray(found.value) - wanted) <= 4 * np.asarray(found.stderr) + 1e-9)


def test_particles_drift_and_spread():
    """Linear: an Ornstein-Uhlenbeck process in small steps, and forward in time."""
    problem = fk.Problem(
        fk.Space(2), drift=lambda t, x: -x, diffusion=0.5, horizon=0.5, initial=lambda x: x[0],
        measure=fk.Along([1.0, 0.0]), nonlinearity=lambda t, x, u, p: -0.2 * u, check=False,
    )  # fmt: skip
    found = fk.estimate_labels(
        problem, jnp.asarray([[0.5, 1.0, 0.0]]), n_paths=10_000, scheme="branching", seed=0
    )
    assert abs(float(found.value[0]) - np.exp(-0.6)) < 4 * float(found.stderr[0]) + 0.01


def test_branching_of_fisher_is_in_two():
    law = branching_law(fk.catalogue("fisher-kpp").problem)
    np.testing.assert_allclose(law.chance, [0, 0, 1, 0, 0, 0, 0], atol=1e-9)
    assert law.rate == pytest.approx(1.0) and law.factor[2] == pytest.approx(1.0)


REFUSED = {
    "explosion": (lambda: in_space(lambda u: u**2, horizon=5.0, terminal=0.6),
                  r"after a time of 1\.\d+, and the horizon is 5"),
    "large data": (lambda: in_space(lambda u: u**2 - u, terminal=3.0), r"with data up to 3 "),
    "no polynomial": (lambda: in_space(jnp.sin), r"not a polynomial"),
    "coefficients that vary": (
        lambda: fk.semilinear(
            fk.Space(1), lambda t, x, u, p: x[0] * u**2, horizon=0.5, terminal=0.1,
            measure=fk.Along([0.0]), check=False), r"with constant coefficients"),
    "gradients": (lambda: fk.catalogue("hjb-lq-20d").problem, r"a polynomial in `u` only"),
    "walls": (lambda: fk.catalogue("bratu").problem, r"on all of space"),
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", helpers.of_which_fast(REFUSED, "large data", "no polynomial", "walls")
)
def test_what_has_no_branching_labels(kind):
    make, words = REFUSED[kind]
    problem = make()
    with pytest.raises(ValueError, match=words):
        fk.estimate_labels(problem, jnp.zeros((1, problem.n_coords)), n_paths=8, scheme="branching")
