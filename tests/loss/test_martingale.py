"""Pieces of paths along which a solution is a martingale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.loss import MartingaleTerm

EXACT = lambda z: 0.25 * jnp.exp(z[0] - 1.0) * jnp.sum(z[1:] ** 2)


def source(t, x):
    size = 0.25 * jnp.exp(t - 1.0)
    return -size * jnp.sum(x**2) - 4 * size + 4 * size**2 * jnp.sum(x**2)


CONTROL = fk.Problem(  # u_t + Lap u - |grad u|^2 + f = 0
    fk.Space(2), diffusion=2**0.5, horizon=1.0, source=source,
    terminal=lambda x: 0.25 * jnp.sum(x**2), measure=fk.Along([0.0, 0.0]),
    nonlinearity=lambda t, x, u, p: -jnp.sum(p**2), check=False,
)  # fmt: skip


def wave():
    """A linear equation with every coefficient, between two walls, and its solution."""
    exact = lambda t, x: jnp.exp(-t) * jnp.sin(x[0])
    return fk.manufactured(
        fk.Interval(0.0, 2.0), exact, drift=lambda t, x: 0.5 - x, diffusion=0.7,
        reaction=lambda t, x: 1.0 + x[0], horizon=1.0,
    ), lambda z: exact(z[0], z[1:])  # fmt: skip


def lacks(problem, u, n_steps, whole, n=400, **more):
    key = jax.random.key(0)
    how = {"whole": whole, "dtype": jnp.float64, "key": key}
    return np.asarray(MartingaleTerm.of(problem, n, n_steps, **how, **more).defects(u))


def test_the_solution_lacks_little_and_less_with_shorter_steps():
    """Euler: one half in the mean square of whole paths, for a nonlinear equation too."""
    sizes = [np.sqrt(np.mean(lacks(CONTROL, EXACT, k, True) ** 2)) for k in (5, 20, 80)]
    assert sizes[0] < 0.5 and sizes[1] < 0.75 * sizes[0] and sizes[2] < 0.75 * sizes[1]
    wrong = lambda z: EXACT(z) + 0.3
    assert np.sqrt(np.mean(lacks(CONTROL, wrong, 80, True) ** 2)) > 0.25


def test_single_steps_see_the_residual():
    """The mean over the noise of one short step is the residual times the step."""
    problem, exact = wave()
    wrong = lambda z: exact(z) + 0.2 * z[1] ** 2
    term = MartingaleTerm.of(problem, 4000, 1, dtype=jnp.float64, key=jax.random.key(1))
    inside = np.asarray(problem.layout.space(term.starts))[:, 0]
    deep = (inside > 0.5) & (inside < 1.5)  # no wall within a step
    defects = lambda u: np.asarray(jax.jit(lambda: term.defects(u))())[deep]
    found = defects(wrong) / 0.01
    wanted = np.asarray(
        jax.jit(jax.vmap(lambda z: fk.problem.residual(problem, wrong, z)))(term.starts)
    )[deep]  # fmt: skip
    noise = np.std(found - wanted) / np.sqrt(len(found))
    assert abs(np.mean(found - wanted)) < 4 * noise + 0.02
    small = defects(exact)
    assert np.sqrt(np.mean(small**2)) < 0.2 * np.sqrt(np.mean((0.01 * found) ** 2))


def test_pieces_end_at_walls_with_their_data():
    problem, exact = wave()
    found = lacks(problem, exact, 60, True)
    assert np.sqrt(np.mean(found**2)) < 0.1 and abs(np.mean(found)) < 0.04
    off = lacks(problem, lambda z: exact(z) + 1.0, 60, True)  # data are not those of the candidate
    assert np.mean(off) < -0.3


def test_starts_are_the_center_for_whole_paths_and_the_measure_for_pieces():
    make = lambda **how: MartingaleTerm.of(
        CONTROL, 64, 3, dtype=jnp.float32, key=jax.random.key(0), **how
    )
    assert not np.any(np.asarray(make(whole=True).starts))
    pieces = make()
    assert np.std(np.asarray(pieces.starts)[:, 0]) > 0.1
    fresh = pieces.redrawn(EXACT, jax.random.key(5), 2.0)
    assert fresh.starts.shape == (128, 3) and fresh.noise.shape == (128, 3, 2)


@pytest.mark.broad
def test_deep_bsde_is_a_method():
    """Short; pieces join the loss of another method by a setting."""
    problem, exact = fk.catalogue("fisher-kpp-10d")
    few = fk.Settings().changed(
        {
            "network.widths": (8,), "points.n_collocation": 64, "points.n_boundary": 16,
            "points.path_steps": 4, "training.adam_steps": 60, "training.lbfgs_steps": 0,
            "points.n_test": 64, "certificate.seconds": 0.0, "training.learning_rate": 1e-2,
        }
    )  # fmt: skip
    found = fk.solve(problem, method="bsde", settings=few, seed=0)
    points = fk.sample_interior(problem, 256, key=jax.random.key(1))
    truth, value = jax.jit(jax.vmap(exact))(points), found(points)
    assert float(jnp.mean((value - truth) ** 2) / jnp.mean(truth**2)) < 0.25
    both = fk.solve(problem, method="pinn", settings=few.changed({"training.adam_steps": 3}))
    assert {"residual", "martingale", "terminal"} <= set(both.history[-1])


REFUSED = {
    "no horizon": (lambda: fk.catalogue("bratu").problem, "with a `horizon`"),
    "mirrors": (
        lambda: fk.heat(fk.Interval(0.0, 1.0), 1.0, horizon=1.0, boundary=fk.Neumann(0.0)),
        "with absorbing"),
    "second derivatives": (
        lambda: fk.catalogue("fully-nonlinear-20d").problem, "has no second derivatives"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_pieces_of_paths(kind):
    make, words = REFUSED[kind]
    with pytest.raises(ValueError, match=words):
        MartingaleTerm.of(make(), 4, 2, dtype=jnp.float32, key=jax.random.key(0))
