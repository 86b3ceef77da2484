"""How a compiled function is timed; `_peer.py` uses it too, so it imports JAX alone."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

_PAUSE = 0.1  # seconds; threads of the code before go on looking for work for a while


class Timed:
    """A function compiled for its arguments, and the seconds that calls of it have taken."""

    def __init__(self, function: Callable[..., Any], *args: Any):
        began = time.perf_counter()
        self._compiled = jax.jit(function).lower(*args).compile()
        self._compile_seconds = time.perf_counter() - began
        self._args = args
        self._loop = None
        if (calls := calls_per_run()) > 1:
            self._loop = jax.jit(partial(_in_a_row, function, calls)).lower(*args).compile()
            jax.block_until_ready(self._loop(*args))
        self._runs: list[float] = []
        self._latencies: list[float] = []
        self.result = jax.block_until_ready(self._compiled(*args))  # the warm-up

    def turn(self) -> None:
        """One timing: a call that is waited for; on a GPU also many in a row, as in training."""
        time.sleep(_PAUSE)
        jax.block_until_ready(self._compiled(*self._args))  # caches hold what the last one left
        began = time.perf_counter()
        jax.block_until_ready(self._compiled(*self._args))
        self._latencies.append(time.perf_counter() - began)
        if self._loop is None:
            self._runs.append(self._latencies[-1])
            return
        began = time.perf_counter()
        jax.block_until_ready(self._loop(*self._args))
        self._runs.append((time.perf_counter() - began) / calls_per_run())

    def seconds(self) -> dict[str, Any]:
        """Compilation, the median of the timings, of one awaited call, and all timings."""
        return {
            "compile": self._compile_seconds,
            "run": statistics.median(self._runs),
            "latency": statistics.median(self._latencies),
            "runs": self._runs,
        }


def calls_per_run() -> int:
    """Calls that make one timing: on a GPU a compiled loop of them, which is how training runs."""
    return 1 if jax.default_backend() == "cpu" else 50


def _in_a_row(function: Callable[..., Any], calls: int, first: Any, *rest: Any) -> Any:
    """The last result of many calls, each at slightly different parameters."""

    def call(i, _):
        return function(jax.tree.map(lambda a: a * (1 + 1e-9 * i), first), *rest)

    return jax.lax.fori_loop(1, calls, call, function(first, *rest))
