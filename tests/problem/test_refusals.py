"""Problems that cannot be right: each is refused when it is built."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.problem import first_eigenvalue

square = fk.Box([0, 0], [1, 1])
ring = fk.Ball([0, 0], 1) - fk.Ball([0, 0], 0.5, name="hole")
P = fk.Problem

refused = {
    "drift-shape": (lambda: P(square, drift=lambda x: x[0]), ValueError,
        r"`drift` must return shape \(2,\) at one point; got shape \(\)"),
    "drift-batch": (lambda: P(square, drift=lambda x: jnp.ones((7, 2))), ValueError,
        r"`drift` must return shape \(2,\).* got shape \(7, 2\).*not with a batch"),
    "drift-constant-shape": (lambda: P(square, drift=[1.0, 2.0, 3.0]), ValueError,
        r"`drift` must have shape \(2,\); got shape \(3,\)"),
    "diffusion-shape": (lambda: P(square, diffusion=lambda x: jnp.ones(3)), ValueError,
        r"`diffusion` must return shape \(\) or \(2,\) or \(2, m\)"),
    "source-tuple": (lambda: P(square, source=lambda x: (x[0], x[1])), TypeError,
        r"`source` must return one array of shape \(\); got tuple.*jnp.stack"),
    "source-int": (lambda: P(square, source=lambda x: jnp.ones((), int)), TypeError,
        r"`source` must return real floating-point numbers; got dtype int"),
    "source-complex": (lambda: P(square, source=lambda x: jax.lax.complex(x[0], x[1])), TypeError,
        r"`source` must return real .*; got dtype complex"),
    "source-complex-constant": (lambda: P(square, source=1j), TypeError,
        r"`source` must be a real number"),
    "source-text": (lambda: P(square, source="one"), TypeError, r"`source` must be a real number"),
    "source-nan-constant": (lambda: P(square, source=np.nan), ValueError,
        r"`source` must be finite; got nan"),
    "reaction-nan": (lambda: P(square, reaction=lambda x: jnp.sqrt(x[0] - 0.5)), ValueError,
        r"`reaction` must be finite in the closed domain; got \[nan\] at \[.*sample points.*root"),
    "source-inf": (lambda: P(square, source=lambda x: 1 / jnp.maximum(x[0] - 0.5, 0)), ValueError,
        r"`source` must be finite.*inf.*division by zero"),
    "boundary-nan": (lambda: P(square, boundary=lambda x: jnp.log(x[0] - 0.5)), ValueError,
        r"`boundary\['outer'\]: Dirichlet\(value=...\)` must be finite"),
    "terminal-nan": (lambda: P(square, horizon=1.0, terminal=lambda x: jnp.log(-x[0])), ValueError,
        r"`terminal` must be finite"),
    "arity": (lambda: P(square, drift=lambda t, x: x), TypeError,
        r"`drift` must be a function of one point, called with `x`; got function `<lambda>`"),
    "arity-timed": (lambda: P(square, drift=lambda x: x, horizon=1.0, terminal=0.0), TypeError,
        r"`drift` must be a function of one point, called with `t, x`"),
    "degenerate": (lambda: P(square, diffusion=[[1.0], [0.0]]), ValueError,
        r"`diffusion` must be elliptic.*eigenvalues are.*Add noise"),
    "degenerate-somewhere": (lambda: P(square, diffusion=lambda x: jnp.maximum(x[0] - 0.5, 0)),
        ValueError, r"`diffusion` must be elliptic"),
    "part-without-data": (lambda: P(ring, boundary={"outer": 0.0}), ValueError,
        r"`boundary` must have data for every boundary part .*nothing was given for \['hole'\]"),
    "data-without-part": (lambda: P(ring, boundary={"outer": 0, "hole": 0, "inner": 0}), ValueError,
        r"`boundary` has data for \['inner'\], which the domain does not have"),
    "boundary-shape": (lambda: P(square, boundary=lambda x: x), ValueError,
        r"`boundary\['outer'\]: Dirichlet\(value=...\)` must return shape \(\)"),
    "empty": (lambda: P(fk.Ball([0, 0], 1) & fk.Ball([3, 0], 1)), ValueError,
        r"`domain` is empty"),
    "empty-difference": (lambda: P(fk.Ball([0, 0], 1) - fk.Ball([0, 0], 2)), ValueError,
        r"`domain` is empty, or too thin"),
    "unbounded": (lambda: P(fk.HalfSpace([1, 0], [0, 0])), ValueError,
        r"`domain` must be bounded; got bounding box .*Intersect it with a box"),
    "seam": (lambda: P(square | fk.Box([1, 0], [2, 1])), ValueError,
        r"`domain` is a union of sets that touch .*without overlapping"),
    "lost-part": (lambda: P(square - fk.Ball([9, 9], 1, name="far")), ValueError,
        r"a boundary part 'far' that the set operations remove"),
    "anisotropic-neumann": (lambda: P(square, diffusion=[1.0, 2.0], reaction=1.0,
        boundary=fk.Neumann()), ValueError,
        r"`boundary\['outer'\]` is reflecting \(Neumann\), which needs isotropic `diffusion`"),
    "not-unique": (lambda: P(square, boundary=fk.Neumann()), ValueError,
        r"`boundary` has no Dirichlet part and no Robin part, and `reaction` is zero"),
    "robin-zero": (lambda: P(square, boundary=fk.Robin(0.0)), ValueError, r"not unique"),
    "robin-negative": (lambda: P(square, boundary=fk.Robin(-1.0)), ValueError,
        r"Robin\(coefficient=...\)` must not be negative.*got -1"),
    "too-negative": (lambda: P(square, diffusion=2**0.5, reaction=-20.0), ValueError,
        r"`reaction` is too negative: with values down to -20 the first eigenvalue .*-0\.2"),
    "too-negative-1d": (lambda: P(fk.Interval(0, 1), reaction=-6.0), ValueError, r"too negative"),
    "horizon-alone": (lambda: P(square, horizon=1.0), ValueError, r"`horizon` and `terminal`"),
    "horizon-negative": (lambda: P(square, horizon=-1.0, terminal=0.0), ValueError,
        r"`horizon` must be a positive finite time; got -1.0"),
    "domain-type": (lambda: P([0, 1]), TypeError,
        r"`domain` must be a domain .*got list|parameter 'domain'"),
    "beta": (lambda: fk.mean_exit_time(square, beta=0.0), ValueError, r"`beta` must be positive"),
    "potential": (lambda: fk.mean_exit_time(square, potential=lambda: 0), TypeError, r""),
    "conductivity": (lambda: fk.heat(square, 0.0, horizon=1.0, conductivity=-1.0), ValueError,
        r"`conductivity` must be a positive number or 2 of them; got -1.0"),
    "committor-part": (lambda: fk.committor(square), ValueError,
        r"`start` must name a boundary part .*got 'A'"),
    "committor-same": (lambda: fk.committor(ring, start="hole", target="hole"), ValueError,
        r"`start` and `target` must differ"),
    "name": (lambda: fk.catalogue("poison"), ValueError,
        r"`name` must be a problem of the catalogue.*got 'poison'. Did you mean 'poisson'"),
}  # fmt: skip


@pytest.mark.parametrize("what", refused)
def test_refused(what):
    build, error, message = refused[what]
    with pytest.raises(error, match=f"(?s){message}"):
        build()


def test_a_manufactured_problem_refuses_unknown_parts():
    with pytest.raises(ValueError, match=r"`boundary` names \['left'\]; the domain's parts are"):
        fk.manufactured(square, lambda x: x[0], boundary={"left": fk.Neumann})


@pytest.mark.broad
def test_eigenvalues_of_known_operators():
    disk = fk.poisson(fk.Ball([0, 0], 1))
    mixed = fk.poisson(fk.Interval(0, 1, name=("l", "r")), boundary={"l": fk.Neumann(), "r": 0.0})
    robin = fk.poisson(fk.Interval(0, 1, name=("l", "r")), boundary={"l": fk.Robin(1.0), "r": 0.0})
    skew = fk.Problem(square, diffusion=[[1.0, 0.5], [0.0, 0.8]])
    drifted = fk.Problem(fk.Interval(0, 1), drift=[3.0], diffusion=2**0.5)
    assert first_eigenvalue(fk.poisson(square)) == pytest.approx(2 * np.pi**2, rel=0.01)
    assert first_eigenvalue(disk) == pytest.approx(5.7832, rel=0.03)
    assert first_eigenvalue(mixed) == pytest.approx(np.pi**2 / 4, rel=0.01)
    assert first_eigenvalue(robin) == pytest.approx(2.02876**2, rel=0.01)  # tan k = -k
    assert first_eigenvalue(drifted) == pytest.approx(np.pi**2 + 9 / 4, rel=0.05)
    # Faber-Krahn: below the value for the circle of equal area after straightening the noise
    assert 0.5 * np.pi**2 * 0.5 < first_eigenvalue(skew) < 0.5 * np.pi**2 * 2.5


def test_negative_reaction_within_bounds_is_accepted():
    fk.Problem(square, diffusion=2**0.5, reaction=-19.0)  # first eigenvalue 0.74
    fk.Problem(fk.Box([0] * 3, [1] * 3), diffusion=2**0.5, reaction=-20.0)  # 3 pi^2 = 29.6


def test_what_cannot_be_verified_is_said():
    with pytest.warns(UserWarning, match="could not be verified that the Feynman-Kac expectation"):
        fk.Problem(fk.Box([0] * 3, [1] * 3), diffusion=2**0.5, reaction=-40.0)
    with pytest.warns(UserWarning, match="could not be verified"):
        fk.Problem(fk.Ball([0] * 3, 1), drift=lambda x: -x, reaction=-1.0)


def test_checks_can_be_left_out():
    fk.Problem(square, reaction=-20.0, boundary=fk.Neumann(), check=False)
