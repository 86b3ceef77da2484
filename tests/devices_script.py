"""Labels, a training step and a certificate on several devices, as JSON; see `test_devices`."""

import hashlib
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn._compute import Compute, current, precision, using
from fkpinn.labels import visited_places
from fkpinn.loss import Fixed, make_loss
from fkpinn.nn import MLP
from fkpinn.sde._walk import _pieces
from fkpinn.train import NaturalGradient, _objective
from fkpinn.train._objective import Objective, split

PROBLEM = fk.catalogue("met").problem
WIDTHS = {"f32": 4, "f64": 8, "s32": 4, "u32": 4, "pred": 1}


def digest(*arrays):
    return hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()


def labels():
    points = jnp.asarray([[0.1, 0.2], [-0.3, 0.1], [0.4, -0.2]], jnp.float32)
    found = fk.estimate_labels(PROBLEM, points, n_paths=200, seed=3, dt=0.05)
    seen = visited_places(PROBLEM, points, n_paths=200, dt=0.05, most=64)
    network = MLP(*PROBLEM.bounds(), [4], key=jax.random.key(0))
    certificate = fk.certify(PROBLEM, network, n_points=16, n_paths=8, dt=0.05)
    return {
        "labels": digest(found.value, found.stderr),
        "visits": digest(*seen),
        "certificate": [certificate.l2_rel, certificate.ci_low, certificate.ci_high],
        "devices": found.provenance["devices"],
    }


def step():
    """Parameters after a step, what travels in it, and the rows of each device."""
    optimizer, sent = NaturalGradient(), []
    network = MLP(*PROBLEM.bounds(), [8], key=jax.random.key(0), dtype=jnp.float64)
    for n in (61, 122):
        loss = make_loss(
            PROBLEM, n, 20, None, size=1.0, dtype=jnp.dtype("float64"), key=jax.random.key(1)
        )
        parameters, static, unravel = split(network, Fixed({}))

        def one(parameters, loss=loss, static=static, unravel=unravel):
            objective = Objective(loss, jnp.zeros((), jnp.int32), static, unravel)
            state = optimizer.init(objective, parameters)
            return optimizer.step(objective, parameters, state)[0]

        compiled = jax.jit(one).lower(parameters).compile()
        sent.append(_bytes(compiled.as_text()))
    return {
        "step": np.asarray(compiled(parameters)).tolist(),
        "bytes": sent,
        "parameters": len(parameters),
        "terms": 2 * len(loss.terms),
        "rows": ROWS[-len(loss.terms) :],
        "paths": [count for _, count in _pieces(0, 600, len(current().devices), 1)],
    }


ROWS = []  # whose derivatives one device takes, of each term


def _watched(at, parameters, rows):
    ROWS.append(jax.tree.leaves(rows)[0].shape[0])
    return _objective_pieces(at, parameters, rows)


_objective_pieces = _objective._in_pieces
_objective._in_pieces = _watched


def _bytes(text):
    """Of all arrays that devices add up."""
    total = 0
    for line in text.splitlines():
        if not re.search(r"= .* all-reduce(-start)?\(", line):
            continue
        for kind, shape in re.findall(
            r"(f32|f64|s32|u32|pred)\[([\d,]*)\]", line.split(" all-reduce")[0]
        ):
            total += WIDTHS[kind] * int(np.prod([int(d) for d in shape.split(",") if d] or [1]))
    return total


found = {}
for n in map(int, sys.argv[1:]):
    with using(Compute.here().limited(n)):
        found[n] = labels()
        with precision("float64"):
            found[n] |= step()
sys.stdout.write(json.dumps(found))
