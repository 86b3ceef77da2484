"""A wrapped network meets its Dirichlet data, trains as before and knows its derivatives."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn._field import taylor
from fkpinn.domain import AbstractDomain, Ball, Box, Polygon
from fkpinn.nn import MLP, HardDirichlet, HardTerminal
from fkpinn.problem import Dirichlet, Layout, catalogue

NAMES = (*helpers.EXACT_NAMES, "schrodinger", "met", "committor")
WITH_DIRICHLET = [
    name for name in helpers.names("schrodinger", "met", "committor") if "robin" not in name.values
]


class Case(NamedTuple):
    """A domain with data on some parts, functions of the point."""

    domain: AbstractDomain
    data: dict[str, Any]
    timed: bool = False


def wave(z):
    return jnp.sin(3.0 * z[0]) + z[1] ** 2


class Plane(eqx.Module):
    """Data that hold an array."""

    slope: jax.Array

    def __call__(self, z):
        return jnp.dot(self.slope.astype(z.dtype), z)


def own_cases() -> dict[str, Case]:
    l_shape = helpers.shape("l-shape").domain
    notch = Box([0, 0], [2, 2], name="wall") - Ball([1, 1], 0.5, name="hole")
    squares = Box([0, 0], [2, 2]) | Box([1, 1], [3, 3])
    faces = Box([0, 0], [1, 2], name=("left", "right", "floor", "lid"))
    return {
        "l-shape": Case(l_shape, {"inner": 1.0, "outer": lambda z: 1.0 + wave(z) * (z[0] - 1)}),
        "box-minus-disk": Case(notch, {"wall": wave, "hole": Plane(jnp.array([1.0, -2.0]))}),
        "squares": Case(squares, {"outer": wave}),
        "three-sides": Case(faces, {"left": 0.0, "right": 2.0, "lid": lambda z: 2 * z[0]}),
        "moving": Case(notch, {"wall": lambda z: z[0] * z[1], "hole": 1.0}, timed=True),
    }


def case_of(name: str) -> Case:
    if name not in NAMES:
        return own_cases()[name]
    problem = catalogue(name).problem
    conditions = problem.boundary.items()
    data = {part: c.value for part, c in conditions if isinstance(c, Dirichlet)}
    return Case(problem.domain, data, problem.timed)


@functools.cache
def wrapped(name: str) -> HardDirichlet:
    domain, data, timed = case_of(name)
    lower, upper = domain.bounding_box()
    if timed:
        lower, upper = np.append(0.0, lower), np.append(1.0, upper)
    network = MLP(lower, upper, [8, 8], output_scale=3.0, key=jr.key(0))
    layout = Layout(domain.dim, 1.0 if timed else None)
    return HardDirichlet(network, domain, data, layout=layout)


def with_time(points, timed):
    return jnp.pad(points, ((0, 0), (1, 0)), constant_values=0.3) if timed else points


ALIKE = ["poisson", "met", "schrodinger", "variable-diffusion"]  # as others, in other shapes
BOUNDARY = ["committor", "laplace-10d", "ornstein-uhlenbeck", *own_cases()]
BOUNDARY += [pytest.param(name, marks=pytest.mark.slow) for name in ALIKE]
FAST = ("committor", "moving")


@pytest.mark.parametrize("name", helpers.of_which_fast(BOUNDARY, *FAST))
def test_meets_the_data(name):
    u, (domain, data, timed) = wrapped(name), case_of(name)

    @jax.jit
    @jax.vmap
    def miss(v):
        on = domain.boundary_map(v)
        z = with_time(on.point[None], timed)[0]
        wanted = [_value(data[part], z) if part in data else jnp.nan for part in domain.parts]
        gap = u(z) - jnp.stack([jnp.asarray(w, z.dtype) for w in wanted])[on.part]
        return gap, on.part, on.keep

    gap, part, keep = miss(jr.uniform(jr.key(1), (300, domain.n_boundary_coords)))
    held = keep & jnp.isin(part, jnp.asarray([domain.parts.index(p) for p in data]))
    assert jnp.sum(held) > 20
    assert np.max(np.abs(gap[held])) < 1e-12
    assert np.all(np.isnan(gap[keep & ~held]))  # no data there


def _value(given, z):
    return given(z) if callable(given) else given


SLOW = [pytest.param("l-shape", marks=pytest.mark.slow)]  # takes long to compile
BROAD = [pytest.param(name, marks=pytest.mark.broad) for name in ("squares", "moving")]
SURFACE = {  # points of named and of other parts, and corners
    "committor": [(0.8235, 0.0281), (-0.5582, 1.6417), (-1.5, 0.5), (1.2, 2.0)],
    "l-shape": [(1.0, 1.5), (0.5, 2.0), (1.0, 1.0), (2.0, 1.0), (0.0, 0.0)],
    "three-sides": [(0.0, 1.0), (0.5, 2.0), (0.5, 0.0), (0.0, 2.0), (1.0, 0.0)],
}


@pytest.mark.parametrize("name", helpers.of_which_fast(SURFACE, "committor"))
def test_derivatives_are_finite_on_the_boundary(name):
    u = wrapped(name)  # made out here: what is made under jit must not be kept
    derivatives = lambda z: taylor(u, z, jnp.eye(2), jnp.ones(2))
    at = helpers.at(derivatives, jnp.asarray(SURFACE[name]))
    assert all(np.all(np.isfinite(leaf)) for leaf in at)


@pytest.mark.parametrize(
    "name",
    ["poisson", pytest.param("committor", marks=pytest.mark.slow), *SLOW, *BROAD],
)
def test_derivatives_agree_with_nested_ones(name):
    u, timed = wrapped(name), case_of(name).timed
    n = u.domain.dim + timed
    directions, weights = jr.normal(jr.key(2), (3, n)), jnp.asarray([0.5, -1.0, 2.0])

    @jax.jit
    @jax.vmap
    def both(v):
        x, keep = u.domain.interior_map(v)
        z = with_time(x[None], timed)[0]
        fast, slope, bend = taylor(u, z, directions, weights), jax.grad(u)(z), jax.hessian(u)(z)
        curvature = jnp.einsum("q,qi,ij,qj", weights, directions, bend, directions)
        return fast, (u(z), directions @ slope, curvature), keep

    fast, brute, keep = both(jr.uniform(jr.key(3), (60, u.domain.n_interior_coords)))
    for a, b in zip(fast, brute, strict=True):
        assert np.all(np.isfinite(b[keep]))
        scale = np.max(np.abs(b[keep]))
        np.testing.assert_allclose(a[keep], b[keep], rtol=1e-9, atol=1e-11 * scale)


FAST = ("variable-diffusion", "met")


@pytest.mark.parametrize("name", helpers.of_which_fast([*WITH_DIRICHLET, *own_cases()], *FAST))
def test_only_the_network_is_trained(name):
    u = wrapped(name)
    trained, _ = eqx.partition(u, eqx.is_inexact_array)
    own = jax.tree.leaves(eqx.filter(u.network, eqx.is_inexact_array))
    assert [id(a) for a in jax.tree.leaves(trained)] == [id(a) for a in own]
    assert len(jax.tree.leaves(eqx.filter(u, eqx.is_array))) == len(own)


def test_gradients_reach_the_network_and_compile_once():
    u = wrapped("box-minus-disk")
    points = jnp.asarray([[0.2, 0.3], [1.8, 0.4]])

    @eqx.filter_jit
    @eqx.debug.assert_max_traces(max_traces=1)
    @eqx.filter_grad
    def slope(v):
        at = jax.vmap(lambda z: taylor(v, z, jnp.eye(2), jnp.ones(2)))(points)
        return jnp.sum(at.curvature**2)

    first = slope(u)
    again = slope(eqx.apply_updates(u, first))
    for leaf in jax.tree.leaves((first, again)):
        assert np.all(np.isfinite(leaf)) and np.any(leaf != 0)


@pytest.mark.parametrize("name", ["committor", *SLOW])
def test_single_precision(name):
    domain, data, _ = case_of(name)
    network = MLP(*domain.bounding_box(), [8], dtype=jnp.float32, key=jr.key(0))
    u = HardDirichlet(network, domain, data)
    x = jnp.asarray(SURFACE[name][0])  # on a part where the solution is one

    @jax.jit
    def both(z):
        return u(z), taylor(u, z, jnp.eye(2, dtype=z.dtype), jnp.ones(2, z.dtype))

    for dtype in (jnp.float32, jnp.float64):  # points may be more precise than parameters
        value, at = both(x.astype(dtype))
        assert all(leaf.dtype == jnp.float32 for leaf in (value, *at))
        assert float(value) == pytest.approx(1.0, abs=1e-5)
        assert float(at.value) == pytest.approx(1.0, abs=1e-5)


def test_zero_data_cost_nothing():
    domain, network = Box([0, 0], [1, 1]), wrapped("poisson").network
    u = HardDirichlet(network, domain, {"outer": 0})
    count = lambda f: str(jax.make_jaxpr(f)(jnp.full(2, 0.3))).count(" = ")
    assert count(lambda z: u(z)) == count(lambda z: u.factor(z) * network(z))


def test_parts_with_the_same_data_are_one():
    u = wrapped("three-sides")
    assert u.groups == (("left",), ("right",), ("lid",))
    domain = Box([0, 0], [1, 1], name=("a", "b", "c", "d"))
    network, x = wrapped("poisson").network, jnp.asarray([0.2, 0.7])
    u = HardDirichlet(network, domain, {"a": wave, "b": wave, "c": wave, "d": wave})
    assert u.groups == (("a", "b", "c", "d"),)
    assert u.extension(x) == wave(x)
    v = HardDirichlet(network, domain, {"a": 0, "b": 0.0, "c": 0, "d": np.float64(0)})
    assert v.groups == (("a", "b", "c", "d"),) and v.data == (0.0,)


def test_extension_stays_between_constant_data():
    u = wrapped("committor")
    inside = helpers.at(u.extension, jnp.asarray(np.random.default_rng(0).uniform(0.3, 1, (50, 2))))
    assert np.all((inside > 0) & (inside < 1))


@pytest.mark.parametrize(
    ("domain", "data", "error", "message"),
    [
        (
            Box([0, 0], [1, 1]) | Ball([1, 1], 0.5, name="c"),
            {"c": 0.0},
            ValueError,
            r"names \('c',\) but not \('outer',\).*boundary term",
        ),
        (Ball([0, 0], 1.0), {"wall": 0.0}, ValueError, r"`parts` must name boundary parts"),
        (Ball([0, 0], 1.0), {}, ValueError, r"`parts` must name boundary parts.*got \(\)"),
        (Ball([0, 0], 1.0), {"outer": "zero"}, TypeError, r"`data\['outer'\]` must be a number"),
        (Ball([0, 0], 1.0), {"outer": np.nan}, ValueError, r"`data\['outer'\]`.*finite; got nan"),
        (Ball([0, 0], 1.0), {"outer": lambda z: z}, ValueError, r"shape \(\); got shape \(2,\)"),
        (
            Polygon([(0, 0), (1, 0), (0, 1)]) | Box([0, 0], [3, 0.1], name="bar"),
            {"outer": 0.0, "bar": 1.0},  # the factor exists, the weights of the data do not
            ValueError,
            r"names \('outer',\) but not \('bar',\)",
        ),
    ],
)
def test_refused(domain, data, error, message):
    network = MLP([0.0, 0.0], [1.0, 1.0], [4], key=jr.key(0))
    with pytest.raises(error, match=message):
        HardDirichlet(network, domain, data)


@pytest.mark.parametrize("forward", [False, True])
def test_terminal_data_are_met_and_derivatives_are_right(forward):
    """At the end of time exactly; value, gradient and second derivatives as by brute force."""
    layout = Layout(2, 0.7, forward=forward)
    data = lambda x: jnp.sin(x[0]) * x[1]
    network = MLP(*layout.bounds(np.zeros(2), np.ones(2)), [8, 8], key=jr.key(0))
    u = HardTerminal(network, data, layout)
    places = jr.uniform(jr.key(1), (5, 2))
    given = helpers.at(data, places)
    np.testing.assert_array_equal(helpers.at(u, layout.at_end(places)), given)
    z = layout.point(jnp.asarray(0.2), places[0])
    by_force = jax.jit(lambda z: (u(z), jax.grad(u)(z), jnp.trace(jax.hessian(u)(z))))
    value, slopes, curvature = by_force(z)
    assert float(jnp.abs(value - given[0])) > 1e-3
    found = jax.jit(lambda z: u.taylor(z, jnp.eye(3), jnp.ones(3)))(z)
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    np.testing.assert_allclose(found.slopes, slopes, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.curvature, curvature, rtol=1e-4, atol=1e-5)


def test_terminal_data_need_a_time():
    with pytest.raises(ValueError, match="layout"):
        HardTerminal(MLP([0.0], [1.0], [4], key=jr.key(0)), lambda x: x[0], Layout(1))
