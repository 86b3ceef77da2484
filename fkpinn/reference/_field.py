"""A finite element solution: evaluated anywhere, stored in a small file."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .._files import Damaged, read_arrays, reading
from .._records import write_bytes
from ..problem import Layout
from ._base import AbstractReference, as_points, check_times, refuse_outside
from ._cells import edges_of
from ._p2 import P2Space, build_space

_FORMAT = "fkpinn finite element reference 1"
_BITS = 36
_MOST = 200  # times the room of the file, for its arrays; a few times is usual


class FEMReference(AbstractReference):
    """A piecewise quadratic solution, in time by cubic interpolation between snapshots.

    Args:
        space: nodes and elements.
        fields: values at the nodes, `(k, N)`: one row, or one for each time.
        times: the times `(k,)`, evenly spaced from 0 to the horizon; None for elliptic problems.
        error_estimate: estimated rms error over rms solution.
        provenance: how it was computed.
        fingerprint: numbers that identify the problem.
    """

    def __init__(
        self,
        space: P2Space,
        fields: np.ndarray,
        times: np.ndarray | None,
        *,
        error_estimate: float | None,
        provenance: dict[str, Any],
        fingerprint: np.ndarray | None = None,
    ):
        self.space: P2Space = space
        self.fields: np.ndarray = fields
        self.times: np.ndarray | None = times
        self.error_estimate: float | None = error_estimate
        self.provenance: dict[str, Any] = provenance
        self.fingerprint: np.ndarray = np.zeros(0) if fingerprint is None else fingerprint

    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of the quadratic field; points outside the mesh are refused."""
        horizon = None if self.times is None else float(self.times[-1])
        layout = Layout(self.space.dim, horizon)
        z = as_points(points, layout.n_coords)
        which, weights = self._snapshots(layout, z)
        value, slope, outside = self.space.evaluate(layout.space(z), self.fields, which, weights)
        refuse_outside(z, outside)
        return value, slope

    def _snapshots(self, layout: Layout, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the four nearest snapshots and their weights at each point."""
        if self.times is None:
            return np.zeros((len(z), 1), int), np.ones((len(z), 1))
        times = layout.time(z)
        check_times(z, times, float(self.times[-1]))
        step = self.times[1]
        first = np.clip(np.floor(times / step).astype(int) - 1, 0, len(self.times) - 4)
        s = times / step - first
        weights = np.ones((len(z), 4))
        for i in range(4):
            for j in range(4):
                if i != j:
                    weights[:, i] *= (s - j) / (i - j)
        return first[:, None] + np.arange(4), weights

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to an `.npz` file, first under a temporary name; values keep 11 digits."""
        space = self.space
        vertices = space.nodes[: space.n_vertices]
        edges, _ = edges_of(space.cells)
        bend = space.nodes[space.n_vertices :] - np.mean(vertices[edges], axis=1)
        bent = np.flatnonzero(np.any(bend != 0.0, axis=1))
        meta = {
            "format": _FORMAT,
            "error_estimate": self.error_estimate,
            "provenance": self.provenance,
        }
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            vertices=vertices,
            cells=space.cells.astype(np.int32),
            bent_edges=bent.astype(np.int32),
            bent_middles=space.nodes[space.n_vertices + bent],
            fields=_rounded(self.fields),
            times=np.zeros(0) if self.times is None else self.times,
            fingerprint=self.fingerprint,
            meta=np.array(json.dumps(meta)),
        )
        write_bytes(Path(path), buffer.getvalue())

    @staticmethod
    def load(path: Any) -> "FEMReference":
        """Read what `save` wrote; `path` is a path or an open binary file."""
        try:
            content = path.read() if hasattr(path, "read") else Path(path).read_bytes()
            usual = np.errstate(over="raise", invalid="raise", divide="raise")
            with reading(Path(str(path))), usual:
                data = read_arrays(content, most=_MOST)
                meta = json.loads(str(data["meta"]))
                if meta["format"] != _FORMAT:
                    raise KeyError("format")
                return _restore(data, meta)
        except Damaged as error:
            raise ValueError(
                f"`path` must be a file written by `FEMReference.save`; {error} Make it again with "
                f"`fkpinn reference`."
            ) from error


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values without their last bits, which are far below the error and do not compress."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**_BITS) / 2.0**_BITS, exponent)


def _restore(data: dict[str, np.ndarray], meta: dict[str, Any]) -> FEMReference:
    vertices, cells = data["vertices"], data["cells"].astype(int)
    _check_mesh(vertices, cells)
    edges, _ = edges_of(cells)
    middles = np.mean(vertices[edges], axis=1)
    middles[data["bent_edges"]] = data["bent_middles"]
    space = build_space(vertices, cells, middles)
    fields = data["fields"]
    times = data["times"] if len(data["times"]) else None
    expected = (1 if times is None else len(times), len(space.nodes))
    even = times is None or (
        len(times) > 3
        and times[-1] > 0
        and np.allclose(times, np.linspace(0, times[-1], len(times)))
    )
    estimate = meta["error_estimate"]
    if not (even and np.all(np.isfinite(space.nodes)) and isinstance(meta["provenance"], dict)):
        raise ValueError("times, nodes or provenance have the wrong form")
    if not isinstance(estimate, (float, int, type(None))) or data["fingerprint"].dtype.kind != "f":
        raise ValueError("the error estimate or the fingerprint is no number")
    if fields.shape != expected or fields.dtype != np.float64 or not np.all(np.isfinite(fields)):
        raise ValueError(f"fields of shape {fields.shape}, expected {expected}, all finite")
    return FEMReference(
        space,
        fields,
        times,
        error_estimate=estimate,
        provenance=meta["provenance"],
        fingerprint=data["fingerprint"],
    )


def _check_mesh(vertices: np.ndarray, cells: np.ndarray) -> None:
    """Refuse cells that are not made of these vertices, or have no inside."""
    dim = vertices.shape[1]
    if dim not in (1, 2) or cells.ndim != 2 or cells.shape[1] != dim + 1:
        raise ValueError(f"vertices of shape {vertices.shape}, cells of shape {cells.shape}")
    if vertices.dtype != np.float64:
        raise ValueError(f"vertices of type {vertices.dtype}")
    if cells.min() != 0 or cells.max() != len(vertices) - 1 or not np.all(np.isfinite(vertices)):
        raise ValueError("cells of other vertices")
    corners = vertices[cells]
    if not np.all(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) > 0):
        raise ValueError("a cell is degenerate")
