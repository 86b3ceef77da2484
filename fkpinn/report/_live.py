"""Progress in a notebook: one line for each phase, which changes in place."""

import html
import importlib
import math
import sys
import time
from typing import Any

from .._progress import AbstractProgress, SilentProgress

_EVERY = 0.5  # seconds between two changes, at least


class NotebookProgress:
    """Shows the progress of a computation in a notebook: a bar per phase, with its latest numbers.

    `fkpinn.solve` uses it automatically in notebooks; `SilentProgress()` turns it off. It needs
    IPython and no widgets.
    """

    def __init__(self):
        here = importlib.import_module("IPython.display")  # no requirement of ours
        self._html, self._display = here.HTML, here.display
        self._shown: Any = None
        self._phases: list[_Phase] = []
        self._changed = -math.inf

    def start(self, description: str, total: int | None) -> None:
        """A line for it; the one before is complete."""
        self._close()
        self._phases.append(_Phase(description, total))
        self._show()

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Change the line, if it has not just changed."""
        if self._phases:
            phase = self._phases[-1]
            phase.completed, phase.metrics = completed, shown_metrics
            if completed == phase.total or time.monotonic() - self._changed >= _EVERY:
                self._show()

    def finish(self) -> None:
        """Leave the lines as they are."""
        self._close()
        if self._phases:
            self._show()
        self._phases, self._shown = [], None

    def _close(self) -> None:
        if self._phases:
            self._phases[-1].close()

    def _show(self) -> None:
        self._changed = time.monotonic()
        page = self._html("".join(phase.html() for phase in self._phases))
        if self._shown is None:
            self._shown = self._display(page, display_id=True)
        else:
            self._shown.update(page)


class _Phase:
    """One line."""

    def __init__(self, description: str, total: int | None):
        self.description, self.total = description, total
        self.completed = 0
        self.metrics: dict[str, float] = {}
        self._began = time.monotonic()
        self._took: float | None = None

    def close(self) -> None:
        """No more time passes."""
        self._took = self._seconds()

    def _seconds(self) -> float:
        return time.monotonic() - self._began if self._took is None else self._took

    def html(self) -> str:
        """A bar, how much of how much, seconds, and numbers."""
        ended = self._took is not None
        share = min(self.completed / self.total, 1.0) if self.total else float(ended)
        count = f"{self.completed:,}" + (f" of {self.total:,}" if self.total else "")
        told = [count, f"{self._seconds():.0f} s"]
        if self.total and 0 < self.completed < self.total and not ended:
            left = self._seconds() * (self.total / self.completed - 1.0)
            told.append(f"about {left:.0f} s left")
        told += [f"{name} {value:.3g}" for name, value in self.metrics.items()]
        words = f"{self.description}: {', '.join(told)}"
        return (
            '<div style="font-size:13px;line-height:1.5">'
            '<span style="display:inline-block;width:120px;height:7px;margin-right:8px;'
            'border:1px solid currentColor;border-radius:4px;opacity:0.8">'
            f'<span style="display:block;width:{100 * share:.0f}%;height:100%;'
            'background:currentColor;border-radius:3px"></span></span>'
            f"{html.escape(words)}</div>"
        )


def progress_here() -> AbstractProgress:
    """Progress for who has asked for none: shown in notebooks, silent elsewhere."""
    python = sys.modules.get("IPython")  # a kernel has it loaded
    shell = None if python is None else python.get_ipython()
    return SilentProgress() if getattr(shell, "kernel", None) is None else NotebookProgress()
