"""How long computations tell whoever started them how far they are."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class AbstractProgress(Protocol):
    """Told about one phase after another: `start`, many times `update`, `finish`."""

    def start(self, description: str, total: int | None) -> None:
        """A new phase begins.

        Args:
            description: what is being done, in a few words.
            total: how many units of work there are; `None` if nobody knows.
        """
        ...

    def update(self, completed: int, **shown_metrics: float) -> None:
        """`completed` units of the current phase are done, out of its `total`.

        Args:
            completed: counted from the start of the phase, not from the last call.
            **shown_metrics: numbers worth showing beside the bar, such as `loss`.
        """
        ...

    def finish(self) -> None:
        """The last phase is over; called once more, it does nothing."""
        ...


class SilentProgress:
    """Progress that nobody watches."""

    def start(self, description: str, total: int | None) -> None:
        """Ignore the phase."""

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Ignore the step."""

    def finish(self) -> None:
        """Ignore the end."""


class Renamed:
    """Progress whose phases go by another name, since what runs them does not know what for."""

    def __init__(self, inner: AbstractProgress, name: str):
        self.inner, self.name = inner, name

    def start(self, description: str, total: int | None) -> None:
        """A phase of the other name begins."""
        del description
        self.inner.start(self.name, total)

    def update(self, completed: int, **shown_metrics: float) -> None:
        """Pass it on."""
        self.inner.update(completed, **shown_metrics)

    def finish(self) -> None:
        """Left to whoever began."""
