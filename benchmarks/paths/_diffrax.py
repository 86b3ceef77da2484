"""Exit times as a careful user of diffrax writes them.

`diffeqsolve` with its Heun solver and an event, vmapped over paths. Under `vmap` all paths step
until the last one is done, so the run goes in rounds, and the paths that have left are taken out
between rounds. `UnsafeBrownianPath` is diffrax's fast noise for constant steps.
"""

import functools
import time

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ._timed import Timed, timed

_ROUND = 500  # steps
_SIZES = [256 * 2**k for k in range(30)]  # paths are padded to these: few to compile


def time_diffrax(points: np.ndarray, n_paths: int, dt: float, seed: int) -> Timed:
    """One run in float32; the first with a seed compiles."""
    began = time.perf_counter()
    x = np.repeat(points, n_paths, axis=0)
    exit_times, left = np.zeros(len(x)), np.arange(len(x))
    key = jr.key(seed)
    while left.size:
        key, round_key = jr.split(key)
        size = next(size for size in _SIZES if size >= left.size)
        padded = np.zeros((size, 2), np.float32)
        padded[: left.size] = x
        with jax.numpy_dtype_promotion("standard"):  # diffrax relies on it
            found = _round(padded, round_key, dt)
        spent, end, out = (np.asarray(a)[: left.size] for a in found)
        exit_times[left] += np.rint(spent / dt) * dt
        x, left = end[~out], left[~out]
    path_steps = int(np.rint(exit_times.sum() / dt))
    exit_times = exit_times.reshape(len(points), n_paths)
    return timed(time.perf_counter() - began, exit_times, path_steps)


@functools.partial(jax.jit, static_argnums=2)
def _round(starts, key, dt: float):
    """Time spent, end and whether out, of one round of paths."""
    keys = jr.split(key, len(starts))
    sigma = jnp.float32(0.4**0.5)
    limit = 3.0**0.5 - 0.5826 * (0.4 * dt) ** 0.5

    def drift(t, x, args):
        return jnp.stack([x[0] - x[0] ** 3, -x[1]])

    def is_out(t, x, args, **kwargs):
        far, high = 0.75**0.5 * jnp.abs(x[0]) + 0.5 * jnp.abs(x[1]), jnp.abs(x[1])
        return jnp.maximum(far, high) > limit

    def solve(start, key):
        noise = diffrax.UnsafeBrownianPath((2,), key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(drift),
            diffrax.ControlTerm(lambda t, x, args: sigma * jnp.eye(2, dtype=x.dtype), noise),
        )
        solution = diffrax.diffeqsolve(
            terms,
            diffrax.Heun(),
            t0=0.0,
            t1=_ROUND * dt,
            dt0=dt,
            y0=start,
            event=diffrax.Event(is_out),
            adjoint=diffrax.ForwardMode(),
            max_steps=2 * _ROUND,
        )
        return solution.ts[-1], solution.ys[-1], solution.event_mask

    return jax.vmap(solve)(starts, keys)
