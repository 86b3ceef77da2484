"""Means over seeds, from records alone."""

import json
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._solve import PRESETS
from ._config import Cell, Experiment

METRICS = ("l2_abs", "l2_rel", "h1_abs", "h1_rel")


def summarize(experiment: Experiment, results: Path) -> dict[str, Any]:
    """A row for every cell: mean and standard deviation of each metric over the seeds on record.

    Args:
        experiment: which cells and seeds.
        results: the folder of records.

    Returns:
        Plain values: `rows` in order, each with its `part` (`here`, `search` or `ours`); how many
        runs are missing; seconds in all; devices.
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
    found = [json.loads(p.read_text(encoding="utf-8")) for p in paths if p.is_file()]
    for path, record in zip([p for p in paths if p.is_file()], found, strict=True):
        if (record["problem"], record["method"], record["preset"]) != (
            cell.problem, cell.method, cell.preset,
        ):  # fmt: skip
            raise ValueError(f"`{path}` is the record of another run.")
    return found


def _row(cell: Cell, records: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": cell.problem,
        "method": cell.method,
        "preset": cell.preset,
        "changes": dict(cell.changes),
        "n": len(records),
    }
    for metric in METRICS:
        row[metric] = mean_and_spread([r["errors"][metric] for r in records])
    row["seconds"] = mean_and_spread([_device_seconds(r) for r in records])
    labels = [r["labels"] for r in records if r.get("labels")]
    for part in ("rel_err", "rel_bias", "rel_stderr") if labels else ():
        row[f"label_{part}"] = mean_and_spread([found[part] for found in labels])
    return row


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
    known = {"p_data": 0.0} if row["method"].startswith("pinn") else {}
    known |= row["changes"]
    return [known.get(key, getattr(preset, key)) for key in experiment.vary]
