"""Terms, their gradients in pieces, fresh points, and weights."""

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._streams import fold
from fkpinn.labels import Labels
from fkpinn.loss import (
    Adaptive,
    Annealed,
    BoundaryTerm,
    Fixed,
    LabelTerm,
    Loss,
    ResidualTerm,
    SampledResidualTerm,
    Spread,
    TerminalTerm,
    Uncertainty,
)
from fkpinn.nn import MLP
from fkpinn.problem import catalogue, residual
from fkpinn.sampling import sample_boundary, sample_interior, sample_terminal

ZERO = jnp.asarray(0, jnp.int32)


def terms_of(problem, n=40):
    inside = sample_interior(problem, n, key=jr.key(0))
    terms = {
        "residual": ResidualTerm(problem, inside, 2.0),
        "boundary": BoundaryTerm(problem, sample_boundary(problem, n, key=jr.key(1)), 2.0),
    }
    if problem.timed:
        terms["terminal"] = TerminalTerm(problem, sample_terminal(problem, n, key=jr.key(2)), 2.0)
    return terms


@pytest.mark.parametrize(
    "name",
    ["robin", "ornstein-uhlenbeck", pytest.param("variable-diffusion", marks=pytest.mark.slow)],
)
def test_the_exact_solution_violates_nothing(name):
    case = helpers.case(name)
    terms = terms_of(case.problem)
    found = jax.jit(lambda: {name: term.defects(case.exact) for name, term in terms.items()})()
    for defects in found.values():
        assert float(jnp.max(jnp.abs(defects))) < 1e-10


@pytest.mark.broad
def test_products_of_estimates_are_right_on_average():
    """Of 3,000 draws: within four standard errors of the mean square, where squares are not."""
    problem = fk.Problem(
        fk.Ball([0.0] * 5, 1.0), drift=lambda x: -x, reaction=0.5, source=1.0, check=False
    )
    points, bend = sample_interior(problem, 4, key=jr.key(0)), jnp.arange(1.0, 6.0)
    u = lambda z: jnp.sin(bend @ z) + z[0] * z[1] ** 2
    whole = ResidualTerm(problem, points, 2.0)
    term, exact = SampledResidualTerm(whole, n_directions=2), float(whole(u))
    draws = jnp.arange(3000, dtype=jnp.uint32)
    at = lambda draw: eqx.tree_at(lambda t: t.draw, term, draw)
    products, squares = jax.jit(
        lambda: (
            jax.lax.map(lambda k: at(k)(u), draws),
            jax.lax.map(lambda k: jnp.mean(at(k).defects(u) ** 2), draws),
        )
    )()
    noise = lambda a: float(jnp.std(a)) / len(a) ** 0.5
    assert abs(float(jnp.mean(products)) - exact) < 4 * noise(products)
    assert float(jnp.mean(squares)) - exact > 10 * noise(squares)


def test_directions_are_fresh_with_the_points():
    problem = fk.Problem(fk.Interval(-1.0, 1.0), source=1.0, check=False)
    points = sample_interior(problem, 6, key=jr.key(0))
    exact = ResidualTerm(problem, points)
    term, u = SampledResidualTerm(exact, n_directions=3), lambda z: z[0] ** 4
    # one dimension: every direction tells all, so estimates are exact
    np.testing.assert_allclose(term(u), exact(u), rtol=1e-12)
    fresh, other = (term.redrawn(u, jr.key(k), 2.0) for k in (1, 2))
    assert len(fresh.rows()[0]) == 12 and int(fresh.draw) != int(other.draw)
    np.testing.assert_array_equal(fresh.exact.points, exact.redrawn(u, jr.key(1), 2.0).points)


@pytest.mark.parametrize("n", [100, pytest.param(1200, marks=pytest.mark.slow)])
def test_mean_square_and_gradient_in_pieces_are_those_of_the_whole(n):
    """100 rows go at once; 1,200 in two pieces and a rest."""
    problem = catalogue("met").problem
    points = sample_interior(problem, n, key=jr.key(3))
    u = MLP(*problem.bounds(), (8, 8), key=jr.key(4))
    term = ResidualTerm(problem, points, 3.0)
    whole = lambda v: jnp.mean(jax.vmap(lambda z: term.at(v, z))(points) ** 2)
    pieces, at_once = (eqx.filter_value_and_grad(f) for f in (lambda v: term(v), whole))
    together = lambda v: (pieces(v), at_once(v), term.defects(v))
    (value, slope), (expected, expected_slope), defects = eqx.filter_jit(together)(u)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(expected_slope), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(np.mean(np.asarray(defects) ** 2), expected, rtol=1e-12)


