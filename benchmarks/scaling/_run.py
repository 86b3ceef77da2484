"""Steps, labels and certificates of several sizes, timed, and the model fitted to them."""

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._compute import current, precision, using
from fkpinn.loss import Fixed, make_loss
from fkpinn.nn import MLP, HardDirichlet
from fkpinn.train import NaturalGradient
from fkpinn.train._objective import Objective, split

from .._common import ready_labels, say, surroundings
from ._model import Costs, Sizes, fitted, sent_bytes

_DIMS = (2, 10, 50)
_PATH_DIMS = (2, 5, 10, 20, 50)
_WIDTHS = ((16, 16), (32, 32), (48, 48, 48))
_ROWS = (500, 1500, 4000)
_CARDS = (1, 8, 64, 512)
_BANDWIDTH = 4e11  # bytes a second, about what cards of one machine send to each other
# Of an H200, from records: a gradient of 10,000 residuals by 50,049 parameters in two dimensions in
# 0.48 ms (results/step), of which double precision takes twice as much; 52.7 G coordinates a second
# in ten dimensions. Assumed: products and factors at 60 and 20 T operations a second, 2 ms besides.
_CARD = Costs(4.8e-13, 2 / 60e12, 1 / 3 / 20e12, 2e-3, 1 / 52.7e9, 4.8e-13, 0.0)


def run(repeats: int = 3) -> dict[str, Any]:
    """Measure on this device, fit, and compare two devices with one where there are two.

    Args:
        repeats: timings whose median is taken.
    """
    steps = [_step(Sizes(n, p, d), w, repeats) for n, p, d, w in _grid()]
    design = [
        (r["rows"] * r["parameters"] * (r["dim"] + 2),
         r["rows"] * r["parameters"] * min(r["rows"], r["parameters"]),
         min(r["rows"], r["parameters"]) ** 3,
         1.0)
        for r in steps
    ]  # fmt: skip
    of_step, misfit = fitted(design, [r["seconds"] for r in steps])
    paths = [_labels(d) for d in _PATH_DIMS]
    of_path, path_misfit = fitted(
        [[r["path_steps"] * r["dim"]] for r in paths], [r["seconds"] for r in paths]
    )
    along = [_certificate(d, w) for d, w in itertools.product((2, 10), _WIDTHS[:2])]
    rest = [max(r["seconds"] - of_path[0] * r["path_steps"] * r["dim"], 1e-9) for r in along]
    of_network, along_misfit = fitted(
        [(r["path_steps"] * r["parameters"] * (r["dim"] + 2), r["path_steps"]) for r in along], rest
    )
    costs = Costs(*of_step, of_path[0], *of_network)
    return {
        "benchmark": "scaling",
        "costs": costs._asdict(),
        "misfit": {
            "step": _spread(misfit), "labels": _spread(path_misfit),
            "certificate": _spread(along_misfit),
        },
        "steps": steps,
        "labels": paths,
        "certificates": along,
        "devices": _devices(costs, repeats),
        "card": _CARD._asdict(),
        "predicted": [_predicted(_CARD, d, n) for d in (10, 100, 1000) for n in _CARDS],
        **surroundings(),
    }  # fmt: skip


def _grid():
    for d, widths, n in itertools.product(_DIMS, _WIDTHS, _ROWS):
        yield n, _parameters(d, widths), d, widths


def _parameters(dim: int, widths: tuple[int, ...]) -> int:
    return sum((a + 1) * b for a, b in itertools.pairwise((dim, *widths, 1)))


def _problem(dim: int) -> fk.Problem:
    return fk.Problem(fk.Ball([0.0] * dim, 1.0), diffusion=1.0, source=1.0, check=False)


def _step(sizes: Sizes, widths: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """A step of the natural gradient, residual and a few boundary points."""
    with precision("float64"):
        problem, optimizer = _problem(sizes.dim), NaturalGradient()
        network = HardDirichlet(
            MLP(*problem.bounds(), widths, key=jax.random.key(0)), problem.domain, {"outer": 0.0}
        )
        loss = make_loss(
            problem, sizes.rows, 8, None, size=1.0, dtype=jnp.dtype("float64"),
            key=jax.random.key(1),
        )  # fmt: skip
        parameters, static, unravel = split(network, Fixed({}))

        @jax.jit
        def one(parameters):
            objective = Objective(loss, jnp.zeros((), jnp.int32), static, unravel)
            memory = optimizer.init(objective, parameters)
            return optimizer.step(objective, parameters, memory)[0]

        jax.block_until_ready(one(parameters))
        seconds = _median(lambda: one(parameters), repeats)
    about = f"{sizes.rows} rows, {sizes.parameters} parameters, d = {sizes.dim}"
    say(f"scaling: {about}: {seconds:.3f} s")
    return sizes._asdict() | {"widths": list(widths), "seconds": seconds}


def _labels(dim: int) -> dict[str, Any]:
    points = np.zeros((20, dim), np.float32)
    how = {"n_paths": 2000 if current().on_cpu else 50_000, "dt": 0.02 / dim, "scheme": "heun"}
    for seed in (0, 1):  # the first compiles
        made = ready_labels(_problem(dim), points, **how, seed=seed).provenance
    return {"dim": dim, "path_steps": made["path_steps"], "seconds": made["seconds"]["run"]}


def _certificate(dim: int, widths: tuple[int, ...]) -> dict[str, Any]:
    problem = _problem(dim)
    network = MLP(*problem.bounds(), widths, key=jax.random.key(0))
    paths = 32 if current().on_cpu else 512
    made = fk.certify(problem, network, n_points=256, n_paths=paths, dt=0.05 / dim)
    about = made.corrections.provenance
    return {
        "dim": dim, "parameters": _parameters(dim, widths),
        "path_steps": about["path_steps"], "seconds": about["seconds"]["run"],
    }  # fmt: skip


def _devices(costs: Costs, repeats: int) -> list[dict[str, Any]]:
    """Steps on one and on two devices of this process, beside what the model says."""
    there = len(jax.local_devices())
    found = []
    for n in (1, 2) if there > 1 else ():
        with using(current().limited(n)):
            sizes = Sizes(4000, _parameters(10, (32, 32)), 10)
            measured = _step(sizes, (32, 32), repeats)["seconds"]
        found.append(
            {"devices": n, "measured": measured, "predicted": costs.train(sizes, n),
             "bytes": sent_bytes(sizes) if n > 1 else 0}
        )  # fmt: skip
    return found


def _predicted(costs: Costs, dim: int, devices: int) -> dict[str, Any]:
    """A step of `best` where drift counts, one of more rows, and a million paths of 1,000 steps."""
    parameters = _parameters(dim, (128 if dim > 64 else 64, 64, 64))
    small = Sizes(round(1.6 * parameters), parameters, dim)
    large = small._replace(rows=10 * small.rows)
    return {
        "dim": dim, "devices": devices, "rows": small.rows, "parameters": parameters,
        "step": costs.train(small, devices, _BANDWIDTH),
        "step_ten_times_the_rows": costs.train(large, devices, _BANDWIDTH),
        "labels": costs.labels(1e9, dim, devices),
        "bytes": sent_bytes(small) if devices > 1 else 0,
    }  # fmt: skip


def _median(work, repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def _spread(misfit: np.ndarray) -> dict[str, float]:
    size = np.abs(misfit)
    return {"median": float(np.median(size)), "worst": float(np.max(size))}
