"""What notebooks show of problems, labels, certificates and solutions.

One card each, of text in the color of the page around it and small pictures without background.
There are no scripts, and nothing is fetched.
"""

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._equation import equations
from ._inline import PARTS, Canvas, NoPicture, hexadecimal, number, paint

_DOTS = 400  # of a map
_BARS = 120  # values with error bars that one picture bears
_COLUMNS = 4  # coordinates that are written out
_DECADES = 3  # of an error whose lower limit is zero
_X, _U = "x₁", "u"
_LINE = PARTS[0]
_CARD = "font-size:13px;line-height:1.5;padding:4px 0"
_FAINT = "opacity:0.75"


def problem_html(about: dict[str, Any], sketch: Callable[[], Any]) -> str:
    """A problem: its equation, domain and data.

    Args:
        about: as `fkpinn.problem.describe` tells it.
        sketch: makes what is drawn of the domain, or raises `NoPicture`.
    """
    parts = {condition["part"]: k for k, condition in enumerate(about["boundary"])}
    picture = _picture(lambda: _drawn_domain(sketch(), parts))
    lines = "".join(f'<div style="margin:3px 0">{_inline(line)}</div>' for line in equations(about))
    rows = [
        ("domain", html.escape(_domain(about))),
        *(
            (f"on {html.escape(condition['part'])}", _swatch(k) + _condition(condition))
            for k, condition in enumerate(about["boundary"])
        ),
        ("wanted", html.escape(_wanted(about["measure"]))),
    ]
    if about["horizon"] is not None:
        given = "at time zero" if about["forward"] else "at the end"
        rows.insert(1, ("time", f"from 0 to {number(about['horizon'])}, data are given {given}"))
    return _card("Problem", about["name"], _beside(picture, lines + _table(rows)))


def labels_html(labels: Any) -> str:
    """Labels: how many, how they were made, and how good they are.

    Args:
        labels: as `fkpinn.labels.Labels` has them.
    """
    points, value, stderr, bias = (
        np.asarray(getattr(labels, name), np.float64)
        for name in ("points", "value", "stderr", "bias")
    )
    n, coords = points.shape
    size, noise = _typical(value), _typical(stderr)
    known = bias[np.isfinite(bias)]
    rows = [
        ("points", f"{n:,}, of {coords} coordinate{'s' * (coords > 1)}"),
        ("paths", _paths(labels.n_paths, n)),
        *_made(labels.provenance),
        ("typical value", f"{number(size)} (from {number(value.min())} to {number(value.max())})"),
        ("typical standard error", number(noise) + _of_size(noise, size)),
    ]
    if len(known) and known.any():
        rows.append(("typical time-step bias", number(_typical(known)) + _of_size(known, size)))
    if labels.n_paths:
        rows.append(("unfinished paths", _unfinished(labels, n)))
    picture = _picture(lambda: _drawn_labels(labels, points, value))
    return _card("Labels", "", _beside(picture, _table(rows)))


def certificate_html(record: dict[str, Any]) -> str:
    """A certificate: the error with its limits, and what that means.

    Args:
        record: as `fkpinn.Certificate.to_dict` makes it.
    """
    return _card("Certificate", "", _certified(record))


def solution_html(
    name: str,
    words: str,
    stopped: Sequence[str],
    certificate: dict[str, Any] | None,
    cut: Callable[[], tuple[list[np.ndarray], np.ndarray, str]],
) -> str:
    """A solution: what it looks like, and how good it is.

    Args:
        name: of the problem.
        words: what kind of function it is.
        stopped: what its training says of its end.
        certificate: record of the error that paths measured, if they did.
        cut: makes axes, values on their grid (NaN outside) and a line that says where this is, or
            raises `NoPicture`.
    """
    ends = "".join(f"<li>{html.escape(line)}</li>" for line in stopped)
    ended = f'<ul style="margin:4px 0;padding-left:18px">{ends}</ul>' if ends else ""
    error = "Its error has not been measured; <code>solution.certify()</code> measures it."
    told = f"<div>{error}</div>" if certificate is None else _certified(certificate)
    rest = f'<div style="{_FAINT}">{html.escape(words)}</div>{told}{ended}'
    return _card("Solution", name, _beside(_picture(lambda: _drawn_cut(*cut())), rest))


