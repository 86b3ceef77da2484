"""The planner: what it promises is what the labels then deliver."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.labels import choose_scheme, plan_labels


def interval(**data) -> fk.Problem:
    """A problem on (-1, 1), with zero data at its ends if nothing else is said."""
    return fk.Problem(fk.Interval(-1.0, 1.0), **data)


def exact(x: np.ndarray) -> np.ndarray:
    """Solves u'' / 2 + u' + 1 = 0, u(-1) = u(1) = 0: u = a + b exp(-2 x) - x."""
    b = -2.0 / (math.exp(2.0) - math.exp(-2.0))
    return 1.0 - b * math.exp(-2.0) + b * np.exp(-2.0 * x) - x


@pytest.mark.slow
def test_the_labels_are_as_good_as_planned():
    problem = interval(drift=lambda x: jnp.ones_like(x), source=1.0)
    plan = plan_labels(problem, seconds=0.3, n_points=40, seed=1)
    assert plan.scheme == choose_scheme(problem).name == "heun"
    assert plan.t_max == math.inf and plan.n_points == 40 and plan.n_paths >= 16
    assert {"mean_time", "time_tail", "rel_std", "path_steps_per_s", "bias_per_dt"} <= set(
        plan.pilot
    )
    assert 0 < plan.pilot["mean_time"] < plan.pilot["time_tail"]
    # the paths are capped: this test is about the prediction for one path, not about the machine
    n_paths = min(plan.n_paths, 2000)
    points = fk.sample_interior(problem, 40, dtype=jnp.float32, key=jr.key(2))
    labels = fk.estimate_labels(problem, points, n_paths=n_paths, dt=plan.dt, seed=3)
    u = exact(np.asarray(points, float)[:, 0])
    size = math.sqrt(np.mean(u**2))
    stderr = math.sqrt(np.mean(np.asarray(labels.stderr, float) ** 2)) / size
    planned = plan.predicted["rel_stderr"] * math.sqrt(plan.n_paths / n_paths)
    assert 0.5 < stderr / planned < 2.0
    off = float(np.mean(np.asarray(labels.value, float) - u)) / size
    assert abs(off) <= 4 * stderr / math.sqrt(40) + max(plan.predicted["rel_bias"], 0.005)
    both = math.hypot(plan.predicted["rel_stderr"], plan.predicted["rel_bias"])
    assert plan.predicted["rel_error"] == pytest.approx(both)


def test_refusals():
    problem = interval(source=1.0, drift=lambda x: -x)
    for seconds in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"`seconds` must be positive and finite; got"):
            plan_labels(problem, seconds=seconds)
    with pytest.raises(ValueError, match=r"`n_points` must be at least 1; got 0"):
        plan_labels(problem, seconds=1.0, n_points=0)
    with pytest.raises(ValueError, match=r"only Neumann .* finite `t_max`"):
        plan_labels(interval(boundary=fk.Neumann(0.0), check=False), seconds=1.0)


def test_paths_that_never_end_are_found_out(monkeypatch):
    monkeypatch.setattr("fkpinn.labels._plan._MOST_STEPS", 256)
    held = interval(drift=lambda x: -40.0 * x, source=1.0)  # exit takes about exp(40) units of time
    with pytest.raises(ValueError, match=r"had not ended after .* finite `t_max`"):
        plan_labels(held, seconds=1.0)
