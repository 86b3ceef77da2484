import functools

import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn import problem as problems
from fkpinn.domain import Box, Interval
from fkpinn.problem import Problem, muller_brown_committor
from fkpinn.reference import (
    ExactReference,
    FEMReference,
    GalerkinReference,
    catalogue_reference,
    fem_reference,
    find_reference,
    load_reference,
    stored_references,
)
from fkpinn.reference._fingerprint import same_problem

catalogue = functools.cache(problems.catalogue)  # building one checks its data: a second each

# independent computations, written down before this code existed
KNOWN = {
    "met": [
        ((0, 0), 19.966, 3e-4),
        ((1, 0), 18.9255, 3e-4),
        ((-1, 0), 18.9255, 3e-4),
        ((0, 1.5), 15.614, 3e-4),
    ],
    "committor": [((-0.05, 0.47), 0.815, 1e-3), ((-0.8, 0.6), 0.305, 2e-3)],
}


@pytest.mark.parametrize("name", KNOWN)
def test_stored_values(name):
    stored = load_reference(name)
    for x, value, tolerance in KNOWN[name]:
        assert stored.values([x])[0] == pytest.approx(value, rel=tolerance)
    assert stored.error_estimate is not None and stored.error_estimate <= 1e-5
    assert stored.provenance["problem"] == name
    assert stored.provenance["command"].startswith(f"fkpinn reference {name} --refine 0 --out ")
    assert stored.provenance["unknowns"] == stored.fields.shape[1]


@pytest.mark.parametrize(
    ("name", "h", "bar"),
    [("met", 0.25, 1e-3), pytest.param("committor", 0.25, 1e-4, marks=pytest.mark.slow)],
)
@pytest.mark.broad
def test_stored_agree_with_a_fresh_coarser_solve(name, h, bar):
    stored, fresh = load_reference(name), fem_reference(catalogue(name).problem, h=h)
    x = fresh.space.nodes
    gap = fresh.space.rms(stored.values(x) - fresh.fields[0]) / fresh.space.rms(fresh.fields[0])
    assert gap < bar
    assert fresh.error_estimate is not None and gap < 3 * fresh.error_estimate


@pytest.mark.broad
def test_committor_is_a_probability():
    field = load_reference("committor").fields
    assert np.min(field) >= 0.0 and np.max(field) <= 1.0
    assert load_reference("committor").space.rms(field[0]) == pytest.approx(0.575, abs=5e-4)


def test_met_is_symmetric_and_peaks_inside():
    stored = load_reference("met")
    x = np.random.default_rng(0).uniform([-0.9, -1.5], [0.9, 1.5], (500, 2))
    for flip in ([-1, 1], [1, -1]):
        np.testing.assert_allclose(stored.values(x * flip), stored.values(x), rtol=1e-4)
    assert stored.space.rms(stored.fields[0]) == pytest.approx(16.464, abs=1e-2)


@pytest.mark.broad
def test_choice():
    problem, exact = catalogue("poisson")
    assert isinstance(find_reference(problem, exact=exact), ExactReference)
    assert isinstance(catalogue_reference("poisson-5d"), ExactReference)
    assert isinstance(catalogue_reference("schrodinger"), GalerkinReference)
    met = catalogue_reference("met")
    assert isinstance(met, FEMReference)
    assert met.provenance == load_reference("met").provenance
    assert find_reference(Problem(Interval(0.0, 1.0), source=1.0), h=0.1).provenance["h"] == 0.1


@pytest.mark.broad
def test_a_problem_with_a_stored_name_but_other_data_is_solved():
    stored = load_reference("committor").fingerprint
    assert same_problem(catalogue("committor").problem, stored)
    assert not same_problem(catalogue("met").problem, stored)
    assert not same_problem(muller_brown_committor(beta=0.04), stored)
    other = Problem(Interval(0.0, 1.0), source=1.0, name="met")
    assert find_reference(other).provenance["elements"] == 32


def test_too_many_dimensions():
    with pytest.raises(
        ValueError, match=r"`problem` has dimension 3; .* Give its solution as `exact`"
    ):
        find_reference(Problem(Box([0] * 3, [1] * 3), source=lambda x: jnp.sum(x)))


def test_unknown_name():
    assert stored_references() == ("committor", "met")
    with pytest.raises(ValueError, match=r"`name` must be one of .* got 'poisson'"):
        load_reference("poisson")


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_stored_are_reproduced(name):
    stored = load_reference(name)
    again = fem_reference(catalogue(name).problem, h=stored.provenance["h"])
    now, then = (found.provenance["unknowns"] for found in (again, stored))
    if now == then and np.allclose(again.space.nodes, stored.space.nodes):
        np.testing.assert_allclose(again.fields, stored.fields, rtol=1e-8, atol=1e-10)
    else:  # rounding on another machine refined other elements: as near as half the mesh is
        assert now == pytest.approx(then, rel=1e-2)
        change = again.space.rms(stored.values(again.space.nodes) - again.fields[0])
        assert change < 1e-4 * again.space.rms(again.fields[0])


@pytest.mark.slow
def test_committor_changes_little_under_refinement():
    stored = load_reference("committor")
    finer = fem_reference(catalogue("committor").problem, h=0.5 * stored.provenance["h"])
    change = finer.space.rms(stored.values(finer.space.nodes) - finer.fields[0])
    assert change < 1e-4 * finer.space.rms(finer.fields[0])
