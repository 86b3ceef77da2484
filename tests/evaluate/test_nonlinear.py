"""Certificates and values of nonlinear problems: limits hold what linear paths leave out."""

import equinox as eqx
import helpers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn._streams import Stream
from fkpinn.evaluate import DefectPaths
from fkpinn.evaluate._remainder import _tried, remainder

BRATU, BRATU_EXACT = fk.catalogue("bratu")


def quadratic(dim=2):
    """Control without noise in the data: the exact solution is the square of the distance."""
    # u_t + Lap u - |grad u|^2 + f = 0 with u = exp(-(1 - t)) |x|^2 / 4
    exact = lambda z: 0.25 * jnp.exp(z[0] - 1.0) * jnp.sum(z[1:] ** 2)

    def source(t, x):
        size = 0.25 * jnp.exp(t - 1.0)
        return -size * jnp.sum(x**2) - 2 * dim * size + 4 * size**2 * jnp.sum(x**2)

    problem = fk.Problem(
        fk.Space(dim), diffusion=2**0.5, horizon=1.0, source=source,
        terminal=lambda x: 0.25 * jnp.sum(x**2), measure=fk.Along([0.5] * dim),
        nonlinearity=lambda t, x, u, p: -jnp.sum(p**2), check=False,
    )  # fmt: skip
    return problem, exact


def bent(dim=2):
    """A fully nonlinear equation, u = sin(t + x_1) + x_2^2 / 4."""
    exact = lambda z: jnp.sin(z[0] + z[1]) + 0.25 * z[2] ** 2
    add = lambda Q: 0.2 * jnp.sum(jnp.sqrt(0.1 + jnp.diag(Q) ** 2))

    def source(t, x):
        q = jnp.diag(jnp.stack([-jnp.sin(t + x[0]), jnp.asarray(0.5, x.dtype)]))
        return -jnp.cos(t + x[0]) - 0.5 * jnp.trace(q) - add(q)

    problem = fk.Problem(
        fk.Space(dim), diffusion=1.0, horizon=1.0, source=source, measure=fk.Along([0.0] * dim),
        terminal=lambda x: exact(jnp.concatenate([jnp.ones(1, x.dtype), x])),
        nonlinearity=lambda t, x, u, p, Q: add(Q), check=False,
    )  # fmt: skip
    return problem, exact


CONTROL, CONTROL_EXACT = quadratic()
BENT, BENT_EXACT = bent()
CASES = {
    "values": (BRATU, BRATU_EXACT, lambda x: jnp.cos(2 * x[0]) * (1 - jnp.sum(x**2))),
    "gradients": (CONTROL, CONTROL_EXACT, lambda z: jnp.sin(1.5 * z[1]) * jnp.cos(z[0]) * z[2]),
    "bends": (BENT, BENT_EXACT, lambda z: jnp.sin(1.5 * z[1]) * jnp.cos(z[0]) * z[2]),
}


class Wrong(eqx.Module):
    """A solution and so much of a shape; what is compiled for one serves all sizes."""

    kind: str = eqx.field(static=True)
    size: jax.Array

    def __call__(self, z):
        _, exact, shape = CASES[self.kind]
        return exact(z) + self.size.astype(z.dtype) * shape(z)


@pytest.mark.broad
@pytest.mark.parametrize("kind", CASES)
def test_limits_hold_the_error_of_a_candidate(kind):
    """Whether it is good or not so good; the remainder falls with the square of the error."""
    problem, exact, _ = CASES[kind]
    points = fk.sample_interior(problem, 4000, key=jax.random.key(9))
    truth = jax.jit(jax.vmap(exact))(points)
    values = eqx.filter_jit(lambda f: jax.vmap(f)(points))
    left = []
    for size in (0.03, 0.003):
        wrong = Wrong(kind, jnp.asarray(size))
        found = fk.certify(problem, wrong, n_points=128, n_paths=16, dt=0.01, seed=1)
        true = jnp.sqrt(jnp.mean((values(wrong) - truth) ** 2) / jnp.mean(truth**2))
        assert found.ci_low <= float(true) <= found.ci_high
        left.append(found.remainder / float(true))
    assert left[0] < 0.5 and left[1] < 0.2 * left[0]


@pytest.mark.broad
def test_a_candidate_that_is_too_far_is_refused_in_words():
    far = Wrong("gradients", jnp.asarray(10.0))
    with pytest.raises(fk.NoCertificate, match=r"too far from the solution.*Train it further"):
        fk.certify(CONTROL, far, n_points=128, n_paths=16, dt=0.01, seed=1)


@pytest.mark.parametrize("kind", helpers.of_which_fast(CASES, "gradients"))
def test_the_remainder_is_of_the_size_of_what_is_left_out(kind):
    """Many paths leave the remainder alone: it is below the estimate, and not by orders."""
    problem, exact, _ = CASES[kind]
    wrong = Wrong(kind, jnp.asarray(0.3))
    points = np.asarray(fk.sample_interior(problem, 12, key=jax.random.key(2)))
    paths = DefectPaths(problem, wrong, points, dtype="float32", dt=0.01, seed=0)
    found = paths.run(1000)
    lacks = np.asarray(jax.jit(jax.vmap(lambda z: exact(z) - wrong(z)))(jnp.asarray(points)))
    missed = np.abs(np.asarray(found.value) - lacks)
    allowed = remainder(problem, wrong, found)
    noise = 4 * np.asarray(found.stderr)
    assert np.all(missed < allowed + noise)
    assert np.max(missed) > 0.02 * np.median(allowed)


def test_second_derivatives_of_an_error_may_be_large_where_there_is_little_noise():
    """What is tried for a problem is the same in coordinates of another size."""

    def most(scale):
        units = np.array([1.0, scale])
        bending = lambda Q: 0.2 * jnp.sum(jnp.sqrt(0.1 + (jnp.diag(Q) * units**2) ** 2))
        exact = lambda t, x: jnp.sin(t + x[0]) + 0.25 * (x[1] / scale) ** 2
        problem = fk.Problem(
            fk.Space(2), diffusion=units, horizon=1.0, measure=fk.Along([0.0, 0.0]),
            terminal=lambda x: exact(1.0, x), nonlinearity=lambda t, x, u, p, Q: bending(Q),
            check=False,
        )  # fmt: skip
        wrong = lambda z: exact(z[0], z[1:]) + 0.1 * jnp.cos(2.0 * z[1]) * z[2] / scale
        points = Stream(5).generator.uniform(size=(7, 3)) * np.array([1.0, 1.0, scale])
        bends = np.concatenate([np.diag([1.0, 0.0])[None], np.diag([0.0, 1.0])[None]])
        with precision("float64"):
            at = jnp.asarray(points)
            return np.asarray(_tried(problem, problem.nonlinearity, wrong, at, jnp.asarray(bends)))

    same = most(1.0)
    assert np.all(same > 0)
    np.testing.assert_allclose(most(0.1), same, rtol=1e-9)


@pytest.mark.broad
def test_values_with_limits_that_hold():
    wrong = Wrong("gradients", jnp.asarray(0.05))
    points = np.array([[0.0, 0.5, 0.5], [0.5, 1.0, -0.4]])
    found = fk.value_with_interval(CONTROL, wrong, points, n_paths=4000, seed=3)
    truth = np.asarray(jax.vmap(CONTROL_EXACT)(jnp.asarray(points)))
    assert np.all((found.low <= truth) & (truth <= found.high))
    assert np.all(found.high - found.low < 0.02)
