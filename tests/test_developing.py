"""What the pages for developers tell to copy runs as it stands, and does what it says."""

import re
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import at

import fkpinn as fk
from fkpinn.loss import Fixed, Loss, ResidualTerm
from fkpinn.nn import MLP
from fkpinn.problem import boundary_residual, generator, residual, residual_by_hessian
from fkpinn.sde import EulerMaruyama, Heun
from fkpinn.train import Phase, fit

FOLDER = Path(__file__).parents[1] / "docs/developing"
PAGES = sorted(path.name for path in FOLDER.glob("add-*.md"))
TESTED = {
    "add-a-condition.md",
    "add-a-domain.md",
    "add-a-dynamics.md",
    "add-a-sampler.md",
    "add-a-stepper.md",
    "add-an-optimizer.md",
}


def page(name):
    """What the code blocks of a page define, run one after the other."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M):
        exec(compile(code, name, "exec"), names)
    return SimpleNamespace(**names)


def test_every_page_has_a_test():
    assert set(PAGES) == TESTED


# ---- domains


def test_a_new_domain_has_the_distance_of_its_circles(getkey):
    ring = page("add-a-domain.md").Ring(1.0, 2.0)
    same = fk.Ball([0.0, 0.0], 2.0) - fk.Ball([0.0, 0.0], 1.0)
    x = jr.uniform(getkey(), (200, 2), minval=-2.5, maxval=2.5)
    for own, known in zip(
        (ring.signed_distance, ring.normal, ring.project),
        (same.signed_distance, same.normal, same.project),
        strict=True,
    ):
        np.testing.assert_allclose(at(own, x), at(known, x), atol=1e-12)


def test_points_of_a_new_domain_are_uniform(getkey):
    ring, n = page("add-a-domain.md").Ring(1.0, 2.0), 4000
    inside = at(ring.interior_map, jr.uniform(getkey(), (n, 2))).point
    share = float(jnp.mean(jnp.sum(inside**2, axis=1) < 2.5))  # half of the area
    assert abs(share - 0.5) < 4 * 0.5 / n**0.5
    on = at(ring.boundary_map, jr.uniform(getkey(), (n, 2)))
    distance, normal = at(lambda x: (ring.signed_distance(x), ring.normal(x)), on.point)
    assert np.max(np.abs(distance)) < 1e-12
    np.testing.assert_allclose(on.normal, normal, atol=1e-12)
    outer = float(jnp.mean(jnp.sum(on.point**2, axis=1) > 2.0))
    assert abs(outer - 2 / 3) < 4 * (2 / 9) ** 0.5 / n**0.5


@pytest.mark.broad
def test_paths_leave_a_new_domain_when_they_should():
    problem = fk.poisson(page("add-a-domain.md").Ring(1.0, 2.0), source=0.0, boundary=_log)
    points = jnp.array([[1.5, 0.0], [0.0, -1.2]])
    labels = fk.estimate_labels(problem, points, n_paths=400)  # walks on spheres
    error = np.abs(np.asarray(labels.value) - np.asarray(jax.vmap(_log)(points)))
    assert np.all(error < 4 * np.asarray(labels.stderr) + 1e-3)


def _log(x):
    """Harmonic in the plane."""
    return 0.5 * jnp.log(jnp.sum(x**2))


def test_a_new_domain_refuses_what_is_no_ring():
    with pytest.raises(ValueError, match="0 < inner < outer"):
        page("add-a-domain.md").Ring(2.0, 1.0)


# ---- boundary conditions


def _cooled(x):
    """Solves the problem of the page."""
    return 20.5 - 0.25 * jnp.sum(x**2)


def test_the_solution_has_no_violation_of_a_new_condition():
    problem = page("add-a-condition.md").problem
    z = jnp.array([0.6, 0.8])
    assert abs(residual(problem, _cooled, z)) < 1e-12
    condition = problem.conditions()[0]
    assert abs(boundary_residual(problem, condition, _cooled, z, z)) < 1e-12
    warmer = lambda x: _cooled(x) + 3.0
    assert boundary_residual(problem, condition, warmer, z, z) == pytest.approx(6.0)


@pytest.mark.slow
def test_paths_meet_a_new_condition_as_its_robin_twin():
    made = page("add-a-condition.md")
    twin = fk.poisson(fk.Ball([0.0, 0.0], 1.0), boundary=fk.Robin(2.0, 40.0))
    points, how = jnp.array([[0.5, 0.5]]), {"n_paths": 20, "dt": 2e-2, "seed": 3}
    found = [fk.estimate_labels(p, points, **how).value for p in (made.problem, twin)]
    np.testing.assert_array_equal(*found)


@pytest.mark.broad
def test_paths_measure_what_a_function_lacks_at_a_new_condition():
    problem = page("add-a-condition.md").problem
    lacks_one = lambda x: _cooled(x) - 1.0
    found = fk.estimate_defect(problem, lacks_one, jnp.array([[0.5, 0.5]]), n_paths=20, dt=2e-2)
    # the wall pays a path as much as it takes from it, until the discount is forgotten
    np.testing.assert_allclose(found.value, 1.0, rtol=1e-6)


def test_a_new_condition_refuses_what_is_ill_posed():
    made = page("add-a-condition.md")
    with pytest.raises(ValueError, match=r"Cooling\(transfer=...\)` must not be negative"):
        fk.poisson(fk.Ball([0.0, 0.0], 1.0), boundary=made.Cooling(-1.0))
    with pytest.raises(ValueError, match="not unique"):
        fk.poisson(fk.Ball([0.0, 0.0], 1.0), boundary=made.Cooling(0.0))


# ---- dynamics


def _bent(x):
    return jnp.sin(x[0] * x[1]) + jnp.cos(x[2] + 2.0 * x[3]) * x[4] + x[5] ** 3


def test_a_new_dynamics_has_the_generator_of_its_matrix(getkey):
    made = page("add-a-dynamics.md")
    z = 0.3 * jr.normal(getkey(), (4, 6))
    each = lambda what, problem: eqx.filter_jit(jax.vmap(lambda at: what(problem, _bent, at)))(z)
    truth = each(residual_by_hessian, made.declared)
    np.testing.assert_allclose(each(residual, made.problem), truth, rtol=1e-10)
    np.testing.assert_allclose(each(generator, made.problem), truth - 1.0, rtol=1e-10)


def test_a_new_dynamics_moves_paths_as_its_matrix(getkey):
    made = page("add-a-dynamics.md")
    fast, slow = made.problem.dynamics, made.declared.dynamics
    z, noise = jr.normal(getkey(), (2, 6))
    np.testing.assert_allclose(fast.push(z, noise), slow.push(z, noise), rtol=1e-12)
    normal = lambda: noise / jnp.linalg.norm(noise)
    reach = [d.spread(z, normal, jnp.array(0.01)) for d in (fast, slow)]
    assert float(reach[0]) == pytest.approx(float(reach[1]), rel=1e-12)


@pytest.mark.slow
def test_paths_of_a_new_dynamics_are_those_of_its_matrix():
    made = page("add-a-dynamics.md")
    how = {"n_paths": 20, "dt": 2e-2, "scheme": "euler-shifted"}
    points = jnp.zeros((1, 6))
    found = [fk.estimate_labels(p, points, **how).value for p in (made.problem, made.declared)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


# ---- samplers and measures


def test_a_new_sampler_draws_near_the_walls(getkey):
    sampler, n = page("add-a-sampler.md").NearWalls(), 400
    problem = fk.poisson(fk.Ball([0.0, 0.0], 1.0))
    term = ResidualTerm(problem, jnp.zeros((n, 2)), sampler=sampler)
    points = term.redrawn(lambda x: x[0], getkey()).points
    assert points.shape == (n, 2)
    r = np.linalg.norm(points, axis=1)
    # of uniform points the eighth nearest to the circle has r^2 > 7/8
    assert np.min(r[: n // 2] ** 2) > 7 / 8 - 4 * (7 / 64 / (4 * n)) ** 0.5
    even = np.mean(r[n // 2 :] ** 2)
    assert abs(even - 0.5) < 4 / (12 * n / 2) ** 0.5
    assert np.all(r < 1)


def test_a_new_measure_draws_on_its_line(getkey):
    problem = page("add-a-sampler.md").problem
    points = np.asarray(fk.sample_interior(problem, 500, key=getkey()))
    np.testing.assert_allclose(points[:, 1], 0.3 * (points[:, 0] + 1.2) / 2.1, atol=1e-12)
    assert np.all(np.sum(points**2, axis=1) < 1)
    even = np.sort(np.asarray(fk.sobol_interior(problem, 64))[:, 0])
    gaps = np.diff(even)
    assert np.max(gaps) < 4 * np.mean(gaps)  # independent points would leave larger ones
    assert "OnLine" in problem.measure.describe()


def test_a_new_measure_refuses_another_dimension():
    line = page("add-a-sampler.md").OnLine([0.0], [1.0])
    with pytest.raises(ValueError, match="must have 2 numbers each; got 1 and 1"):
        fk.Problem(fk.Ball([0.0, 0.0], 1.0), measure=line)


# ---- steppers


class _Path(eqx.Module):
    stepper: object

    def __call__(self, problem, x, dt, noise):
        """The end of a path that moves by given noise."""
        for normal in noise:
            x = self.stepper.step(problem, x, dt, normal, jnp.zeros(0))
        return x


def test_a_new_stepper_follows_the_drift_to_second_order():
    made = page("add-a-stepper.md")
    pull = fk.Problem(fk.Ball([0.0, 0.0], 9.0), drift=lambda x: -x, diffusion=0.5, source=1.0)
    start = jnp.array([1.0, -2.0])

    def off(stepper, n):
        end = _Path(stepper)(pull, start, jnp.array(1.0 / n), jnp.zeros((n, 2)))
        return float(jnp.linalg.norm(end - jnp.exp(-1.0) * start))

    order = lambda stepper: np.log2(off(stepper, 8) / off(stepper, 16))
    assert order(made.Midpoint()) == pytest.approx(2.0, abs=0.2)
    assert order(EulerMaruyama()) == pytest.approx(1.0, abs=0.2)
    assert off(made.Midpoint(), 8) == pytest.approx(off(Heun(), 8), rel=0.5)


def test_a_new_stepper_makes_labels():
    made = page("add-a-stepper.md")
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0)
    labels = fk.estimate_labels(
        problem, jnp.zeros((1, 2)), n_paths=400, dt=2e-3, scheme=made.scheme
    )
    assert labels.provenance["scheme"] == "Midpoint, ShiftedExit"
    off = abs(float(labels.value[0]) - 0.5)  # (1 - r^2) / 2
    assert off < 4 * float(labels.stderr[0]) + 2e-3


# ---- optimizers


def test_a_new_optimizer_lowers_the_loss(getkey):
    made = page("add-an-optimizer.md")
    problem = fk.poisson(fk.Interval(0.0, 1.0))
    points = fk.sample_interior(problem, 30, key=getkey())
    network = MLP(*problem.bounds(), (8,), key=getkey())
    loss = Loss({"residual": ResidualTerm(problem, points)})
    phase = Phase("momentum", made.Momentum(1e-4), 200, Fixed())
    found = fit(network, loss, [phase], key=getkey())
    losses = [record["loss"] for record in found.history]
    assert losses[-1] < 0.5 * losses[0]
    assert not found.stopped


def test_a_new_optimizer_says_why_it_stops(getkey):
    made = page("add-an-optimizer.md")
    network = MLP(np.zeros(1), np.ones(1), (4,), key=getkey())

    class Nothing(ResidualTerm):
        def at(self, u, row):
            return 0.0 * u(row)

    problem = fk.poisson(fk.Interval(0.0, 1.0))
    loss = Loss({"residual": Nothing(problem, jnp.full((3, 1), 0.5))})
    found = fit(network, loss, [Phase("momentum", made.Momentum(), 9, Fixed())], key=getkey())
    assert found.stopped == ["momentum stopped after 1 steps: the gradient vanishes."]
