"""Figures of the paper, from plain records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._diagnose import METHOD_NAMES
from ._figure import save_figure

_OURS = "#009E73"
_TERMS = {"residual": "#000000", "boundary": "#E69F00", "labels": "#0072B2"}


def draw_sweep(
    path: Path,
    title: str,
    axis: str,
    curves: dict[str, dict[str, Any]],
    levels: dict[str, float],
) -> Path:
    """Errors against one value that varies: means as lines, every seed as a dot.

    Args:
        path: where the picture goes.
        title: a line above it.
        axis: name of what varies.
        curves: by name: `x`, `mean`, the values of `each` seed or their `spread`, and a `style`
            among those of `_STYLES`.
        levels: by name, values that do not vary.
    """
    figure, (plot,) = _figure(1, 1, (6.2, 4.6))
    for name, level in levels.items():
        plot.axhline(level, color="#555555", linestyle="-.", linewidth=1.2, label=name)
    for name, curve in curves.items():
        x, mean = np.asarray(curve["x"], float), np.asarray(curve["mean"], float)
        style = _STYLES[curve["style"]]
        spread = curve.get("spread")
        plot.errorbar(x, mean, spread, label=name, capsize=3, markersize=5, **style)
        for place, values in zip(x, curve.get("each", []), strict=False):
            plot.plot([place] * len(values), values, ".", color=style["color"], alpha=0.5, zorder=1)
    if any(curve.get("each") for curve in curves.values()):
        plot.plot([], [], ".", color="#999999", label="single seeds")
    values = sorted({float(x) for curve in curves.values() for x in curve["x"]})
    if values[0] > 0:
        plot.set_xscale("log")
    else:  # zero as far from the least positive value as that from ten times itself
        plot.set_xscale("symlog", linthresh=min((v for v in values if v > 0), default=1.0))
    plot.set_yscale("log")
    plot.set_xticks(values, [f"{value:g}" for value in values], minor=False)
    plot.set_xticks([], minor=True)
    plot.set_xlabel(axis)
    plot.set_ylabel("relative L2 error")
    plot.grid(alpha=0.3, which="both")
    figure.legend(frameon=False, ncols=2, loc="outside lower center", fontsize=9)
    figure.suptitle(title)
    return save_figure(figure, path)


_STYLES: dict[str, dict[str, Any]] = {
    "error": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "label": {"color": "#0072B2", "marker": "o", "linestyle": ":", "fillstyle": "none"},
    "corrected": {"color": _OURS, "marker": "s", "linestyle": "-"},
    "corrected label": {"color": _OURS, "marker": "s", "linestyle": ":", "fillstyle": "none"},
    "paper": {"color": "#D55E00", "marker": "^", "linestyle": "--"},
}


def draw_losses(path: Path, title: str, records: Sequence[dict[str, Any]]) -> Path:
    """Terms of the loss against the step: one row per problem, one column per method.

    Args:
        path: where the picture goes.
        title: a line above it.
        records: of single runs.
    """
    problems = list(dict.fromkeys(r["problem"] for r in records))
    methods = list(dict.fromkeys(r["method"] for r in records))
    figure, plots = _figure(len(problems), len(methods), (9.0, 2.5 * len(problems)))
    for index, plot in enumerate(plots):
        problem, method = problems[index // len(methods)], methods[index % len(methods)]
        plot.set_title(f"{problem}, {METHOD_NAMES[method]}", fontsize=10)
        plot.set_ylabel("mean square")
        plot.set_xlabel("step")
        plot.grid(alpha=0.3)
        found = [r for r in records if (r["problem"], r["method"]) == (problem, method)]
        if not found:
            continue
        history = found[0]["history"]
        steps = [h["step"] for h in history]
        for name, color in _TERMS.items():
            if name in history[0]:
                plot.semilogy(
                    steps, [h[name] for h in history], color=color, label=name, linewidth=1.2
                )
        plot.legend(frameon=False, fontsize=8)
    for row in range(len(problems)):
        same = plots[row * len(methods) : (row + 1) * len(methods)]
        limits = np.array([plot.get_ylim() for plot in same])
        for plot in same:
            plot.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_solution(path: Path, title: str, records: dict[str, dict[str, Any]]) -> Path:
    """One problem: truth, and for each method its solution and its error, flat and as surfaces.

    Args:
        path: where the picture goes.
        title: a line above it.
        records: by method, runs with their pictures.
    """
    pictures = {method: r["picture"] for method, r in records.items() if r.get("picture")}
    grid = lambda field: np.array(
        [[np.nan if v is None else v for v in row] for row in field], float
    )
    first = next(iter(pictures.values()))
    x, y = (np.asarray(axis) for axis in first["axes"])
    truth = grid(first["exact"])
    fields = [("reference", truth, False)]
    for method, picture in pictures.items():
        found = grid(picture["values"])
        fields.append((METHOD_NAMES[method], found, False))
        off = np.abs(found - truth)
        name = f"|{METHOD_NAMES[method]} − reference|, at most {np.nanmax(off):.2g}"
        fields.append((name, off, True))
    scale = {"vmin": np.nanmin(truth), "vmax": np.nanmax(truth), "cmap": "viridis"}
    worst = max(float(np.nanmax(field)) for _, field, error in fields if error)
    error_scale = {"vmin": 0.0, "vmax": worst, "cmap": "magma"}
    from matplotlib.figure import Figure

    n = len(fields)
    figure = Figure(figsize=(3.4 * n, 6.0), layout="constrained")
    for k, (name, field, error) in enumerate(fields):
        style = error_scale if error else scale
        flat = figure.add_subplot(2, n, k + 1)
        image = flat.pcolormesh(x, y, field, shading="auto", rasterized=True, **style)
        figure.colorbar(image, ax=flat, shrink=0.8)
        flat.set_title(name, fontsize=10)
        flat.set_aspect("equal")
        flat.set_xlabel("$x_1$")
        if k == 0:
            flat.set_ylabel("$x_2$")
        surface: Any = figure.add_subplot(2, n, n + k + 1, projection="3d")
        surface.plot_surface(
            *np.meshgrid(x, y), field, rcount=50, ccount=50, linewidth=0, antialiased=False, **style
        )
        surface.set_zlim(style["vmin"], style["vmax"])
        surface.tick_params(labelsize=7)
        surface.set_xlabel("$x_1$", fontsize=8)
        surface.set_ylabel("$x_2$", fontsize=8)
    figure.suptitle(title)
    return save_figure(figure, path)


def _figure(rows: int, columns: int, size: tuple[float, float]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    plots = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    return figure, plots
