"""Scales, weights and pieces of the loss, in plain numbers."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import current, using
from fkpinn.labels import Labels
from fkpinn.loss import (
    Adaptive,
    Annealed,
    BoundaryTerm,
    Fixed,
    LabelTerm,
    PathPoints,
    ResidualTerm,
    TerminalTerm,
    Uncertainty,
    cast,
    entries_of_a_row,
    natural_scale,
)
from fkpinn.loss._rows import each, mean_square
from fkpinn.nn import MLP
from fkpinn.problem import residual
from fkpinn.sampling import BoundaryPoints, sample_boundary

AT = jnp.asarray([0.5, 1.5])


def test_the_scale_of_a_residual():
    """Source, and the size times sigma^2 / 2 r^2, |b| / r and |V| for the smallest half-width r."""
    problem = fk.Problem(
        fk.Box([-1.0, 1.0], [2.0, 7.0]), drift=[3.0, -4.0], diffusion=[1.0, 2.0],
        reaction=lambda x: -7.0 * x[0], source=lambda x: -2.0 * x[1], check=False,
    )  # fmt: skip
    reach, size = 1.5, 0.5
    terms = 0.5 * 5.0 / reach**2 + 5.0 / reach + 3.5
    np.testing.assert_allclose(natural_scale(problem, AT, size), 3.0 + size * terms, rtol=1e-12)
    flat = lambda z: 2.0 + 0.0 * z[0]
    found = ResidualTerm(problem, AT[None], size).at(flat, AT)
    np.testing.assert_allclose(found, (3.5 * 2.0 - 3.0) / (3.0 + size * terms), rtol=1e-12)


def test_residuals_close_to_the_end_of_time_count_less():
    problem = fk.Problem(fk.Interval(0.0, 1.0), horizon=2.0, terminal=0.0, source=3.0, check=False)
    flat = lambda z: 0.0 * z[0]
    term = lambda power: ResidualTerm(problem, AT[None], time_power=power)
    at = jnp.asarray([1.5, 0.5])  # a quarter of the time is left
    np.testing.assert_allclose(term(0.0).at(flat, at), 3.0)
    np.testing.assert_allclose(term(1.0).at(flat, at), 3.0 * 0.25**0.5, rtol=1e-6)
    np.testing.assert_allclose(term(2.0).at(flat, at), 3.0 * 0.25, rtol=1e-6)


def test_violations_are_divided_by_the_size():
    problem = fk.Problem(
        fk.Interval(0.0, 1.0, name=("left", "right")), horizon=2.0, terminal=lambda x: 3.0 * x[0],
        boundary={"left": fk.Robin(2.0, 0.5), "right": fk.Dirichlet(4.0)}, check=False,
    )  # fmt: skip
    u = lambda z: z[0] + 5.0 * z[1]
    row = lambda x, n, part: BoundaryPoints(
        jnp.asarray([1.0, x]), jnp.asarray([n]), jnp.asarray(part, jnp.int32)
    )
    on = jax.tree.map(lambda leaf: leaf[None], row(0.0, -1.0, 0))
    term = BoundaryTerm(problem, on, 4.0)
    np.testing.assert_allclose(term.at(u, row(0.0, -1.0, 0)), (-5.0 + 2.0 - 0.5) / 4.0)
    np.testing.assert_allclose(term.at(u, row(1.0, 1.0, 1)), (6.0 - 4.0) / 4.0)
    last = jnp.asarray([2.0, 0.5])
    np.testing.assert_allclose(TerminalTerm(problem, last[None], 4.0).at(u, last), 3.0 / 4.0)
    label = LabelTerm.of(Labels.from_data([[0.0, 0.0]], [1.0], 0.1), size=4.0)
    np.testing.assert_allclose(
        label.at(u, (last, jnp.asarray(1.0), jnp.asarray(9.0))), 3.0 * 3.5 / 4.0
    )


@pytest.mark.parametrize(
    "n", [pytest.param(4, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow), 11, 12]
)
def test_rows_in_pieces_are_all_rows(n):
    """In pieces of three: as many as fit at once, whole pieces, and a rest."""
    rows = jnp.linspace(0.3, 2.0, n)
    at = lambda u, row: jnp.sin(u * row)
    with using(dataclasses.replace(current(), row_chunk=3)):
        slope_of = jax.value_and_grad(lambda u: 5.0 * mean_square(at, u, rows))
        everything = lambda u: (slope_of(u), mean_square(at, u, rows), each(at, u, rows))
        (value, slope), square, found = jax.jit(everything)(jnp.asarray(1.3))
    x = 1.3 * np.asarray(rows)
    np.testing.assert_allclose(value, 5 * np.mean(np.sin(x) ** 2), rtol=1e-12)
    np.testing.assert_allclose(slope, 5 * np.mean(np.sin(2 * x) * rows), rtol=1e-12)
    np.testing.assert_allclose(square, np.mean(np.sin(x) ** 2))
    np.testing.assert_allclose(found, np.sin(x), rtol=1e-12)


def test_points_of_paths_come_from_the_pool_in_their_share():
    problem = fk.Problem(fk.Interval(0.0, 1.0), check=False)
    pool = jnp.array([[0.25], [0.75]])
    none = lambda *anything: jnp.zeros(())
    draw = lambda share: np.asarray(
        PathPoints(pool, share).draw(problem, none, none, 400, jnp.float64, key=jr.key(1))
    )[:, 0]
    mixed, whole = draw(0.5), draw(1.0)
    visited = np.isin(mixed, pool)
    assert np.count_nonzero(visited) == 200 and np.all((mixed > 0) & (mixed < 1))
    assert np.all(np.isin(whole, pool))
    assert abs(np.count_nonzero(whole == 0.25) - 200) < 4 * math.sqrt(100)
    with pytest.raises(ValueError, match="`share` must lie between 0 and 1"):
        PathPoints(pool, 1.5)


def test_exits_are_points_of_the_boundary_in_their_share():
    square = fk.Problem(fk.Box([0.0, 0.0], [1.0, 1.0]), check=False)
    exits = BoundaryPoints(
        jnp.array([[1.0, 0.25]], jnp.float32),
        jnp.array([[1.0, 0.0]], jnp.float32),
        jnp.zeros(1, jnp.int32),
    )
    pool = jnp.full((2, 2), 0.5)
    draw = lambda **how: PathPoints(pool, **how).draw_boundary(
        square, 400, jnp.float64, key=jr.key(2)
    )
    mixed, whole, without = draw(exits=exits), draw(exits=exits, share=1.0), draw()
    left = np.all(np.asarray(mixed.points) == [1.0, 0.25], axis=1)
    assert np.count_nonzero(left) == 200 and mixed.points.dtype == jnp.float64
    np.testing.assert_array_equal(np.asarray(mixed.normals)[left], np.tile([1.0, 0.0], (200, 1)))
    assert np.all(np.asarray(whole.points) == [1.0, 0.25])
    plain = sample_boundary(square, 400, fair=True, dtype=jnp.float64, key=jr.key(2))
    np.testing.assert_array_equal(without.points, plain.points)


def test_adaptive_draws_have_their_law():
    """One of a pool of two, by power and floor: a chance of (s + c) / (s + t + 2 c)."""
    problem = fk.Problem(fk.Interval(0.0, 1.0), check=False)
    adaptive = Adaptive(power=2.0, floor=0.25, pool=2)
    at = lambda u, z: u(z) * jnp.where(z[0] > 0.5, -3.0, 1.0)
    seven = lambda z: 7.0 + 0.0 * z[0]
    draw = lambda key: adaptive.draw(problem, seven, at, 1, jnp.float64, key=key)[0, 0]
    n = 4000
    high = np.mean(np.asarray(jax.jit(jax.vmap(draw))(jr.split(jr.key(3), n))) > 0.5)
    # of two candidates, none, one or both lie in the upper half; sizes 9 and 1 over their mean 5
    one = (9 / 5 + 0.25) / (2 + 0.5)
    chance = 0.25 + 0.5 * one
    assert abs(high - chance) < 4 * math.sqrt(chance * (1 - chance) / n)
    for wrong in ({"floor": -0.1}, {"pool": 0}, {"power": -0.1}):
        with pytest.raises(ValueError, match="`Adaptive` needs"):
            Adaptive(**wrong)
    assert Adaptive(power=0.0, floor=0.0, pool=1).pool == 1


def test_weights_that_nobody_gave_are_one():
    step = jnp.asarray(5)
    assert float(Fixed().weights(("residual",), step)["residual"]) == 1.0
    fading = Annealed({"labels": 0.2}, rate=0.5, floor=0.7, hold=1)
    found = fading.weights(("labels", "residual"), step)
    assert float(found["labels"]) == 0.2  # the floor is never above the start
    assert float(found["residual"]) == 1.0
    other = Annealed({}, fading=("labels",), rate=0.5)
    assert float(other.weights(("labels",), jnp.asarray(3))["labels"]) == 0.125
    assert Annealed({}).rate == 0.9 and Annealed({}).floor == 0.0 and Annealed({}).hold == 0
    Annealed({"labels": 0.0}, rate=1.0)
    for wrong in (float("inf"), float("nan"), -1e-9):
        with pytest.raises(ValueError, match="finite number of at least 0"):
            Annealed({"labels": wrong})
    with pytest.raises(ValueError, match="`rate` must lie"):
        Annealed({}, rate=0.0)


def test_uncertainties_are_clipped_on_both_sides():
    weighting = eqx.tree_at(
        lambda w: w.log_variances,
        Uncertainty(("a", "b"), limit=2.0),
        {"a": jnp.asarray(-9.0), "b": jnp.asarray(1.0)},
    )
    found = weighting.weights(("a", "b"), jnp.asarray(0))
    np.testing.assert_allclose(found["a"], 0.5 * math.exp(2.0))
    np.testing.assert_allclose(found["b"], 0.5 * math.exp(-1.0))
    np.testing.assert_allclose(weighting.penalty(), 0.5 * (-2.0 + 1.0))
    total = weighting.total({"a": jnp.asarray(3.0), "b": jnp.asarray(4.0)}, jnp.asarray(0))
    np.testing.assert_allclose(total, 1.5 * math.exp(2.0) + 2.0 * math.exp(-1.0) - 0.5)


def test_limits_are_positive():
    assert Uncertainty(("a",), limit=0.5).limit == 0.5 and Uncertainty(("a",)).limit == 5.0
    with pytest.raises(ValueError, match="`limit` must be positive"):
        Uncertainty(("a",), limit=-0.5)


def test_labels_by_error_in_the_precision_asked_for():
    labels = Labels.from_data(jnp.zeros((2, 1)), [1.0, 2.0], [0.1, 0.2])
    assert LabelTerm.of(labels, dtype="float32").points.dtype == jnp.float32
    assert cast({"a": jnp.zeros(1), "n": jnp.arange(2)}, "float32")["a"].dtype == jnp.float32
    alike = LabelTerm.of(labels._replace(stderr=jnp.zeros(2)), by_error=True)
    np.testing.assert_array_equal(alike.weight, 1.0)
    assert len(LabelTerm.of(labels, batch=2).rows()[0]) == 2
    assert len(LabelTerm.of(labels, batch=1).rows()[0]) == 1
    with pytest.raises(ValueError, match="`batch` must be between 1"):
        LabelTerm.of(labels, batch=0)


@pytest.mark.broad
def test_pieces_on_an_accelerator_fit_its_memory():
    """Rows of a piece follow from what their derivatives keep, which grows with the dimension."""
    problem = {dim: fk.poisson(fk.Ball([0.0] * dim, 1.0), 1.0) for dim in (2, 50)}
    box = lambda dim: ([-1.0] * dim, [1.0] * dim)
    networks = {dim: MLP(*box(dim), [16, 16], dtype=np.float64, key=jr.key(0)) for dim in (2, 50)}
    points = lambda dim, n: 0.1 * jr.normal(jr.key(1), (n, dim))
    at = lambda dim: lambda u, z: residual(problem[dim], u, z)
    kept = {dim: entries_of_a_row(at(dim), u, points(dim, 1)) for dim, u in networks.items()}
    assert kept[2] > 2 * 16 + 16 * 16 and kept[50] > 50 * 2 * 16
    u, rows = networks[2], points(2, 700)
    found = {}
    for entries in (1 << 30, 200 * kept[2]):
        accelerator = dataclasses.replace(current(), row_chunk=None, row_entries=entries)
        with using(accelerator):
            lowered = jax.jit(lambda v, rows: each(at(2), v, rows)).lower(u, rows)
            assert ("while" in lowered.as_text()) == (entries < 1 << 30)
            found[entries] = each(at(2), u, rows), mean_square(at(2), u, rows)
    for a, b in zip(*found.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
