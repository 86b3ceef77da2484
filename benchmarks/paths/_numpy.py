"""A plain NumPy loop over steps: all paths at once, those that have left taken out."""

import time

import numpy as np

from ._timed import Timed, timed


def time_numpy(points: np.ndarray, n_paths: int, dt: float, seed: int) -> Timed:
    """One run in float32."""
    began = time.perf_counter()
    random = np.random.default_rng(seed)
    width, noise = np.float32(dt), np.float32(np.sqrt(0.4 * dt))
    limit = np.float32(np.sqrt(3.0)) - np.float32(0.5826) * noise
    lean_x, half = np.float32(np.sqrt(0.75)), np.float32(0.5)
    x, y = np.repeat(points, n_paths, axis=0).T.copy()
    left = np.arange(x.size)
    steps = np.zeros(x.size, np.int64)
    step = 0
    while left.size:
        step += 1
        dx, dy = noise * random.standard_normal((2, left.size), np.float32)
        bx, by = x - x**3, -y
        px, py = x + bx * width + dx, y + by * width + dy
        x = x + half * width * (bx + px - px**3) + dx
        y = y + half * width * (by - py) + dy
        out = np.maximum(lean_x * np.abs(x) + half * np.abs(y), np.abs(y)) > limit
        if out.any():
            steps[left[out]] = step
            x, y, left = x[~out], y[~out], left[~out]
    exit_times = (steps * dt).reshape(len(points), n_paths)
    return timed(time.perf_counter() - began, exit_times, int(steps.sum()))
