"""Solutions elsewhere: grids for xarray and VTK, functions without fkpinn, pictures of sections."""

import base64
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import helpers
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn import Ball, Box, Dirichlet, Problem, Solution, heat
from fkpinn._solve._cuts import section
from fkpinn.nn import MLP

PLANE = Problem(Ball([0.0, 0.0], 1.0), source=1.0, name="disk", check=False)
SPACE = Problem(Box([0.0] * 4, [1.0, 2.0, 3.0, 4.0]), source=1.0, name="box", check=False)
LINE = Problem(Box([0.0], [2.0]), source=1.0, name="line", check=False)
HEAT = heat(Box([0.0, 0.0], [1.0, 1.0]), lambda x: jnp.sin(x[0]), horizon=0.5)


def untrained(problem):
    network = MLP(*problem.bounds(), (5,), dtype=jnp.float64, key=jr.key(0))
    return Solution(problem, network, name=problem.name or "heat")


def test_sections_are_checked():
    assert section(SPACE).axes == (0, 1)
    where = section(SPACE, [3, 1], {0: 0.25})
    assert where.axes == (3, 1) and where.names == ["$x_{4}$", "$x_{2}$"]
    np.testing.assert_allclose(where.at, [0.25, 1.0, 1.5, 2.0])  # the middle, but for what is told
    assert section(HEAT).time == 0.5 and section(HEAT, time=0.1).time == 0.1
    for how, word in (
        ({"axes": [0, 0]}, "`axes` must be 1 to 2 different numbers from 0 to 3"),
        ({"axes": [4]}, r"got \[4\]"),
        ({"axes": [0, 1, 2]}, "1 to 2 different"),
        ({"axes": []}, "`axes` must be"),
        ({"at": {1: 0.5}}, r"not drawn, \[2, 3\]; got 1"),
        ({"at": {2: np.nan}}, r"`at\[2\]` must be a number"),
        ({"time": 0.5}, "has none, got 0.5"),
    ):
        with pytest.raises(ValueError, match=word):
            section(SPACE, **how)
    with pytest.raises(ValueError, match=r"between 0 and 0\.5; got 0\.6"):
        section(HEAT, time=0.6)


@pytest.mark.broad
def test_pictures_of_sections(tmp_path):
    solution = untrained(SPACE)
    figure = solution.plot(axes=(0, 3), at={1: 0.5})
    plot = figure.axes[0]
    assert plot.get_xlabel() == "$x_{1}$" and plot.get_ylabel() == "$x_{4}$"
    assert plot.get_title() == "box, $x_{2}$ = 0.5" and plot.get_ylim() == (0.0, 4.0)
    line = solution.plot(axes=[2]).axes[0].lines[0].get_xydata()
    at = np.tile([0.5, 1.0, 1.5, 2.0], (len(line), 1))
    at[:, 2] = line[:, 0]
    inside = ~np.isnan(line[:, 1])
    np.testing.assert_allclose(line[inside, 1], np.asarray(solution(at))[inside])
    assert untrained(HEAT).plot(time=0.1).axes[0].get_title() == "heat, t = 0.1"
    assert solution.plot(tmp_path / "a.png") == tmp_path / "a.png"


