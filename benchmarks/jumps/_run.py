"""Labels of mean exit times: whole calls of `estimate_labels` after the first."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fkpinn as fk
from fkpinn.sampling import sobol_interior

from .._common import ready_labels, say, surroundings

_POINTS = 1000  # all over the domain
_ALPHAS = (1.0, 1.5)
_DT, _RATES, _SPREAD = 1e-3, (2.0, 50.0), 0.02  # of jumps: at most 0.05 in a step
_SCHEMES = ("euler", "heun-bridge")
_SHARE = 10  # of the paths of stable processes, for those with hundreds of steps


def run(n_paths: int = 1_000_000, repeats: int = 9) -> dict[str, Any]:
    """Exits a second by walks on spheres, and a step with jumps over one without.

    Args:
        n_paths: paths of a call; a tenth of them where there are time steps.
        repeats: calls that are timed.
    """
    if n_paths < 2 * _SHARE * _POINTS or repeats < 1:
        raise ValueError(
            f"`--paths` must be at least {2 * _SHARE * _POINTS} and `--repeats` positive; got "
            f"{n_paths}, {repeats}."
        )
    return {
        "benchmark": "jumps",
        "exits": [one for alpha in _ALPHAS for one in _exits(alpha, n_paths, repeats)],
        "steps": [
            _steps(dim, scheme, rate, n_paths // _SHARE, repeats)
            for dim in (1, 2)
            for scheme in _SCHEMES
            for rate in _RATES
        ],
        **surroundings(),
    }


def _exits(alpha: float, n_paths: int, repeats: int) -> list[dict[str, Any]]:
    """From the center of a disk, and from all over it."""
    # drift and diffusion are zero: the process only jumps
    problem, made = fk.fractional_poisson(fk.Ball([0.0, 0.0], 1.0), alpha=alpha), []
    everywhere = np.asarray(sobol_interior(problem, _POINTS), np.float32)
    for where, points in (("center", np.zeros((1, 2), np.float32)), ("disk", everywhere)):
        call = _call(problem, points, n_paths=n_paths // len(points))
        seconds = [call()[0] for _ in range(1 + repeats)][1:]
        rate = n_paths / statistics.median(seconds)
        say(f"jumps: alpha {alpha}, from the {where}: {rate / 1e6:.2f} M exits a second")
        made.append(
            {"alpha": alpha, "from": where, "paths": n_paths, "seconds": seconds, "rate": rate}
        )
    return made


def _steps(dim: int, scheme: str, rate: float, n_paths: int, repeats: int) -> dict[str, Any]:
    """Nanoseconds a step of a diffusion and of one that also jumps, in turn."""
    domain = fk.Interval(-1.0, 1.0) if dim == 1 else fk.Ball([0.0] * dim, 1.0)
    jumps = fk.CompoundPoisson(rate, fk.NormalJump(0.0, _SPREAD))
    plain = fk.Problem(domain, diffusion=1.0, source=1.0)
    jumping = fk.Problem(domain, diffusion=1.0, source=1.0, jumps=jumps, exterior=0.0)
    points = np.asarray(sobol_interior(plain, _POINTS), np.float32)
    how = {"n_paths": n_paths // _POINTS, "dt": _DT, "scheme": scheme}
    calls = [_call(problem, points, **how) for problem in (plain, jumping)]
    both = [[1e9 * seconds / steps for seconds, steps in (call() for call in calls)]
            for _ in range(1 + repeats)][1:]  # fmt: skip
    ratio = statistics.median(jump / diffusion for diffusion, jump in both)
    say(f"jumps: {dim}-D, {scheme}, rate x dt {rate * _DT}: {ratio:.2f} times a diffusion step")
    return {
        "dim": dim, "scheme": scheme, "dt": _DT, "rate": rate, "paths": n_paths,
        "ns_diffusion_and_jumping": both, "ratio": ratio,
    }  # fmt: skip


def _call(problem: fk.Problem, points: np.ndarray, **how: Any) -> Callable[[], tuple[float, int]]:
    """Seconds of a call, and the steps of its paths."""

    def call() -> tuple[float, int]:
        began = time.perf_counter()
        labels = ready_labels(problem, points, seed=0, **how)
        return time.perf_counter() - began, labels.provenance["path_steps"]

    return call
