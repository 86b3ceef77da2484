"""The catalogue's numbers, the operator's terms and the grid behind eigenvalues, one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.problem import boundary_residual, generator, residual
from fkpinn.problem import catalogue as named
from fkpinn.problem._catalogue import double_well, muller_brown
from fkpinn.problem._checks import _times
from fkpinn.problem._spectrum import box_eigenvalue, first_eigenvalue

PI = np.pi
AT = jnp.asarray([0.3, 0.2])
sin, cos, exp = np.sin, np.cos, np.exp


def test_potentials_are_the_published_ones():
    """Minima and saddle of Müller and Brown (Theor. Chim. Acta 53, 1979)."""
    look = jax.jit(jax.value_and_grad(muller_brown))
    for x, y, known in (
        (-0.558, 1.442, -146.700),
        (0.623, 0.028, -108.167),
        (-0.050, 0.467, -80.768),
        (-0.822, 0.624, -40.665),
    ):
        value, slope = look(jnp.asarray([x, y]))
        assert float(value) == pytest.approx(known, abs=0.01)
        assert np.linalg.norm(slope) < 2.0  # of more than a thousand nearby
    np.testing.assert_allclose(double_well(AT), 0.25 * (0.09 - 1) ** 2 + 0.5 * 0.04, rtol=1e-12)


def test_problems_of_the_paper():
    poisson = named("poisson")
    modes = [(3, 1, 4), (6, 5, 1), (3, 2, 2), (4, 5, 6)]
    waves = [a * sin(j * PI * 0.3) * sin(k * PI * 0.2) for a, j, k in modes]
    np.testing.assert_allclose(poisson.exact(AT), sum(waves), rtol=1e-12)
    source = sum(PI**2 * (j**2 + k**2) * w for w, (_, j, k) in zip(waves, modes, strict=True))
    np.testing.assert_allclose(poisson.problem.source(AT), source, rtol=1e-12)
    np.testing.assert_allclose(poisson.problem.bounds(), [[0, 0], [1, 1]])

    schrodinger = named("schrodinger").problem
    wells = -5 * (cos(4 * PI * 0.3) + cos(4 * PI * 0.2))
    np.testing.assert_allclose(schrodinger.reaction(AT), wells, rtol=1e-12)
    np.testing.assert_allclose(schrodinger.source(AT), 50 * sin(1.5) * sin(1.0), rtol=1e-12)
    np.testing.assert_allclose(schrodinger.bounds(), [[-1, -1], [1, 1]])
    np.testing.assert_allclose(schrodinger.covariance(AT), np.eye(2))

    met = named("met").problem
    np.testing.assert_allclose(met.drift(AT), [-0.3 * (0.09 - 1), -0.2], rtol=1e-12)
    np.testing.assert_allclose(met.covariance(AT), 2 / 5 * np.eye(2), rtol=1e-12)
    assert float(met.source(AT)) == 1.0
    np.testing.assert_allclose(met.domain.diameter(), 4.0, rtol=0.5)
    np.testing.assert_allclose(np.max(np.abs(met.bounds())), 2.0, rtol=1e-12)

    committor = named("committor").problem
    np.testing.assert_allclose(committor.bounds(), [[-1.5, -0.2], [1.2, 2.0]])
    np.testing.assert_allclose(committor.covariance(AT), 40 * np.eye(2), rtol=1e-12)
    for part, center, value in (("A", (-0.5582, 1.4417), 0.0), ("B", (0.6235, 0.0281), 1.0)):
        inside = jnp.asarray(center)
        index = committor.domain.parts.index(part)
        np.testing.assert_allclose(committor.domain.part_distance(inside)[index], 0.2, rtol=1e-9)
        assert float(committor.boundary[part].value(inside)) == value
    assert isinstance(committor.boundary["outer"], fk.Neumann)

    heat = named("heat2d-ms")
    z = jnp.asarray([1.0, 0.33, 0.2])
    decay = 400 * PI**2 / (500 * PI) ** 2 + 1.0
    wave = sin(20 * PI * 0.33) * sin(PI * 0.2)
    np.testing.assert_allclose(heat.exact(z), exp(-decay) * wave, rtol=1e-9)
    np.testing.assert_allclose(heat.problem.terminal(z[1:]), wave, rtol=1e-9)
    np.testing.assert_allclose(heat.problem.bounds(), [[0, 0, 0], [5, 1, 1]])


def test_problems_of_our_own():
    five, ten, fifty = (jnp.linspace(0.1, 0.9, n) for n in (5, 10, 50))
    np.testing.assert_allclose(named("poisson-5d").exact(five), np.sum(sin(PI / 2 * five)))
    np.testing.assert_allclose(named("laplace-10d").exact(ten), np.sum(ten[::2] * ten[1::2]))
    np.testing.assert_allclose(named("poisson-50d").exact(fifty), np.sum(fifty**2))
    for name, n in (("poisson-5d", 5), ("laplace-10d", 10), ("poisson-50d", 50)):
        np.testing.assert_allclose(named(name).problem.bounds(), [[0] * n, [1] * n])

    variable, exact = named("variable-diffusion")
    np.testing.assert_allclose(exact(AT), sin(0.8) + exp(0.03), rtol=1e-12)
    sigma = [[1 + 0.3 * sin(0.2), 0.12], [0.04, 0.8 + 0.2 * cos(0.3)]]
    np.testing.assert_allclose(variable.sigma(AT), sigma, rtol=1e-12)
    np.testing.assert_allclose(variable.drift(AT), [-0.3, -0.3 + 0.3 * 0.04], rtol=1e-12)
    np.testing.assert_allclose(variable.reaction(AT), 1.09, rtol=1e-12)
    star = [(-1, -1), (1, -1), (0.6, 0), (1, 1), (0, 0.4), (-1, 1)]
    for corner in star:
        distance = variable.domain.signed_distance(jnp.asarray(corner, float))
        np.testing.assert_allclose(distance, 0.0, atol=1e-12)
    np.testing.assert_allclose(variable.domain.volume(), 3.0)

    robin, exact = named("robin")
    np.testing.assert_allclose(exact(AT), cos(0.6) * exp(0.1) + 0.3, rtol=1e-12)
    np.testing.assert_allclose(robin.drift(AT), [-0.2, 0.3], rtol=1e-12)
    np.testing.assert_allclose(robin.diffusion(AT), 1.075, rtol=1e-12)
    np.testing.assert_allclose(robin.boundary["outer"].coefficient(AT), 1.02, rtol=1e-12)
    np.testing.assert_allclose(robin.domain.signed_distance(jnp.asarray([0.2, 0.1])), 0.35)
    np.testing.assert_allclose(robin.domain.signed_distance(jnp.asarray([2.0, 0.0])), 1.0)

    ball, exact = named("exit-ball-3d")
    x = jnp.asarray([0.1, 0.2, 0.3])
    np.testing.assert_allclose(exact(x), 0.86 / 6, rtol=1e-12)
    np.testing.assert_allclose(ball.bounds(), [[-1] * 3, [1] * 3])

    ou, exact = named("ornstein-uhlenbeck")
    z, left = jnp.asarray([0.25, 0.3, 0.2]), 0.75
    variance = 0.32 * (1 - exp(-2 * left))
    expected = exp(-0.5 * variance * 5) * cos(exp(-left) * 0.8)
    np.testing.assert_allclose(exact(z), expected, rtol=1e-12)
    np.testing.assert_allclose(ou.drift(z), [-0.3, -0.2], rtol=1e-12)
    assert float(ou.diffusion(z)) == pytest.approx(0.8) and ou.horizon == 1.0
    np.testing.assert_allclose(ou.terminal(z[1:]), cos(0.8), rtol=1e-12)
    np.testing.assert_allclose(ou.boundary["outer"].value(z), expected, rtol=1e-12)


@pytest.mark.parametrize("timed", [False, True], ids=["elliptic", "parabolic"])
@pytest.mark.parametrize("kind", ["number", "diagonal", "matrix"])
def test_the_operator_term_by_term(kind, timed):
    """On a polynomial, whose derivatives are numbers."""
    sigma = {"number": 2.0, "diagonal": [2.0, 3.0], "matrix": [[2.0, 1.0, 0.0], [0.5, 0.0, 3.0]]}
    given = {"horizon": 1.0, "terminal": 0.0} if timed else {}
    problem = fk.Problem(
        fk.Box([0, 0], [1, 1]), drift=[5.0, -7.0], diffusion=sigma[kind], reaction=11.0,
        source=13.0, check=False, **given,
    )  # fmt: skip
    u = lambda z: (
        17.0
        + 2 * z[-2]
        + 3 * z[-1]
        + z[-2] ** 2
        + 4 * z[-2] * z[-1]
        - z[-1] ** 2
        + (19.0 * z[0] if timed else 0.0)
    )
    z = jnp.zeros(3 if timed else 2)
    matrix = np.asarray(sigma[kind])
    a = matrix**2 * np.eye(2) if kind != "matrix" else matrix @ matrix.T
    second = 0.5 * (2 * a[0, 0] + 8 * a[0, 1] - 2 * a[1, 1])
    expected = second + 5 * 2 - 7 * 3 + (19.0 if timed else 0.0)
    normal = jnp.asarray([0.6, -0.8])
    conditions = (fk.Dirichlet(23.0), fk.Neumann(23.0), fk.Robin(3.0, 23.0))
    bound = [condition.bound("outer", problem.layout) for condition in conditions]
    everything = lambda z: (
        generator(problem, u, z),
        residual(problem, u, z),
        [boundary_residual(problem, condition, u, z, normal) for condition in bound],
    )
    rate, off, on_wall = jax.jit(everything)(z)
    np.testing.assert_allclose(rate, expected, rtol=1e-12)
    np.testing.assert_allclose(off, expected - 11 * 17 + 13, rtol=1e-12)
    walls = [17 - 23, 1.2 - 2.4 - 23, 1.2 - 2.4 + 51 - 23]
    np.testing.assert_allclose(on_wall, walls, rtol=1e-12)


@pytest.mark.broad
def test_eigenvalues_of_slanted_noise():
    """A rotation of the noise changes nothing; a = [[1, 0.9], [0.9, 1]] makes the disk an ellipse.

    Its axes are sqrt(1 / 1.9) and sqrt(1 / 0.1), and 2.7335 is from Ritz's method with polynomials.
    """
    disk = fk.Ball([0.3, 0.0], 1.0)
    value = lambda sigma: first_eigenvalue(fk.Problem(disk, diffusion=sigma, check=False))
    turned = [[cos(0.6), -sin(0.6)], [sin(0.6), cos(0.6)]]
    assert value(turned) == pytest.approx(0.5 * 5.7832, rel=0.03)
    for slant in (0.9, -0.9):
        assert value([[1.0, 0.0], [slant, 0.19**0.5]]) == pytest.approx(2.7335, rel=0.02)


def test_a_bound_from_the_box():
    box = fk.Box([-1.0, 0.0, 1.0], [1.0, 3.0, 5.0])
    problem = fk.Problem(box, diffusion=0.5, check=False)
    first = 0.125 * PI**2 * (1 / 4 + 1 / 9 + 1 / 16)
    assert box_eigenvalue(problem, -0.3) == pytest.approx(first - 0.3)
    assert box_eigenvalue(problem, -first - 1e-6) is None
    assert box_eigenvalue(fk.Problem(box, drift=[1.0, 0.0, 0.0], check=False), 0.0) is None
    assert box_eigenvalue(fk.Problem(box, boundary=fk.Robin(1.0), check=False), 0.0) is None


def test_sample_times_fill_the_horizon_from_its_start():
    problem = fk.Problem(fk.Interval(0, 1), horizon=2.0, terminal=0.0, check=False)
    np.testing.assert_allclose(_times(problem, np.zeros((4, 1))), [0.0, 0.5, 1.0, 1.5])


def test_numbers_and_shapes_at_their_limits():
    line = fk.Interval(0, 1)
    assert fk.Problem(line, drift=2.0, check=False).drift.shape == (1,)
    np.testing.assert_allclose(fk.heat(fk.Box([0, 0], [1, 1]), 0.0, horizon=1.0,
        conductivity=(2.0, 0.5)).diffusion(jnp.zeros(3)), [2.0, 1.0])  # fmt: skip
    with pytest.raises(ValueError, match="`conductivity` must be a positive number or 2 of them"):
        fk.heat(fk.Box([0, 0], [1, 1]), 0.0, horizon=1.0, conductivity=(1.0, 0.0))
    assert fk.Robin(2.0).flux == fk.Neumann().flux == fk.Dirichlet().value == 0.0
    # isotropic to rounding is isotropic; a percent off is not
    near = lambda off: fk.Problem(
        fk.Box([0, 0], [1, 1]), diffusion=[1.0, 1.0 + off], reaction=1.0, boundary=fk.Neumann()
    )
    near(1e-7)
    with pytest.raises(ValueError, match="needs isotropic `diffusion`"):
        near(1e-2)
    # a Robin coefficient that is zero somewhere still holds the solution
    fk.Problem(line, boundary=fk.Robin(lambda x: x[0]))


def test_what_recipes_leave_out_is_zero():
    square, start = fk.Box([0.0, 0.0], [1.0, 1.0]), lambda x: x[0] * (1.0 - x[0]) * x[1]
    for problem in (
        fk.poisson(square),
        fk.schrodinger(square, 1.0, 1.0),
        fk.mean_exit_time(square),
        fk.heat(square, start, horizon=1.0),
        fk.backward_kolmogorov(square, start, horizon=1.0),
        fk.reaction_diffusion(square, lambda u: u, start, horizon=1.0),
    ):
        wall = problem.layout.at_end(jnp.asarray([0.0, 0.3])) if problem.timed else AT
        for condition in problem.conditions():
            assert float(condition.payoff(wall)) == 0.0


@pytest.mark.broad
def test_waves_are_those_of_the_published_draw():
    """Coefficients are NumPy's `default_rng(0)`."""
    _, exact = named("fully-nonlinear-20d")
    at = jnp.concatenate([jnp.asarray([0.5]), jnp.ones(20)])
    np.testing.assert_allclose(float(exact(at)), 1.4582709056309746, rtol=1e-9)


def test_noise_across_a_wall():
    """Standard deviation along the normal: of a number, a diagonal and a matrix."""
    normal, dt = jnp.asarray([0.6, 0.8]), jnp.asarray(0.04)
    box = fk.Box([0.0, 0.0], [1.0, 1.0])
    for sigma, known in (
        (0.7, 0.7),
        ([0.5, 2.0], np.hypot(0.3, 1.6)),
        ([[0.5, 1.0], [0.0, 2.0]], np.hypot(0.3, 0.6 + 1.6)),
    ):
        problem = fk.Problem(box, diffusion=sigma, check=False)
        found = problem.dynamics.spread(AT, lambda: normal, dt)
        np.testing.assert_allclose(found, known * 0.2, rtol=1e-6)
