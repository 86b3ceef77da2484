"""One run of a peer: a script for the Python of its environment.

Called as `python _one.py TOOL PROBLEM SEED BUDGET POINTS`, where POINTS is an `.npz` file with
`points` and `truth`. Prints the record as the last line.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path

for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
os.environ |= {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "JNO_COMPILE_CACHE": "0",  # nobody else's compiled code
    "JAX_ENABLE_COMPILATION_CACHE": "false",
}

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from _clock import Clock  # noqa: E402

PACKAGES = {
    "deepxde": ("deepxde", "torch"),
    "jinns": ("jinns", "jax"),
    "pina": ("pina-mathlab", "torch"),
    "jno": ("jax-numerical-operators", "jax"),
    "skfem": ("scikit-fem", "scipy"),
}


def main(tool: str, problem: str, seed: int, budget: float, points: Path) -> dict:
    """Run and time one of them."""
    module = importlib.import_module(f"users.{tool}_user")  # imports are not timed
    solve = getattr(module, problem.replace("-", "_"))
    with np.load(points) as file:
        clock = Clock(budget, file["points"], file["truth"])
    began = time.perf_counter()
    more = solve(seed, clock) or {}
    versions = {name: importlib.metadata.version(name) for name in PACKAGES[tool]}
    return {
        "curve": clock.curve,
        "seconds": {"processor": clock.seconds(), "wall": time.perf_counter() - began},
        "versions": versions | {"python": sys.version.split()[0]},
        **more,
    }


if __name__ == "__main__":
    tool, problem, seed, budget, points = sys.argv[1:]
    told = main(tool, problem, int(seed), float(budget), Path(points))
    print("\n" + json.dumps(told), flush=True)
    os._exit(0)  # some of them leave threads behind
