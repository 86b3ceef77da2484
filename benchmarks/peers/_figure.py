"""Error against time, a panel a problem."""

from pathlib import Path
from typing import Any

from fkpinn._records import finished

from ._table import TITLES, TOOLS, runs_of

_COLORS = {
    "deepxde": "#0072b2", "jinns": "#e69f00", "pina": "#009e73", "jno": "#cc79a7",
    "skfem": "#7f7f7f", "fkpinn-quick": "#d55e00", "fkpinn-best": "#000000",
}  # fmt: skip


def draw(record: dict[str, Any], path: Path) -> Path:
    """Draw all curves of a record.

    Args:
        record: of this benchmark.
        path: of the picture.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.6), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 4, sharex=True).ravel()
    handles: dict[str, Any] = {}
    for panel, (problem, constant) in zip(panels, record["constant"].items(), strict=False):
        panel.axhline(constant, color="0.75", linewidth=1, linestyle=":")
        for tool in TOOLS:
            for row in runs_of(record, problem, tool):
                x = [max(point["seconds"], 0.1) for point in row["curve"]]
                y = [point["error"] for point in row["curve"]]
                (line,) = panel.loglog(x, y, color=_COLORS[tool], linewidth=1.2, alpha=0.8)
                panel.plot(x[-1:], y[-1:], "o", color=_COLORS[tool], markersize=3)
                handles[tool] = line
        panel.set_title(problem, fontsize=10)
        panel.set_ylim(top=10)
        panel.grid(True, which="major", color="0.92")
    for panel in panels[4:]:
        panel.set_xlabel("processor seconds")
    for panel in panels[::4]:
        panel.set_ylabel("relative $L^2$ error")
    names = [TITLES[tool].replace("`", "") for tool in TOOLS if tool in handles]
    lines = [handles[tool] for tool in TOOLS if tool in handles]
    if lines:
        figure.legend(lines, names, loc="outside lower center", ncols=len(lines), frameon=False)
    with finished(path) as unfinished:
        figure.savefig(unfinished, dpi=130, format="png")
    return path
