"""A solution on a grid, for tools such as xarray and ParaView."""

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import precision, quickly_compiled
from .._field import AbstractField
from .._records import write_bytes
from ..problem import Problem
from ..train import precision as precision_of
from ._cuts import Section, contained, grid_over, in_closure

_NODES = {1: 400, 2: 120, 3: 40}  # along an axis, by the number of axes
_MOST = 1 << 22  # nodes at all times
_VERTEX, _LINE, _QUAD, _HEXAHEDRON = 1, 3, 9, 12  # kinds of cells that VTK has

Corrected = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Grid(NamedTuple):
    """Fields on the nodes of a section of the domain, NaN outside.

    Fields have the axes of the section, after that of `times` where there are any; `gradient` has
    its components along the axes of the section last. Paths say that a value lacks `correction`,
    with limits; these fields are there if they were asked for.
    """

    where: Section
    times: np.ndarray | None
    axes: list[np.ndarray]
    fields: dict[str, np.ndarray]

    @property
    def names(self) -> list[str]:
        """Of the axes of space: `x1`, `x2`."""
        return [f"x{axis + 1}" for axis in self.where.axes]


def solution_grid(
    problem: Problem,
    network: AbstractField,
    where: Section,
    *,
    nodes: int | None = None,
    times: Sequence[float] | None = None,
    corrected: Corrected | None = None,
) -> Grid:
    """Values and slopes of a network on a grid.

    Args:
        problem: the boundary value problem.
        network: its solution.
        where: the section of the domain.
        nodes: along each axis; 400, 120 or 40 if not given, for one, two or three axes.
        times: at which times; that of the section if not given.
        corrected: makes values, lower and upper limits of points, one per row.
    """
    nodes = _NODES[len(where.axes)] if nodes is None else nodes
    count = 1 if times is None else len(times)
    if nodes < 2 or count < 1 or nodes ** len(where.axes) * count > _MOST:
        raise ValueError(
            f"`nodes` must be at least 2, and all of the grid at most {_MOST:,} nodes; got {nodes} "
            f"along each of {len(where.axes)} axes, at {count} times."
        )
    layout, (axes, space) = problem.layout, grid_over(problem, where, nodes)
    places = layout.points(layout.start, space)
    inside = np.asarray(in_closure(problem.region, jnp.asarray(places, float)))
    if not inside.any():
        raise ValueError(
            "No node of the grid lies in the domain; choose other coordinates in `at`, or more "
            "`nodes`."
        )
    shape = (nodes,) * len(axes)
    found: dict[str, list[np.ndarray]] = {}
    for time in [where.time] if times is None else times:
        points = layout.points(float(time), space[inside])
        for name, values in _fields(problem, network, where, points, corrected).items():
            full = np.full((len(space), *values.shape[1:]), np.nan)
            full[inside] = values
            found.setdefault(name, []).append(full.reshape(*shape, *values.shape[1:]))
    timed = layout.timed and times is not None
    fields = {name: np.stack(all_) if timed else all_[0] for name, all_ in found.items()}
    return Grid(where, np.asarray(times, float) if timed else None, axes, fields)


def _fields(
    problem: Problem,
    network: AbstractField,
    where: Section,
    points: np.ndarray,
    corrected: Corrected | None,
) -> dict[str, np.ndarray]:
    with precision(precision_of(network)):
        found = _values_and_slopes(network, jnp.asarray(points, float))
        value, slope = (np.asarray(array, np.float64) for array in found)
    slope = problem.layout.space(slope)[:, list(where.axes)]
    fields = {"value": value, "gradient": slope}
    if corrected is None:
        return fields
    # on the boundary there are data, and no paths
    inner = np.asarray(contained(problem.region, jnp.asarray(points, float)))
    better, low, high = (np.full(len(points), np.nan) for _ in range(3))
    if inner.any():
        better[inner], low[inner], high[inner] = corrected(points[inner])
    return fields | {"correction": better - value, "low": low, "high": high}


@quickly_compiled
def _values_and_slopes(network: AbstractField, points: Float[Array, "n z"]) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda z: network(z)))(points)


