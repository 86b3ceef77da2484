"""What is to be solved, and how: the record that goes from stage to stage."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._field import AbstractField
from .._progress import AbstractProgress, SilentProgress
from .._streams import Stream
from ..loss import AbstractSampler, AbstractWeighting, PathPoints, cast
from ..problem import FirstGuess, Problem
from ..sde import AbstractWalk
from ..train import AbstractOptimizer
from ._methods import Method, find_method, for_method
from ._settings import Settings


@dataclasses.dataclass(frozen=True)
class Parts:
    """Objects of the user's own, in place of what the settings make.

    Args:
        network: a field, before training.
        optimizer: takes `training.steps` steps, or 500 if these are 0, in place of all phases.
        scheme: how label paths move and end, for example `Scheme(stepper, exit)`.
        weighting: weights of the terms of the loss.
        sampler: chooses new collocation points.
    """

    network: AbstractField | None = None
    optimizer: AbstractOptimizer | None = None
    scheme: AbstractWalk | None = None
    weighting: AbstractWeighting | None = None
    sampler: AbstractSampler | None = None

    def __post_init__(self) -> None:
        kinds = {
            "network": AbstractField, "optimizer": AbstractOptimizer, "scheme": AbstractWalk,
            "weighting": AbstractWeighting, "sampler": AbstractSampler,
        }  # fmt: skip
        for name, kind in kinds.items():
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise TypeError(
                    f"`{name}` must be an object of class `{kind.__name__}`; got "
                    f"{type(given).__name__}. See `docs/developing`."
                )

    def names(self) -> list[str]:
        """Of those that are given."""
        return [f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None]


@dataclasses.dataclass(frozen=True)
class Job:
    """One training, from labels to certificate.

    Args:
        problem: the boundary value problem.
        settings: sizes and weights.
        method: its name.
        seed: root of all random streams.
        parts: objects of the user's own.
        folder: where labels, checkpoints and results are kept; None keeps nothing.
        progress: told how far each stage is.
        watch: numbers worth seeing of a network while it is trained, its error say.
        visited: where paths go, for fresh points, once that is known.
        start: a network to begin with, of a problem that is much alike.
        near: a network close to the solution, next to which a nonlinear problem is made linear; a
            first guess if there is none yet.
    """

    problem: Problem
    settings: Settings
    method: str = "fk-pinn"
    seed: int = 0
    parts: Parts = Parts()
    folder: Path | None = None
    progress: AbstractProgress = dataclasses.field(default_factory=SilentProgress)
    watch: Callable[[Any], dict[str, float]] | None = None
    visited: PathPoints | None = None
    near: AbstractField | None = None
    start: AbstractField | None = None

    @classmethod
    def of(cls, problem: Problem, settings: Settings, method: str, **more: Any) -> "Job":
        """With settings that fit the method; an unknown method is refused."""
        return cls(problem, for_method(settings, method), method, **more)

    @property
    def linear_problem(self) -> Problem:
        """The problem, or the linear one next to a network or a first guess: for paths."""
        if self.near is None:
            return self.problem.linearized(FirstGuess(self.problem))
        return self.problem.linearized(cast(self.near, "float32"))

    @property
    def stream(self) -> Stream:
        """Root of the random streams."""
        return Stream(self.seed)

    @property
    def how(self) -> Method:
        """The method."""
        return find_method(self.method)
