"""Do certificates hold the true error of networks that DeepXDE has trained?

In an environment that has fkpinn and what `peers.txt` names:

    python -m benchmarks.peers.certificate --out results/certificates/deepxde.json

Networks and optimizers are those of DeepXDE's examples for Poisson problems: four layers of 50,
tanh, Adam with 1e-3, then L-BFGS, all terms with weight one. They need not be good; what they
lack must be told.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde  # pyright: ignore[reportMissingImports]
import numpy as np
import torch  # pyright: ignore[reportMissingImports]

import fkpinn as fk
from fkpinn._records import write_json

from .._common import surroundings, true_error

MODES = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))  # of `poisson`
BETA = 5.0  # of `met`


def poisson(x: Any, u: Any) -> Any:
    """Residual of `poisson` as DeepXDE takes it."""
    wave = lambda j, k: torch.sin(j * np.pi * x[:, :1]) * torch.sin(k * np.pi * x[:, 1:])
    source = sum(a * np.pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in MODES)
    return laplacian(x, u) + source


def met(x: Any, u: Any) -> Any:
    """Residual of `met`."""
    slope = [dde.grad.jacobian(u, x, i=0, j=k) for k in range(2)]
    down = -x[:, :1] * (x[:, :1] ** 2 - 1.0), -x[:, 1:]
    return laplacian(x, u) / BETA + down[0] * slope[0] + down[1] * slope[1] + 1.0


def laplacian(x: Any, u: Any) -> Any:
    """Sum of second derivatives."""
    return dde.grad.hessian(u, x, i=0, j=0) + dde.grad.hessian(u, x, i=1, j=1)


PROBLEMS = {
    "poisson": (poisson, lambda: dde.geometry.Rectangle([0, 0], [1, 1])),
    "met": (met, lambda: dde.geometry.Polygon(fk.catalogue("met").problem.domain.vertices)),
}


def trained(name: str, seed: int, steps: int) -> Any:
    """A network of DeepXDE."""
    dde.config.set_random_seed(seed)
    dde.config.set_default_float("float64")  # points of its polygons have no other precision
    residual, geometry = PROBLEMS[name]
    shape = geometry()
    zero = dde.icbc.DirichletBC(shape, lambda _: 0.0, lambda _, on: on)
    data = dde.data.PDE(shape, residual, zero, num_domain=2000, num_boundary=400)
    model = dde.Model(data, dde.nn.FNN([2, *[50] * 4, 1], "tanh", "Glorot normal"))
    model.compile("adam", lr=1e-3)
    model.train(iterations=steps, display_every=1000)
    dde.optimizers.config.set_LBFGS_options(maxiter=steps)
    model.compile("L-BFGS")
    model.train(display_every=1000)
    return model.net


def measure(name: str, seed: int, steps: int, seconds: float) -> dict[str, Any]:
    """Train, certify, and compare with the reference."""
    began = time.perf_counter()
    network = trained(name, seed, steps)
    spent = time.perf_counter() - began
    problem = fk.catalogue(name).problem
    found = fk.certify(problem, network, seconds=seconds, seed=seed)
    true = true_error(name, fk.outside(network))
    return {
        "problem": name, "seed": seed, "steps": steps, "true": true,
        "certificate": found.to_dict(), "holds": found.ci_low <= true <= found.ci_high,
        "seconds": {"train": spent, "certificate": found.seconds},
    }  # fmt: skip


def main() -> None:
    """All problems and seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    runs = []
    for name in PROBLEMS:
        for seed in range(given.seeds):
            row = measure(name, seed, given.steps, given.seconds)
            runs.append(row)
            limits = f"{row['certificate']['ci_low']:.2e} to {row['certificate']['ci_high']:.2e}"
            print(f"{name}, seed {seed}: true {row['true']:.3e}, {limits}, holds: {row['holds']}")
            write_json(given.out, record(runs))  # as they end


def record(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What was run, and with what."""
    versions = {"deepxde": dde.__version__, "torch": torch.__version__}
    return {"what": __doc__, "runs": runs, "versions of peers": versions, **surroundings()}


if __name__ == "__main__":
    main()
