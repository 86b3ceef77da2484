"""All of them in one run, and the record of it."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fkpinn.nn import MLP

from .._common import say, surroundings
from ._fkpinn import flat, gradient_flops, interior, losses, network
from ._peers import PEERS, absent, started
from ._timing import Timed, calls_per_run

_PRECISION = "jax_default_matmul_precision"  # unset, a GPU multiplies in TF32
_SIZES = {"cpu": 2048}  # of the matrices whose product gives the machine's rate
_SIZE = 8192  # on a GPU
# Largest relative difference of gradients. A GPU rounds products of float32 to fewer digits
# unless told otherwise, for all codes alike.
_AGREE = {"cpu": 1e-3}
_AGREE_ELSEWHERE = 0.1


def run(
    n_points: int = 10_000, repeats: int = 9, width: int = 128, depth: int = 4
) -> dict[str, Any]:
    """Seconds of one gradient of the mean squared residual of `poisson`, in float32.

    Same network, same parameters, same points for all; no optimizer. Beside fkpinn's own pass
    (`fkpinn`) stand `jax.hessian` (`hessian`, and `hessian_in_pieces` that fit the cache), and,
    where the environment variable `FKPINN_PEERS` names the Python of an environment that has
    them, DeepXDE in both of its modes and jinns. Such an environment, apart from fkpinn's own:

        python -m venv peers
        peers/bin/pip install deepxde==1.15 jinns==1.10 flax
        export FKPINN_PEERS=$PWD/peers/bin/python

    (DeepXDE runs on JAX here, for which it needs flax.) Each `speedup` is the time of the other
    over fkpinn's: of the gradient, and for `hessian_forward` of the loss alone.

    Args:
        n_points: points of the residual.
        repeats: timings whose median is reported; on a GPU each is of a compiled loop of 50 calls.
        width: units of a hidden layer.
        depth: hidden layers.
    """
    if min(n_points, repeats, width, depth) < 1:
        raise ValueError(
            f"`--points`, `--repeats`, `width` and `depth` must be at least 1; got {n_points}, "
            f"{repeats}, {width} and {depth}."
        )
    load = os.getloadavg()[0]
    u, points = network(width, depth), interior(n_points)
    measured, gradients, matmul = _measure(u, points, repeats)
    here = surroundings()
    for name, record in measured.items():
        if record["gradient"] is None:
            say(f"step: {name}: {record['note']}")
            continue
        record["gradient_difference"] = _difference(name, gradients[name], gradients["fkpinn"])
        say(f"step: {name}: {1e3 * record['gradient']['run']:.3g} ms a gradient")
    seconds = {name: _run_seconds(record, "gradient") for name, record in measured.items()}
    flops = gradient_flops(u, n_points)
    flops_per_s = flops / measured["fkpinn"]["gradient"]["run"]
    return {
        "benchmark": "step",
        "problem": "poisson",
        "network": f"tanh, {depth} hidden layers of {width}",
        "parameters": len(gradients["fkpinn"]),
        "n_points": n_points,
        "precision": "float32",
        "matmul_precision": getattr(jax.config, _PRECISION) or "default",
        "repeats": repeats,
        "calls_per_timing": calls_per_run(),
        "seconds": seconds,
        "speedup": _speedups(measured, here["device"]),
        "flops": flops,
        "flops_per_s": flops_per_s,
        "share_of_matmul": flops_per_s / matmul["flops_per_s"],
        "matmul": matmul,
        "measured": measured,
        "load_before": load,
        **here,
    }


def _measure(u: MLP, points: np.ndarray, repeats: int) -> tuple[dict, dict, dict[str, Any]]:
    """Records and gradients by name, and the rate of a large product.

    All take turns, so that a busy moment of the machine hits them alike.
    """
    given = u, jnp.asarray(points)
    timed: dict[str, dict[str, Timed]] = {}
    for name, loss in losses().items():
        say(f"step: compiling {name}")
        gradient = jax.value_and_grad(loss)
        timed[name] = {"forward": Timed(loss, *given), "gradient": Timed(gradient, *given)}
    size = _SIZES.get(jax.default_backend(), _SIZE)
    square = jax.random.normal(jax.random.key(1), (size, size), jnp.float32)
    matmul = Timed(jnp.matmul, square, square)
    own = [one for pair in timed.values() for one in pair.values()]
    with started(u, points) as (peers, why_none):
        for turn in range(repeats):
            say(f"step: timing {turn + 1} of {repeats}")
            for one in (*own, matmul, *peers.values()):
                one.turn()
        results = {n: peers[n].result() if peers else absent(why_none) for n in PEERS}
    for name, pair in timed.items():
        value, grad = pair["gradient"].result
        seconds = {what: one.seconds() for what, one in pair.items()}
        results[name] = {**seconds, "loss": float(value)}, flat(grad)
    names = (*timed, *PEERS)
    measured, gradients = ({n: results[n][i] for n in names} for i in (0, 1))
    seconds = matmul.seconds()
    rate = 2 * size**3 / seconds["run"]
    return measured, gradients, {"size": size, "flops_per_s": rate, "seconds": seconds}


def _difference(name: str, gradient: np.ndarray, ours: np.ndarray) -> float:
    """Relative to fkpinn's; a code that computes something else is not compared with."""
    limit = _AGREE.get(jax.default_backend(), _AGREE_ELSEWHERE)
    if gradient.shape != ours.shape:
        raise RuntimeError(f"{name} has {gradient.size} parameters, fkpinn {ours.size}.")
    difference = float(np.linalg.norm(gradient - ours) / np.linalg.norm(ours))
    if not difference <= limit:
        raise RuntimeError(f"The gradient of {name} differs by {difference:.2g} of fkpinn's.")
    return difference


def _speedups(measured: dict[str, dict], device: str) -> dict[str, float | None]:
    """Time of the others over ours; None where one was not run, or ran on another device."""

    def ratio(name: str, what: str) -> float | None:
        theirs, ours = (_run_seconds(measured[n], what) for n in (name, "fkpinn"))
        if theirs is None or ours is None or measured[name].get("device", device) != device:
            return None
        return theirs / ours

    speedups = {
        f"{name}_{what}": ratio(name, what)
        for name in ("hessian", "hessian_in_pieces")
        for what in ("forward", "gradient")
    }
    return {name: ratio(name, "gradient") for name in PEERS} | speedups


def _run_seconds(record: dict[str, Any], what: str) -> float | None:
    return None if record[what] is None else record[what]["run"]
