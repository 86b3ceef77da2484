"""Small pictures as SVG, for pages whose background may be light or dark.

Lines and words have the color of the text around them, and nothing has a background.
"""

import base64
import html
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

# dark and light enough to be seen on black and on white
PARTS = ("#3f83c8", "#d9822b", "#3a9d5d", "#c8504d", "#8e63b5", "#a07a3a")
_VIRIDIS = np.array(
    [
        (68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140),
        (40, 174, 128), (94, 201, 98), (173, 220, 48), (253, 231, 37),
    ],
    float,
)  # fmt: skip
_WIDTH, _HEIGHT = 250.0, 190.0  # of the plane, at most
_SHORTEST = 40.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 12.0, 8.0, 34.0
_BAR = 62.0  # room for a scale of colors
_INTERVALS = 5  # between numbers of an axis, at most
_RIM = ' stroke="currentColor" stroke-opacity="0.4" stroke-width="0.7"'  # of dots
_STRETCH = 5.0  # sides of a plane in true proportion, at most


class NoPicture(ValueError):
    """There is nothing to be drawn; the message says why."""


class Canvas:
    """A sheet with a plane of coordinates.

    Args:
        lower: smallest coordinates, across and up.
        upper: largest ones.
        names: of the axes; an empty one has no numbers either.
        equal: whether both axes have one scale.
        height: of the plane, in pixels, at most.
        scale: smallest and largest value of the colors, for a bar beside the plane.
    """

    def __init__(
        self,
        lower: Sequence[float] | np.ndarray,
        upper: Sequence[float] | np.ndarray,
        names: tuple[str, str],
        *,
        equal: bool = False,
        height: float = _HEIGHT,
        scale: tuple[float, float] | None = None,
    ):
        corners = np.array([lower, upper], float)
        if not np.all(np.isfinite(corners)):
            raise NoPicture("what would be drawn is not bounded.")
        alike = corners[0] == corners[1]  # one place, or one value
        room = np.where(alike, np.maximum(0.5 * np.abs(corners[0]), 0.5), 0.0)
        corners += np.stack([-room, room])
        self.lower, self.upper, self.names = corners[0], corners[1], names
        sides = self.upper - self.lower
        self.size = np.array([_WIDTH, height])
        if equal and max(sides) <= _STRETCH * min(sides):
            self.size = np.maximum(sides * min(self.size / sides), _SHORTEST)
        self.scale = None if scale is None or scale[0] == scale[1] else scale
        self._drawn: list[str] = []

    def at(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Coordinates as pixels."""
        across = _LEFT + (x - self.lower[0]) * self._per(0)
        return across, _TOP + (self.upper[1] - y) * self._per(1)

    def _per(self, axis: int) -> float:
        return float(self.size[axis] / (self.upper[axis] - self.lower[axis]))

    def line(
        self, x: np.ndarray, y: np.ndarray, color: str, width: float = 1.8, dash: str = ""
    ) -> None:
        """A curve, with gaps where it is NaN."""
        words, pen = [], "M"
        for a, b in zip(*self.at(x, y), strict=True):
            if math.isfinite(a) and math.isfinite(b):
                words.append(f"{pen}{a:.1f} {b:.1f}")
                pen = "L"
            else:
                pen = "M"
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._drawn.append(
            f'<path d="{"".join(words)}" fill="none" stroke="{color}" stroke-width="{width:g}" '
            f'stroke-linecap="round"{dashes}/>'
        )

    def dots(
        self, x: np.ndarray, y: np.ndarray, colors: Sequence[str], radius: float = 2.6
    ) -> None:
        """A dot for each place."""
        for a, b, color in zip(*self.at(x, y), colors, strict=True):
            place = f'cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"'
            self._drawn.append(f'<circle {place} fill="{color}"{_RIM}/>')

    def image(self, axes: Sequence[np.ndarray], pixels: np.ndarray) -> None:
        """Colored cells around nodes; rows of `pixels` belong to the second axis."""
        half = [0.5 * (axis[-1] - axis[0]) / max(len(axis) - 1, 1) for axis in axes]
        ends = [(axis[0] - h, axis[-1] + h) for axis, h in zip(axes, half, strict=True)]
        (left, right), (top, bottom) = self.at(np.array(ends[0]), np.array(ends[1][::-1]))
        self._drawn.append(_image(left, top, right - left, bottom - top, pixels[::-1]))

    def svg(self, words: str) -> str:
        """All of it.

        Args:
            words: what it shows, for those who cannot see it.
        """
        width = _LEFT + self.size[0] + (_RIGHT if self.scale is None else _BAR + _RIGHT)
        height = _TOP + self.size[1] + (_BOTTOM if self.names[0] else _TOP)
        inner = f'x="{_LEFT}" y="{_TOP}" width="{self.size[0]:.1f}" height="{self.size[1]:.1f}"'
        frame = f'<rect {inner} fill="none" stroke="currentColor" stroke-opacity="0.45"/>'
        return (
            f'<svg width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html.escape(words)}" '
            'style="background:none;max-width:100%" fill="currentColor" '
            'font-family="sans-serif" font-size="10">'
            f"{''.join(self._drawn)}{frame}{self._numbers()}{self._bar()}</svg>"
        )

    def _numbers(self) -> str:
        right, low = _LEFT + self.size[0], _TOP + self.size[1]
        words = []
        if self.names[0]:
            for tick, name in ticks(self.lower[0], self.upper[0]):
                x = float(self.at(tick, 0.0)[0])
                words += [_tick(x, low, x, low + 3), _text(x, low + 14, name, "middle")]
            words.append(_text(0.5 * (_LEFT + right), low + 28, self.names[0], "middle"))
        if self.names[1]:
            for tick, name in ticks(self.lower[1], self.upper[1]):
                y = float(self.at(0.0, tick)[1])
                words += [_tick(_LEFT - 3, y, _LEFT, y), _text(_LEFT - 5, y + 3.5, name)]
            words.append(
                _text(9.0, _TOP + 0.5 * self.size[1], self.names[1], "middle", turned=True)
            )
        return "".join(words)

    def _bar(self) -> str:
        if self.scale is None:
            return ""
        low, high = self.scale
        x, span = _LEFT + self.size[0] + 14, high - low
        colors = paint(np.linspace(1.0, 0.0, 64)[:, None], (0.0, 1.0))
        words = [_image(x, _TOP, 9.0, float(self.size[1]), colors)]
        for tick, name in ticks(low, high):
            y = _TOP + float(self.size[1]) * (high - tick) / span
            words.append(_text(x + 13, y + 3.5, name, "start"))
        return "".join(words)


def paint(values: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    """Red, green, blue and opacity of values, as bytes; NaN is transparent."""
    low, high = scale
    if low == high:  # all alike: the middle of the colors
        low, high = low - 1.0, high + 1.0
    share = np.clip((values - low) / (high - low), 0.0, 1.0)
    there = np.isfinite(share)
    at = np.where(there, share, 0.0) * (len(_VIRIDIS) - 1)
    nodes = np.arange(len(_VIRIDIS))
    channels = [np.interp(at, nodes, _VIRIDIS[:, k]) for k in range(3)]
    return np.stack([*channels, 255.0 * there], axis=-1).round().astype(np.uint8)


def hexadecimal(pixels: np.ndarray) -> list[str]:
    """Colors as they are written, one per row of red, green and blue."""
    return ["#" + bytes(row[:3]).hex() for row in pixels]


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Two to six round numbers, and as they are written: no two alike."""
    fine = 10.0 ** math.floor(math.log10((high - low) / _INTERVALS))
    most = (_INTERVALS + 1e-9) * fine
    step = fine * next((k for k in (1.0, 2.0, 5.0) if high - low <= k * most), 10.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(4, math.ceil(math.log10(max(abs(first), abs(last), 1))) + 1)
    return [(k * step, number(k * step, digits)) for k in range(first, last + 1)]


def number(value: float, digits: int = 4) -> str:
    """Short, with a true minus sign."""
    return f"{value:.{digits}g}".replace("-", "−")


def _tick(x: float, y: float, to_x: float, to_y: float) -> str:
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="0.6"/>'


def _text(x: float, y: float, words: str, anchor: str = "end", *, turned: bool = False) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    place += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text {place} stroke="none">{html.escape(words)}</text>'


def _image(x: float, y: float, width: float, height: float, pixels: np.ndarray) -> str:
    data = base64.b64encode(_png(pixels)).decode()
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<image {place} preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'


def _png(pixels: np.ndarray) -> bytes:
    """A picture with opacity, eight bits a channel, in the smallest file format that has these."""
    rows, columns, _ = pixels.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    unfiltered = np.pad(pixels.reshape(rows, -1), ((0, 0), (1, 0))).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(unfiltered, 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")
