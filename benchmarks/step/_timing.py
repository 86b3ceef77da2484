"""How a compiled function is timed; `_peer.py` uses it too, so it imports JAX alone."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax


class Timed:
    """A function compiled for its arguments, and the seconds that calls of it have taken."""

    def __init__(self, function: Callable[..., Any], *args: Any):
        began = time.perf_counter()
        self._compiled = jax.jit(function).lower(*args).compile()
        self._compile_seconds = time.perf_counter() - began
        self._args = args
        self._runs: list[float] = []
        self._latencies: list[float] = []
        self.result = jax.block_until_ready(self._compiled(*args))  # the warm-up

    def turn(self) -> None:
        """One timing: a call that is waited for; on a GPU also many in a row, which hide waits."""
        began = time.perf_counter()
        jax.block_until_ready(self._compiled(*self._args))
        self._latencies.append(time.perf_counter() - began)
        if (calls := calls_per_run()) == 1:
            self._runs.append(self._latencies[-1])
            return
        began = time.perf_counter()
        results = [self._compiled(*self._args) for _ in range(calls)]
        jax.block_until_ready(results)
        self._runs.append((time.perf_counter() - began) / calls)

    def seconds(self) -> dict[str, Any]:
        """Compilation, the median of the timings, of one awaited call, and all timings."""
        return {
            "compile": self._compile_seconds,
            "run": statistics.median(self._runs),
            "latency": statistics.median(self._latencies),
            "runs": self._runs,
        }


def calls_per_run() -> int:
    """Calls that make one timing: enough on a GPU that starting them does not count."""
    return 1 if jax.default_backend() == "cpu" else 50