def test_residuals_are_left_alone_without_a_size():
    problem = catalogue("met").problem
    u = MLP(*problem.bounds(), (4,), key=jr.key(4))
    z = jnp.array([0.1, 0.2])
    both = lambda z: (ResidualTerm(problem, z[None]).at(u, z), residual(problem, u, z))
    np.testing.assert_allclose(*jax.jit(both)(z), rtol=1e-14)


def test_fresh_points_are_fresh_and_as_many_as_asked():
    problem = catalogue("ornstein-uhlenbeck").problem
    u = MLP(*problem.bounds(), (4,), key=jr.key(4))
    loss = Loss(terms_of(problem))
    again = loss.redrawn(u, jr.key(7))
    more = loss.redrawn(u, jr.key(7), 3.0)
    for name in loss.terms:
        old, new, many = (jax.tree.leaves(one.terms[name].rows())[0] for one in (loss, again, more))
        assert old.shape == new.shape and len(many) == 3 * len(old)
        assert not np.any((np.asarray(old) == np.asarray(new)).all(axis=1))


def test_adaptive_points_go_where_the_residual_is():
    """With a residual that lives in one quarter of the square, most of the points lie there."""
    problem = catalogue("poisson").problem
    at = lambda u, z: jnp.where((z[0] > 0.5) & (z[1] > 0.5), 1.0, 0.0)
    term = ResidualTerm(problem, jnp.zeros((400, 2)), 1.0, Adaptive(floor=0.1))
    draw = lambda key: term.sampler.draw(problem, lambda z: z[0], at, 400, jnp.float64, key=key)
    points = jax.jit(draw)(jr.key(0))
    share = np.mean((np.asarray(points) > 0.5).all(axis=1))
    # 400 of 1,600 candidates lie there and each is 41 times as likely as the others
    assert share > 0.8
    assert len(np.unique(np.asarray(points), axis=0)) == 400
    with pytest.raises(ValueError, match="`Adaptive` needs"):
        Adaptive(power=-1.0)


def test_adaptive_redraw_uses_the_networks_residual():
    problem = catalogue("met").problem
    u = MLP(*problem.bounds(), (4,), output_scale=10.0, key=jr.key(4))
    start = sample_interior(problem, 200, key=jr.key(1))
    term = ResidualTerm(problem, start, 10.0, Adaptive(power=2.0, floor=0.0))
    uniform = ResidualTerm(problem, start, 10.0)
    redrawn = lambda key: [one.redrawn(u, key)(u) for one in (term, uniform)]
    drawn, plain = map(float, jax.jit(redrawn)(jr.key(5)))
    assert drawn > 1.5 * plain


def labels_with(stderr):
    points = jnp.linspace(0.1, 0.9, len(stderr))[:, None] * jnp.ones((1, 2))
    return Labels.from_data(points, np.arange(len(stderr), dtype=float), stderr)


def test_labels_weigh_by_their_error():
    labels = labels_with(np.array([0.1, 0.2, 0.4, 1e-9]))
    term = LabelTerm.of(labels, size=2.0, by_error=True)
    w = np.asarray(term.weight)
    np.testing.assert_allclose(w.mean(), 1.0)
    np.testing.assert_allclose(w[0] / w[1], 4.0)
    np.testing.assert_allclose(w[1] / w[2], 4.0)
    typical = np.sqrt(np.mean([0.01, 0.04, 0.16, 0.0]))
    np.testing.assert_allclose(w[3] / w[0], (0.1 / (0.1 * typical)) ** 2)
    np.testing.assert_allclose(term.defects(lambda z: 0.0 * z[0])[1], -np.sqrt(w[1]) / 2.0)
    np.testing.assert_allclose(LabelTerm.of(labels).weight, 1.0)


def test_label_batches_are_parts_of_the_labels():
    labels = labels_with(np.full(20, 0.1))
    term = LabelTerm.of(labels, batch=6)
    fresh = term.redrawn(lambda z: z[0], jr.key(2))
    values = np.asarray(fresh.rows()[1])
    assert len(set(values.tolist())) == 6 and set(values.tolist()) <= set(range(20))
    assert set(values.tolist()) != set(np.asarray(term.rows()[1]).tolist())
    with pytest.raises(ValueError, match="`batch` must be between 1 and the number of labels, 20"):
        LabelTerm.of(labels, batch=21)


