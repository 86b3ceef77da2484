"""Whether a table of the paper is reproduced, by a rule."""

from typing import Any

from ..report import METHOD_NAMES
from ._config import Experiment
from ._summary import varied

_SHARE = 0.25  # of the printed mean that a difference may be, if the spreads do not explain it
_METRIC = "l2_rel"


def verdict(experiment: Experiment, summary: dict[str, Any]) -> str:
    """A plain sentence on relative L2 errors: reproduced, with a difference, or not.

    A mean counts as reproduced if it lies within two standard deviations (the printed one and ours,
    added) or within a quarter of the printed mean.
    """
    if experiment.kind not in ("table", "sweep") or not experiment.paper:
        return ""
    same, differ = [], []
    for row in summary["rows"]:
        name, printed = _printed(experiment, row)
        if printed is None:
            continue
        mean, spread = row[_METRIC]
        near = abs(mean - printed[0]) <= max(2 * (spread + printed[1]), _SHARE * printed[0])
        if near:
            same.append(name)
        else:
            factor = mean / printed[0]
            ratio = f"{float(f'{max(factor, 1 / factor):.2g}'):g}"  # 450, not 4.5e+02
            times = f"{ratio} times" if factor >= 1 else f"1/{ratio} of"
            differ.append(f"{name} ({mean:.3g}, {times} the paper's {printed[0]:g})")
    if not same and not differ:
        return ""
    if not differ:
        return "Reproduced: every relative L2 error agrees with the paper's."
    if not same:
        return "Not reproduced: " + "; ".join(differ) + "."
    return (
        f"Reproduced with differences. Same relative L2 error as in the paper: {', '.join(same)}. "
        f"Different: {'; '.join(differ)}."
    )


def _printed(experiment: Experiment, row: dict[str, Any]) -> tuple[str, list[float] | None]:
    if row["part"] != "here":
        return "", None
    if experiment.kind == "table":
        values = experiment.paper.get(row["problem"], {}).get(row["method"], {})
        return f"{METHOD_NAMES[row['method']]} on `{row['problem']}`", values.get(_METRIC)
    value = varied(experiment, row)[0]
    name = experiment.vary[0].rpartition(".")[2]  # the paper's own word
    return f"{name} = {value:g}", experiment.paper.get(str(value), {}).get(_METRIC)
