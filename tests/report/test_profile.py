"""Solutions where maps end: lines through the center of the measure, and values by distance."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from run_folders import finished_run

import fkpinn as fk
from fkpinn._files import pack, unpack
from fkpinn._records import write_bytes
from fkpinn._solve._cuts import center, moments, profile, slice_through
from fkpinn.cli import main
from fkpinn.nn import MLP
from fkpinn.reference import catalogue_reference

BALL, EXACT = fk.catalogue("exit-ball-3d")
NETWORK = MLP(*BALL.bounds(), [4], key=jr.key(0))


def test_the_center_is_that_of_the_measure():
    np.testing.assert_array_equal(center(BALL), np.zeros(3))  # chance cannot tell it from that
    box = fk.poisson(fk.Box([0.0] * 3, [1.0] * 3), 1.0)
    aside = box.with_measure(fk.InBox([0.5, 0.0, 0.0], [1.0, 1.0, 1.0]))
    found = center(aside)
    np.testing.assert_array_equal(found[1:], [0.5, 0.5])
    assert abs(found[0] - 0.75) < 5 * 0.5 / 12**0.5 / 64  # the mean of 4096 points
    hollow = fk.poisson(fk.Ball([0.0] * 3, 1.0) - fk.Ball([0.0] * 3, 0.5), 1.0)
    assert 0.5 < np.linalg.norm(center(hollow)) < 1.0


def test_lines_and_radii_are_those_of_the_reference():
    found = profile(BALL, NETWORK, catalogue_reference("exit-ball-3d"))
    for name in ("line_0", "line_1", "cloud"):
        at, exact = found[f"{name}_at"], found[f"{name}_exact"]
        np.testing.assert_allclose(exact, (1.0 - at**2) / 6.0, atol=1e-6)
    for k, direction in enumerate(([1.0, 0.0, 0.0], [3**-0.5] * 3)):
        at = found[f"line_{k}_at"]
        assert at[0] == pytest.approx(-1.0, abs=2e-3) and at[-1] == pytest.approx(1.0, abs=2e-3)
        place = np.asarray(0.5 * np.asarray(direction), np.float32)
        own = np.interp(0.5, at, found[f"line_{k}_network"])
        assert own == pytest.approx(float(NETWORK(jnp.asarray(place))), abs=1e-3)
    axes, values, _ = slice_through(BALL, NETWORK, None, 5)  # the same plane as the first line
    assert values[2, 2] == pytest.approx(
        np.interp(0.0, found["line_0_at"], found["line_0_network"])
    )
    assert np.isnan(values[0, 0]) and len(axes) == 2


def test_slices_as_time_runs():
    problem = fk.heat(fk.Box([0.0], [1.0]), lambda x: x[0], horizon=0.5)
    network = MLP(*problem.bounds(), [4], key=jr.key(0))
    found = moments(problem, network)
    np.testing.assert_allclose(found["moment_time"], np.linspace(0.0, 0.5, 9))
    (x,), last, _ = slice_through(problem, network, None)
    np.testing.assert_array_equal(found["moment_values"][-1], last)  # the end of time
    at = jnp.asarray([found["moment_time"][2], x[7]], jnp.float32)
    assert found["moment_values"][2, 7] == pytest.approx(float(network(at)), rel=1e-5)
    assert moments(BALL, NETWORK) == {}


@pytest.mark.slow
def test_a_solution_in_three_dimensions_is_drawn(tmp_path):
    solution = fk.Solution(BALL, NETWORK)
    certificate = solution.certify(n_points=32, n_paths=16, seed=3)
    path = solution.plot(tmp_path / "a.png", reference=catalogue_reference("exit-ball-3d"))
    both = solution.plot(tmp_path / "b.png", certificate=certificate)
    assert path.read_bytes()[:4] == both.read_bytes()[:4] == b"\x89PNG"
    assert path.read_bytes() != both.read_bytes()


def test_fields_of_a_profile_are_checked(tmp_path, capsys):
    finished_run(tmp_path)
    path = tmp_path / "fields.npz"
    fields = unpack(path, ["values"], others=True)
    short = {"cloud_at": np.zeros(3), "cloud_network": np.zeros(2)}
    for wrong in (short, {"center": np.zeros(5)}, {"found_network": np.zeros(2)}):
        write_bytes(path, pack(fields | wrong))
        assert main(["report", str(tmp_path)]) == 2
        assert "is damaged" in capsys.readouterr().err
