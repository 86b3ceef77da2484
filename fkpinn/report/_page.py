"""One self-contained page a run, or for several: everything in one file, nothing fetched."""

import base64
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .._files import reading, unpack
from .._records import plain, write_bytes
from ._equation import equations
from ._figure import distances

_MOST = 1500  # points of a curve
_POINTWISE = {
    "label": ("value", "stderr", "network"), "found": ("value", "low", "high"),
}  # fmt: skip
_CURVES = ("line_0", "line_1", "cloud")  # each with distances `at`, and values there
_DOTS = 400  # of corrected values in a profile
_SKIPPED = ("step", "phase", "seconds")  # of a history: not curves


def write_report(folder: Path, result: dict[str, Any]) -> Path:
    """Write the report of a run from what its folder holds.

    Args:
        folder: the run folder; `fields.npz` is read, and `metrics.jsonl` if it is there.
        result: the record of the run.
    """
    folder = Path(folder)
    data = run_data(folder, result)
    context = {"result": plain(result), "equations": equations(result["about"])}
    return _write(folder / "report.html", "page.html", [data], context)


def write_comparison(path: Path, runs: Sequence[tuple[Path, dict[str, Any]]]) -> Path:
    """Write one page for several runs.

    Args:
        path: where it goes.
        runs: folders and records.
    """
    data = [run_data(folder, result) for folder, result in runs]
    rows = [plain(result) | {"folder": Path(folder).name} for folder, result in runs]
    keys = dict.fromkeys(key for row in rows for key in row["settings"])
    values = {key: [str(row["settings"].get(key, "–")) for row in rows] for key in keys}
    differ = {key: own for key, own in values.items() if len(set(own)) > 1}
    return _write(path, "compare.html", data, {"rows": rows, "differ": differ})


def run_data(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What the widgets of a page draw: fields, labels, curves, corrections."""
    fields = read_fields(folder / "fields.npz")
    shape = [len(fields[f"axis_{k}"]) for k in range(2) if f"axis_{k}" in fields]
    layers = {"network": fields["values"]}
    if "exact" in fields:
        layers["reference"] = fields["exact"]
        layers["difference"] = fields["values"] - fields["exact"]
    data: dict[str, Any] = {
        "name": Path(folder).name,
        "shape": shape,
        "flat": result["about"]["dim"] == 2,
        "axes": [_packed(fields[f"axis_{k}"]) for k in range(len(shape))],
        "layers": {name: _packed(field.ravel()) for name, field in layers.items()},
        "curves": _curves(folder / "metrics.jsonl", result),
    }
    if "label_value" in fields:
        order = np.argsort(fields["label_value"])
        data["labels"] = {
            key: _packed(fields[f"label_{key}"][order]) for key in ("value", "stderr", "network")
        }
        # no map in more dimensions, and maybe a million numbers
        points = fields["label_points"][order] if data["flat"] else np.zeros(0)
        data["labels"]["points"] = _packed(points.ravel())
    if "found_value" in fields:
        data["found"] = {key: _packed(fields[f"found_{key}"]) for key in ("value", "low", "high")}
        radial = "center" in fields
        points = distances(fields) if radial else fields["found_points"]
        data["found"] |= {"points": _packed(points.ravel()), "radial": radial}
    if "cloud_at" in fields:
        data["profile"] = _profile(fields)
    if "moment_time" in fields:
        family = result["about"].get("parameters", ())
        timed = result["about"]["horizon"] is not None
        data["moments"] = {
            "name": "t" if timed or not family else family[0]["name"],
            "times": _packed(fields["moment_time"]),
            "values": [_packed(field.ravel()) for field in fields["moment_values"]],
        }
    return data


def _profile(fields: dict[str, np.ndarray]) -> dict[str, Any]:
    """The solution along lines, at points of the measure, and corrected by paths."""
    parts: dict[str, Any] = {}
    for name in _CURVES:
        order = np.argsort(fields[f"{name}_at"])
        keys = [key for key in ("at", "network", "exact") if f"{name}_{key}" in fields]
        parts[name] = {key: _packed(fields[f"{name}_{key}"][order]) for key in keys}
    if "found_network" in fields:
        at = distances(fields)
        some = np.argsort(at)[:: max(1, len(at) // _DOTS)]
        parts["paths"] = {"at": _packed(at[some])} | {
            key: _packed((fields["found_network"] + fields[f"found_{key}"])[some])
            for key in ("value", "low", "high")
        }
    return parts


def read_fields(path: Path) -> dict[str, np.ndarray]:
    """What a run keeps for its report: a slice of the solution, labels, corrections by paths.

    Args:
        path: the file `fields.npz` of a run folder.
    """
    if not path.is_file():
        raise ValueError(f"`{path.parent}` has no `{path.name}`: its run has not ended.")
    found = unpack(path, ["axis_0", "values"], "file of fields", others=True)
    with reading(path):
        grid = tuple(len(found[f"axis_{k}"]) for k in (1, 0) if f"axis_{k}" in found)
        shapes = {"values": grid, "exact": grid}
        for kind, names in _POINTWISE.items():
            if any(name.startswith(kind) for name in found):
                n = (len(found[f"{kind}_value"]),)
                shapes |= {f"{kind}_{name}": n for name in names}
                if found[f"{kind}_points"].ndim != 2 or len(found[f"{kind}_points"]) != n[0]:
                    raise ValueError(f"`{kind}_points` do not fit")
        for name in _CURVES:
            if any(key.startswith(name) for key in found):
                n = (len(found[f"{name}_at"]),)
                shapes |= {f"{name}_{key}": n for key in ("at", "network", "exact")}
        if "moment_time" in found:
            shapes["moment_values"] = (len(found["moment_time"]), *grid)
        if "found_network" in found:
            shapes["found_network"] = found["found_value"].shape
        if "center" in found and "found_points" in found:
            shapes["center"] = found["found_points"].shape[1:]
        for name, array in found.items():
            if array.dtype.kind != "f" or array.shape != shapes.get(name, array.shape):
                raise ValueError(f"`{name}` is {array.dtype} of shape {array.shape}")
    return found


def _curves(path: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Every number of the history, thinned, with the phases it belongs to."""
    with reading(path):
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        history = [json.loads(line) for line in lines] or result.get("history", [])
        if not all(type(record["step"]) is int for record in history):
            raise ValueError("a step is no number")
    every = max(1, len(history) // _MOST)
    history = history[::every] + ([history[-1]] if every > 1 else [])
    names = list(dict.fromkeys(key for record in history for key in record))
    number = lambda value: value if isinstance(value, (int, float)) else None
    return {
        "step": [record["step"] for record in history],
        "seconds": [plain(number(record.get("seconds"))) for record in history],
        "phase": [str(record.get("phase", "")) for record in history],
        "series": {
            name: [plain(number(record.get(name))) for record in history]
            for name in names
            if name not in _SKIPPED
        },
    }


def _packed(array: np.ndarray) -> str:
    """Single precision, little-endian, as text."""
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def _write(path: Path, template: str, data: list[dict[str, Any]], context: dict[str, Any]) -> Path:
    from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError
    from markupsafe import Markup

    read = lambda name: (files("fkpinn.report") / name).read_text("utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(read)
    )
    # `<` cannot end the script element that holds the numbers
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    try:
        content = environment.get_template(template).render(
            **context,
            data=Markup(text),
            style=Markup(read("report.css")),
            script=Markup(read("report.js")),
            mathml=Markup,
        )
    except TemplateError as error:
        raise ValueError(f"the page cannot be filled in: {error}") from error
    write_bytes(path, content.encode())
    return path
