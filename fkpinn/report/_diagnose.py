"""Records of diagnostics as pictures."""

from pathlib import Path
from typing import Any

import numpy as np

from ._figure import new_figure, save_figure

# colors that differ for everybody (Okabe and Ito)
COLORS = {"pinn": "#D55E00", "fk-pinn": "#0072B2"}
_TERMS = {"residual": "#009E73", "boundary": "#E69F00", "terminal": "#CC79A7", "labels": "#0072B2"}
METHOD_NAMES = {
    "pinn": "PINN",
    "fk-pinn": "FK-PINN",
    "fk-pinn-adam": "FK-PINN, first order",
    "fk-pinn-nncg": "FK-PINN + NNCG",
    "pinn-nncg": "PINN + NNCG",
    "pinn-engd": "PINN, ENGD",
}


def draw_spectra(path: Path, title: str, spectra: dict[str, dict[str, Any]]) -> Path:
    """Eigenvalues of the Gauss-Newton matrix, largest first, by term and in all; a plot a method.

    Args:
        path: where the picture goes.
        title: a line above it.
        spectra: by method, then by term (`all` for their sum), records of spectra.
    """
    figure, plots = new_figure(len(spectra))
    for plot, (method, found) in zip(plots, spectra.items(), strict=True):
        for name, spectrum in found.items():
            values = np.sort(np.asarray(spectrum["values"]))[::-1]
            values = values[values > spectrum["zero"]]
            style: dict[str, Any] = (
                {"color": "black", "linewidth": 2.0, "label": "all terms"}
                if name == "all"
                else {"color": _TERMS[name], "linewidth": 1.2, "label": name}
            )
            plot.loglog(np.arange(1, len(values) + 1), values, **style)
        condition = found["all"]["condition"]
        plot.set_title(f"{METHOD_NAMES[method]}: condition number {condition:.1e}")
        plot.set_xlabel("index")
        plot.grid(alpha=0.3)
        plot.legend(frameon=False)
    plots[0].set_ylabel("eigenvalue of $J^\\top J$")
    _same_limits(plots)
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_coverage(path: Path, title: str, record: dict[str, Any]) -> Path:
    """The smallest curvature against the weight of the labels, and its bound.

    Args:
        path: where the picture goes.
        title: a line above it.
        record: of a coverage.
    """
    figure, (plot,) = new_figure(1)
    weights = np.asarray(record["weights"])
    bounds = np.asarray(record["bound"])
    plot.loglog(weights, record["measured"], color="black", label="measured")
    plot.axhline(record["without"], color=COLORS["pinn"], linestyle=":", label="without labels")
    plot.loglog(weights, record["zero"], color="gray", linestyle="--", label="counts as zero")
    positive = bounds > 0
    if positive.any():
        plot.loglog(weights[positive], bounds[positive], color=COLORS["fk-pinn"], label="bound")
    else:
        plot.plot([], [], " ", label="bound: negative for all weights shown")
    if weights[0] <= record["least_weight"] <= weights[-1]:
        plot.axvline(record["least_weight"], color="gray", linewidth=0.8, linestyle="--")
        plot.text(
            record["least_weight"], 0.02, " least weight of the theory",
            transform=plot.get_xaxis_transform(), rotation=90, fontsize=8, va="bottom",
        )  # fmt: skip
    plot.set_xlabel("weight of the labels")
    plot.set_ylabel("smallest positive eigenvalue of $G_\\lambda$")
    plot.grid(alpha=0.3)
    plot.legend(frameon=False)
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_conditioning(path: Path, title: str, record: dict[str, Any]) -> Path:
    """Condition numbers, and eigenvalues that are not small, against the number of points.

    Args:
        path: where the picture goes.
        title: a line above it.
        record: of `conditioning`.
    """
    figure, (plot, count) = new_figure(2)
    records = record["records"]
    n = np.asarray(sorted({r["n"] for r in records}), float)
    shares = list(records[0]["above"])
    for method, color in COLORS.items():
        own = [r for r in records if r["method"] == method]
        growth = record["growth"][method]
        x, condition = (np.asarray([r[key] for r in own], float) for key in ("n", "condition"))
        plot.loglog(x, condition, "o", color=color, markersize=4, alpha=0.6)
        line = np.exp(
            np.mean(np.log(condition)) + growth["exponent"] * (np.log(n) - np.mean(np.log(x)))
        )
        half = 0.5 * (growth["ci_high"] - growth["ci_low"])
        label = f"{METHOD_NAMES[method]}: $n^{{{growth['exponent']:.2f} \\pm {half:.2f}}}$"
        plot.loglog(n, line, color=color, label=label)
        for share, marker in zip(shares, "osD^", strict=False):
            seen = [np.median([r["above"][share] for r in own if r["n"] == k]) for k in n]
            name = f"above {share}" if method == "pinn" else None
            count.loglog(n, seen, marker=marker, markersize=4, color=color, linewidth=1, label=name)
    sizes = [max(r["rows"], r["parameters"]) for r in records]
    limit = (max(sizes) * np.finfo(np.float64).eps) ** -2
    plot.axhline(limit, color="0.4", linestyle="--", label="limit of double precision")
    low = min(r["condition"] for r in records)
    plot.set_ylim(min(low, 1e-4 * limit) / 3, 30 * limit)
    plot.set_ylabel("condition number of $J^\\top J$")
    count.loglog(n, n, color="0.4", linestyle=":", label="collocation points")
    count.set_ylabel("eigenvalues above a fraction of the largest")
    for axes in (plot, count):
        axes.set_xlabel("collocation points $n$")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_landscapes(path: Path, title: str, found: dict[str, dict[str, Any]]) -> Path:
    """The loss around networks: surfaces above, contours below, one scale for all.

    Args:
        path: where the picture goes.
        title: a line above it.
        found: by method, records of landscapes.
    """
    from matplotlib.figure import Figure

    logs = {m: np.log10(np.maximum(np.asarray(r["loss"]), 1e-300)) for m, r in found.items()}
    low = min(float(a.min()) for a in logs.values())
    high = max(float(a.max()) for a in logs.values())
    columns = len(found)
    figure = Figure(figsize=(4.6 * columns, 8.0), layout="constrained")
    for k, (method, record) in enumerate(found.items()):
        reach = np.asarray(record["reach"])
        x, y = np.meshgrid(reach, reach, indexing="ij")
        surface: Any = figure.add_subplot(2, columns, k + 1, projection="3d")
        surface.plot_surface(
            x, y, logs[method], cmap="viridis", vmin=low, vmax=high, linewidth=0, rcount=60,
            ccount=60,
        )  # fmt: skip
        surface.set_zlim(low, high)
        surface.set_title(METHOD_NAMES.get(method, method))
        surface.set_zlabel("$\\log_{10}$ loss")
        for axis in ("x", "y"):
            surface.locator_params(axis=axis, nbins=3)  # labels of more would overlap
        plot = figure.add_subplot(2, columns, columns + k + 1)
        levels = np.linspace(low, high, 25)
        image = plot.contourf(x, y, logs[method], levels=levels, cmap="viridis")
        plot.contour(x, y, logs[method], levels=levels[::2], colors="white", linewidths=0.4)
        plot.plot(0, 0, "+", color="white", markersize=9)
        plot.set_aspect("equal")
        plot.set_xlabel("first direction")
        plot.set_ylabel("second direction")
        figure.colorbar(image, ax=plot, shrink=0.85, label="$\\log_{10}$ loss", format="%.2g")
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_labels(path: Path, title: str, record: dict[str, Any]) -> Path:
    """Tails of labels with their bound, bias against the step, and what cutting paths costs.

    Args:
        path: where the picture goes.
        title: a line above it.
        record: of the label theory.
    """
    figure, plots = new_figure(3)
    tails = record["tails"]
    t = np.asarray(tails["deviation"])
    seen = np.asarray(tails["observed"])
    plots[0].semilogy(t[seen > 0], seen[seen > 0], color="black", label="observed")
    plots[0].semilogy(t, tails["bound"], color=COLORS["fk-pinn"], label="Bernstein")
    plots[0].set_ylim(0.5 / tails["groups"], 2)
    plots[0].set_xlabel(f"deviation of a mean of {tails['n_paths']} paths")
    plots[0].set_ylabel("probability of a larger deviation")
    for scheme, color in zip(record["bias"], ("#D55E00", "#0072B2"), strict=False):
        found = record["bias"][scheme]
        dt = np.asarray(found["dt"])
        off = np.abs(found["relative_bias"])
        bars = 2 * np.asarray(found["relative_stderr"])
        label = f"{scheme}: order {found['order']:.2f} ± {2 * found['order_stderr']:.2f}"
        plots[1].errorbar(dt, off, bars, fmt="o-", color=color, markersize=4, label=label)
    plots[1].set_xscale("log")
    plots[1].set_yscale("log")
    plots[1].set_xlabel("time step")
    plots[1].set_ylabel("|mean bias| / size of the solution")
    plots[1].xaxis.set_minor_formatter(lambda *_: "")
    low, high = plots[1].get_ylim()
    plots[1].set_ylim(max(low, 1e-4 * high), 6 * high)  # room for the legend
    cut = record["truncation"]
    plots[2].semilogy(cut["t_max"], cut["worst_bias"], "o", color="black", label="measured")
    line = cut["c_t"] * np.exp(-cut["kappa"] * np.asarray(cut["t_max"]))
    rate = f"{cut['c_t']:.2g} exp(−{cut['kappa']:.3g} T)"
    plots[2].semilogy(cut["t_max"], line, color=COLORS["fk-pinn"], label=rate)
    plots[2].set_xlabel("time $T$ at which paths are cut")
    plots[2].set_ylabel("largest bias")
    for plot in plots:
        plot.grid(alpha=0.3)
        plot.legend(frameon=False, loc="upper left" if plot is plots[1] else "best")
    figure.suptitle(title)
    return save_figure(figure, path)


def draw_bounds(path: Path, title: str, record: dict[str, Any]) -> Path:
    """The terms of the error bound, as bars.

    Args:
        path: where the picture goes.
        title: a line above it.
        record: of the calculator.
    """
    figure, (plot,) = new_figure(1)
    terms = {name: value for name, value in record["terms"].items() if value > 0}
    names = list(terms)[::-1]
    plot.barh(names, [terms[name] for name in names], color=COLORS["fk-pinn"])
    plot.set_xscale("log")
    plot.set_xlabel("size of the term, constants as given")
    plot.grid(alpha=0.3, axis="x")
    figure.suptitle(title)
    return save_figure(figure, path)


def _same_limits(plots: list[Any]) -> None:
    low = min(plot.get_ylim()[0] for plot in plots)
    high = max(plot.get_ylim()[1] for plot in plots)
    for plot in plots:
        plot.set_ylim(low, high)
