"""Progress on standard error: a bar in a terminal, a line now and then elsewhere."""

import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fkpinn._progress import AbstractProgress


def terminal_progress() -> AbstractProgress:
    """The reporter that suits standard error."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


class BarProgress:
    """One live bar a phase, with the time left and the latest metrics."""

    def __init__(self):
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None) -> None:
        """Open a bar; the one before is complete."""
        self._complete()
        self._bars.start()
        self._task = self._bars.add_task(description, total=total, metrics="")

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Move the bar."""
        if self._task is not None:
            metrics = _metrics(shown_metrics)
            self._bars.update(self._task, completed=completed, metrics=metrics)

    def finish(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._complete()
        self._bars.stop()

    def _complete(self) -> None:
        if self._task is not None:
            self._bars.stop_task(self._task)
            self._task = None


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
            self._print(f"{time.monotonic() - self._began:.1f} s in all {metrics}")
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