# ---- pictures


def _picture(make: Callable[[], str]) -> str:
    """A picture, or why there is none: nothing to draw, no memory, a function not written."""
    try:
        return make()
    except (NoPicture, RuntimeError, FloatingPointError) as error:
        return f'<div style="{_FAINT}">No picture: {html.escape(str(error) or repr(error))}</div>'


def _drawn_domain(sketch: Any, parts: dict[str, int]) -> str:
    axes, depth = sketch.axes, sketch.depth
    color = {part: PARTS[k % len(PARTS)] for part, k in parts.items()}
    seen = _caption("dots: where the answer is wanted") if len(sketch.wanted) else ""
    if len(axes) == 1:
        (x,) = axes
        canvas = Canvas([x[0], -1.0], [x[-1], 1.0], (_X, ""), height=44.0)
        inside = np.concatenate([[False], depth < 0, [False]])
        turns = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2)  # first in, first out
        for first, out in turns:
            canvas.line(x[[first, out - 1]], np.zeros(2), "currentColor", 2.5)
        for part, places in sketch.walls:
            canvas.line(np.repeat(places[:, 0], 2), np.array([-0.5, 0.5]), color[part], 4.0)
        canvas.dots(*_within(canvas, sketch.wanted[:, 0], np.full(len(sketch.wanted), -0.6)))
        return canvas.svg("the domain") + seen
    lower, upper = (np.array([axis[k] for axis in axes]) for k in (0, -1))
    canvas = Canvas(lower, upper, ("x₁", "x₂"), equal=True)
    cell = max(axis[1] - axis[0] for axis in axes)
    pixels = np.full((*depth.shape, 4), 128.0)
    pixels[..., 3] = 64.0 * np.clip(0.5 - depth / cell, 0.0, 1.0)
    canvas.image(axes, pixels.astype(np.uint8))
    for part, places in sketch.walls:
        canvas.line(places[:, 0], places[:, 1], color[part], 2.2)
    canvas.dots(*_within(canvas, *sketch.wanted.T))
    return canvas.svg("the domain and its boundary parts") + seen


