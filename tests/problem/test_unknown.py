"""Fields made of parameters: splines that sum to one, priors that know lines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk

LINE = fk.UnknownField("q", [0.0], [2.0], 6, range=(0.5, 3.0))
PLANE = fk.UnknownField("k", [0.0, -1.0], [1.0, 1.0], (4, 5), range=(1.0, 2.0))


def along(field, controls, places):
    """The field at many places."""
    values = dict(zip(field.names, np.ravel(controls), strict=True))
    return np.asarray(jax.vmap(lambda x: field(x, **values))(jnp.asarray(places)))


def test_names_and_ranges():
    assert LINE.names == ("q_0", "q_1", "q_2", "q_3", "q_4", "q_5")
    assert PLANE.names[:2] == ("k_0_0", "k_0_1") and len(PLANE.names) == 20
    assert LINE.parameters["q_5"] == fk.Parameter(0.5, 3.0)


def test_splines_make_polynomials_of_degree_one_and_stay_in_their_range():
    """Controls stand at the grid, which goes one step beyond both ends."""
    x = np.linspace(0.0, 2.0, 41)[:, None]
    grid = 2.0 / 3.0 * np.arange(-1, 5)
    np.testing.assert_allclose(along(LINE, np.ones(6), x), 1.0, rtol=1e-6)
    np.testing.assert_allclose(along(LINE, 1.0 + 0.5 * grid, x), 1.0 + 0.5 * x[:, 0], rtol=1e-6)
    rough = np.array([0.5, 3.0, 0.5, 3.0, 0.5, 3.0])
    found = along(LINE, rough, x)
    assert np.all((found > 0.5) & (found < 3.0)) and np.ptp(found) > 0.5


def test_two_axes():
    rng = np.random.default_rng(0)
    places = rng.uniform([0.0, -1.0], [1.0, 1.0], (30, 2))
    first, second = np.arange(-1.0, 3.0), -1.0 + np.arange(-1.0, 4.0)
    found = along(PLANE, 2.0 + first[:, None] - 0.3 * second[None], places)
    np.testing.assert_allclose(found, 2.0 + places[:, 0] - 0.3 * places[:, 1], rtol=1e-6)


def test_second_derivatives_are_continuous():
    """Across a knot, where the third one jumps."""
    controls = np.array([1.0, 2.0, 0.7, 1.4, 2.2, 0.9])
    values = dict(zip(LINE.names, controls, strict=True))
    bend = jax.vmap(jax.grad(jax.grad(lambda x: LINE(x[None], **values))))
    knot = 2.0 / 3.0
    left, right = bend(jnp.array([knot - 1e-6, knot + 1e-6]))
    assert float(left) == pytest.approx(float(right), rel=1e-3)
    # at a knot it is the second difference of the controls
    assert float(left) == pytest.approx((2.0 - 2 * 0.7 + 1.4) / knot**2, rel=1e-3)


def test_smooth_fields_are_likely():
    spacing, bend = 2.0 / 3.0, 4.0
    log = lambda controls: float(LINE.smooth(bend)(**dict(zip(LINE.names, controls, strict=True))))
    assert log(1.0 + 0.2 * np.arange(6)) == pytest.approx(0.0, abs=1e-12)  # a line
    bent = 0.5 * bend * (spacing * np.arange(6.0)) ** 2  # its second derivative is `bend`
    assert log(bent) == pytest.approx(-0.5 * 4)
    plane = PLANE.smooth(1.0)(**dict.fromkeys(PLANE.names, 1.5))
    assert float(plane) == 0.0


def test_a_field_is_a_coefficient_of_a_family():
    """With other parameters beside its own; in time too."""
    family = fk.Problem(
        fk.Interval(0.0, 2.0), diffusion=lambda x, s, **field: s * jnp.sqrt(LINE(x, **field)),
        reaction=LINE, source=1.0, parameters={"s": (0.5, 1.0), **LINE.parameters},
    )  # fmt: skip
    one = family.at(s=0.5, **dict.fromkeys(LINE.names, 2.0))
    assert float(one.reaction(jnp.array([0.3]))) == pytest.approx(2.0)
    assert float(one.covariance(jnp.array([0.3]))[0, 0]) == pytest.approx(0.5)
    timed = fk.Problem(
        fk.Interval(0.0, 2.0), diffusion=1.0, reaction=LINE, horizon=1.0, terminal=1.0,
        boundary=1.0, parameters=LINE.parameters, check=False,
    )  # fmt: skip
    z = jnp.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.3])
    assert float(timed.reaction(z)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 3}, "at least 4"),
        ({"upper": [-1.0]}, "corners of a box"),
        ({"upper": [1.0, 2.0]}, "corners of a box"),
        ({"range": (2.0, 1.0)}, "`lower` below `upper`"),
    ],
)
def test_refusals(changes, message):
    given = {"lower": [0.0], "upper": [1.0], "n": 5, "range": (0.0, 1.0)} | changes
    with pytest.raises(ValueError, match=message):
        fk.UnknownField("q", given["lower"], given["upper"], given["n"], range=given["range"])
    with pytest.raises(ValueError, match="must be positive"):
        LINE.smooth(0.0)
