"""Many paths in lanes give what each path gives alone, computed with NumPy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import Lanes
from fkpinn.sde import (
    BridgeExit,
    EulerMaruyama,
    Heun,
    PlainExit,
    Plan,
    Scheme,
    describe_lost_path,
    run_batches,
)
from fkpinn.sde._random import (
    PathStream,
    ahead,
    normal_rows,
    normals,
    seed_words,
    uniform_rows,
    uniforms,
)
from fkpinn.sde._walk import follow

POINTS = jnp.asarray([[0.2], [0.5], [0.9]])
EULER = Scheme(EulerMaruyama(), PlainExit())
DT, SEED = 0.02, (1 << 40) + 5


@functools.cache
def table() -> np.ndarray:
    """Normals of seven paths from each point, as the generator gives them."""
    point, path = (jnp.asarray(a, jnp.uint32) for a in np.divmod(np.arange(21), 7))
    of = PathStream(tuple(map(jnp.asarray, seed_words(SEED))), point, path)
    draw = lambda unit: normals(of, unit, 1, jnp.float64)
    [found] = jax.jit(lambda: ahead(draw, jnp.zeros(21, jnp.uint32), 1, 256))()
    return np.asarray(found)


def drawn(point: int, path: int, count: int = 256) -> np.ndarray:
    """The normals of one path."""
    return table()[:count, 7 * point + path]


def alone(point: int, path: int, *, sign=1.0, n_steps=math.inf, control=False):
    """Payoff and steps of one path of u'' / 2 + u' / 2 + x = 0 on (0, 1), u = 3 + x outside."""
    x, payoff, steps = float(POINTS[point, 0]), 0.0, 0
    for n in sign * drawn(point, path):
        payoff += x * DT - (2 * x * math.sqrt(DT) * n if control else 0.0)
        x, steps = x + 0.5 * DT + math.sqrt(DT) * n, steps + 1
        if not 0 < x < 1:
            return payoff + 3.0 + x, steps
        if steps >= n_steps:
            return payoff + 3.0 + x, steps
    raise AssertionError("256 steps are enough here")


def plan(n_paths, **more) -> Plan:
    problem = fk.Problem(
        fk.Interval(0.0, 1.0), drift=[0.5], source=lambda x: x[0], boundary=lambda x: 3.0 + x[0],
        check=False,
    )  # fmt: skip
    n_steps = more.pop("n_steps", None)
    return Plan(problem, EULER, POINTS, n_paths, DT, n_steps, SEED, **more)


