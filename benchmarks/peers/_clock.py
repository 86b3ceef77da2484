"""The clock of a run: processor time of the process, without imports and without evaluation.

This file and those in `users` run in the environment of the peers, which has no fkpinn.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

MARKS = (0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 11, 15, 20, 26, 34, 45, 60, 80, 110, 150, 200, 300)


class Clock:
    """Notes the error of a solution as time passes.

    Args:
        budget: processor seconds after which `over` is true.
        points: where errors are measured, one point a row.
        truth: the solution there.
    """

    def __init__(self, budget: float, points: np.ndarray, truth: np.ndarray):
        self.budget, self.points, self.truth = budget, points, truth
        self.curve: list[dict[str, Any]] = []
        self._kept: list[tuple[float, Any, float | None]] = []
        self._aside, self._next = 0.0, 0
        self._began = time.process_time()

    def seconds(self) -> float:
        """Processor time so far, of all threads, without that of evaluations."""
        return time.process_time() - self._began - self._aside

    def over(self, share: float = 1.0) -> bool:
        """Whether this share of the budget is spent."""
        return self.seconds() >= share * self.budget

    def due(self) -> bool:
        """Whether the error is worth noting again."""
        now = self.seconds()
        due = now >= MARKS[self._next] or now >= self.budget
        while self._next < len(MARKS) - 1 and now >= MARKS[self._next]:
            self._next += 1
        return due

    def note(
        self,
        predict: Callable[[np.ndarray], Any],
        loss: Any = None,
        *,
        now: float | None = None,
        **more: Any,
    ) -> None:
        """Note the error now, or of what was kept at another time.

        Args:
            predict: values at points, one a row.
            loss: what the tool says of itself.
            now: seconds at which the state was kept.
            **more: worth a place in the record.
        """
        now, began = self.seconds() if now is None else now, time.process_time()
        values = np.asarray(predict(self.points), np.float64).reshape(-1)
        if values.shape != self.truth.shape:
            raise ValueError(f"{values.shape} values at {self.truth.shape} points")
        error = float(np.linalg.norm(values - self.truth) / np.linalg.norm(self.truth))
        loss = None if loss is None else float(loss)
        self.curve.append({"seconds": now, "error": error, "loss": loss, **more})
        self._aside += time.process_time() - began

    def keep(self, state: Any, loss: Any = None) -> None:
        """Keep a state whose error `settle` notes when all is over."""
        loss = None if loss is None else float(loss)
        self._kept.append((self.seconds(), state, loss))

    def settle(
        self,
        predict: Callable[[Any, np.ndarray], Any],
        loss_of: Callable[[Any], Any] | None = None,
    ) -> None:
        """Note the errors of all that was kept.

        Args:
            predict: values of a state at points, one a row.
            loss_of: the loss of a state, where it was not kept with it.
        """
        kept, self._kept = self._kept, []
        for now, state, loss in kept:
            loss = loss if loss_of is None else loss_of(state)
            self.note(lambda x, state=state: predict(state, x), loss, now=now)
