"""What a run folder holds, apart from the run itself: fields for its report, and its result."""

import shlex
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._compute import precision
from .._files import pack, read_json, reading
from .._records import write_bytes
from ..labels import Labels
from ..problem import Problem, describe
from ..report import read_fields, write_comparison, write_report
from ._cuts import central_point
from ._settings import Settings, toml
from ._solution import batched

_FIELDS = "fields.npz"


def about_problem(problem: Problem) -> dict[str, Any]:
    """The problem in numbers and words, and a point inside its domain."""
    return describe(problem) | {"middle": central_point(problem).tolist()}


def save_fields(
    folder: Path,
    network: Any,
    axes: list[np.ndarray],
    values: np.ndarray,
    exact: np.ndarray | None,
    labels: Labels | None,
    more: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Keep what the report draws: a slice of the solution, labels, and `more` arrays by name."""
    arrays = {f"axis_{k}": axis for k, axis in enumerate(axes)} | {"values": values}
    if exact is not None:
        arrays["exact"] = exact
    if labels is not None:
        with precision("float64"):
            at = jnp.asarray(np.asarray(labels.points, np.float64))
            arrays["label_network"] = np.asarray(batched(network, at))
        for key in ("points", "value", "stderr"):
            arrays[f"label_{key}"] = np.asarray(getattr(labels, key))
    return _packed(folder, arrays | more)


def save_corrections(folder: Path, new: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Put the corrections of a new certificate in place of the old ones."""
    there = read_fields(folder / _FIELDS)
    kept = {name: array for name, array in there.items() if not name.startswith("found_")}
    return _packed(folder, kept | new)


def _packed(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    small = {key: np.asarray(array, np.float32) for key, array in arrays.items()}
    write_bytes(folder / _FIELDS, pack(small))
    return small


def changed_settings(settings: Settings, base: Settings) -> list[str]:
    """Words for `--set` that make the one of the other."""
    given, usual = settings.flat(), base.flat()
    return [
        shlex.quote(f"{key}={toml(value)}")
        for key, value in given.items()
        if value != usual[key] and value is not None
    ]


def read_result(folder: Path) -> dict[str, Any]:
    """The result of a finished run, or an error that says what is wrong.

    Args:
        folder: the run folder.
    """
    path = Path(folder) / "result.json"
    if not (Path(folder) / "config.toml").is_file():
        raise ValueError(f"`{folder}` is not a run folder: it has no `config.toml`.")
    if not path.is_file():
        raise ValueError(
            f"`{folder}` has no result yet: its run has not ended. Try `fkpinn solve --resume "
            f"{folder}`."
        )
    result = read_json(path)
    wanted = {"problem", "method", "preset", "seed", "seconds", "settings", "about"}
    missing = wanted - set(result)
    if missing:
        raise ValueError(f"`{path}` is damaged or of another version: it has no {sorted(missing)}.")
    with reading(path):
        _check_numbers(result)
    return result


def _check_numbers(result: dict[str, Any]) -> None:
    """Refuse a result whose numbers cannot be printed."""
    numbers = {"errors": ("l2_rel", "h1_rel"), "certificate": ("l2_rel", "ci_low", "ci_high")}
    for key, names in numbers.items():
        if result.get(key) is not None:
            for name in names:
                format(result[key][name], ".2e")
    for name in ("value", "ci_low", "ci_high") if result.get("value") is not None else ():
        format(result["value"][name], ".6g")
    if "l2_rel" in (bound := result.get("occupation") or {}):
        for name in ("l2_abs", "boundary"):
            format(bound[name], ".2e")
    format(result["seconds"]["total"], ".0f")
    if not isinstance(result["settings"], dict) or type(result["about"]["dim"]) is not int:
        raise ValueError("`settings` or `about` has the wrong form")


def report_run(folder: Path) -> Path:
    """Write `report.html` of a finished run again.

    Args:
        folder: the run folder.
    """
    result = read_result(folder)
    with reading(Path(folder) / "result.json"):
        return write_report(Path(folder), result)


def compare_runs(folders: list[Path], path: Path) -> list[dict[str, Any]]:
    """Write one page for several finished runs, and return their results.

    Args:
        folders: run folders, two or more.
        path: where the page goes.
    """
    if len(folders) < 2:
        raise ValueError(f"`folders` must be two or more run folders; got {len(folders)}.")
    results = [read_result(folder) for folder in folders]
    write_comparison(path, list(zip(map(Path, folders), results, strict=True)))
    return results


def list_runs(root: Path) -> list[dict[str, Any]]:
    """All run folders below a folder: what they solve, and how far they are.

    Args:
        root: where to look; run folders inside run folders are not looked for.
    """
    if not Path(root).is_dir():
        raise ValueError(f"`{root}` is not a folder.")
    found = []
    for path in sorted(Path(root).rglob("config.toml")):
        record: dict[str, Any] = {"folder": str(path.parent), "state": "ended"}
        try:
            record |= read_result(path.parent)
        except ValueError as error:
            begun = (path.parent / "checkpoints").is_dir() or (path.parent / "labels.npz").is_file()
            ended = (path.parent / "result.json").is_file()
            record["state"] = "damaged" if ended else "stopped" if begun else "begun"
            record["why"] = str(error)
        found.append(record)
    return found
