"""Families whose shape depends on parameters."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import fkpinn as fk
from fkpinn.domain import Shapes, known_domain
from fkpinn.sampling import sample_boundary, sample_interior, sobol_interior

_LEVEL = 1e-4

SHAPES = {
    "disk": lambda size: fk.Ball([0.1, 0.0], size),
    "interval": lambda size: fk.Interval(-size, 1.0, name=("left", "right")),
    "box": lambda size: fk.Box([-1.0, -size], [size, 1.0]),
    "ring": lambda size: fk.Ball([0, 0], 1.0) - fk.Ball([0, 0], size, name="hole"),
    "moved": lambda size: fk.Box([-1, -1], [1, 1]) - fk.Ball([size, 0.0], 0.2, name="hole"),
    "both": lambda size: fk.Box([-1, -1], [1, 1]) & fk.Ball([0, 0], 1 + size, name="round"),
    "either": lambda size: fk.Ball([0, 0], 0.5) | fk.Box([0, -size], [2, size], name="arm"),
    "cut": lambda size: (
        (fk.Box([-1, -1], [1, 1]) & fk.HalfSpace([1.0, 1.0], [0.5, 0.5], name="cut"))
        - fk.Ball([0, 0], size, name="hole")
    ),
    "shell": lambda size: fk.Ball([0] * 3, 1.0) - fk.Ball([0] * 3, size, name="hole"),
}
RANGE = (0.2, 0.4)
_FAST = ("interval", "ring", "cut")
NAMES = [name if name in _FAST else pytest.param(name, marks=pytest.mark.broad) for name in SHAPES]


def _family(name, **more):
    return fk.Problem(SHAPES[name], source=1.0, parameters={"size": RANGE}, check=False, **more)


def _questions(domain, x):
    """All that is asked of a set at a point; corners and surfaces of equal distance left aside."""
    return {
        "distance": domain.signed_distance(x),
        "level": jnp.minimum(domain.level(x), 0.0),
        "inside": domain.contains(x),
        "parts": domain.part_distance(x),
        "part": domain.part_at(x),
        "normal": domain.normal(x),
        "wall": domain.project(x),
        "factor": domain.factor(x, domain.parts),
    }


@pytest.mark.parametrize("name", NAMES)
def test_at_each_value_it_is_the_shape_of_that_value(name):
    problem = _family(name)
    rng = np.random.default_rng(0)
    dim = problem.dim
    for size in (0.2, 0.27, 0.4):
        known = SHAPES[name](size)
        lower, upper = known.bounding_box()
        x = jnp.asarray(lower + (upper - lower) * rng.uniform(-0.1, 1.1, (64, dim)), float)
        z = jnp.concatenate([jnp.full((64, 1), size), x], axis=1)
        asked = jax.jit(jax.vmap(lambda z: _questions(problem.domain_at(z), z[1:])))(z)
        right = jax.jit(jax.vmap(lambda x, known=known: _questions(known, x)))(x)
        for question, found in asked.items():
            np.testing.assert_allclose(
                found, right[question], atol=2e-5, rtol=2e-5, err_msg=question
            )
        assert repr(problem.at(size=size).domain) == repr(known)


@pytest.mark.parametrize("name", NAMES)
def test_points_have_the_law_of_the_parameter_and_lie_where_they_should(name):
    problem = _family(name)
    n, uniform = 4000, stats.uniform(RANGE[0], RANGE[1] - RANGE[0])
    z = sample_interior(problem, n, key=jr.key(0))
    depth = jax.vmap(lambda z: problem.domain_at(z).signed_distance(z[1:]))(z)
    assert np.all(np.asarray(depth) < 0)
    assert stats.kstest(np.asarray(z[:, 0]), uniform.cdf).pvalue > _LEVEL
    on = sample_boundary(problem, n, key=jr.key(1))

    def lies(z, normal):
        domain = problem.domain_at(z)
        out, inside = (domain.contains(z[1:] + step * normal) for step in (1e-3, -1e-3))
        return jnp.abs(domain.signed_distance(z[1:])), inside & ~out

    distance, between = jax.vmap(lies)(on.points, on.normals)
    assert np.max(np.asarray(distance)) < 1e-5 and np.mean(np.asarray(between)) > 0.99
    assert stats.kstest(np.asarray(on.points[:, 0]), uniform.cdf).pvalue > _LEVEL
    assert set(np.asarray(on.parts).tolist()) == set(range(len(problem.domain.parts)))


def test_places_are_uniform_in_each_set():
    """The share of a ring within a radius, given the radius of its hole."""
    z = np.asarray(sample_interior(_family("ring"), 8000, key=jr.key(2)))
    square = np.sum(z[:, 1:] ** 2, axis=1)
    share = (square - z[:, 0] ** 2) / (1 - z[:, 0] ** 2)
    assert stats.kstest(share, "uniform").pvalue > _LEVEL
    even = np.asarray(sobol_interior(_family("ring"), 1024))
    assert abs(even[:, 0].mean() - 0.3) < 2e-3
    assert abs(stats.spearmanr(even[:, 0], np.sum(even[:, 1:] ** 2, axis=1)).statistic) < 0.2


def test_labels_of_a_family_are_those_of_its_problems():
    def ring(z):  # - u'' - u' / r = 2, zero at both walls
        hole, r = z[0], np.hypot(z[1], z[2])
        return (1 - r**2) / 2 - (1 - hole**2) / 2 * np.log(r) / np.log(hole)

    points = np.array([[0.2, 0.3, 0.0], [0.3, 0.0, 0.5], [0.4, -0.5, 0.1]], np.float32)
    family = _family("ring")
    for scheme in ("spheres", "heun-bridge"):
        labels = fk.estimate_labels(family, points, n_paths=2000, scheme=scheme, dt=2e-4, seed=3)
        exact = np.array([ring(z) for z in points])
        slack = 4.5 * np.asarray(labels.stderr) + 0.01 * exact
        assert np.all(np.abs(np.asarray(labels.value) - exact) < slack)


def test_reflecting_walls_move_too():
    """A rod of unknown length with an insulated end: u = x (L - x / 2), for u'' = -1."""
    family = fk.Problem(
        lambda length: fk.Interval(0.0, length, name=("held", "free")),
        diffusion=2.0**0.5, source=1.0, boundary={"held": 0.0, "free": fk.Neumann(0.0)},
        parameters={"length": (0.5, 1.0)},
    )  # fmt: skip
    points = np.array([[0.5, 0.4], [1.0, 0.4]], np.float32)
    labels = fk.estimate_labels(family, points, n_paths=4000, dt=5e-4, seed=0)
    exact = points[:, 1] * (points[:, 0] - 0.5 * points[:, 1])
    assert np.all(np.abs(labels.value - exact) < 4.5 * np.asarray(labels.stderr) + 5e-3 * exact)


def test_a_built_in_boundary_value_moves_along():
    from fkpinn.nn import MLP, HardDirichlet

    family = _family("ring")
    network = MLP(*family.bounds(), [8], key=jr.key(0))
    u = HardDirichlet(network, family.domain, {"outer": 0.0, "hole": 1.0}, layout=family.layout)
    for size in RANGE:
        assert float(u(jnp.array([size, size, 0.0]))) == pytest.approx(1.0, abs=1e-5)
        assert float(u(jnp.array([size, 0.0, 1.0]))) == pytest.approx(0.0, abs=1e-5)
        assert 0.02 < float(u(jnp.array([size, 0.5, 0.2]))) < 0.98


def test_the_family_answers_for_all_its_sets():
    family = _family("disk")
    lower, upper = family.domain.bounding_box()
    np.testing.assert_allclose(lower, [-0.3, -0.4])
    np.testing.assert_allclose(upper, [0.5, 0.4])
    assert family.domain.centers() == ((0.1, 0.0),) and _family("moved").domain.centers() == ()
    assert _family("ring").domain.detail() == pytest.approx(0.2)
    assert isinstance(family.domain, Shapes) and family.dim == 2
    assert "Ball" in fk.problem.describe(family)["domain"]


@pytest.mark.parametrize(
    ("domain", "error", "words"),
    [
        (lambda radius: fk.Ball([0, 0], radius), TypeError, "got .* with the arguments radius"),
        (lambda: fk.Ball([0, 0], 1.0), TypeError, "arguments none"),
        (fk.Ball, TypeError, "center, radius"),
        (lambda size: size, TypeError, "it returned float"),
        (lambda size: fk.Ball([0, 0], size - 0.3), ValueError, "With size = 0.2: .*positive"),
        (lambda size: fk.Ball([0, 0], 0.3 - size), ValueError, "With size = 0.3: .*positive"),
        (lambda size: fk.Ball([0] * (2 + (size > 0.39)), 1.0), ValueError, "built in the same way"),
        (lambda size: fk.HalfSpace([1, 0], [size, 0]), TypeError, "of the shapes, `Box`"),
        (
            lambda size: fk.Polygon([[0, 0], [1, 0], [size, 1]]), TypeError,
            r"`Polygon\(vertices=...\)` cannot depend on parameters",
        ),
        (
            lambda size: fk.Ball([0, 0], 1.0) - fk.Ball([0, 0], 4 * size, name="hole"), ValueError,
            "With size = 0.3: `domain` is empty",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(domain, error, words):
    with pytest.raises(error, match=words):
        fk.Problem(domain, source=1.0, parameters={"size": RANGE})


def test_recipes_take_such_shapes_or_say_what_does():
    ring = SHAPES["ring"]
    made = fk.poisson(ring, 1.0, parameters={"size": RANGE})
    assert isinstance(made.domain, Shapes) and made.at(size=0.3).domain.parts == ("outer", "hole")
    heated = fk.heat(ring, 0.0, horizon=1.0, source=1.0, parameters={"size": RANGE})
    assert heated.n_coords == 4
    with pytest.raises(TypeError, match=r"got function\. Shapes that depend on parameters are for"):
        known_domain(ring)
    with pytest.raises(TypeError, match=r"must be a domain such as `Box` or `Ball`; got list\.$"):
        known_domain([0.0, 1.0])


def test_a_set_without_values_refuses_questions_about_points():
    family = _family("disk")
    with pytest.raises(ValueError, match=r"depends on parameters \(size\).*problem.at\(size"):
        family.domain.contains(jnp.zeros(2))
    with pytest.raises(ValueError, match="must lie inside the domain; 1 of 2"):
        points = np.array([[0.2, 0.35, 0.0], [0.4, 0.35, 0.0]], np.float32)
        fk.estimate_labels(family, points, n_paths=10)
