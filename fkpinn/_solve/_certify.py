"""Third stage: the error of a network, measured by paths."""

import contextlib
import math
import threading
from typing import Any

import jax.numpy as jnp

from .._compute import current, precision, start_thread
from .._progress import AbstractProgress
from .._records import plain
from .._streams import Stream
from .._together import clock, several
from ..evaluate import (
    Certificate,
    NoCertificate,
    certify,
    occupation_bound,
    rehearse,
    rehearse_bound,
    value_with_interval,
    why_no_bound,
)
from ..labels import Labels
from ..problem import Problem
from ._cuts import central_point
from ._job import Job
from ._network import make_network
from ._train import output_size

_PATHS = 16  # of the second bound, from each of its points
_SHARE = 0.05  # of the time of a certificate's paths that those of the second bound may take
_FEWEST, _MOST = 64, 1024  # its points, in whole chunks of places; paths of the central value
_LEVEL = 0.95  # of confidence


def measure(job: Job, network: Any, stream: Stream | None = None) -> Certificate:
    """The certificate of a network.

    Args:
        job: what is to be solved; its settings say how long.
        network: a function of one point.
        stream: of points and paths; that of the first certificate if not given.

    Raises:
        NoCertificate: where paths cannot measure the error.
    """
    stream = stream or job.stream / "rounds/0/certificate"
    seconds = job.settings.certificate.seconds
    return certify(job.problem, network, seconds=seconds, seed=stream.seed, progress=job.progress)


def second_bound(
    problem: Problem,
    network: Any,
    certificate: Certificate,
    *,
    seed: int,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    """The cruder bound by residuals along paths, as a record; or why there is none.

    Its paths are at most a few for every path of the certificate, which look at the network too.

    Args:
        problem: the boundary value problem.
        network: a function of one point.
        certificate: of that network.
        seed: seed of all random numbers.
        progress: told how many paths have ended.
    """
    if why := why_no_bound(problem):
        return {"why": why}
    began = clock()
    affordable = min(_affordable(certificate) / _PATHS, _MOST)
    found = occupation_bound(
        problem, network, n_points=max(1, int(affordable / _FEWEST)) * _FEWEST, n_paths=_PATHS,
        seed=seed, progress=progress,
    )  # fmt: skip
    if not math.isfinite(found.l2_abs):
        return {"why": "the residual is not finite at some places that paths visit"}
    return plain(found._asdict()) | {"seconds": clock() - began}


def central_value(
    problem: Problem,
    network: Any,
    certificate: Certificate,
    *,
    seed: int,
    progress: AbstractProgress | None = None,
) -> dict[str, Any]:
    """The solution at the center of the measure, with confidence limits, as a record.

    Args:
        problem: the boundary value problem.
        network: a function of one point.
        certificate: of that network; it tells what a path costs.
        seed: seed of all random numbers.
        progress: told how many paths have ended.
    """
    point = central_point(problem)
    n_paths = int(min(max(_affordable(certificate), _FEWEST), _MOST))
    found = value_with_interval(
        problem, network, point[None], n_paths=n_paths, level=_LEVEL,
        dtype=str(certificate.corrections.points.dtype), seed=seed, progress=progress,
    )  # fmt: skip
    limits = {"value": found.value, "ci_low": found.low, "ci_high": found.high}
    numbers = {name: float(number[0]) for name, number in limits.items()}
    return {"point": point.tolist(), **numbers, "level": _LEVEL, "n_paths": n_paths}


def _affordable(certificate: Certificate) -> float:
    """Paths that take a small share of the time that those of a certificate may."""
    spent = certificate.corrections
    path = spent.provenance["seconds"]["run"] / (len(spent.points) * spent.n_paths)
    return _SHARE * certificate.seconds / max(path, 1e-9)


def compile_ahead(job: Job, labels: Labels | None) -> threading.Thread | None:
    """While an accelerator trains, the host compiles what the certificate will need."""
    if job.settings.certificate.seconds == 0 or current().on_cpu or several():
        return None
    settings = job.settings

    def work() -> None:
        with precision("float64"), contextlib.suppress(NoCertificate):
            size = output_size(job.problem, settings, labels)
            like = job.parts.network or make_network(
                job.problem, settings, size, dtype=jnp.float64, key=Stream(0).key
            )
            rehearse(job.problem, like)
        rehearse_bound(job.problem, _PATHS)

    return start_thread(work)
