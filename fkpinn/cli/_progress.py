"""Progress on standard error: a live view in a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_BARS = "▁▂▃▄▅▆▇█"
_CURVE = 24  # characters of a curve


class BarProgress:
    """A bar a phase, with speed and time left; below, what it reports and how that went so far."""

    def __init__(self):
        self._view = _View(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            _Count(),
            _Speed(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None) -> None:
        """Open a bar; the one before is complete."""
        self._complete()
        self._view.curves = {}
        self._view.start()
        self._task = self._view.add_task(description, total=total)

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Move the bar."""
        for name, value in shown_metrics.items():
            self._view.curves.setdefault(name, []).append(value)
        if self._task is not None:
            self._view.update(self._task, completed=completed)

    def finish(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._complete()
        self._view.stop()

    def _complete(self) -> None:
        if self._task is not None:
            self._view.stop_task(self._task)
            self._task = None


class _View(Progress):
    """Bars, and under them one line for each number that the last phase reports."""

    def __init__(self, *columns, **options):
        self.curves: dict[str, list[float]] = {}
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterable[RenderableType]:
        """All that is shown."""
        yield self.make_tasks_table(self.tasks)
        width = max(map(len, self.curves), default=0)
        for name, values in self.curves.items():
            yield Text(f"  {name:<{width}}  {values[-1]:9.3g}  {spark(values)}", style="dim")


class _Count(ProgressColumn):
    """Units of work, done and in all."""

    def render(self, task: Task) -> Text:
        """As short as it goes."""
        total = "?" if task.total is None else short(task.total)
        return Text(f"{short(task.completed)}/{total}", style="progress.download")


class _Speed(ProgressColumn):
    """Units of work a second."""

    def render(self, task: Task) -> Text:
        """As short as it goes."""
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{short(speed)}/s", style="dim")


def short(number: float | int) -> str:
    """A number in at most five characters: 12, 20.4k, 3.1M."""
    if number < 1e4:
        return f"{number:.3g}" if number < 100 else f"{number:.0f}"
    size, suffix = next((s, x) for s, x in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if number >= s)
    return f"{number / size:.3g}{suffix}"


def spark(values: list[float], width: int = _CURVE) -> str:
    """A curve in one line of text, on a log scale where all values are positive."""
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < 2:
        return ""
    if min(finite) > 0:
        finite = [math.log(v) for v in finite]
    n = min(width, len(finite))
    picked = [finite[(len(finite) - 1) * k // (n - 1)] for k in range(n)]
    low, high = min(picked), max(picked)
    if high == low:
        return _BARS[0] * n
    return "".join(_BARS[round((v - low) / (high - low) * (len(_BARS) - 1))] for v in picked)


class LineProgress:
    """Plain lines, at most one every `every` seconds, and one at the end of each phase."""

    def __init__(self, every: float = 5.0):
        self._every = every
        self._description: str | None = None
        self._total: int | None = None
        self._began = self._printed = 0.0
        self._latest = (0, "")

    def start(self, description: str, total: int | None) -> None:
        """Say what begins; the phase before is over."""
        self.finish()
        self._description, self._total = description, total
        self._began = self._printed = time.monotonic()
        self._latest = (0, "")
        self._print("started")

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Print a line if the last one is old enough."""
        self._latest = (completed, _metrics(shown_metrics))
        now = time.monotonic()
        if now - self._printed >= self._every:
            self._printed = now
            self._print(self._state(now - self._began))

    def finish(self) -> None:
        """Say how long the phase took."""
        if self._description is not None:
            metrics = self._latest[1]
            self._print(f"{time.monotonic() - self._began:.1f} s in total {metrics}")
            self._description = None

    def _state(self, elapsed: float) -> str:
        completed, metrics = self._latest
        if not self._total or not completed:
            return f"{completed} after {elapsed:.0f} s {metrics}"
        left = elapsed * (self._total - completed) / completed
        share = f"{completed}/{self._total}"
        return f"{share} after {elapsed:.0f} s, about {left:.0f} s left {metrics}"

    def _print(self, text: str) -> None:
        print(f"{self._description}: {text}".rstrip(), file=sys.stderr, flush=True)


def _metrics(shown: dict[str, float]) -> str:
    return " ".join(f"{name}={value:.3g}" for name, value in shown.items())
