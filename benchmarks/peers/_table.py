"""What the runs come to: errors, lines and what each tool says of its own error, as tables."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from fkpinn.report import markdown_table

PEERS = ("deepxde", "jinns", "pina", "jno", "skfem")
OURS = ("fkpinn-quick", "fkpinn-best")
TOOLS = (*PEERS, *OURS)
TITLES = {
    "deepxde": "DeepXDE", "jinns": "jinns", "pina": "PINA", "jno": "jNO", "skfem": "scikit-fem",
    "fkpinn-quick": "fkpinn `quick`", "fkpinn-best": "fkpinn `best`",
}  # fmt: skip


def short(error: float) -> str:
    """`0.35`, or `4.8e-3` where that is shorter."""
    mantissa, exponent = f"{error:.1e}".split("e")
    return f"{error:.2g}" if error >= 0.05 else f"{mantissa}e{int(exponent)}"


def error_at(curve: Sequence[dict[str, Any]], seconds: float) -> float | None:
    """The error that was reached last by then; None if there was nothing yet."""
    past = [point["error"] for point in curve if point["seconds"] <= seconds]
    return past[-1] if past else None


def summarize(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The seeds of each problem, tool and budget together.

    Args:
        rows: of a record.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["problem"], row["tool"], row["budget"]), []).append(row)
    return [_together(*key, group) for key, group in groups.items()]


def _together(
    problem: str, tool: str, budget: float | None, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    ended = [row for row in rows if row["curve"]]
    errors = [row["curve"][-1]["error"] for row in ended]
    seconds = [row["curve"][-1]["seconds"] for row in ended]
    certificates = [c for row in rows if (c := row.get("certificate")) is not None]
    notes = sorted({row["note"] for row in rows if row.get("note")})
    return {
        "problem": problem, "tool": tool, "budget": budget, "seeds": len(rows),
        "error": statistics.median(errors) if errors else None,
        "worst": max(errors) if errors else None,
        "seconds": statistics.median(seconds) if seconds else None,
        "certificates": len(certificates),
        "holds": sum(bool(c["holds"]) for c in certificates),
        "note": "; ".join(notes) or None,
    }  # fmt: skip


def main_budget(summary: Sequence[dict[str, Any]]) -> float | None:
    """The budget of most runs."""
    found = [s["budget"] for s in summary if s["budget"] is not None for _ in range(s["seeds"])]
    return statistics.mode(found) if found else None


def runs_of(record: dict[str, Any], problem: str, tool: str) -> list[dict[str, Any]]:
    """Runs that have a curve, with the budget of most runs or, of this package, with none."""
    budgets = (None, main_budget(record["summary"]))
    return [
        r for r in record["records"]
        if (r["problem"], r["tool"]) == (problem, tool) and r["budget"] in budgets and r["curve"]
    ]  # fmt: skip


def table(record: dict[str, Any], budget: float | None = None) -> str:
    """Median errors at the end, in brackets the worst, a row a problem."""
    summary = record["summary"]
    budget = main_budget(summary) if budget is None else budget
    kept = [s for s in summary if s["budget"] in (None, budget)]
    tools = [tool for tool in TOOLS if any(s["tool"] == tool for s in kept)]
    cells = {(s["problem"], s["tool"]): s for s in kept}
    rows = []
    for problem, constant in record["constant"].items():
        found = [cells.get((problem, tool)) for tool in tools]
        errors = [s["error"] for s in found if s and s["error"] is not None]
        best = min((e for e in errors if e < constant), default=math.nan)
        rows.append((f"`{problem}`", f"{constant:.2g}", *(_cell(s, best) for s in found)))
    return markdown_table(("problem", "constant", *(TITLES[t] for t in tools)), rows)


def _cell(s: dict[str, Any] | None, best: float) -> str:
    if s is None:
        return "–"
    if s["error"] is None or not math.isfinite(s["error"]):
        note = s["note"] or "no number"
        return "failed" if note.startswith("failed") else note.replace(": ", ":<br>")
    text = short(s["error"])
    text = f"**{text}**" if s["error"] == best else text
    spread = f"<br>({short(s['worst'])})" if s["seeds"] > 1 and s["worst"] > s["error"] else ""
    return text + spread


def same_time(record: dict[str, Any]) -> str:
    """Median errors of this package when the peers' budget was spent, and at its own end."""
    budget = main_budget(record["summary"]) or math.inf
    rows = []
    for problem in record["constant"]:
        for tool in OURS:
            own = runs_of(record, problem, tool)
            if not own:
                continue
            then = [e for r in own if (e := error_at(r["curve"], budget)) is not None]
            ends = [r["curve"][-1] for r in own]
            rows.append((
                f"`{problem}`", TITLES[tool],
                short(statistics.median(then)) if len(then) == len(own) else "none yet",
                short(statistics.median(e["error"] for e in ends)),
                f"{statistics.median(e['seconds'] for e in ends):.0f}",
            ))  # fmt: skip
    heads = ("problem", "", f"error at {budget:.0f} s", "error at its end", "seconds")
    return markdown_table(heads, rows)


def effort(record: dict[str, Any]) -> str:
    """Lines of user code."""
    lines = record["lines"]
    tools = [tool for tool in TOOLS if tool in lines]
    problems = list(record["constant"])
    impossible = {
        (s["problem"], s["tool"]) for s in record["summary"]
        if s["note"] and s["note"].startswith("not possible")
    }  # fmt: skip
    show = lambda p, t: "–" if (p, t) in impossible else str(lines[t][p])
    rows = [(f"`{p}`", *(show(p, t) for t in tools)) for p in problems]
    return markdown_table(("problem", *(TITLES[t] for t in tools)), rows)


def told(record: dict[str, Any]) -> str:
    """What each tool says at the end of its first seed, beside the true error."""
    rows = []
    for problem in record["constant"]:
        for tool in TOOLS:
            own = runs_of(record, problem, tool)
            if not own:
                continue
            last, certificate = own[0]["curve"][-1], own[0].get("certificate")
            if certificate:
                low, high = certificate["ci_low"], certificate["ci_high"]
                says = f"error between {short(low)} and {short(high)}"
            else:
                losses = [p["loss"] for p in own[0]["curve"] if p["loss"] is not None]
                says = f"loss {losses[-1]:.1e}" if losses and tool in PEERS else "nothing"
            rows.append((f"`{problem}`", TITLES[tool], says, short(last["error"])))
    return markdown_table(("problem", "", "says", "true error"), rows)


def page(record: dict[str, Any]) -> str:
    """All tables, with what they are of."""
    summary = record["summary"]
    budget = main_budget(summary)
    others = sorted({s["budget"] for s in summary if s["budget"] not in (None, budget)})
    held = sum(s["holds"] for s in summary), sum(s["certificates"] for s in summary)
    parts = [
        "# Peers", record["what"],
        f"## Errors, budget {budget or 0:.0f} s", table(record),
        *(f"## Errors, budget {b:.0f} s\n\n{table(record, b)}" for b in others),
        "## The same time", same_time(record),
        "## Lines of user code", effort(record),
        "## What each says of its own error", told(record),
        f"Certificates hold the true error in {held[0]} of {held[1]} runs.",
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"