def as_dataset(grid: Grid, about: dict[str, Any]) -> Any:
    """The same as an `xarray.Dataset`.

    Args:
        grid: a solution on a grid.
        about: what is worth knowing; plain numbers and words.
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError(
            '`to_xarray` needs xarray: pip install "fkpinn[xarray]", or pip install xarray.'
        ) from error
    timed = grid.times is not None
    dims = [*(["time"] if timed else []), *grid.names]
    coords: dict[str, Any] = dict(zip(grid.names, grid.axes, strict=True))
    coords |= {"time": grid.times} if timed else {}
    coords |= {"component": grid.names}
    fields = {
        name: (dims + ["component"] * (field.ndim > len(dims)), field)
        for name, field in grid.fields.items()
    }
    return xarray.Dataset(fields, coords=coords, attrs=about)


def write_vtk(grid: Grid, path: Path) -> list[Path]:
    """Files for ParaView, VisIt or pyvista: a `.vtu`, or one for each time and a `.pvd` of them.

    Args:
        grid: a solution on a grid.
        path: of the `.vtu` file, or of the `.pvd` file where there are several times.
    """
    several = grid.times is not None
    if path.suffix != (wanted := ".pvd" if several else ".vtu"):
        many = "several times" if several else "one time"
        raise ValueError(f"`path` must end in {wanted} for {many}; got `{path.name}`.")
    if grid.times is None:
        write_bytes(path, _unstructured(grid.axes, grid.fields))
        return [path]
    parts = []
    for k, time in enumerate(grid.times):
        part = path.with_name(f"{path.stem}-{k:04d}.vtu")
        write_bytes(part, _unstructured(grid.axes, {n: f[k] for n, f in grid.fields.items()}))
        parts.append((float(time), part))
    sets = "".join(f'<DataSet timestep="{t!r}" file="{part.name}"/>\n' for t, part in parts)
    text = f'<VTKFile type="Collection" version="0.1">\n<Collection>\n{sets}</Collection>\n'
    write_bytes(path, (text + "</VTKFile>\n").encode())
    return [path, *(part for _, part in parts)]


def _unstructured(axes: list[np.ndarray], fields: dict[str, np.ndarray]) -> bytes:
    """The nodes inside and the cells all of whose corners are, as VTK's XML."""
    n = len(axes)
    places = np.zeros((*(len(axis) for axis in axes), 3))
    for k, grid in enumerate(np.meshgrid(*axes, indexing="ij")):
        places[..., k] = grid
    inside = ~np.isnan(fields["value"])
    number = np.full(inside.shape, -1, np.int64)
    number[inside] = np.arange(np.count_nonzero(inside))
    corners = _corners(number)
    cells = corners[np.all(corners >= 0, axis=1)]
    kind = {1: _LINE, 2: _QUAD, 3: _HEXAHEDRON}[n]
    if len(cells) == 0:  # the grid is too coarse for a cell
        cells, kind = np.arange(np.count_nonzero(inside))[:, None], _VERTEX
    data = []
    for name, field in fields.items():
        rows = field[inside]
        if rows.ndim == 2:  # vectors have three components
            rows = np.concatenate([rows, np.zeros((len(rows), 3 - rows.shape[1]))], axis=1)
        data.append(_array(name, rows))
    offsets = np.arange(1, len(cells) + 1) * cells.shape[1]
    kinds = np.full(len(cells), kind, np.uint8)
    parts = [
        '<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" '
        'header_type="UInt64">',
        f'<UnstructuredGrid><Piece NumberOfPoints="{np.count_nonzero(inside)}" '
        f'NumberOfCells="{len(cells)}">',
        "<PointData>", *data, "</PointData>",
        "<Points>", _array("Points", places[inside]), "</Points>",
        "<Cells>", _array("connectivity", cells.reshape(-1)), _array("offsets", offsets),
        _array("types", kinds), "</Cells>",
        "</Piece></UnstructuredGrid></VTKFile>",
    ]  # fmt: skip
    return "\n".join(parts).encode()


def _corners(number: np.ndarray) -> np.ndarray:
    """Of each cell, in the order that VTK wants them: around, then around above."""
    low, high = slice(None, -1), slice(1, None)
    if number.ndim == 1:
        order = [(low,), (high,)]
    else:
        around = [(low, low), (high, low), (high, high), (low, high)]
        order = around if number.ndim == 2 else [(*c, z) for z in (low, high) for c in around]
    return np.stack([number[corner].reshape(-1) for corner in order], axis=1)


def _array(name: str, rows: np.ndarray) -> str:
    """Numbers as VTK's XML has them: their length in bytes, then they, in base 64."""
    kinds = {"f": "Float64", "i": "Int64", "u": "UInt8"}
    kind, raw = kinds[rows.dtype.kind], rows.tobytes()
    coded = base64.b64encode(np.uint64(len(raw)).tobytes() + raw).decode()
    width = f' NumberOfComponents="{rows.shape[1]}"' if rows.ndim == 2 else ""
    return f'<DataArray type="{kind}" Name="{name}"{width} format="binary">{coded}</DataArray>'