def test_fixed_and_annealed_weights():
    values = {"residual": jnp.asarray(2.0), "labels": jnp.asarray(3.0)}
    np.testing.assert_allclose(Fixed({"labels": 10.0}).total(values, ZERO), 32.0)
    fading = Annealed({"labels": 10.0}, rate=0.5, floor=0.7, hold=2)
    found = [float(fading.weights(("labels",), jnp.asarray(s))["labels"]) for s in (0, 2, 3, 4, 9)]
    np.testing.assert_allclose(found, [10.0, 10.0, 5.0, 2.5, 0.7])
    assert float(fading.weights(("residual",), jnp.asarray(9))["residual"]) == 1.0
    with pytest.raises(ValueError, match="must be a finite number of at least 0; got -1"):
        Fixed({"labels": -1.0})
    with pytest.raises(ValueError, match=r"`rate` must lie in \(0, 1\]"):
        Annealed({}, rate=1.5)


def test_uncertainty_weights_are_the_papers():
    """At its minimum over the log-variance, a term weighs one over its own value."""
    weighting = Uncertainty(("residual", "labels"))
    values = {"residual": jnp.asarray(0.5), "labels": jnp.asarray(4.0)}
    total = lambda w: w.total(values, ZERO)
    np.testing.assert_allclose(total(weighting), 0.5 * (0.5 + 4.0))
    best = eqx.tree_at(
        lambda w: w.log_variances,
        weighting,
        {"residual": jnp.log(0.5), "labels": jnp.log(4.0)},
    )
    slopes = jax.grad(total)(best).log_variances
    np.testing.assert_allclose([slopes["residual"], slopes["labels"]], 0.0, atol=1e-12)
    np.testing.assert_allclose(total(best), 0.5 * (1 + np.log(0.5)) + 0.5 * (1 + np.log(4.0)))
    far = eqx.tree_at(lambda w: w.log_variances["labels"], weighting, jnp.asarray(50.0))
    np.testing.assert_allclose(far.weights(("labels",), ZERO)["labels"], 0.5 * np.exp(-5.0))
    with pytest.raises(ValueError, match="`limit` must be positive"):
        Uncertainty(("a",), limit=0.0)


def test_points_are_spread_over_the_domain_and_the_measure():
    box = fk.Box([0.0, 0.0], [1.0, 1.0])
    plain, key = fk.Problem(box, check=False), jr.key(4)
    found = Spread().points(plain, 40, jnp.float64, key=key)
    alone = sample_interior(plain, 40, dtype=jnp.float64, key=fold(key, "domain"))
    np.testing.assert_array_equal(found, alone)
    corner = plain.with_measure(fk.InBox([0.0, 0.0], [0.01, 0.01]))
    for share, fewest in ((0.25, 10), (0.5, 20), (1.0, 40)):
        drawn = np.asarray(Spread(share).points(corner, 40, jnp.float64, key=key))
        assert drawn.shape == (40, 2)
        assert np.count_nonzero(np.all(drawn < 0.01, axis=1)) == fewest
    with pytest.raises(ValueError, match="`share` must lie between 0 and 1"):
        Spread(1.1)


@pytest.mark.broad
def test_points_of_all_of_space_reach_where_few_paths_go():
    """Half of them lie anywhere in the box of the paths; in many dimensions none do."""
    make = lambda dim: fk.Problem(
        fk.Space(dim), horizon=1.0, terminal=1.0, measure=fk.Along([0.0] * dim), check=False
    )
    drawn = np.asarray(Spread().points(make(1), 4000, jnp.float64, key=jr.key(0)))
    low, high = make(1).box()
    early = drawn[drawn[:, 0] < 0.1, 1]  # paths have gone no further than 0.32 on average
    share = np.mean(np.abs(early) > 1.2)
    expected = 0.5 * (1.0 - 2.4 / (1.5 * float(high[0] - low[0])))
    assert abs(share - expected) < 4.0 * (0.25 / len(early)) ** 0.5
    wide = np.asarray(Spread().points(make(4), 4000, jnp.float64, key=jr.key(0)))
    assert np.all(np.abs(wide[wide[:, 0] < 0.1, 1:]) < 2.0)
