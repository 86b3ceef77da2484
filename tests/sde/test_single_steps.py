"""One step at a time, with given random numbers, against the formulas written out."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import fkpinn as fk
from fkpinn._compute import Lanes, precision
from fkpinn._words import Words
from fkpinn.sde import (
    BridgeExit,
    EulerMaruyama,
    Heun,
    PlainExit,
    Platen,
    Scheme,
    ShiftedExit,
    Spheres,
)
from fkpinn.sde._jump import stepped, until_jump
from fkpinn.sde._lane import Jumping, Lane, Numbers, Varying
from fkpinn.sde._spheres import screening, source_radii, source_weight
from fkpinn.sde._stable_spheres import _power, exit_shares, on_circle, source_shares
from fkpinn.sde._walk import _pieces, _widths

OVERSHOOT = 0.5825971579390107  # -zeta(1/2) / sqrt(2 pi)
NONE = jnp.zeros(0)
EULER = Scheme(EulerMaruyama(), PlainExit())
number = lambda value: jnp.asarray(float(value))


def lane_at(x, dt=0.01, *, discounts=False, start=None, n_steps=None, near=None) -> Lane:
    """A path about to take its first step."""
    count, zero = jnp.zeros((), jnp.uint32), number(0.0)
    cut = None if n_steps is None else jnp.asarray(n_steps, jnp.uint32)
    return Lane(
        point=count, path=count, step=count, n_steps=cut,
        start=None if start is None else number(start), dt=number(dt),
        x=jnp.asarray(x, float), log_discount=zero if discounts else None,
        payoff=zero, partial=zero, running=jnp.int32(1),
        late=None if n_steps is None else jnp.int32(0),
        varying=None if near is None else Varying(number(near), zero),
    )  # fmt: skip


def numbers(normals, uniforms=()) -> Numbers:
    return Numbers(jnp.asarray(normals, float), jnp.asarray(uniforms, float))


def square(**data) -> fk.Problem:
    return fk.Problem(fk.Box([0.0, 0.0], [1.0, 1.0]), **data, check=False)


def line(low=0.0, high=1.0, **data) -> fk.Problem:
    return fk.Problem(fk.Interval(low, high, name=("left", "right")), **data, check=False)


# ---- steppers

SIGMAS = {
    "number": (0.7, np.diag([0.7, 0.7])),
    "diagonal": ([0.5, 0.9], np.diag([0.5, 0.9])),
    "matrix": ([[0.5, 0.2], [-0.3, 0.9]], np.array([[0.5, 0.2], [-0.3, 0.9]])),
}


@pytest.mark.parametrize("kind", SIGMAS)
def test_steps_with_constant_noise(kind):
    given, matrix = SIGMAS[kind]
    curve = np.array([[0.0, 2.0], [-1.0, 0.5]])
    problem = square(drift=lambda x: jnp.asarray(curve) @ x + x**2, diffusion=given)
    drift = lambda x: curve @ x + x**2
    x, w, dt = np.array([0.4, 0.3]), np.array([0.8, -1.1]), 0.04
    push = matrix @ w * 0.2
    args = problem, jnp.asarray(x), number(dt), jnp.asarray(w), NONE
    np.testing.assert_allclose(EulerMaruyama().step(*args), x + drift(x) * dt + push, rtol=1e-12)
    ahead = x + drift(x) * dt + push
    heun = x + 0.5 * (drift(x) + drift(ahead)) * dt + push
    np.testing.assert_allclose(Heun().step(*args), heun, rtol=1e-12)
    signs = jnp.ones(1)
    np.testing.assert_allclose(Platen().step(*args[:-1], signs), heun, rtol=1e-12)
    assert Platen().n_signs(problem) == 1 and Heun().n_signs(problem) == 0
    assert (EulerMaruyama.order, Heun.order, Platen.order) == (1, 2, 2)


def test_steps_end_one_step_later():
    """Drift and diffusion at the end of a step are read at its time."""
    drift, sigma = lambda t, x: t**2 * x, lambda t, x: (0.5 + t) * x[0]
    problem = line(drift=drift, diffusion=sigma, horizon=1.0, terminal=0.0)
    t, x, dt, n = 0.3, 0.6, 0.01, 1.3
    z, root = jnp.asarray([t, x]), math.sqrt(dt)
    b, s, w = t**2 * x, (0.5 + t) * x, root * n
    later = lambda y: (t + dt) ** 2 * y
    half = 0.5 * (b + later(x + b * dt + s * w)) * dt
    args = problem, z, number(dt), jnp.asarray([n]), NONE
    np.testing.assert_allclose(Heun().step(*args), [x + half + s * w], rtol=1e-12)
    at = lambda y: (0.5 + t + dt) * y
    above, below = at(x + b * dt + s * root), at(x + b * dt - s * root)
    platen = x + half + 0.25 * (above + below + 2 * s) * w
    platen += 0.25 * (above - below) * (w**2 - dt) / root
    np.testing.assert_allclose(Platen().step(*args), [platen], rtol=1e-12)


def test_platens_step_has_the_moments_of_linear_equations():
    r"""First and second moments of $dX = AX\,dt + \sum_j B_jX\,dW_j$, whose noises do not commute.

    The mean over normals is a quadrature that is exact for these polynomials. The error of one
    step of weak order 2 is of third order.
    """
    a = np.array([[-0.5, 0.8], [0.3, 0.2]])
    first, second = np.array([[0.4, 0.9], [0.0, -0.3]]), np.array([[0.2, 0.0], [0.7, 0.5]])
    sigma = lambda x: jnp.stack([jnp.asarray(first) @ x, jnp.asarray(second) @ x], axis=1)
    problem = square(drift=lambda x: jnp.asarray(a) @ x, diffusion=sigma)
    x = np.array([0.7, -0.4])
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    u, v, s = (g.reshape(-1) for g in np.meshgrid(nodes, nodes, [-1.0, 1.0], indexing="ij"))
    share = np.einsum("i,j,k->ijk", weights, weights, [0.5, 0.5]).reshape(-1)
    one = lambda dt, n, s: Platen().step(problem, jnp.asarray(x), dt, n, s)
    step = jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))
    eye = np.eye(2)
    grow = np.kron(a, eye) + np.kron(eye, a) + np.kron(first, first) + np.kron(second, second)

    def errors(dt):
        found = np.asarray(
            step(number(dt), jnp.asarray(np.stack([u, v], 1)), jnp.asarray(s)[:, None])
        )
        mean, squares = share @ found, np.einsum("i,ij,ik->jk", share, found, found)
        exact = (expm(grow * dt) @ np.outer(x, x).reshape(-1)).reshape(2, 2)
        return np.append(np.abs(mean - expm(a * dt) @ x), np.abs(squares - exact))

    coarse, fine = errors(0.02), errors(0.01)
    assert np.all(fine < 1e-6)
    ratio = coarse / fine
    assert np.all((ratio > 7) & (ratio < 9)), ratio


# ---- exits


def test_bridges_cross_with_their_probability():
    p = math.exp(-2 * 0.1 * 0.2 / 0.3**2)
    reached = lambda before, after, u: bool(
        BridgeExit().reached(line(), number(before), number(after), number(0.3), number(u))
    )
    assert reached(0.1, 0.2, p - 1e-6) and not reached(0.1, 0.2, p + 1e-6)
    assert reached(0.1, -1e-9, 0.999) and reached(-0.1, 0.2, 0.999)
    assert reached(0.1, math.nan, 0.999)


@pytest.mark.parametrize("kind", SIGMAS)
def test_shifted_exits_are_early_by_the_overshoot_across_the_wall(kind):
    given, matrix = SIGMAS[kind]
    problem, scheme = square(diffusion=given), Scheme(EulerMaruyama(), ShiftedExit())
    advance = jax.jit(lambda x: scheme.advance(problem, None, lane_at(x), numbers([0.0, 0.0])))
    for wall, place in ((0, lambda depth: [1.0 - depth, 0.5]), (1, lambda depth: [0.5, depth])):
        spread = np.linalg.norm(matrix[wall]) * 0.1  # a step of 0.01
        for share, running in ((0.999, 0), (1.001, 1)):
            lane = advance(jnp.asarray(place(OVERSHOOT * spread * share)))
            assert int(lane.running) == running, (wall, share)


def test_where_boundary_data_are_read():
    problem, x = square(), jnp.asarray([0.3, 1.1])
    np.testing.assert_array_equal(PlainExit().settle(problem.domain, x), x)
    for rule in (ShiftedExit(), BridgeExit()):
        np.testing.assert_allclose(rule.settle(problem.domain, x), [0.3, 1.0], rtol=1e-12)


# ---- walls


def at_left_wall(left, x=0.05, normal=-1.0, wall=0.3, **data):
    """A step of 0.01 that meets the left wall, where the path is reflected."""
    discounts = isinstance(left, fk.Robin) or "reaction" in data
    problem = line(boundary={"left": left, "right": fk.Dirichlet(0.0)}, **data)
    lane = lane_at([x], discounts=discounts)
    assert EULER.need(problem) == (1, 1)
    return EULER.advance(problem, None, lane, numbers([normal], [wall]))


def test_local_time_has_the_law_of_a_bridges_least_depth():
    r"""$P(\min \le m) = \exp(-2(a - m)(b - m)/s^2)$ for a bridge from depth $a$ to $b$."""
    for x, normal, wall in ((0.05, -1.0, 0.3), (0.04, 0.2, 0.05), (0.1, -1.5, 0.05)):
        lane = at_left_wall(fk.Neumann(1.0), x, normal, wall)
        after = x + 0.1 * normal
        local = float(lane.partial)
        assert local > 0 and int(lane.running) == 1
        np.testing.assert_allclose(lane.x, [after + local], rtol=1e-12)
        np.testing.assert_allclose(
            math.exp(-2 * (x + local) * (after + local) / 0.1**2), wall, rtol=1e-9
        )
    free = at_left_wall(fk.Neumann(1.0), 0.3, 0.1, 0.5)  # too deep to have met the wall
    assert float(free.partial) == 0.0
    np.testing.assert_allclose(free.x, [0.31], rtol=1e-12)


def test_fluxes_are_paid_for_local_time():
    local = float(at_left_wall(fk.Neumann(1.0)).partial)
    paid = at_left_wall(fk.Neumann(lambda x: 0.7 + x[0]))  # read on the wall
    np.testing.assert_allclose(paid.partial, 0.7 * local, rtol=1e-12)
    faded = at_left_wall(fk.Neumann(0.7), reaction=2.0, source=0.3)
    np.testing.assert_allclose(
        faded.partial, 0.3 * 0.01 + math.exp(-0.02) * 0.7 * local, rtol=1e-12
    )
    np.testing.assert_allclose(faded.log_discount, -0.02, rtol=1e-12)


def test_robin_walls_discount_along_the_local_time():
    local, rate = float(at_left_wall(fk.Neumann(1.0)).partial), 3.0
    lane = at_left_wall(fk.Robin(rate, 0.7), reaction=2.0)
    np.testing.assert_allclose(lane.log_discount, -0.02 - rate * local, rtol=1e-12)
    mean = (1 - math.exp(-rate * local)) / rate
    np.testing.assert_allclose(lane.partial, math.exp(-0.02) * 0.7 * mean, rtol=1e-12)
    weak = at_left_wall(fk.Robin(1e-9, 0.7))
    np.testing.assert_allclose(weak.partial, 0.7 * local, rtol=1e-6)


def test_the_wall_that_absorbs_ends_and_the_other_does_not_pay():
    lane = at_left_wall(fk.Neumann(1.0), x=0.95, normal=1.0)
    assert int(lane.running) == 0 and float(lane.partial) == 0.0
    np.testing.assert_allclose(lane.x, [1.05], rtol=1e-12)


def test_a_push_out_of_a_corner_ends_inside():
    """Next to a sharp corner the push leaves by the other wall, and is brought back."""
    corner = fk.Polygon([(0.0, 0.0), (2.0, 0.0), (2.0, 0.5)])
    problem = fk.Problem(corner, boundary=fk.Neumann(1.0), reaction=1.0, check=False)
    lane = lane_at([0.1, 0.01], discounts=True)
    moved = EULER.advance(problem, None, lane, numbers([0.0, -1.0], [0.5]))
    distance = float(corner.signed_distance(moved.x))
    assert -1e-3 < distance < 0.0


# ---- integrals along a path


@pytest.mark.parametrize("timed", [False, True], ids=["elliptic", "parabolic"])
@pytest.mark.parametrize("stepper", [EulerMaruyama(), Heun()], ids=["euler", "heun"])
def test_payoffs_are_the_rule_of_their_order(stepper, timed):
    """Left ends or trapezoids, of the discount too; a control takes its martingale away."""
    sigma, dt, start = 0.5, 0.04, 0.2
    f, c, u = (
        (lambda t, x: 1 + t + x[0] ** 2),
        (lambda t, x: 2 + x[0] - t),
        lambda z: jnp.sin(z[-1]),
    )
    given = lambda g: g if timed else (lambda x: g(0.0, x))
    ends = {"horizon": start + 3 * dt, "terminal": lambda x: 3.0 + x[0]} if timed else {}
    problem = line(
        -5.0 if timed else 0.0, 5.0 if timed else 1.0, drift=[1.5], diffusion=sigma,
        source=given(f), reaction=given(c), boundary=lambda *z: 3.0 + z[-1][0], **ends,
    )  # fmt: skip
    drawn = np.array([0.3, -0.4, 4.0])  # the last one leads out of the short interval
    more = {"start": start, "n_steps": 3} if timed else {}
    scheme = Scheme(stepper, PlainExit())

    @jax.jit
    def walk():
        lane = scheme.begin(problem, lane_at([0.7], dt, discounts=True, **more))
        lane = scheme.advance(problem, u, lane, numbers(drawn))
        return lane, scheme.finish(problem, lane)

    lane, payoff = walk()
    push = sigma * math.sqrt(dt) * drawn
    x = 0.7 + np.append(0.0, np.cumsum(1.5 * dt + push))
    t = start + dt * np.arange(4) if timed else np.zeros(4)
    source, rate = 1 + t + x**2, 2 + x - t
    if stepper.order == 1:
        log = -np.append(0.0, np.cumsum(rate[:-1])) * dt
        weight = np.array([1.0, 1.0, 1.0, 0.0]) * dt
    else:
        log = -np.append(0.0, np.cumsum(0.5 * (rate[:-1] + rate[1:]))) * dt
        weight = np.array([0.5, 1.0, 1.0, 0.5]) * dt
    discount = np.exp(log)
    expected = np.sum(weight * discount * source) + discount[-1] * (3.0 + x[-1])
    expected -= np.sum(discount[:-1] * np.cos(x[:-1]) * push)
    assert int(lane.running) == 0 and int(lane.step) == 3
    assert lane.late is None or int(lane.late) == 1
    np.testing.assert_allclose(lane.x, x[-1:], rtol=1e-12)
    np.testing.assert_allclose(payoff, expected, rtol=1e-12)


def test_one_step_in_four_counts_for_all():
    scheme = Scheme(EulerMaruyama(), PlainExit(), read_every=4)
    problem = line(source=lambda x: x[0] ** 2, drift=[1.0])
    assert scheme.need(problem) == (1, 1) and scheme.together(problem) == 4

    @jax.jit
    def run(x, pick, normals):
        drawn = Numbers(normals, jnp.stack([pick, *[number(0.0)] * 3]))
        return scheme.advance(problem, None, lane_at([x]), drawn)

    drawn = jnp.asarray([0.1, 0.2, -0.3, 0.4])
    x = 0.5 + np.append(0.0, np.cumsum(0.01 + 0.1 * np.asarray(drawn)))
    for pick, which in ((0.1, 0), (0.3, 1), (0.6, 2), (0.99, 3)):
        lane = run(number(0.5), number(pick), drawn)
        np.testing.assert_allclose(lane.partial, 4 * 0.01 * x[which] ** 2, rtol=1e-12)
        np.testing.assert_allclose(lane.x, x[-1:], rtol=1e-12)
    # a path that has ended by then has seen nothing, one that ends after it has
    out = jnp.asarray([0.1, 9.0, 0.0, 0.0])
    assert float(run(number(0.5), number(0.6), out).partial) == 0.0
    assert int(run(number(0.5), number(0.6), out).step) == 2
    np.testing.assert_allclose(
        run(number(0.5), number(0.3), out).partial, 4 * 0.01 * x[1] ** 2, rtol=1e-12
    )


def test_fluxes_too_count_for_all():
    scheme = Scheme(EulerMaruyama(), PlainExit(), read_every=2)
    problem = line(boundary={"left": fk.Neumann(1.0), "right": fk.Dirichlet(0.0)})
    assert scheme.need(problem) == (1, 2)  # the wall, and the pick
    local = float(at_left_wall(fk.Neumann(1.0)).partial)
    drawn = numbers([-1.0, 5.0], [0.3, 0.1, 0.3, 0.0])
    lane = scheme.advance(problem, None, lane_at([0.05]), drawn)
    np.testing.assert_allclose(lane.partial, 2 * local, rtol=1e-12)


@pytest.mark.parametrize(
    ("rate", "forget", "running"), [(800.0, 1e-3, 1), (800.0, 1e-2, 0), (1700.0, 1e-7, 0)]
)
def test_paths_that_count_no_more_end(rate, forget, running):
    """Discounts of exp(-8 / 2) and exp(-17); what has ended has no boundary value."""
    scheme = Scheme(EulerMaruyama(), PlainExit(), forget=forget)
    problem = line(reaction=rate, source=2.0, boundary=5.0)
    dt = 0.01 if rate > 1000 else 0.006
    lane = scheme.advance(problem, None, lane_at([0.5], dt, discounts=True), numbers([0.0]))
    assert int(lane.running) == running
    ended = 2.0 * dt + (5.0 * math.exp(-rate * dt) if running else 0.0)
    np.testing.assert_allclose(scheme.finish(problem, lane), ended, rtol=1e-12)


def test_paths_are_cut_after_so_many_steps():
    problem = line(boundary=5.0)
    lane = EULER.advance(problem, None, lane_at([0.5], n_steps=2), numbers([0.1, 0.1, 0.1]))
    assert int(lane.late) == 1 and int(lane.running) == 0 and int(lane.step) == 2
    np.testing.assert_allclose(lane.x, [0.52], rtol=1e-12)


def test_steps_are_shorter_next_to_walls_and_in_drift():
    refined = Scheme(EulerMaruyama(), PlainExit(), refine=64)
    plain, dt = line(), 0.01

    def share(problem, x, near=4.0):
        """The step that was taken, over the one that was asked for."""
        lane = refined.advance(problem, None, lane_at([x], dt, near=near), numbers([0.1]))
        return float(((lane.x[0] - x) / (0.1 * 0.1)) ** 2)

    np.testing.assert_allclose(share(plain, 0.5), 1.0, rtol=1e-9)
    np.testing.assert_allclose(share(plain, 0.2), (0.2 / 0.4) ** 2, rtol=1e-9)
    np.testing.assert_allclose(share(plain, 0.9), (0.1 / 0.4) ** 2, rtol=1e-9)
    np.testing.assert_allclose(share(plain, 0.01), 1 / 64, rtol=1e-9)
    np.testing.assert_allclose(share(plain, 0.2, near=5.0), (0.2 / 0.5) ** 2, rtol=1e-9)
    carried = refined.advance(
        line(drift=[30.0]), None, lane_at([0.5], dt, near=4.0), numbers([0.0])
    )
    np.testing.assert_allclose(carried.x, [0.5 + 30.0 * dt * 0.1**2 / 0.3**2], rtol=1e-9)
    slow = refined.advance(line(drift=[3.0]), None, lane_at([0.5], dt, near=4.0), numbers([0.0]))
    np.testing.assert_allclose(slow.x, [0.5 + 3.0 * dt], rtol=1e-9)
    mixed = line(boundary={"left": fk.Neumann(0.0), "right": fk.Dirichlet(0.0)})
    lane = refined.advance(mixed, None, lane_at([0.2], dt, near=4.0), numbers([0.1], [0.99]))
    np.testing.assert_allclose(lane.x, [0.2 + 0.01], rtol=1e-9)  # a wall that reflects is no end
    lane = refined.advance(mixed, None, lane_at([0.8], dt, near=4.0), numbers([0.1], [0.99]))
    np.testing.assert_allclose(lane.x, [0.8 + 0.01 * 0.5], rtol=1e-9)


@pytest.mark.parametrize("stepper", [EulerMaruyama(), Heun()], ids=["euler", "heun"])
def test_integrals_along_steps_that_vary(stepper):
    """Left ends or trapezoids: a place counts for half of the steps before and after it."""
    scheme = Scheme(stepper, PlainExit(), refine=64)
    problem = line(source=lambda x: 1 + x[0] ** 2, reaction=lambda x: 2 + x[0], boundary=3.0)
    assert scheme.varies(problem) and not EULER.varies(problem)
    drawn, dt = [-1.0, 1.5, -0.5, 99.0], 0.01
    lane = scheme.begin(problem, lane_at([0.35], dt, discounts=True, near=4.0))
    lane = scheme.advance(problem, None, lane, numbers(drawn))
    x, steps = [0.35], []
    for normal in drawn:
        depth = min(x[-1], 1 - x[-1])
        steps.append(dt * min(max((depth / 0.4) ** 2, 1 / 64), 1.0))
        x.append(x[-1] + math.sqrt(steps[-1]) * normal)
    assert len(set(steps)) == 4 and int(lane.running) == 0
    x, steps = np.array(x), np.array(steps)
    source, rate = 1 + x**2, 2 + x
    if stepper.order == 1:
        log, weight = -np.append(0.0, np.cumsum(rate[:-1] * steps)), np.append(steps, 0.0)
    else:
        log = -np.append(0.0, np.cumsum(0.5 * (rate[:-1] + rate[1:]) * steps))
        weight = 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps))
    discount = np.exp(log)
    expected = np.sum(weight * discount * source) + 3.0 * discount[-1]
    np.testing.assert_allclose(scheme.finish(problem, lane), expected, rtol=1e-12)


# ---- spheres


def sphere_step(x, normals, uniforms, **data):
    problem = fk.Problem(fk.Ball([0.0, 0.0], 1.0), diffusion=0.8, boundary=4.0, **data, check=False)
    lane = lane_at(x, 0.0, discounts="reaction" in data, n_steps=9)
    walk = Spheres()
    moved = walk.advance(problem, None, lane, numbers(normals, uniforms))
    return moved, walk.finish(problem, moved)


@pytest.mark.parametrize("rate", [0.5, 20.0])
def test_a_jump_to_the_sphere_and_the_source_within(rate):
    x, way, first, second = np.array([0.3, 0.0]), np.array([0.6, 0.8]), 0.4, 0.7
    radius = min(0.7, 0.8 * math.sqrt(2 / rate))  # the ball, or what the discount lets live
    time = radius**2 / (2 * 0.8**2)
    moved, _ = sphere_step(
        x, 2.0 * way, [first, second, 0.5], reaction=rate, source=lambda z: 1.0 + z[0] + 2 * z[1]
    )
    np.testing.assert_allclose(moved.x, x + radius * way, rtol=1e-9)
    inner, outer = source_radii(number(first), number(second), 2)
    np.testing.assert_allclose(outer, math.sqrt(first), rtol=1e-12)
    np.testing.assert_allclose(inner, math.sqrt(first * second), rtol=1e-12)
    at = x - radius * float(inner) * way
    weight = float(source_weight(number(rate * time), inner, outer, 2))
    np.testing.assert_allclose(moved.partial, time * weight * (1 + at[0] + 2 * at[1]), rtol=1e-9)
    fall = math.log(float(screening(number(rate * time), 2)))
    np.testing.assert_allclose(moved.log_discount, -fall, rtol=1e-9)
    assert int(moved.running) == 1 and int(moved.step) == 1 and int(moved.late) == 0


def test_walks_end_in_a_layer_or_step_back_to_its_far_side():
    shell = 2e-4 * fk.Ball([0.0, 0.0], 1.0).diameter()
    depth, width, rate = 0.25 * shell, 2 * shell, 50.0
    x, time = [0.0, 1.0 - depth], depth * (width - depth) / 0.8**2
    share = depth / width
    data = {"reaction": rate, "source": 3.0}
    back, _ = sphere_step(x, [1.0, 0.0], [0.5, 0.5, share - 1e-4], **data)
    assert int(back.running) == 1
    np.testing.assert_allclose(back.x, [0.0, 1.0 - width], atol=1e-12)
    out, payoff = sphere_step(x, [1.0, 0.0], [0.5, 0.5, share + 1e-4], **data)
    assert int(out.running) == 0
    np.testing.assert_allclose(out.partial, 3.0 * time, rtol=1e-6)
    np.testing.assert_allclose(out.log_discount, -math.log1p(rate * time), rtol=1e-6)
    np.testing.assert_allclose(payoff, 3.0 * time + 4.0 / (1 + rate * time), rtol=1e-6)
    away, payoff = sphere_step([0.0, 1.0 - 1.1 * shell], [1.0, 0.0], [0.5, 0.5, 0.9], **data)
    assert int(away.running) == 1 and float(away.x[0]) > shell  # outside of the shell: a jump


def test_layers_are_thinner_than_a_tenth_and_thicker_than_rounding():
    assert Spheres(0.0999).epsilon == 0.0999
    for wrong in (0.1, 0.0):
        with pytest.raises(ValueError, match=r"must lie between 0 and 0\.1"):
            Spheres(wrong)
    far = fk.Problem(fk.Ball([1e6, 0.0], 1.0), check=False)
    for dtype, eps in ((jnp.float32, 2.0**-23), (jnp.float64, 2.0**-52)):
        shell = max(2e-4 * far.domain.diameter(), 8 * eps * (1e6 + 1))
        assert Spheres()._shell(far, dtype) == pytest.approx(shell, rel=1e-9)


# ---- jumps


def test_the_clock_of_the_next_jump_runs_down():
    """A step that ends before the jump leaves the rest of its time; one that reaches it waits."""
    jumps = fk.CompoundPoisson(2.0, fk.NormalJump(0.0, 0.1))
    problem = fk.Problem(fk.Interval(0.0, 1.0), jumps=jumps, exterior=0.0, check=False)
    ended = jnp.zeros((), bool)
    for clock, step, waits in ((1.0, 0.01, False), (0.006, 0.006, True)):
        state = Jumping(
            Words(jnp.uint32(7)), number(clock), number(0.25), jnp.int32(0), jnp.int32(0)
        )
        lane = lane_at([0.5])._replace(jumping=state)
        dt, due = until_jump(problem, lane, number(0.01))
        np.testing.assert_allclose(dt, step)
        moved, x, out = stepped(problem, lane, jnp.asarray([0.51]), dt, due, ended)
        np.testing.assert_allclose(moved.jumping.clock, clock - step, atol=1e-15)
        np.testing.assert_allclose(moved.jumping.elapsed, 0.25 + step)
        assert bool(due) == bool(moved.jumping.due) == waits
        assert float(x[0]) == 0.51 and not bool(out)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0, 0.7])
def test_powers(exponent):
    for x in (0.0, 0.3, 1.0, 2.5):
        np.testing.assert_allclose(_power(number(x), exponent), x**exponent, 1e-12, atol=1e-200)
    roots = "sqrt" in str(jax.make_jaxpr(lambda x: _power(x, exponent))(number(1.0)))
    assert roots == (exponent in (0.5, 1.5))  # general powers are slow


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cosine_and_sine_of_a_share_of_a_turn(dtype):
    shares = np.concatenate([np.linspace(0.0, 1.0, 4001), np.arange(9) / 8 + 1e-9])
    with precision(dtype):
        shares = np.asarray(jnp.asarray(shares), dtype)
        found = jax.jit(jax.vmap(on_circle))(jnp.asarray(shares))
    turn = 2 * np.pi * shares.astype(np.float64)
    most = 1.2 * np.finfo(dtype).eps * 4
    np.testing.assert_allclose(found[0], np.cos(turn), atol=most, rtol=0)
    np.testing.assert_allclose(found[1], np.sin(turn), atol=most, rtol=0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_laws_of_a_jump_of_a_stable_process_and_of_where_its_source_is_read(alpha):
    """Closed forms of two moments each; the second law is that of Green's function of the ball."""
    n, key = 20_000, jax.random.key(0)

    def moments(values, taken):
        values = np.asarray(values)[np.asarray(taken)]
        assert len(values) > 0.7 * n and np.all((values >= 0) & (values <= 1))
        for power in (1, 2):
            own = values**power
            yield np.mean(own), 5.0 * np.std(own) / math.sqrt(len(own))

    uniforms = jax.random.uniform(key, (n, 8), minval=1e-7)
    b = 0.5 * alpha
    exits = moments(*jax.vmap(lambda u: exit_shares(alpha, u[:2]))(uniforms))
    for (found, error), true in zip(exits, (b, b * (1 + b) / 2), strict=True):
        assert abs(found - true) < error
    for dim in (1, 2, 3, 6):
        k = 0.5 * dim
        radii, taken = jax.vmap(lambda u: source_shares(alpha, dim, u))(uniforms)  # noqa: B023
        mean = k / (k + b) * alpha / (alpha + 2)
        square = k * (k + 1) / ((k + b) * (k + b + 1)) * alpha / (alpha + 4)
        for (found, error), true in zip(moments(radii**2, taken), (mean, square), strict=True):
            assert abs(found - true) < error


def test_shares_of_devices():
    """As equal as whole strides allow, one after the other, and none is lost."""
    assert _pieces(10, 100, 4, 1) == [(10, 25), (35, 25), (60, 25), (85, 25)]
    assert _pieces(0, 100, 3, 8) == [(0, 40), (40, 40), (80, 20)]
    assert _pieces(5, 3, 4, 1) == [(5, 1), (6, 1), (7, 1), (8, 0)]


def test_few_paths_have_few_lanes():
    """Widths below twice their number, and one in any case."""
    lanes = Lanes((256, 128, 64), 1 << 16, 1)
    assert _widths(lanes, 128) == [128, 64] and _widths(lanes, 129) == [256, 128, 64]
    assert _widths(lanes, 1) == [64]
