"""Third stage: the error of a network, measured by paths."""

import contextlib
import threading
from typing import Any

import jax.numpy as jnp

from .._compute import current, precision, start_thread
from .._streams import Stream
from ..evaluate import Certificate, NoCertificate, certify, rehearse
from ..labels import Labels
from ._job import Job
from ._train import make_network, output_size


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


def compile_ahead(job: Job, labels: Labels | None) -> threading.Thread | None:
    """While an accelerator trains, the host compiles what the certificate will need."""
    if job.settings.certificate.seconds == 0 or current().on_cpu:
        return None
    settings = job.settings

    def work() -> None:
        with precision("float64"), contextlib.suppress(NoCertificate):
            like = job.parts.network or make_network(
                job.problem, settings, output_size(settings, labels), dtype=jnp.float64,
                key=Stream(0).key,
            )  # fmt: skip
            rehearse(job.problem, like)

    return start_thread(work)
