"""Means over seeds, from records alone."""

import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._files import read_json, reading
from .._solve import PRESETS, find_method
from ._config import Cell, Experiment

METRICS = ("l2_abs", "l2_rel", "h1_abs", "h1_rel")


def summarize(experiment: Experiment, results: Path) -> dict[str, Any]:
    """One row per cell: mean and standard deviation of each metric over the recorded seeds.

    Args:
        experiment: which cells and seeds.
        results: the folder of records.

    Returns:
        Plain values: `rows` in order, each with its `part` (`here`, `search` or `ours`) and, under
        `each`, the values of the seeds; the number of missing runs; seconds in total; devices.
    """
    rows, missing, spent = [], 0, 0.0
    devices: set[str] = set()
    for part, (cells, seeds) in experiment.parts().items():
        for cell in cells:
            records = _records(cell, seeds, results)
            missing += seeds - len(records)
            if not records:
                continue
            spent += sum(map(_device_seconds, records))
            devices |= {r["device"] for r in records}
            rows.append(_row(cell, records) | {"part": part})
    return {
        "name": experiment.name,
        "rows": rows,
        "missing": missing,
        "seconds": spent,
        "devices": sorted(devices),
    }


def load_records(cells: Iterable[Cell], seeds: int, results: Path) -> list[dict[str, Any]]:
    """All records of these cells that exist."""
    return [record for cell in cells for record in _records(cell, seeds, results)]


def _records(cell: Cell, seeds: int, results: Path) -> list[dict[str, Any]]:
    paths = [cell.record_path(results, seed) for seed in range(seeds)]
    return [_record(path, cell) for path in paths if path.is_file()]


def _record(path: Path, cell: Cell) -> dict[str, Any]:
    """One record, if it is of that cell and can be summed up."""
    record = read_json(path)
    names = tuple(record.get(key) for key in ("problem", "method", "preset"))
    if names != (cell.problem, cell.method, cell.preset):
        raise ValueError(f"`{path}` is the record of another run.")
    with reading(path):
        numbers = [own for own in _row(cell, [record]).values() if isinstance(own, list)]
        if not np.all(np.isfinite(numbers)) or not isinstance(record["device"], str):
            raise ValueError("a number or the device is missing")
        if not record["history"] or any(type(h["step"]) is not int for h in record["history"]):
            raise ValueError("`history` has no steps")
        if record.get("picture") is not None:
            axes = [np.array(axis, float) for axis in record["picture"]["axes"]]
            for name in ("values", "exact"):  # NaN for None, outside the domain
                if np.array(record["picture"][name], float).shape != (len(axes[1]), len(axes[0])):
                    raise ValueError(f"`{name}` of the picture is not on its axes")
    return record


def _row(cell: Cell, records: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": cell.problem,
        "method": cell.method,
        "preset": cell.preset,
        "changes": dict(cell.changes),
        "n": len(records),
    }
    labels = [r["labels"] for r in records if r.get("labels")]
    each = {metric: [r["errors"][metric] for r in records] for metric in METRICS}
    each["seconds"] = [_device_seconds(r) for r in records]
    for part in ("rel_err", "rel_bias", "rel_stderr") if labels else ():
        each[f"label_{part}"] = [found[part] for found in labels]
    row |= {name: mean_and_spread(values) for name, values in each.items()}
    return row | {"each": each}


def _device_seconds(record: dict[str, Any]) -> float:
    """Time of the device that a run had: processes that share one divide it among them."""
    return record["seconds"]["total"] / record.get("jobs", 1)


def mean_and_spread(values: list[float]) -> list[float]:
    """Mean and standard deviation (of a sample; 0 for a single value)."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return [math.fsum(values) / len(values), spread]


def varied(experiment: Experiment, row: dict[str, Any]) -> list[Any]:
    """What varies, in this row; a plain PINN has no labels."""
    preset = PRESETS[row["preset"]]
    known = {} if find_method(row["method"]).labelled else {"labels.p_data": 0.0}
    known |= row["changes"]
    return [known.get(key, preset.get(key)) for key in experiment.vary]
