"""The hand-written kernel: compiled with gcc when it is needed, called through ctypes."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from ._timed import Timed, timed

# not -ffast-math: a library linked with it turns denormal numbers off in the process that loads it
_MATH = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
FLAGS = ("-O3", "-march=native", *_MATH, "-fopenmp", "-shared", "-fPIC")
_SOURCE = Path(__file__).with_name("kernel.c")


class Kernel:
    """The compiled kernel; raises `OSError` with the reason where it cannot be had."""

    def __init__(self):
        compiler = shutil.which("gcc")
        if compiler is None:
            raise OSError("gcc was not found; install it to measure the C kernel.")
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True)
        self.compiler = version.stdout.partition("\n")[0]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "kernel.so"
            words = [compiler, *FLAGS, "-o", str(library), str(_SOURCE), "-lm"]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode:
                raise OSError(f"gcc could not compile kernel.c: {done.stderr.strip()[-500:]}")
            self._run = ctypes.CDLL(str(library)).exit_steps  # stays loaded without its file
        self.compile_seconds = time.perf_counter() - began
        floats, words = (np.ctypeslib.ndpointer(t, flags="C") for t in (np.float32, np.uint32))
        size, number = ctypes.c_int64, ctypes.c_float
        self._run.argtypes = [floats, size, size, number, number, words, words]
        self._run.restype = size

    def time(self, points: np.ndarray, n_paths: int, dt: float, seed: int) -> Timed:
        """One run on all cores that OpenMP may use."""
        points = np.ascontiguousarray(points, np.float32)
        key = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
        steps = np.empty((len(points), n_paths), np.uint32)
        began = time.perf_counter()
        taken = self._run(points, len(points), n_paths, dt, 0.4**0.5, key, steps)
        return timed(time.perf_counter() - began, steps * dt, taken)