@pytest.mark.broad
def test_a_picture_that_moves(tmp_path):
    from PIL import Image

    found = untrained(HEAT).animate(tmp_path / "heat.gif", frames=3, seconds=0.6)
    with Image.open(found) as image:
        assert image.n_frames == 3 and image.info["duration"] == 200
    for name, how, word in (
        ("a.mp4", {}, "ending in .gif"), ("a.gif", {"frames": 1}, "two `frames`"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=word):
            untrained(HEAT).animate(tmp_path / name, **how)
    with pytest.raises(ValueError, match="no horizon; use `plot`"):
        untrained(PLANE).animate(tmp_path / "a.gif")


@pytest.mark.broad
def test_to_xarray(tmp_path):
    pytest.importorskip("xarray")
    solution = untrained(HEAT)
    found = solution.to_xarray(times=[0.0, 0.25], nodes=7)
    assert dict(found.sizes) == {"time": 2, "x1": 7, "x2": 7, "component": 2}
    point = [0.25, float(found.x1[2]), float(found.x2[5])]
    np.testing.assert_allclose(found.value[1, 2, 5], solution(point), rtol=1e-6)
    np.testing.assert_allclose(found.gradient[1, 2, 5], solution.gradient(point), rtol=1e-5)
    assert found.attrs == {"name": "heat"}
    one = untrained(SPACE).to_xarray(axes=[3], at={0: 0.5}, nodes=5)
    assert one.attrs == {"name": "box", "x1": 0.5, "x2": 1.0, "x3": 1.5}
    assert dict(one.sizes) == {"x4": 5, "component": 1}
    assert untrained(HEAT).to_xarray(time=0.125, nodes=3).attrs["time"] == 0.125
    disk = untrained(PLANE).to_xarray(nodes=5).value.values
    assert np.isnan(disk[0, 0]) and np.isfinite(disk[0, 2])  # a corner, and a point of the rim
    for how, word in (
        ({"nodes": 1}, "at least 2"), ({"nodes": 4096}, "at most 4,194,304"),
        ({"time": 0.1, "times": [0.1]}, "`time` or `times`"), ({"times": [0.7]}, "got 0.7"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=word):
            solution.to_xarray(**how)
    with pytest.raises(ValueError, match="No node of the grid lies in the domain"):
        untrained(Problem(Ball([0.0] * 3, 1.0), source=1.0)).to_xarray(at={2: 5.0}, axes=[0, 1])


@pytest.mark.broad
def test_limits_of_paths_on_a_grid():
    pytest.importorskip("xarray")
    exact = lambda z: 0.5 * (1.0 - z[0] ** 2 - z[1] ** 2)
    problem = Problem(
        Ball([0.0, 0.0], 1.0), source=2.0, diffusion=2.0**0.5, boundary={"outer": Dirichlet(0.0)}
    )
    solution = untrained(problem)
    found = solution.to_xarray(nodes=5, intervals={"n_paths": 64})
    better = (found.value + found.correction).values
    inner = np.isfinite(found.low.values)
    assert inner.sum() == 9 and np.isfinite(found.value.values).sum() == 13  # four on the rim
    truth = np.array([[exact((x, y)) for y in found.x2.values] for x in found.x1.values])
    width = (found.high - found.low).values[inner]
    assert np.all(np.abs(better - truth)[inner] < 1.5 * width)  # six standard errors


def read_vtu(path):
    """Arrays of the file, by their names, without any library of VTK."""
    kinds = {"Float64": np.float64, "Int64": np.int64, "UInt8": np.uint8}
    found = {}
    for array in ElementTree.parse(path).getroot().iter("DataArray"):
        raw = base64.b64decode(array.text)
        assert np.frombuffer(raw[:8], np.uint64)[0] == len(raw) - 8
        rows = np.frombuffer(raw[8:], kinds[array.get("type")])
        width = int(array.get("NumberOfComponents", 1))
        found[array.get("Name")] = rows.reshape(-1, width) if width > 1 else rows
    return found


@pytest.mark.parametrize(
    ("problem", "kind", "corners"), [(LINE, 3, 2), (PLANE, 9, 4), (SPACE, 12, 8)]
)
def test_to_vtk(tmp_path, problem, kind, corners):
    solution = untrained(problem)
    (path,) = solution.to_vtk(tmp_path / "u.vtu", nodes=9)
    found = read_vtu(path)
    points, cells = found["Points"], found["connectivity"].reshape(-1, corners)
    n = min(problem.dim, 3)
    at = np.tile(section(problem, most=3).at, (len(points), 1))
    at[:, :n] = points[:, :n]
    np.testing.assert_allclose(found["value"], solution(at), rtol=1e-6, atol=1e-7)
    slopes = np.asarray(solution.gradient(at))[:, :n]
    np.testing.assert_allclose(found["gradient"][:, :n], slopes, rtol=1e-5, atol=1e-6)
    assert set(found["types"]) == {kind} and found["offsets"][-1] == cells.size
    # every cell is a box with the given corners in order, so its diagonal has the grid's steps
    step = (points.max(axis=0) - points.min(axis=0)) / 8
    far = cells[:, {2: 1, 4: 2, 8: 6}[corners]]
    np.testing.assert_allclose(points[far] - points[cells[:, 0]], np.tile(step, (len(cells), 1)))
    if problem.domain is not PLANE.domain:
        assert len(cells) == 8**n
    pyvista = pytest.importorskip("pyvista")
    mesh = pyvista.read(path)
    np.testing.assert_array_equal(mesh["value"], found["value"])


def test_to_vtk_with_time(tmp_path):
    paths = untrained(HEAT).to_vtk(tmp_path / "heat.pvd", times=[0.0, 0.5], nodes=4)
    assert [path.name for path in paths] == ["heat.pvd", "heat-0000.vtu", "heat-0001.vtu"]
    sets = ElementTree.parse(paths[0]).getroot().findall("Collection/DataSet")
    assert [(s.get("timestep"), s.get("file")) for s in sets] == [
        ("0.0", "heat-0000.vtu"), ("0.5", "heat-0001.vtu"),
    ]  # fmt: skip
    assert not np.array_equal(read_vtu(paths[1])["value"], read_vtu(paths[2])["value"])
    with pytest.raises(ValueError, match=r"must end in .pvd for several times; got `heat.vtu`"):
        untrained(HEAT).to_vtk(tmp_path / "heat.vtu", times=[0.0, 0.5])
    with pytest.raises(ValueError, match=r"must end in .vtu for one time"):
        untrained(HEAT).to_vtk(tmp_path / "heat.pvd")


ALONE = """
import sys
sys.modules["fkpinn"] = None  # importing it fails
import jax, jax.export, numpy as np
jax.config.update("jax_enable_x64", sys.argv[4] == "float64")
function = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
points = np.load(sys.argv[2])
np.save(sys.argv[3], np.asarray(function.call(points)))
assert np.asarray(function.call(points[:3])).shape == (3,)
"""


@pytest.mark.parametrize("dtype", helpers.of_which_fast(["float32", "float64"], "float64"))
def test_an_exported_solution_needs_no_fkpinn(tmp_path, dtype):
    pytest.importorskip("flatbuffers")
    network = MLP(*PLANE.bounds(), (8, 8), dtype=jnp.dtype(dtype), key=jr.key(0))
    solution, at = Solution(PLANE, network), tmp_path / "u.stablehlo"
    points = np.random.default_rng(0).uniform(-0.7, 0.7, (64, 2)).astype(dtype)
    np.save(tmp_path / "points.npy", points)
    assert solution.export(at) == at
    words = [sys.executable, "-c", ALONE, at, tmp_path / "points.npy", tmp_path / "u.npy", dtype]
    subprocess.run([str(word) for word in words], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), np.asarray(solution(points), dtype))


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="`dtype` must be float32 or float64; got 'half'"):
        untrained(PLANE).export(tmp_path / "u", dtype="half")
    alone = Solution(None, untrained(PLANE).network, layout=PLANE.layout, bounds=PLANE.bounds())
    with pytest.raises(ValueError, match="`to_vtk` needs the problem"):
        alone.to_vtk(tmp_path / "u.vtu")
    pytest.importorskip("flatbuffers")
    assert alone.export(tmp_path / "u").stat().st_size > 0  # values need no problem