def _within(canvas: Canvas, x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    """Small dots, those that the sheet has room for."""
    there = (x >= canvas.lower[0]) & (x <= canvas.upper[0])
    there &= (y >= canvas.lower[1]) & (y <= canvas.upper[1])
    return x[there], y[there], ["currentColor"] * int(there.sum()), 1.2


def _drawn_labels(labels: Any, points: np.ndarray, value: np.ndarray) -> str:
    n, coords = points.shape
    if coords > 2:
        raise NoPicture(f"points of {coords} coordinates are not drawn.")
    most = _BARS if coords == 1 else _DOTS
    some = np.argsort(points[:, 0], kind="stable")[:: -(-n // most)]
    points, value = points[some], value[some]
    scale = float(value.min()), float(value.max())
    left = f" ({len(some)} of them are drawn)" if len(some) < n else ""
    if coords == 2:
        lower, upper = _with_room(points.min(axis=0), points.max(axis=0))
        names = "1st coordinate", "2nd"
        canvas = Canvas(lower, upper, names, equal=True, scale=scale)
        canvas.dots(points[:, 0], points[:, 1], hexadecimal(paint(value, scale)))
        return canvas.svg("values at points") + _caption(f"values at points{left}")
    low, high = (np.asarray(limit, float)[some] for limit in labels.interval())
    x = points[:, 0]
    lower, upper = _with_room(np.array([x.min(), low.min()]), np.array([x.max(), high.max()]))
    canvas = Canvas(lower, upper, (_X, _U))
    gap = np.full_like(x, np.nan)
    ends = np.stack([low, high, gap], axis=1).ravel()
    canvas.line(np.repeat(x, 3), ends, "currentColor", 1.0)
    canvas.dots(x, value, [_LINE] * len(x))
    return canvas.svg("values with error bars") + _caption(f"with 95% limits{left}")


def _drawn_cut(axes: list[np.ndarray], values: np.ndarray, words: str) -> str:
    there = values[np.isfinite(values)]
    if not len(there):
        raise NoPicture("no value of the slice is a finite number.")
    scale = float(there.min()), float(there.max())
    if len(axes) == 1:
        lower, upper = _with_room(np.array([axes[0][0], scale[0]]), [axes[0][-1], scale[1]])
        canvas = Canvas(lower, upper, (_X, _U))
        canvas.line(axes[0], values, _LINE)
    else:
        lower, upper = ([float(axis[k]) for axis in axes] for k in (0, -1))
        canvas = Canvas(lower, upper, ("x₁", "x₂"), equal=True, scale=scale)
        canvas.image(axes, _smooth(values, scale))
    return canvas.svg(f"the solution {words}") + _caption(words)


def _smooth(values: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    """Colors of a map with a smooth rim: values go on outside, and fade there."""
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    outside = ~np.isfinite(values)
    nearest = distance_transform_edt(outside, return_distances=False, return_indices=True)
    pixels = paint(values[tuple(np.asarray(nearest))], scale)
    cover = gaussian_filter(outside.astype(float), 0.8, mode="nearest")
    pixels[..., 3] = np.round(255 * np.clip(1.5 - 2.0 * cover, 0.0, 1.0))
    return pixels


def _drawn_error(record: dict[str, Any]) -> str:
    """Limits of an error on a line of powers of ten."""
    low, middle, high = (float(record[key]) for key in ("ci_low", "l2_rel", "ci_high"))
    if not (math.isfinite(low) and math.isfinite(high) and high > 0):
        raise NoPicture("the limits are no positive numbers.")
    top = math.ceil(math.log10(high) + 1e-9)
    bottom = math.floor(math.log10(low if low > 0 else high * 10.0**-_DECADES) - 1e-9)
    bottom = min(bottom, top - 1)
    at = lambda v: 12 + 296 * (math.log10(max(v, 10.0**bottom)) - bottom) / (top - bottom)
    every = max(1, -(-(top - bottom) // 6))
    marks = "".join(
        f'<line x1="{at(10.0**k):.1f}" y1="19" x2="{at(10.0**k):.1f}" y2="24" '
        'stroke="currentColor"/>'
        f'<text x="{at(10.0**k):.1f}" y="36" text-anchor="middle">{_power(k)}</text>'
        for k in range(bottom, top + 1, every)
    )
    bar = (
        f'<line x1="{at(low):.1f}" y1="10" x2="{at(high):.1f}" y2="10" stroke="{_LINE}" '
        f'stroke-width="7" stroke-opacity="0.55"{"" if low > 0 else _OPEN}/>'
        f'<circle cx="{at(middle):.1f}" cy="10" r="4.5" fill="{_LINE}"/>'
    )
    axis = '<line x1="12" y1="21.5" x2="308" y2="21.5" stroke="currentColor" stroke-opacity="0.5"/>'
    return (
        '<svg width="320" height="40" viewBox="0 0 320 40" role="img" '
        'aria-label="the error and its limits" style="background:none;max-width:100%" '
        f'fill="currentColor" font-family="sans-serif" font-size="10">{axis}{marks}{bar}</svg>'
    )


_OPEN = ' stroke-dasharray="6 3"'


# ---- words


def _certified(record: dict[str, Any]) -> str:
    level = f"{100 * record['level']:g}%"
    limits = f"{_share(record['ci_low'])} and {_share(record['ci_high'])}"
    said = (
        f"<b>Relative L2 error {_share(record['l2_rel'])}</b>, with {level} confidence between "
        f"{limits}: the root mean square error over the problem's measure, relative to the root "
        "mean square of the solution."
    )
    paths = f"{record['n_paths']:,} path{'s' * (record['n_paths'] != 1)}"
    steps = "".join(f", time step {number(dt)}" for dt in _steps([record]))
    how = (
        f"Measured without a reference, by {paths} from each of {record['n_points']:,} new "
        f"points ({html.escape(str(record['scheme']))}{steps}), in {record['seconds']:.1f} s."
    )
    inside = {
        "the time-step effect": record.get("step_effect"),
        "the linearization error": record.get("remainder"),
        "the error of finite differences": record.get("differences"),
    }
    told = [f"{what} ({_share(v)})" for what, v in inside.items() if v and math.isfinite(v)]
    part = f" The limits include {' and '.join(told)}." if told else ""
    picture = _picture(lambda: _drawn_error(record))
    return f'{picture}<div>{said}</div><div style="{_FAINT}">{how}{part}</div>'


def _domain(about: dict[str, Any]) -> str:
    places = [
        ", ".join([number(v) for v in about[key][:_COLUMNS]] + ["…"] * (about["dim"] > _COLUMNS))
        for key in ("lower", "upper")
    ]
    low, high = places if about["dim"] == 1 else [f"({place})" for place in places]
    return f"{about['domain']}, between {low} and {high}"


def _wanted(measure: str) -> str:
    return "uniform in the domain" if measure == "Uniform" else measure


def _condition(condition: dict[str, Any]) -> str:
    given = [
        f"{key} {'a function' if data['constant'] is None else number(data['constant'])}"
        for key, data in condition.items()
        if isinstance(data, dict)
    ]
    return html.escape(", ".join([condition["kind"], *given]))


def _paths(n_paths: int, n: int) -> str:
    return f"{n_paths:,} from each point, {n_paths * n:,} in all" if n_paths else "none"


def _made(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    """How labels came about, as far as they say; those joined from several may differ."""
    sources = provenance.get("parts") or [provenance]
    rows = [("made by", html.escape(str(provenance.get("scheme", "unknown"))))]
    if steps := _steps(sources):
        rows.append(("time step", ", ".join(map(number, steps))))
    return rows


def _steps(sources: Sequence[dict[str, Any]]) -> list[float]:
    """Time steps that were taken; walks on spheres take none, whatever was asked for."""
    stepped = [source for source in sources if "spheres" not in str(source.get("scheme"))]
    return sorted({source["dt"] for source in stepped if source.get("dt") is not None})


def _unfinished(labels: Any, n: int) -> str:
    cut = int(np.sum(np.asarray(labels.unfinished)))
    return "none" if cut == 0 else f"<b>{cut:,}</b> of {labels.n_paths * n:,}"


def _typical(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(values**2)))


def _of_size(error: Any, size: float) -> str:
    return f" ({_share(_typical(np.asarray(error)) / size)} of the value)" if size > 0 else ""


def _share(value: float) -> str:
    """As a percentage, unless that has many zeros."""
    if value != 0 and not 1e-4 <= abs(value) < 100:
        return f"{value:.1e}".replace("-", "−")
    return f"{100 * value:.3g}%" if abs(value) >= 0.995 else f"{100 * value:.2g}%"


def _power(k: int) -> str:
    if -4 <= k <= 1:
        return f"{100 * 10**k:g}%"
    return "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _with_room(lower: Any, upper: Any, share: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    room = share * (upper - lower)
    return lower - room, upper + room


# ---- elements


def _card(kind: str, name: str, body: str) -> str:
    title = f" {html.escape(name)}" if name else ""
    head = f'<div><span style="{_FAINT}">{kind}</span><b>{title}</b></div>'
    return f'<div class="fkpinn" style="{_CARD}">{head}{body}</div>'


def _beside(picture: str, text: str) -> str:
    left, right = "flex:0 1 auto", "flex:1 1 320px;min-width:0;max-width:640px"
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start">'
        f'<div style="{left}">{picture}</div><div style="{right}">{text}</div></div>'
    )


def _table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values, both HTML."""
    cell = "text-align:left;vertical-align:top;border:none;background:none;padding:1px 12px 1px 0"
    lines = "".join(
        f'<tr style="background:none"><td style="{cell};{_FAINT};white-space:nowrap">{name}</td>'
        f'<td style="{cell}">{value}</td></tr>'
        for name, value in rows
    )
    return f'<table style="border:none;border-collapse:collapse;margin:4px 0">{lines}</table>'


def _swatch(k: int) -> str:
    color = PARTS[k % len(PARTS)]
    return (
        f'<span style="display:inline-block;width:14px;height:3px;margin-right:6px;'
        f'vertical-align:middle;background:{color}"></span>'
    )


def _caption(words: str) -> str:
    return f'<div style="{_FAINT};font-size:11px;padding-left:58px">{html.escape(words)}</div>'


def _inline(line: str) -> str:
    """A formula that stands on the left, as text does."""
    return line.replace('<math display="block">', '<math displaystyle="true">')
