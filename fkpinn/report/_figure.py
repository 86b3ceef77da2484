"""Figures from plain arrays."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from .._records import finished

_ROUNDING = 1e-24  # mean squares below are no more than that


def draw_slice(
    path: Path,
    title: str,
    axes: list[np.ndarray],
    values: np.ndarray,
    exact: np.ndarray | None,
    marks: np.ndarray | None = None,
) -> Path:
    """Draw a solution over one or two axes, beside its reference and the difference.

    Args:
        path: where the picture goes.
        title: a line above it.
        axes: one or two arrays of coordinates.
        values: the solution on the grid, NaN outside the domain.
        exact: the reference on the same grid, if there is one.
        marks: points to mark on the solution, labels say.
    """
    figure, plots = new_figure(1 if exact is None or len(axes) == 1 else 3)
    if len(axes) == 1:
        _draw_line(plots[0], axes[0], values, exact)
    else:
        _draw_maps(figure, plots, axes, values, exact, marks)
    if len(plots) == 1:
        plots[0].set_title(title)
    else:
        figure.suptitle(title)
    return save_figure(figure, path)


def draw_corrections(
    path: Path,
    title: str,
    points: np.ndarray,
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> Path:
    """Draw what paths say a network lacks, point by point, over one or two axes.

    Args:
        path: where the picture goes.
        title: a line above it.
        points: coordinates in space, one point a row.
        value: the correction at each.
        low: its lower confidence limit.
        high: its upper one.
    """
    figure, (plot,) = new_figure(1)
    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        x, bars = points[order, 0], np.stack([value - low, high - value])[:, order]
        plot.errorbar(x, value[order], bars, fmt=".", linewidth=0.8, markersize=4)
        plot.axhline(0.0, color="gray", linewidth=0.8)
        plot.set_ylabel("correction")
    else:
        sure = (low > 0) | (high < 0)
        reach = float(np.quantile(np.abs(value[sure] if sure.any() else value), 0.98)) or 1.0
        style: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
        dots = {"linewidths": 0.4, "edgecolors": "gray"}
        x, y = points[:, 0], points[:, 1]
        plot.scatter(x[~sure], y[~sure], s=7, c=value[~sure], **style, **dots, alpha=0.5)
        image = plot.scatter(x[sure], y[sure], s=30, c=value[sure], **style, **dots)
        figure.colorbar(image, ax=plot, shrink=0.85, extend="both")
        plot.set_title("solution − network (small: may be zero)")
        plot.set_ylabel("$x_2$")
        plot.set_aspect("equal")
    plot.set_xlabel("$x_1$")
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_curves(path: Path, history: list[dict[str, Any]]) -> Path:
    """Draw the loss, its terms and the error against the step, phase by phase."""
    figure, (plot,) = new_figure(1)
    steps = [record["step"] for record in history]
    names = dict.fromkeys(name for record in history for name in record)  # phases differ in terms
    for name in names:
        if name in ("step", "phase", "seconds"):
            continue
        emphasis: dict[str, Any] = {
            "loss": {"color": "black", "linewidth": 1.6},
            "error": {"color": "crimson", "linewidth": 1.6, "linestyle": "--"},
        }.get(name, {"linewidth": 1.1})
        label = "relative L2 error" if name == "error" else name
        # a trained weighting has a logarithm in it, and the loss may be negative
        values = [v if (v := record.get(name, 0)) > _ROUNDING else np.nan for record in history]
        if np.all(np.isnan(values)):  # data built in: nothing but rounding
            continue
        plot.semilogy(steps, values, label=label, **emphasis)
    for before, after in itertools.pairwise(history):
        if before.get("phase") != after.get("phase"):
            plot.axvline(before["step"], color="gray", linewidth=0.8, linestyle=":")
            plot.text(before["step"], 1.01, after["phase"], transform=plot.get_xaxis_transform())
    plot.set_xlabel("step")
    plot.set_ylabel("loss and its terms (before weighting)")
    plot.grid(alpha=0.3)
    plot.legend(frameon=False)
    return save_figure(figure, path)


def new_figure(columns: int):
    """A figure with that many plots side by side."""
    from matplotlib.figure import Figure  # no global state, no display needed

    figure = Figure(figsize=(4.6 * columns if columns > 1 else 5.4, 4.2), layout="constrained")
    return figure, [figure.add_subplot(1, columns, i + 1) for i in range(columns)]


def _draw_line(plot, x: np.ndarray, values: np.ndarray, exact: np.ndarray | None) -> None:
    plot.plot(x, values, label="network")
    if exact is not None:
        plot.plot(x, exact, "--", color="black", linewidth=1.0, label="reference")
    plot.set_xlabel("$x_1$")
    plot.grid(alpha=0.3)
    plot.legend(frameon=False)


def _draw_maps(figure, plots, axes, values, exact, marks) -> None:
    both = values if exact is None else np.stack([values, exact])
    scale = {"vmin": np.nanmin(both), "vmax": np.nanmax(both), "cmap": "viridis"}
    maps = [("network", values, scale)]
    if exact is not None:
        maps.append(("reference", exact, scale))
        maps.append(
            ("|network − reference|", np.abs(values - exact), {"cmap": "magma", "vmin": 0.0})
        )
    for plot, (name, field, style) in zip(plots, maps, strict=True):
        image = _draw_field(plot, axes, field, style)
        figure.colorbar(image, ax=plot, shrink=0.85)
        plot.set_title(name)
        plot.set_xlabel("$x_1$")
        plot.set_ylabel("$x_2$")
        plot.set_aspect("equal")
        plot.locator_params(nbins=5)
    if marks is not None:
        plots[0].scatter(marks[:, 0], marks[:, 1], s=3, c="white", linewidths=0, alpha=0.7)
        plots[0].set_title("network (dots: labels)")


def _draw_field(plot, axes, field: np.ndarray, style: dict[str, Any]):
    """A map with a smooth rim: values go on outside, and a white sheet covers them."""
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    outside = np.isnan(field)
    nearest = distance_transform_edt(outside, return_distances=False, return_indices=True)
    full = field[tuple(np.asarray(nearest))]
    image = plot.pcolormesh(*axes, full, shading="auto", rasterized=True, **style)
    if outside.any():
        cover = gaussian_filter(outside.astype(float), 1.0, mode="nearest")
        plot.contourf(*axes, cover, levels=[0.5, 2.0], colors="white")
        plot.contour(*axes, cover, levels=[0.5], colors="black", linewidths=0.8)
    plot.set(xlim=axes[0][[0, -1]], ylim=axes[1][[0, -1]])
    return image


def save_figure(figure, path: Path) -> Path:
    """Write a picture, whole or not at all."""
    # matplotlib multiplies unset memory for holes in a surface
    with finished(path) as temporary, np.errstate(all="ignore"):
        figure.savefig(temporary, dpi=140, format="png")
    return path
