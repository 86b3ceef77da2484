import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest

from fkpinn.domain import Ball
from fkpinn.problem import Problem, catalogue, manufactured
from fkpinn.reference import FEMReference, fem_reference
from fkpinn.reference._cells import edges_of
from fkpinn.reference._mesh import make_mesh
from fkpinn.reference._p2 import build_space, space_of


@pytest.fixture(scope="module")
def ring():
    problem, _ = catalogue("robin")
    return fem_reference(problem, h=0.4)


def test_quadratic_fields_are_exact():
    space = space_of(make_mesh(catalogue("variable-diffusion").problem.domain, 0.5))
    x, y = space.nodes.T
    field = (1 + 2 * x - y + x**2 - 3 * x * y + 0.5 * y**2)[None]
    rng = np.random.default_rng(0)
    corners = space.nodes[space.cells]
    weights = rng.dirichlet(np.ones(3), (len(corners), 5))
    points = np.einsum("mqk,mkj->mqj", weights, corners).reshape(-1, 2)
    one = np.ones((len(points), 1))
    value, slope, outside = space.evaluate(points, field, np.zeros(one.shape, int), one)
    x, y = points.T
    assert not np.any(outside)
    np.testing.assert_allclose(value, 1 + 2 * x - y + x**2 - 3 * x * y + 0.5 * y**2, atol=1e-12)
    np.testing.assert_allclose(slope[:, 0], 2 + 2 * x - 3 * y, atol=1e-11)
    np.testing.assert_allclose(slope[:, 1], -1 - 3 * x + y, atol=1e-11)


def test_curved_elements_are_inverted_up_to_the_circle():
    space = space_of(make_mesh(Ball([0, 0], 1.0), 0.4))
    assert 0 < np.count_nonzero(space.curved) < len(space.curved)
    angle = np.linspace(0, 2 * np.pi, 1001)
    for radius in (0.97, 0.995, 1.0):  # linear functions are exact on curved elements
        x = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        one = np.ones((len(x), 1))
        field = (3 * space.nodes[:, 0] - space.nodes[:, 1])[None]
        value, slope, outside = space.evaluate(x, field, np.zeros(one.shape, int), one)
        assert not np.any(outside)
        np.testing.assert_allclose(value, 3 * x[:, 0] - x[:, 1], atol=1e-11)
        np.testing.assert_allclose(slope, np.tile([3.0, -1.0], (len(x), 1)), atol=1e-10)


def test_folded_triangles_are_refused():
    vertices = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    cells = np.array([[0, 1, 2]])
    middles = vertices[edges_of(cells)[0]].mean(axis=1)
    middles[0] += [0.0, 0.6]
    with pytest.raises(ValueError, match="`h` is too large for the curved boundary"):
        build_space(vertices, cells, middles)


def test_points_outside_are_refused(ring):
    with pytest.raises(ValueError, match=r"`points` .* 2 of 3 do not, the first is \[0.2, 0.1\]"):
        ring.values([[0.7, 0.0], [0.2, 0.1], [1.2, 0.0]])
    with pytest.raises(ValueError, match=r"`points` must have shape \(n, 2\)"):
        ring.values(np.zeros((3, 3)))
    assert ring.values(np.zeros((0, 2))).shape == (0,)


def test_points_outside_an_interval_are_refused():
    problem = manufactured(Ball([0.0], 1.0), lambda x: jnp.sin(x[0]))
    found = fem_reference(problem, h=0.1)
    np.testing.assert_allclose(
        found.values([[-1.0], [0.3], [1.0]]), np.sin([-1.0, 0.3, 1.0]), atol=1e-5
    )
    with pytest.raises(ValueError, match="1 of 1 do not"):
        found.values([[1.1]])


def test_save_and_load(ring, tmp_path):
    path = tmp_path / "ring.npz"
    ring.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["ring.npz"]
    again = FEMReference.load(path)
    x = ring.space.nodes[::7]
    np.testing.assert_allclose(again.values(x), ring.values(x), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(again.space.nodes, ring.space.nodes)
    np.testing.assert_array_equal(again.space.curved, ring.space.curved)
    assert again.error_estimate == ring.error_estimate
    assert again.provenance == ring.provenance


def test_save_and_load_in_time(tmp_path):
    problem = Problem(Ball([0.0], 1.0), horizon=1.0, terminal=lambda x: 1.0 - x[0] ** 2)
    found = fem_reference(problem, h=0.1, n_steps=12)
    found.save(tmp_path / "heat.npz")
    again = FEMReference.load(tmp_path / "heat.npz")
    z = np.array([[0.0, 0.1], [0.37, -0.4], [1.0, 0.9]])
    np.testing.assert_allclose(again.values(z), found.values(z), rtol=1e-10)


def test_damaged_files_are_refused(ring, tmp_path):
    path = tmp_path / "ring.npz"
    ring.save(path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0xFF
    for content in (whole[: len(whole) // 2], b"", b"hello", bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="`path` must be a file written by"):
            FEMReference.load(path)
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(3))
    with pytest.raises(ValueError, match="KeyError"):
        FEMReference.load(path)
    with path.open("wb") as file:
        np.savez(file, meta=np.array('{"format": "something else"}'))
    with pytest.raises(ValueError, match="`path` must be a file written by"):
        FEMReference.load(path)
    with path.open("wb") as file:  # an object array would need pickle
        np.savez(file, meta=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="`path` must be a file written by"):
        FEMReference.load(path)


def test_fields_of_the_wrong_length_are_refused(ring, tmp_path):
    broken = FEMReference(ring.space, ring.fields[:, :-1], None, error_estimate=None, provenance={})
    broken.save(tmp_path / "broken.npz")
    with pytest.raises(ValueError, match="fields of shape"):
        FEMReference.load(tmp_path / "broken.npz")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        FEMReference.load(tmp_path / "nothing.npz")


def test_failed_save_leaves_nothing(ring, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        ring.save(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.broad
def test_import_loads_neither_scikit_fem_nor_sparse_matrices():
    code = (
        "import sys, fkpinn.reference; "
        "heavy = {'skfem', 'scipy.sparse.linalg', 'scipy.spatial', 'matplotlib'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    bare = subprocess.run(
        [sys.executable, "-c", "import sys, jax, equinox; sys.exit('scipy.spatial' in sys.modules)"]
    )
    if bare.returncode:
        code = code.replace("'scipy.sparse.linalg', 'scipy.spatial', ", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_many_points_are_quick():
    found = fem_reference(catalogue("robin").problem, h=0.05)
    rng = np.random.default_rng(0)
    r, angle = np.sqrt(rng.uniform(0.6**2, 1.0, 100_000)), rng.uniform(0, 2 * np.pi, 100_000)
    x = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    found.values(x[:10])
    began = time.perf_counter()
    found.values_and_gradients(x)
    assert time.perf_counter() - began < 4.0  # 0.3 s on an idle core
