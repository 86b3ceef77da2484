"""The hand-written kernel: compiled with gcc when it is needed, called through ctypes."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from ._timed import Timed, timed

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC")
# linked without -ffast-math, which would turn denormal numbers off in the process that loads it
_LINK = ("-shared", "-fopenmp")
_SOURCE = Path(__file__).with_name("kernel.c")


class Kernel:
    """A compiled kernel; raises `OSError` with the reason where it cannot be had.

    `exit_steps_plain` runs one path after the other on each core, as one writes it first;
    `exit_steps` keeps 64 of them in vector registers, with intrinsics.
    """

    def __init__(self, entry: str = "exit_steps"):
        compiler = shutil.which("gcc")
        if compiler is None:
            raise OSError("gcc was not found; install it to measure the C kernel.")
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True)
        self.compiler = version.stdout.partition("\n")[0]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            library, compiled = Path(folder) / "kernel.so", Path(folder) / "kernel.o"
            for words in (
                [compiler, *FLAGS, "-c", "-o", str(compiled), str(_SOURCE)],
                [compiler, *_LINK, "-o", str(library), str(compiled), "-lm"],
            ):
                done = subprocess.run(words, capture_output=True, text=True)
                if done.returncode:
                    raise OSError(f"gcc could not compile kernel.c: {done.stderr.strip()[-500:]}")
            self._run = getattr(ctypes.CDLL(str(library)), entry)  # stays loaded without its file
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
