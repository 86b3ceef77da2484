"""An unknown field from measurements: how much of it lies in the band of its posterior law."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._streams import Stream
from fkpinn.reference import fem_reference

from .._common import say

_NODES, _RANGE, _BEND = 7, (0.0, 20.0), 150.0
_NOISE = 0.01  # over the largest value
_MEASURED, _LOOKS = 100, 101
_PATHS = 4  # a point of the corrections: the network is better than the data


def run_field(repeats: int, preset: str, level: float, seed: int) -> dict[str, Any]:
    """`-u'' + q u = 10` on (0, 1), zero at both ends, from 100 noisy values.

    True fields are waves, no splines: a mean of 10, and a sine with an amplitude of up to 4 and any
    phase.
    """
    q = fk.UnknownField("q", [0.0], [1.0], _NODES, range=_RANGE)
    line = fk.Interval(0.0, 1.0)
    family = fk.Problem(
        line, diffusion=2**0.5, reaction=q, source=10.0, parameters=q.parameters, name="field"
    )
    stream = Stream(seed) / "bench inverse" / "field"
    say("inverse: field, training the family")
    began = time.perf_counter()
    solution = fk.solve(family, preset=preset, seed=seed, certify=True)
    trained = time.perf_counter() - began
    say(f"inverse: field, certificate {solution.certificate['l2_rel']:.1e} in {trained:.0f} s")
    points = np.linspace(0.005, 0.995, _MEASURED)[:, None]
    looks = jnp.asarray(np.linspace(0.0, 1.0, _LOOKS)[:, None])
    began, inside, widths, solver, notes = time.perf_counter(), [], [], [], 0
    for number in range(repeats):
        rng = (stream / number).generator
        size, phase = rng.uniform(0.0, 4.0), rng.uniform(0.0, 2 * np.pi)
        true = lambda x, size=size, phase=phase: 10.0 + size * jnp.sin(2 * jnp.pi * x[0] + phase)
        exact = fem_reference(fk.Problem(line, diffusion=2**0.5, reaction=true, source=10.0))
        clean = np.asarray(exact.values(points))
        noise = _NOISE * float(np.max(clean))
        data = fk.Observations.of(points, clean + noise * rng.normal(size=_MEASURED), noise)
        found = fk.infer(
            solution, data, prior=q.smooth(_BEND), n_samples=1000, n_paths=_PATHS,
            seed=(stream / number / "infer").seed,
        )  # fmt: skip
        band = found.band(lambda **values: jax.vmap(lambda x: q(x, **values))(looks), level)
        known = np.asarray(jax.vmap(true)(looks))
        inside.append(float(np.mean((band.low <= known) & (known <= band.high))))
        widths.append(float(np.mean(band.high - band.low)))
        solver.append(found.solver)
        notes += bool(found.notes)
        say(f"inverse: field, {number + 1} of {repeats}, inside {np.mean(inside):.3f}")
    return {
        "problem": "field",
        "repeats": repeats,
        "inside": float(np.mean(inside)),
        "inside_each": inside,
        "mean_width": float(np.mean(widths)),
        "solver_over_noise": float(np.median(solver)),
        "with_notes": notes,
        "certificate": solution.certificate,
        "seconds": {"training": trained, "inference": time.perf_counter() - began},
    }
