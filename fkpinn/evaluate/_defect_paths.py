"""Paths that measure what a candidate lacks."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._progress import AbstractProgress, Renamed, SilentProgress
from ..labels import (
    Labels,
    choose_scheme,
    compile_labels,
    defect_problem,
    estimate_labels,
    step_size,
)
from ..loss import cast
from ..problem import Problem
from ..sde import default_widths

_REACH = 0.01  # of a step, over the diameter; its bias is a share of the error
_EVERY = 8  # steps between two looks at the residual, which cost more than free steps
_REFINE = 64  # shorter steps where residuals have their peaks: next to walls, and in strong drift
_FORGET = 1e-3  # discount at which a path ends; a share of the error again
_APART = 1 << 44  # between the seeds of runs, and from those of labels for training


class DefectPaths:
    """Labels for the solution minus a candidate, at the same points however often they are run.

    Args:
        problem: the boundary value problem.
        candidate: a differentiable function of one point.
        points: where, one point a row.
        dtype: precision of paths and candidate.
        dt: time step; by default from the size of the domain.
        scheme: how paths move and end.
        seed: fixes everything random.
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
        scheme: str = "default",
        seed: int = 0,
        name: str = "corrections",
        progress: AbstractProgress | None = None,
    ):
        self.seed: int = seed
        self.double: bool = dtype == "float64"
        self.name: str = name
        self.progress: AbstractProgress = progress or SilentProgress()
        with jax.enable_x64(self.double):
            candidate = cast(candidate, dtype)
            self.points: Array = jnp.asarray(points, dtype)
            self.value: np.ndarray = np.asarray(_values(candidate, self.points), np.float64)
            self.dt: float = dt or step_size(problem, self.points, _REACH)
            self.problem: Problem = defect_problem(problem, candidate)
        if not np.all(np.isfinite(self.value)):
            bad = np.asarray(points)[int(np.argmin(np.isfinite(self.value)))]
            raise ValueError(f"`candidate` is not finite at {bad}.")
        self.scheme: str = choose_scheme(self.problem, scheme).name
        self.stepped: bool = self.scheme != "spheres"
        self.every: int = _EVERY if self.stepped else 1

    def run(
        self,
        n_paths: int,
        *,
        coarse: bool = False,
        bias: bool = False,
        stream: int = 0,
        pilot: bool = False,
    ) -> Labels:
        """Labels of the defect, maybe with twice the step; streams are independent.

        A `pilot` is like any other run, and progress calls it so.
        """
        part = ", pilot" if pilot else ", twice the step" if coarse else ""
        with jax.enable_x64(self.double):
            return estimate_labels(
                self.problem,
                self.points,
                n_paths=n_paths,
                dt=2 * self.dt if coarse else self.dt,
                seed=(self.seed + stream * _APART) % 2**64,
                bias=bias,
                progress=Renamed(self.progress, self.name + part),
                **self._how(),
            )

    def compile(self, n_paths: int) -> None:
        """What runs of about so many paths need."""
        with jax.enable_x64(self.double):
            compile_labels(self.problem, self.points, n_paths=n_paths, dt=self.dt, **self._how())

    def _how(self) -> dict[str, Any]:
        return {
            "scheme": self.scheme,
            "every": self.every,
            "forget": _FORGET,
            "refine": _REFINE if self.stepped else 1,
            "widths": default_widths(1),  # runs of all sizes share what is compiled
        }


@eqx.filter_jit
def _values(candidate: Callable[..., Any], points: Float[Array, "n z"]) -> Float[Array, " n"]:
    return jax.vmap(lambda z: candidate(z))(points)
