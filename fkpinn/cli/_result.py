"""A result of `fkpinn solve`, as a table in the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_ERRORS = {
    "l2_rel": "relative L2 error",
    "l2_abs": "absolute L2 error",
    "h1_rel": "relative H1 error",
    "h1_abs": "absolute H1 error",
    "linf": "largest error",
    "constant": "relative L2 error of a constant",
    "skill": "error relative to the best trivial one",
}


def print_result(result: dict[str, Any]) -> None:
    """Print errors, certificate, seconds and files of one run."""
    title = f"{result['problem']}, {result['method']}, {result['preset']}, seed {result['seed']}"
    table = Table(
        title=title, box=box.SIMPLE, show_header=False, pad_edge=False, title_justify="left"
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _rows(result):
        table.add_row(label, text)
    Console().print(table)


def print_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print rows below their headings."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def bound_in_words(record: dict[str, Any]) -> str:
    """The bound by residuals along paths, or why there is none."""
    if "why" in record:
        return f"none: {record['why']}"
    bound = record["l2_rel"]
    size = "not meaningful" if bound is None else f"at most {bound:.3e}"
    return f"{size}, from residuals along paths"


def value_in_words(record: dict[str, Any]) -> str:
    """A value with its limits."""
    return f"{record['value']:.6g}, between {record['ci_low']:.6g} and {record['ci_high']:.6g}"


def _rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    errors = result.get("errors")
    rows = (
        [
            (name, f"{errors[key]:.3e}")
            for key, name in _ERRORS.items()
            if errors.get(key) is not None
        ]
        if errors
        else [("errors", "no reference solution to compare with")]
    )
    certificate = result.get("certificate")
    if certificate:
        low, high = certificate["ci_low"], certificate["ci_high"]
        text = f"{certificate['l2_rel']:.3e}, between {low:.3e} and {high:.3e}"
        rows.append(("certified relative L2", text))
    if result.get("occupation"):
        rows.append(("second, cruder bound", bound_in_words(result["occupation"])))
    if value := result.get("value"):
        rows.append(("value at the center", value_in_words(value)))
    seconds = ", ".join(
        f"{phase} {t:.1f}" for phase, t in result["seconds"].items() if t is not None
    )
    rows += [("seconds", seconds), ("device", str(result["device"]))]
    rows += [("figure", str(path)) for path in result.get("figures") or ()]
    if result.get("report"):
        rows.append(("report", str(result["report"])))
    rows.append(("run folder", str(result["out"])))
    return rows
