"""Figures from plain arrays."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._records import finished

_ROUNDING = 1e-24  # mean squares below are no more than that
_BARS = 150  # values with error bars that one picture bears
_LONG = 0.05  # share of them whose limits may leave it
_DISTANCE = "distance from the center"
LINES = ("along $x_1$", "along (1, …, 1)")  # through the center


def slice_figure(
    title: str,
    axes: list[np.ndarray],
    values: np.ndarray,
    exact: np.ndarray | None = None,
    marks: np.ndarray | None = None,
    *,
    names: Sequence[str] = ("$x_1$", "$x_2$"),
    limits: tuple[float, float] | None = None,
) -> Any:
    """Draw a solution over one or two axes, with its reference and the difference.

    Args:
        title: a line above it.
        axes: one or two arrays of coordinates.
        values: the solution on the grid, NaN outside the domain.
        exact: the reference on the same grid, if there is one.
        marks: points to mark on the solution, labels say.
        names: of the axes.
        limits: smallest and largest value of the scale; those of the values if not given.
    """
    figure, plots = new_figure(1 if exact is None or len(axes) == 1 else 3)
    if len(axes) == 1:
        _draw_line(plots[0], axes[0], values, exact)
        plots[0].set_xlabel(names[0])
        if limits is not None:
            plots[0].set_ylim(limits)
    else:
        _draw_maps(figure, plots, axes, values, exact, marks, limits)
        for plot in plots:
            plot.set(xlabel=names[0], ylabel=names[1])
    if len(plots) == 1:
        plots[0].set_title(title)
    else:
        figure.suptitle(title)
    return figure


def draw_corrections(path: Path, title: str, fields: dict[str, np.ndarray]) -> Path:
    """Draw the error of a network, measured by paths, point by point.

    Over one or two axes, or against the distance from `center`.

    Args:
        path: where the picture goes.
        title: a line above it.
        fields: `found_points` in space, one per row, and `found_value` with its confidence limits
            `found_low` and `found_high`; `center` where there are more than two axes.
    """
    points, limits = np.asarray(fields["found_points"], float), _limits(fields)
    figure, (plot,) = new_figure(1)
    if points.shape[1] == 2:
        _draw_spots(figure, plot, points, *limits)
    else:
        name, at = "$x_1$", points[:, 0]
        if points.shape[1] > 2:
            name, at = _DISTANCE, distances(fields)
        _draw_bars(plot, at, limits, "by paths")
        plot.axhline(0.0, color="gray", linewidth=0.8)
        plot.set_xlabel(name)
        plot.set_ylabel("solution − network")
        plot.grid(alpha=0.3)
    figure.suptitle(title, fontsize="medium")  # limits and all
    return save_figure(figure, path)


def _draw_spots(figure, plot, points, value, low, high) -> None:
    """Dots on a map, large where they differ from zero with confidence."""
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
    plot.set_xlabel("$x_1$")
    plot.set_aspect("equal")


def _draw_bars(plot, at: np.ndarray, limits: np.ndarray, label: str) -> None:
    """Some of the values, evenly spread over the axis, each with its lower and upper limit.

    The few longest bars leave the picture, or nothing else could be seen in it.
    """
    order = np.argsort(at)[:: max(1, len(at) // _BARS)]
    value, low, high = limits[:, order]
    bars = np.maximum(np.stack([value - low, high - value]), 0.0)
    plot.errorbar(
        at[order], value, bars, fmt=".", color="C1", ecolor="C1",
        elinewidth=0.8, markersize=4, alpha=0.8, label=label, zorder=3,
    )  # fmt: skip
    seen = [*(np.asarray(dots.get_offsets())[:, 1] for dots in plot.collections[:-1]), value]
    ends = np.concatenate([*seen, np.quantile(low, [_LONG]), np.quantile(high, [1 - _LONG])])
    plot.set_ylim(ends.min() - 0.05 * np.ptp(ends), ends.max() + 0.05 * np.ptp(ends))


def profile_figure(
    title: str,
    fields: dict[str, np.ndarray],
    plane: tuple[list[np.ndarray], np.ndarray] | None = None,
) -> Any:
    """Draw a solution in many dimensions: along lines, and against the distance from a center.

    Args:
        title: a line above it.
        fields: `line_0`, `line_1` and `cloud`, each with `_at`, `_network` and maybe `_exact`;
            with `found_network` also what paths have corrected, see `draw_corrections`.
        plane: axes and values of a map to stand before them.
    """
    known = "cloud_exact" in fields or "found_network" in fields
    count = 2 + known + (plane is not None)
    figure, plots = new_figure(2, 2) if count == 4 else new_figure(count)
    if plane is not None:
        _draw_maps(figure, [plots.pop(0)], *plane, None, None)
    _draw_cuts(plots[0], fields)
    _draw_cloud(plots[1], fields)
    if known:
        _draw_lacks(plots[2], fields)
    for plot in plots:
        plot.grid(alpha=0.3)
        plot.locator_params(axis="x", nbins=6)
        plot.legend(framealpha=0.85, edgecolor="none")
    figure.suptitle(title)
    return figure


def distances(fields: dict[str, np.ndarray]) -> np.ndarray:
    """From the center, of the points at which paths have measured what a network lacks."""
    away = np.asarray(fields["found_points"], float) - np.asarray(fields["center"], float)
    return np.linalg.norm(away, axis=1)


def _limits(fields: dict[str, np.ndarray]) -> np.ndarray:
    """What a network lacks, with its lower and upper limit, in three rows."""
    return np.stack([np.asarray(fields[f"found_{key}"], float) for key in ("value", "low", "high")])


def _draw_cuts(plot, fields: dict[str, np.ndarray]) -> None:
    for k, name in enumerate(LINES):
        at = fields[f"line_{k}_at"]
        plot.plot(at, fields[f"line_{k}_network"], color=f"C{3 * k}", label=f"network {name}")
        if f"line_{k}_exact" in fields:
            label = "reference" if k == 0 else None
            exact = fields[f"line_{k}_exact"]
            plot.plot(at, exact, "--", color="black", linewidth=1.0, label=label)
    plot.set_title("on lines through the center")
    plot.set_xlabel(f"{_DISTANCE}, with sign")


def _draw_cloud(plot, fields: dict[str, np.ndarray]) -> None:
    at = fields["cloud_at"]
    if "cloud_exact" in fields:
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": "black", "linewidths": 0.7}
        plot.scatter(at, fields["cloud_exact"], s=24, label="reference", **ring)
    plot.scatter(at, fields["cloud_network"], s=7, c="C0", linewidths=0, label="network")
    if "found_network" in fields:
        limits = fields["found_network"] + _limits(fields)
        _draw_bars(plot, distances(fields), limits, "corrected by paths")
    plot.set_title("at points of the measure")
    plot.set_xlabel(_DISTANCE)


def _draw_lacks(plot, fields: dict[str, np.ndarray]) -> None:
    """What the network lacks: as the reference says, and as paths say."""
    if "cloud_exact" in fields:
        lacks = fields["cloud_exact"] - fields["cloud_network"]
        plot.scatter(
            fields["cloud_at"], lacks, s=9, c="black", alpha=0.6, linewidths=0,
            label="reference − network",
        )  # fmt: skip
    if "found_network" in fields:
        _draw_bars(plot, distances(fields), _limits(fields), "by paths")
    plot.axhline(0.0, color="gray", linewidth=0.8)
    plot.set_title("error of the network")
    plot.set_xlabel(_DISTANCE)


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


def new_figure(columns: int, rows: int = 1):
    """A figure with that many plots side by side, and rows of them below each other."""
    from matplotlib.figure import Figure  # no global state, no display needed

    size = 4.6 * columns if columns > 1 else 5.4, 4.2 * rows
    figure = Figure(figsize=size, layout="constrained")
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]


def _draw_line(plot, x: np.ndarray, values: np.ndarray, exact: np.ndarray | None) -> None:
    plot.plot(x, values, label="network")
    if exact is not None:
        plot.plot(x, exact, "--", color="black", linewidth=1.0, label="reference")
    plot.set_xlabel("$x_1$")
    plot.grid(alpha=0.3)
    plot.legend(frameon=False)


def _draw_maps(figure, plots, axes, values, exact, marks, limits=None) -> None:
    both = values if exact is None else np.stack([values, exact])
    low, high = limits or (np.nanmin(both), np.nanmax(both))
    scale = {"vmin": low, "vmax": high, "cmap": "viridis"}
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


def save_figure(figure: Any, path: Path) -> Path:
    """Write a picture, whole or not at all."""
    # matplotlib multiplies unset memory for holes in a surface
    with finished(path) as temporary, np.errstate(all="ignore"):
        figure.savefig(temporary, dpi=140, format="png")
    return path


def save_animation(figures: Sequence[Any], path: Path, seconds: float) -> Path:
    """Write pictures of one size that follow each other, as a GIF, whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    frames = []
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    frames = [frame.quantize(128) for frame in frames]
    each = max(20, round(1000 * seconds / len(frames)))
    with finished(path) as temporary:
        frames[0].save(
            temporary, format="GIF", save_all=True, append_images=frames[1:], duration=each, loop=0
        )
    return path
