"""Plain Euler labels: right on average, and honest about what they refuse."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk

# problem, step, and a bound of the exit bias: paths are seen to leave about 0.58 sigma sqrt(dt)
# late, which changes the value by that distance times the slope at the boundary, to first order
CASES = [("exit-ball-3d", 1e-4, 1 / 3), ("ornstein-uhlenbeck", 1e-3, 2.3), ("robin", 1e-2, 3.0)]


@pytest.mark.parametrize(("name", "dt", "slope"), CASES, ids=[c[0] for c in CASES])
def test_labels_match_the_exact_solution(name, dt, slope):
    case = helpers.case(name)
    points = fk.sample_interior(case.problem, 12, key=jr.key(0))
    labels = fk.estimate_labels(case.problem, points, n_paths=400, dt=dt, key=jr.key(1))
    exact = jax.vmap(case.exact)(points)
    sigma = float(jnp.max(jax.vmap(lambda z: jnp.max(case.problem.sigma(z)))(points)))
    bias = 0.5826 * sigma * dt**0.5 * slope + 5 * dt
    assert np.all(np.abs(labels.value - exact) <= 4 * np.asarray(labels.stderr) + bias)
    assert np.all(np.asarray(labels.unfinished) == 0)
    assert labels.path_steps > 12 * 400


def test_unfinished_paths_are_counted_or_refused():
    problem = fk.catalogue("exit-ball-3d").problem
    points = jnp.zeros((2, 3))
    run = lambda **how: fk.estimate_labels(
        problem, points, n_paths=50, dt=1e-3, t_max=0.02, key=jr.key(0), **how
    )
    with pytest.raises(ValueError, match=r"paths had not ended at `t_max`=0.02.*throw=False"):
        run()
    labels = run(throw=False)
    assert np.all(np.asarray(labels.unfinished) > 0)
    assert np.all(np.asarray(labels.value) <= 0.02 + 1e-12)


ball = fk.Problem(fk.Ball([0.0, 0.0], 1.0), source=1.0)
shut = fk.Problem(fk.Ball([0.0, 0.0], 1.0), boundary=fk.Neumann(), check=False)
# finite in the disk, where it is checked, and NaN just beyond it
cliff = fk.Problem(fk.Ball([0.0, 0.0], 1.0), boundary=lambda x: jnp.sqrt(1.00001 - x @ x))
center = jnp.zeros((1, 2))
refused = [
    (dict(points=jnp.full((3, 2), 2.0)), r"`points` must lie inside the domain; 3 of 3 do not"),
    (dict(points=jnp.zeros((3, 1))), r"`points` must have shape \(n, 2\); got shape \(3, 1\)"),
    (dict(n_paths=1), r"`n_paths` must be at least 2; got 1"),
    (dict(n_paths=0), r"`n_paths` must be at least 2; got 0"),
    (dict(dt=0.0), r"`dt` must be positive and finite; got 0.0"),
    (dict(dt=-1.0), r"`dt` must be positive and finite; got -1.0"),
    (dict(t_max=0.0), r"`t_max` must be positive; got 0.0"),
    (dict(problem=shut), r"only Neumann boundary parts, no reaction and no horizon, so paths"),
    (dict(problem=cliff), r"not finite along a path: path \d+ from point \[0. 0.\]"),
]


@pytest.mark.parametrize(("change", "message"), refused, ids=lambda v: str(v)[:30])
def test_refused(change, message):
    given = dict(problem=ball, points=center, n_paths=20, dt=1e-2, key=jr.key(0)) | change
    with pytest.raises(ValueError, match=message):
        fk.estimate_labels(given.pop("problem"), given.pop("points"), **given)
