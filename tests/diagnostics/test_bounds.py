"""The calculator against the paper's formulas, written out once more."""

import itertools
import math

import pytest

from fkpinn.diagnostics import (
    Constants,
    balanced,
    label_bias,
    master_bound,
    n_parameters,
    nodes,
    pfaffian_bound,
    pseudo_dimension,
)


def test_parameters_of_the_papers_network():
    # 2 -> 128 -> 128 -> 128 -> 128 -> 1
    assert n_parameters((128,) * 4, 2) == 3 * 128 + 3 * 129 * 128 + 129


def test_nodes_by_order():
    """lem:derivative-network in the plane: 1, 13 and 8 + 10 + 39 nodes a hidden unit."""
    assert [nodes((5, 7), 2, k) for k in (0, 1, 2)] == [12 + 3, 13 * 12 + 3, 57 * 12 + 3]
    with pytest.raises(ValueError, match=r"`order` must be 0, 1 or 2"):
        nodes((5,), 2, 3)


def test_the_pfaffian_bound_is_the_theorems():
    free, n, q, d, dp, s = 10, 4, 1, 2, 2, 5
    lnq = free * (n + 1) * q
    psi = (
        lnq * (lnq - 1)
        + (16 + 2 * math.log2(dp) + 2 * math.log2(s + 1)) * free
        + 2 * (free + 2 * lnq) * math.log2(free)
        + 2 * (free + 2 * lnq) * math.log2(dp + d)
    )
    found = pfaffian_bound(free, n, chain=q, degree=d, node_degree=dp, monomials=s)
    assert found == pytest.approx(psi)
    with pytest.raises(ValueError, match=r"must be at least 1"):
        pfaffian_bound(0, n, chain=q, degree=d, node_degree=dp, monomials=s)


def test_the_pseudo_dimension_grows_as_the_corollary_says():
    """cor:pdim-scaling: (PN)² log(PN), up to a constant: doubled widths, compared over decades."""
    ratios = []
    for width in (16, 64, 256, 1024):
        size = n_parameters((width, width), 2) * nodes((width, width), 2, 2)
        ratios.append(pseudo_dimension((width, width), 2, 2) / (size**2 * math.log(size)))
    assert max(ratios) < 1.0
    assert all(a > b for a, b in itertools.pairwise(ratios))


SIZES = {
    "widths": (64, 64),
    "dim": 2,
    "smoothness": 4,
    "n_interior": 10_000,
    "n_boundary": 400,
    "n_labels": 200,
    "dt": 1e-3,
}


def test_terms_follow_their_sizes():
    """Each term falls with its own number of points, as the power says, and no other one does."""
    base = master_bound(**SIZES)["terms"]
    for key, name, power in (
        ("n_interior", "residual points", 0.25),
        ("n_boundary", "boundary points", 0.25),
        ("n_labels", "label points", 0.25),
    ):
        more = master_bound(**(SIZES | {key: 16 * SIZES[key]}))["terms"]
        assert more[name] == pytest.approx(base[name] / 16**power)
        untouched = set(base) - {name, "label noise"}
        assert all(more[other] == base[other] for other in untouched)
    finer = master_bound(**(SIZES | {"dt": 1e-5}))["terms"]
    epsilon = label_bias(1e-5, math.inf)
    assert finer["label bias"] == pytest.approx(math.sqrt(epsilon + epsilon**2))


def test_a_bound_says_whether_it_is_a_number():
    shape = master_bound(**SIZES)
    assert shape["meaning"].startswith("scaling only") and "approximation" in shape["meaning"]
    assert shape["sum"] == pytest.approx(sum(shape["terms"].values()))
    assert shape["largest"] == "residual points"
    known = Constants(*[0.5] * 8)
    assert master_bound(**SIZES, constants=known)["meaning"].startswith("a value")
    with pytest.raises(ValueError, match=r"`bias` must be positive"):
        Constants(bias=-1.0)


def test_the_balanced_rate():
    """cor:balanced-rate at d = 2, s = 3: width N^(1/8), error N^(-1/8)."""
    found = balanced(10**8, dim=2, smoothness=3)
    assert found["width"] == pytest.approx(10.0) and found["error"] == pytest.approx(0.1)
    # both terms that are balanced are equal there: m^(-2 gamma) = m N^(-1/4)
    gamma, m = 1 / 2, found["width"]
    assert m ** (-2 * gamma) == pytest.approx(m * (10**8) ** -0.25)
    with pytest.raises(ValueError, match=r"`smoothness` at least 3"):
        balanced(10, dim=2, smoothness=2)


def test_bias_of_labels():
    c = Constants(bias=2.0, truncation=3.0, truncation_rate=0.5)
    assert label_bias(0.01, 4.0, c) == pytest.approx(0.2 + 3 * math.exp(-2))
    assert label_bias(0.01, math.inf, c) == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"`dt` and `t_max` must be positive"):
        label_bias(0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"smoothness": 2}, "`smoothness` must be at least 3"),
        ({"widths": ()}, "`widths` must be positive"),
        ({"n_labels": 0}, "`n_labels` must be at least 1"),
        ({"level": 1.0}, "`level` must lie in"),
        ({"dim": 0}, "`dim` must be at least 1"),
    ],
)
def test_bad_sizes_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        master_bound(**(SIZES | change))
