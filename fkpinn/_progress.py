"""How long computations tell whoever started them how far they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class AbstractProgress(Protocol):
    """Told about one phase after another: `start`, many times `update`, `finish`."""

    def start(self, description: str, total: int | None) -> None:
        """A new phase begins.

        Args:
            description: what is being done, in a few words.
            total: number of units of work; `None` if unknown.
        """
        ...

    def update(self, completed: int, **shown_metrics: float) -> None:
        """`completed` units of the current phase are done, out of its `total`.

        Args:
            completed: counted from the start of the phase, not from the last call.
            **shown_metrics: numbers to show next to the bar, such as `loss`.
        """
        ...

    def finish(self) -> None:
        """The last phase is over; called once more, it does nothing."""
        ...


class SilentProgress:
    """Progress that is not shown."""

    def start(self, description: str, total: int | None) -> None:
        """Ignore the phase."""

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Ignore the step."""

    def finish(self) -> None:
        """Ignore the end."""


class Renamed:
    """Progress whose phases get other names than those given by the code that runs them."""

    def __init__(self, inner: AbstractProgress, name: str):
        self.inner: AbstractProgress = inner
        self.name: str = name

    def start(self, description: str, total: int | None) -> None:
        """A phase of the other name begins."""
        del description
        self.inner.start(self.name, total)

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Pass it on."""
        self.inner.update(completed, **shown_metrics)

    def finish(self) -> None:
        """Left to whoever began."""


class Together:
    """Several that are told the same."""

    def __init__(self, *inner: AbstractProgress):
        self.inner: tuple[AbstractProgress, ...] = inner

    def start(self, description: str, total: int | None) -> None:
        """Pass it on."""
        for one in self.inner:
            one.start(description, total)

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Pass it on."""
        for one in self.inner:
            one.update(completed, **shown_metrics)

    def finish(self) -> None:
        """Pass it on."""
        for one in self.inner:
            one.finish()


class TensorBoardProgress:
    """Curves for TensorBoard: one for every number that a phase reports.

    `pip install "fkpinn[tensorboard]"` brings what it needs; `tensorboard --logdir FOLDER` shows
    them, also during a run.

    Args:
        folder: where the event files go.
    """

    def __init__(self, folder: Path | str):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                'Curves for TensorBoard need tensorboardX: pip install "fkpinn[tensorboard]".'
            ) from error
        self._open: Callable[[str], Any] = lambda end: SummaryWriter(
            str(folder), filename_suffix=end
        )
        self._writer: Any = None  # opened with the first number: a refused run leaves no folder
        self._phase, self._files = "", 0

    def start(self, description: str, total: int | None) -> None:
        """Curves of this name follow."""
        del total
        self._phase = description

    def update(self, completed: int, **shown_metrics: float) -> None:
        """One point of each curve."""
        if shown_metrics and self._writer is None:
            self._writer = self._open(f".{self._files}")
            self._files += 1
        for name, value in shown_metrics.items():
            self._writer.add_scalar(f"{self._phase}/{name}", value, completed)

    def finish(self) -> None:
        """Write what is still in memory; numbers that follow go into another file of the folder."""
        if self._writer is not None:
            self._writer.close()  # `flush` does not wait for what is on its way to the file
            self._writer = None
