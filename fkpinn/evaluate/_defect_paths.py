"""Paths that measure the error of a candidate."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compute import FEW_DIMENSIONS, Lanes, current, precision, quickly_compiled
from .._progress import AbstractProgress, Renamed, SilentProgress
from .._streams import Stream
from ..labels import (
    Labels,
    Steps,
    choose_scheme,
    compile_labels,
    defect_problem,
    estimate_labels,
    steps_for,
)
from ..loss import cast
from ..problem import Problem, Stable, residual
from ..sde import AbstractWalk
from ._outside import Outside

_REACH = 0.01  # of a step, over the diameter; its bias is a share of the error
_READ_EVERY = 8  # steps between two looks at the residual, which cost more than free steps
_READ_MANY = 32  # the same in many dimensions, where they cost much more and steps are short
_REFINE = 64  # shorter steps where residuals have their peaks: next to walls, and in strong drift
_DERIVATIVES = 1 << 20  # of a layer's unit, along the coordinates of all paths, at a time
_CALLED = (512,)  # paths whose residuals are asked for in one call of a function from outside
_FORGET = 1e-3  # discount at which a path ends; a share of the error again
_AT_A_TIME = 1024  # points of residuals


def first_precision(problem: Problem, candidate: Callable[..., Any] | None = None) -> str:
    """Of paths that may be run again in double precision.

    The fractional Laplacian divides differences by powers of small distances. A function from
    outside takes as long in both, and compiled code that calls it is not kept.
    """
    double = isinstance(problem.jumps, Stable) or isinstance(candidate, Outside)
    return "float64" if double else current().first_precision


class DefectPaths:
    """Labels for the solution minus a candidate, at the same points however often they are run.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point.
        points: where, one point per row.
        dtype: precision of paths and candidate.
        dt: time step; by default from the size of the domain.
        scheme: how paths move and end.
        seed: seed of all random numbers.
        name: what progress calls the paths.
        progress: told how many paths have ended.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Callable[..., Any],
        points: Float[np.ndarray, "n z"],
        *,
        dtype: str = "float32",
        dt: float | None = None,
        scheme: str | AbstractWalk = "default",
        seed: int = 0,
        name: str = "corrections",
        progress: AbstractProgress | None = None,
    ):
        self.stream: Stream = Stream(seed) / "defect"
        self.dtype: str = dtype
        self.name: str = name
        self.progress: AbstractProgress = progress or SilentProgress()
        with precision(dtype):
            candidate = cast(candidate, dtype)
            self.points: Array = jnp.asarray(points, dtype)
            self.value: np.ndarray = np.asarray(values_at(candidate, self.points), np.float64)
            self.problem: Problem = defect_problem(problem, candidate)
        self.called: bool = isinstance(candidate, Outside)
        if not np.all(np.isfinite(self.value)):
            bad = np.asarray(points)[int(np.argmin(np.isfinite(self.value)))]
            raise ValueError(f"`candidate` is not finite at {bad}.")
        self.walk: AbstractWalk = choose_scheme(self.problem, scheme).walk
        self.stepped: bool = self.walk.stepped
        with precision(dtype):
            usual = steps_for(problem, self.points, self.walk, _REACH)
        self.long: bool = not dt and usual.refine > 1
        refine = _REFINE if dt else max(_REFINE, usual.refine)
        noise = 0.0 if dt else usual.noise
        self.steps: Steps = Steps(dt or usual.dt, refine if self.stepped else 1, usual.near, noise)

    def run(
        self,
        n_paths: int,
        *,
        coarse: bool = False,
        bias: bool = False,
        stream: str = "0",
        pilot: bool = False,
    ) -> Labels:
        """Labels of the defect, maybe with twice the step; streams of other names are independent.

        A `pilot` is like any other run, and progress calls it so.
        """
        part = ", pilot" if pilot else ", twice the step" if coarse else ""
        steps = self.steps.times(2.0) if coarse else self.steps
        with precision(self.dtype):
            return estimate_labels(
                self.problem,
                self.points,
                n_paths=n_paths,
                dt=steps,
                seed=(self.stream / stream).seed,
                bias=bias,
                warn=False,  # of rare, heavy paths; the spread over the points knows them
                progress=Renamed(self.progress, self.name + part),
                **self._how(),
            )

    def compile(self, n_paths: int) -> None:
        """What runs of about so many paths need."""
        with precision(self.dtype):
            compile_labels(self.problem, self.points, n_paths=n_paths, dt=self.steps, **self._how())

    def lanes(self) -> Lanes:
        """For runs of all sizes, which share what is compiled; few enough for their derivatives."""
        lanes, dim = current().lanes_for(1, self.problem.dim), self.problem.dim
        if self.called and current().on_cpu and current().lanes is None:
            lanes = lanes._replace(widths=_CALLED)
        most = 1 << max(_DERIVATIVES // dim, 1).bit_length() - 1
        return lanes._replace(widths=tuple(sorted({min(w, most) for w in lanes.widths})[::-1]))

    def _read_every(self) -> int:
        if not self.stepped:
            return 1
        return _READ_EVERY if self.long or self.problem.dim <= FEW_DIMENSIONS else _READ_MANY

    def _how(self) -> dict[str, Any]:
        compute = dataclasses.replace(current(), lanes=self.lanes())
        return {
            "scheme": self.walk,
            "read_every": self._read_every(),
            "forget": _FORGET,
            "compute": compute,
        }


@quickly_compiled
def values_at(candidate: Callable[..., Any], points: Float[Array, "n z"]) -> Float[Array, " n"]:
    """A candidate at many points."""
    return jax.vmap(lambda z: candidate(z))(points)


@quickly_compiled
def residuals_at(
    problem: Problem, candidate: Callable[..., Any], points: Float[Array, "n z"]
) -> Float[Array, " n"]:
    """The residual of a candidate at many points, some at a time."""
    return jax.lax.map(lambda z: residual(problem, candidate, z), points, batch_size=_AT_A_TIME)
