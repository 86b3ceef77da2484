"""This package first; its seconds, compilation and certificate included, are what others get."""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fkpinn import estimate_labels
from fkpinn.problem import Problem, catalogue
from fkpinn.report import markdown_table

from .._common import ROOT, run_process, say, surroundings
from ._one import middle, truth

PROBLEMS = ("hjb-lq-100d", "allen-cahn-20d")
TOOLS = ("fkpinn", "bsde", "picard")
_PATHS = 100_000  # of the linear answer
_FRESH = {
    "FKPINN_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": None, "PYTHONPATH": str(ROOT),
}  # fmt: skip


def run(problems: Sequence[str] = PROBLEMS, preset: str = "best", seeds: int = 3) -> dict[str, Any]:
    """Values at the center and errors along paths, each method in a process of its own.

    Args:
        problems: semilinear ones of the catalogue, on all of space.
        preset: how much work of this package, which sets the time for all.
        seeds: runs of each method.
    """
    if not problems or seeds < 1:
        raise ValueError(f"`problems` and `seeds` must not be empty; got {problems}, {seeds}.")
    records = []
    for problem in problems:
        known = {"problem": problem, "true": truth(problem)}
        known["linear"] = linear_answer(catalogue(problem).problem)
        for seed in range(seeds):
            seconds = 0.0
            for tool in TOOLS:
                found = _one(tool, problem, seed, preset, seconds)
                seconds = seconds or found["seconds"]
                row = known | {"tool": tool, "seed": seed, "preset": preset} | found
                records.append(row | _judged(row))
                say(f"rivals: {problem}, seed {seed}, {tool}: {records[-1]['value_error']:.1e}")
    return {"benchmark": "rivals", "records": records, **surroundings()}


def linear_answer(problem: Problem) -> float:
    """The value there of the problem linearized at zero, by paths."""
    linear = problem.linearized(lambda z: 0.0 * z[0])
    at = jnp.asarray(middle(problem)[None], jnp.float32)
    return float(np.asarray(estimate_labels(linear, at, n_paths=_PATHS, seed=0).value)[0])


def _one(tool: str, problem: str, seed: int, preset: str, seconds: float) -> dict[str, Any]:
    if tool != "fkpinn":
        asked = {"tool": tool, "seconds": seconds}
        words = ["benchmarks.rivals._one", json.dumps(_run_of(problem, seed, preset) | asked)]
        return json.loads(_said(words)[0])
    with tempfile.TemporaryDirectory() as place:
        asked = {"changes": {}, "folder": str(Path(place) / "run")}
        words = ["benchmarks.dimensions._one", json.dumps(_run_of(problem, seed, preset) | asked)]
        said, spent = _said(words)
    row = json.loads(said)
    value, spent = row["value"], spent - row["seconds"]["checked"]
    return {
        "value": None if value is None else value["value"],
        "limits": None if value is None else [value["ci_low"], value["ci_high"]],
        "errors": row["errors"], "certificate": row["certificate"], "seconds": spent,
    }  # fmt: skip


def _run_of(problem: str, seed: int, preset: str) -> dict[str, Any]:
    return {"problem": problem, "seed": seed, "preset": preset}


def _said(words: Sequence[str]) -> tuple[str, float]:
    said, seconds, _ = run_process([sys.executable, "-m", *words], ROOT, environment=_FRESH)
    return said.splitlines()[-1], seconds


def _judged(row: dict[str, Any]) -> dict[str, Any]:
    """The relative error of a value, and beside that of the linear answer."""
    if row["value"] is None:
        return {"value_error": float("nan"), "value_skill": float("nan")}
    error, trivial = (abs(row[k] / row["true"] - 1.0) for k in ("value", "linear"))
    return {"value_error": error, "value_skill": error / trivial}


def page(record: dict[str, Any]) -> str:
    """The worst of the seeds of each method, as Markdown."""
    rows = []
    for problem in dict.fromkeys(r["problem"] for r in record["records"]):
        for tool in TOOLS:
            of = [r for r in record["records"] if (r["problem"], r["tool"]) == (problem, tool)]
            worst = max(of, key=lambda r: (np.isnan(r["value_error"]), r["value_error"]))
            errors = [r["errors"] for r in of if r["errors"]]
            most = lambda key, errors=errors: (
                f"{max(e[key] for e in errors):.1e}" if errors else "–"
            )
            held = [r["limits"][0] <= r["true"] <= r["limits"][1] for r in of if r["limits"]]
            rows.append(
                [
                    f"`{problem}`", tool, _number(worst["value"], ".7g"),
                    f"{worst['true']:.7g}", f"{worst['value_error']:.1e}",
                    f"{worst['value_skill']:.1e}",
                    f"{sum(held)} of {len(held)}" if held else "none", most("l2_rel"),
                    most("skill"), f"{max(r['seconds'] for r in of):.0f}",
                ]
            )  # fmt: skip
    header = [
        "problem", "method", "value", "true value", "its error", "skill", "limits hold it",
        "relative L2 error", "skill", "seconds",
    ]  # fmt: skip
    return markdown_table(header, rows, 2)


def _number(value: float | None, kind: str) -> str:
    return "–" if value is None else f"{value:{kind}}"