def expected(n_paths, **how):
    return np.array([alone(k // n_paths, k % n_paths, **how) for k in range(3 * n_paths)])


@pytest.mark.parametrize(
    "widths",
    [
        pytest.param(Lanes((16, 4), 64, 1), marks=pytest.mark.broad),
        pytest.param(Lanes((4,), 64, 1, 4), marks=pytest.mark.broad),
        Lanes((8,), 64, 1, 4, "interpret"),
        Lanes((16, 4), 64, 1, apart=0),
    ],
    ids=["narrowing", "unrolled", "kernel", "rows"],
)
def test_payoffs_and_steps_are_those_of_single_paths(widths):
    truth = expected(7)
    for first, count in ((0, 21), (5, 13)):
        [ended] = run_batches(plan(7), [(first, count)], widths)
        own = slice(first, first + count)
        assert ended.first == first and not np.any(ended.late)
        np.testing.assert_allclose(ended.payoff, truth[own, 0], rtol=1e-10)
        np.testing.assert_array_equal(ended.steps, truth[own, 1])


def test_pairs_take_opposite_normals_and_controls_their_martingale():
    [ended] = run_batches(plan(4, antithetic=True), [(0, 12)], Lanes((8,), 64, 1))
    both = [
        alone(k, pair, sign=sign, control=False)[0]
        for k in range(3)
        for pair in (0, 1)
        for sign in (1.0, -1.0)
    ]
    np.testing.assert_allclose(ended.payoff, both, rtol=1e-10)
    steered = plan(2, control=lambda z: z[0] ** 2)
    [ended] = run_batches(steered, [(0, 6)], Lanes((8,), 64, 1))
    np.testing.assert_allclose(ended.payoff, expected(2, control=True)[:, 0], rtol=1e-10)


def test_a_path_that_is_followed_is_that_path():
    for antithetic, number in ((False, 5), (True, 9)):
        point, path = divmod(number, 4)
        sign, own = (-1.0, path // 2) if antithetic and path % 2 else (1.0, path)
        visited = np.concatenate(list(follow(plan(4, antithetic=antithetic), number)))
        pushes = 0.5 * DT + math.sqrt(DT) * sign * drawn(point, own)[: len(visited) - 1]
        x = float(POINTS[point, 0]) + np.append(0.0, np.cumsum(pushes))
        np.testing.assert_allclose(visited, x, rtol=1e-10)
        assert not 0 < visited[-1] < 1 and np.all((visited[:-1] > 0) & (visited[:-1] < 1))


def test_paths_of_a_parabolic_problem_end_at_the_horizon():
    """In equal steps, no longer than asked for; a rounding error makes no step more."""
    problem = fk.Problem(
        fk.Interval(-50.0, 50.0), horizon=1.0, terminal=lambda x: x[0], diffusion=0.0,
        drift=lambda t, x: 0.0 * x + 1.0, source=lambda t, x: 10.0 * t, check=False,
    )  # fmt: skip
    start = jnp.asarray([[0.0, 0.0], [0.35, 2.0], [0.9, 0.0], [1.0, 4.0], [0.7, 0.0]])
    plan = Plan(problem, EULER, start, 1, 0.1, None, SEED)
    [ended] = run_batches(plan, [(0, 5)], Lanes((8,), 64, 1))
    steps = np.array([10, 7, 1, 1, 3])
    np.testing.assert_array_equal(ended.steps, steps)
    assert np.all(ended.late)
    t, x = np.asarray(start.T)
    dt = (1.0 - t) / steps
    left_ends = [10.0 * dt[k] * np.sum(t[k] + dt[k] * np.arange(steps[k])) for k in range(5)]
    np.testing.assert_allclose(ended.payoff, x + (1.0 - t) + left_ends, rtol=1e-10)


@pytest.mark.parametrize("each", [1, 10])
def test_numbers_in_rows_are_those_that_are_apart(each):
    step = jnp.asarray([0, 8], jnp.uint32)
    word, path = jnp.zeros(2, jnp.uint32), jnp.arange(2, dtype=jnp.uint32)
    of = PathStream(tuple(map(jnp.asarray, seed_words(3))), word, path)
    in_rows = PathStream(of.seed, word[:, None], path[:, None])
    for single, rows in ((normals, normal_rows), (uniforms, uniform_rows)):
        found = ahead(lambda unit, draw=single: draw(of, unit, each, jnp.float64), step, each, 8)
        drawn = rows(in_rows, step, each, 8, jnp.float64)
        np.testing.assert_array_equal(np.stack(found, axis=2).transpose(1, 0, 2), drawn)
        assert ahead(lambda unit, draw=single: draw(of, unit, 0, jnp.float64), step, 0, 4) == []
        assert rows(in_rows, step, 0, 4, jnp.float64).shape == (2, 4, 0)


@pytest.mark.parametrize("every", [4, pytest.param(2, marks=pytest.mark.slow)])
def test_loops_kernels_and_rows_take_the_same_steps(every):
    """With a discount, bridges, pairs, and one step read in some."""
    problem = fk.Problem(
        fk.Interval(0.0, 1.0), drift=[0.5], source=lambda x: x[0], reaction=0.5, boundary=1.0,
        check=False,
    )  # fmt: skip
    walk = Scheme(EulerMaruyama(), BridgeExit(), read_every=every)
    how = Plan(problem, walk, POINTS, 4, 0.02, 500, SEED, True)
    one = Lanes((8,), 64, 1)
    kinds = [one, one._replace(apart=0), one._replace(unroll=1, kernel="interpret")]
    loops, *others = [next(run_batches(how, [(0, 12)], lanes)) for lanes in kinds]
    assert len(set(loops.steps)) > 3 and len(set(loops.payoff)) > 6
    for other in others:
        np.testing.assert_array_equal(other.steps, loops.steps)
        np.testing.assert_allclose(other.payoff, loops.payoff, rtol=1e-10)


@pytest.mark.slow
def test_rows_carry_all_that_a_path_may_carry():
    problem = fk.Problem(
        fk.Box([0.0, 0.0], [1.0, 1.0], name=("left", "right", "low", "high")),
        drift=lambda x: -x, source=lambda x: x[0], reaction=lambda x: 0.5 + x[1],
        boundary={"left": 1.0, "right": 2.0, "low": fk.Robin(1.0, 2.0), "high": fk.Neumann(0.5)},
        check=False,
    )  # fmt: skip
    points = jnp.asarray([[0.3, 0.2], [0.6, 0.9]])
    walk = Scheme(Heun(), BridgeExit(), read_every=4, refine=4)
    how = Plan(problem, walk, points, 6, 0.02, 500, SEED, True, lambda z: z[0] * z[1], 3)
    kinds = Lanes((8,), 64, 1), Lanes((8,), 64, 1, apart=0)
    apart, rows = (next(run_batches(how, [(0, 12)], lanes)) for lanes in kinds)
    np.testing.assert_array_equal(rows.steps, apart.steps)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-9)
    jax.tree.map(close, (rows.payoff, rows.visits), (apart.payoff, apart.visits))


def test_a_lost_path_says_what_failed_and_where():
    good = plan(4)
    # from 0.9 some path soon leaves to the right
    pushes = {k: 0.5 * DT + math.sqrt(DT) * drawn(2, k, 4)[0] for k in range(4)}
    path = max(pushes, key=pushes.get)
    assert 0.9 + pushes[path] > 1
    last, number = np.array([0.9 + pushes[path]]), 8 + path
    hole = fk.Problem(
        good.problem.domain, drift=[0.5], boundary=lambda x: jnp.where(x[0] > 1, jnp.nan, 3.0),
        source=lambda x: x[0], check=False,
    )  # fmt: skip
    said = describe_lost_path(good._replace(problem=hole), number, 3)
    assert said.startswith("`boundary['outer']: Dirichlet(value=...)` is not finite along a path")
    assert f"path {path} from point [0.9], at {last} after 1 steps (3 paths" in said
