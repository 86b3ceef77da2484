"""What the runs of a record come to: the worst of the seeds beside the bar, as a table."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fkpinn.report import markdown_table

_MARGIN = 0.85  # errors differ by so much from some thousands of points to others


class Bar(NamedTuple):
    """A relative L2 error, and the seconds in which it is to be reached.

    Some have a relative error of the value at the center too, which must lie within its limits.
    """

    l2_rel: float
    seconds: float
    value: float | None = None

    @property
    def target(self) -> float:
        """An L2 error with which both are likely to be reached, at other points too."""
        return _MARGIN * (self.l2_rel if self.value is None else min(self.l2_rel, self.value))

    def reached(self, row: dict[str, Any]) -> bool:
        """By a run that has ended."""
        error, seconds = _number(row, "errors", "l2_rel"), row["seconds"]["total"]
        return error <= self.l2_rel and seconds <= self.seconds and self._value_reached(row)

    def _value_reached(self, row: dict[str, Any]) -> bool:
        found = row["value"]
        if self.value is None:
            return True
        if found is None:
            return False
        within = found["ci_low"] <= found["true"] <= found["ci_high"]
        return within and abs(found["value"] - found["true"]) <= self.value * abs(found["true"])


# by a word of the device's name
BARS = {
    "H200": {
        "ou-exit-10d": Bar(1e-3, 120),
        "ou-exit-50d": Bar(1e-2, 300),
        "double-well-committor-10d": Bar(1e-3, 180),
        "laplace-10d": Bar(8.9e-6, 300),
        "poisson-100d": Bar(1.07e-4, 300),
        "two-body-100d": Bar(3.5e-3, 120),
        "two-body-1000d": Bar(1e-3, 300),
        "allen-cahn-20d": Bar(1e-3, 300, 2e-4),
        "allen-cahn-100d": Bar(1e-3, 300, 2e-4),
        "sine-gordon-10d": Bar(1e-3, 300, 1e-4),
        "sine-gordon-100d": Bar(1e-3, 300, 5e-5),
        "semilinear-heat-10d": Bar(1e-3, 300, 1e-4),
        "semilinear-heat-100d": Bar(1e-3, 300, 1e-4),
        "hjb-lq-20d": Bar(1e-3, 300, 5e-4),
        "hjb-lq-100d": Bar(1e-3, 300, 2e-4),
        "bsb-100d": Bar(1e-3, 300, 1e-4),
        "fully-nonlinear-20d": Bar(1e-2, 300),
        "fully-nonlinear-100d": Bar(3e-2, 300),
        "stable-exit-10d": Bar(3e-3, 300),
        "fractional-poisson-20d": Bar(1e-2, 300),
    },
    "cpu": {  # two cores
        "ou-exit-10d": Bar(1e-2, 360),
        "double-well-committor-10d": Bar(1e-2, 360),
        "laplace-10d": Bar(1e-3, 360),
        "exit-box-10d": Bar(1e-2, 360),
        "bratu": Bar(1e-4, 300),
        "allen-cahn-2d": Bar(1e-3, 300),
        "uncertain-volatility": Bar(1e-3, 300),
        "fisher-kpp": Bar(1e-3, 300),
        "jump-exit": Bar(1e-3, 300),
        "merton": Bar(1e-3, 300),
        "stable-exit-2d": Bar(3e-3, 300),
    },
}
PROBLEMS = (*BARS["H200"], *(name for name in BARS["cpu"] if name not in BARS["H200"]))
_HEADER = (
    "problem", "seed", "error", "constant", "linear", "skill", "certificate", "holds",
    "value at the center", "true value", "seconds",
    "of which labels, compile, train, certificate, rounds", "commit",
)  # fmt: skip
_STAGES = ("labels", "compile", "train", "certificate", "rounds")


def summarize(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The worst of the seeds for each problem, preset and device.

    Args:
        rows: runs, finished or not.
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["problem"], row["preset"], row["device"]
        groups.setdefault(key, []).append(row)
    return [_worst(*key, group) for key, group in groups.items()]


def _worst(problem: str, preset: str, device: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    ended = [row for row in rows if row["finished"]]
    largest = lambda *keys: max((_number(row, *keys) for row in ended), default=None)
    measured = [row for row in ended if row["certificate"] is not None]
    found = {
        "problem": problem,
        "preset": preset,
        "device": device,
        "seeds": sorted(row["seed"] for row in ended),
        "unfinished": sorted(row["seed"] for row in rows if not row["finished"]),
        "worst_l2_rel": largest("errors", "l2_rel"),
        "worst_skill": largest("errors", "skill"),
        "longest_seconds": largest("seconds", "total"),
        "certified": len(measured),
        "certificate_holds": sum(row["certificate"]["holds"] for row in measured),
        "bar": None,
        "met": None,
    }
    if bar := bar_of(problem, device):
        kept = [bar.reached(row) for row in ended]
        found |= {"bar": bar._asdict(), "met": bool(kept) and all(kept) and len(kept) == len(rows)}
    return found


def bar_of(problem: str, device: str) -> Bar | None:
    """The bar of a problem on a device, if it has one."""
    return next((own for word, own in BARS.items() if word in device), {}).get(problem)


def _number(row: dict[str, Any], *keys: str) -> float:
    """What is not a number is worse than any."""
    found: Any = row
    for key in keys:
        found = found[key]
    return math.inf if found is None else found


def line(summary: dict[str, Any]) -> str:
    """A summary in words."""
    said = f"{summary['problem']}, `{summary['preset']}`: "
    if summary["seeds"]:
        said += (
            f"worst of {_count(len(summary['seeds']), 'seed')} {_short(summary['worst_l2_rel'])} "
            f"(skill {_short(summary['worst_skill'], 'g')}) in at most "
            f"{summary['longest_seconds']:.0f} s; the certificate holds "
            f"{summary['certificate_holds']} of {summary['certified']}"
        )
    else:
        said += "no seed has ended"
    if summary["unfinished"]:
        said += f"; {_count(len(summary['unfinished']), 'seed')} did not end"
    if summary["bar"] is None:
        return said + "; no bar"
    bar = summary["bar"]
    word = "met" if summary["met"] else "not met"
    also = "" if bar["value"] is None else f" and {bar['value']:.3g} of the value at the center"
    return said + f"; bar {bar['l2_rel']:.3g}{also} in {bar['seconds']:.0f} s: {word}"


def page(record: dict[str, Any]) -> str:
    """The record as Markdown: the summary of every problem, then every run.

    Args:
        record: as `run` returns it.
    """
    devices = dict.fromkeys(row["device"] for row in record["records"])
    parts = [f"# Dimensions\n\n{record['what']}\n"]
    for device in devices:
        mine = [row for row in record["records"] if row["device"] == device]
        lines = [f"- {line(s)}\n" for s in record["summary"] if s["device"] == device]
        table = markdown_table(_HEADER, [_cells(row) for row in mine])
        notes = dict.fromkeys(row["note"] for row in mine if row.get("note"))
        parts.append(f"## {device}\n\n{''.join(lines)}\n{table}")
        parts += [f"{note}\n" for note in notes]
    return "\n".join(parts)


def _cells(row: dict[str, Any]) -> list[str]:
    name = [f"`{row['problem']}`", str(row["seed"])]
    commit = str(row["commit"] or "–")
    short = commit[:7] + ("+" if commit.endswith("+") else "")
    if not row["finished"]:
        last = row["last"]
        error = f"{last['error']:.1e} when ended" if last else "–"
        seconds = f"{last['seconds']:.0f}" if last else "–"
        return [*name, error, *["–"] * 7, seconds, row["why"], short]
    errors, certificate, seconds = row["errors"], row["certificate"], row["seconds"]
    trivial = [_short(errors[key]) for key in ("l2_rel", "constant", "linear")]
    trivial.append(_short(errors["skill"], "g"))
    limits = ["–", "–"]
    if certificate is not None:
        limits = [
            f"{certificate['ci_low']:.1e} to {certificate['ci_high']:.1e}",
            "yes" if certificate["holds"] else "no",
        ]
    value, central = row["value"], ["–", "–"]
    if value is not None:
        central = [
            f"{value['value']:.5g} ({value['ci_low']:.5g} to {value['ci_high']:.5g})",
            f"{value['true']:.5g}",
        ]
    stages = ", ".join(f"{seconds[stage]:.0f}" for stage in _STAGES)
    return [*name, *trivial, *limits, *central, f"{seconds['total']:.0f}", stages, short]


def _short(value: float | None, kind: str = "e") -> str:
    return "–" if value is None else f"{value:.{1 + (kind == 'g')}{kind}}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
