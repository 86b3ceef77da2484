"""The work of one of several processes; the first prints what came out, see `test_together`."""

import hashlib
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fkpinn as fk
from fkpinn import _together as together
from fkpinn._compute import current, precision
from fkpinn.labels import visited_places
from fkpinn.loss import Fixed, make_loss
from fkpinn.nn import MLP
from fkpinn.train import NaturalGradient, Phase, fit

which, count, port = map(int, sys.argv[1:4])
if count > 1:
    together.join(f"localhost:{port}", count, which)
PROBLEM = fk.catalogue("met").problem


def digest(*arrays):
    return hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()


def paths():
    points = jnp.asarray([[0.1, 0.2], [-0.3, 0.1], [0.4, -0.2]], jnp.float32)
    found = fk.estimate_labels(PROBLEM, points, n_paths=201, seed=3, dt=0.05)
    seen = visited_places(PROBLEM, points, n_paths=200, dt=0.05, most=64)
    return {
        "labels": digest(found.value, found.stderr),
        "visits": digest(*seen),
        "devices": found.provenance["devices"],
    }


def training():
    """Parameters after a step, and after three with fresh points."""
    found = {}
    with precision("float64"):
        network = MLP(*PROBLEM.bounds(), [8], key=jax.random.key(0), dtype=jnp.float64)
        loss = make_loss(
            PROBLEM, 61, 20, None, size=1.0, dtype=jnp.dtype("float64"), key=jax.random.key(1)
        )
        for steps in (1, 3):
            phase = Phase("natural", NaturalGradient(), steps, Fixed({"boundary": 10.0}), redraw=1)
            leaves = jax.tree.leaves(fit(network, loss, [phase], key=jax.random.key(2)).network)
            assert all(leaf.is_fully_addressable for leaf in leaves if isinstance(leaf, jax.Array))
            found[f"steps {steps}"] = np.concatenate([np.ravel(a) for a in leaves]).tolist()
    return found


def copies(folder):
    """What each process finds of a file that only the first one can see."""
    given = folder / "run"
    if which == 0:
        (given / "deep").mkdir(parents=True)
        (given / "deep" / "file").write_text("hello")
        (given / "run.lock").touch()
    with together.own_copy(given) as own:
        found = sorted(p.name for p in own.rglob("*"))
        (own / "new").write_text("mine")
        kept = own
    if which:
        (folder / "seen.json").write_text(json.dumps([found, kept.exists(), kept == given]))
    with together.own_copy(folder / "not there") as own:
        assert own is not None and not own.exists()
    return {"new": (given / "new").read_text()} if which == 0 else {}


found = paths() | training() | copies(Path(sys.argv[4])) if count > 1 else paths() | training()
before = together.clock()
assert together.clock() >= before
found |= {"clock": round(before, 6), "processes": len(current().everyone)}
if which == 0:
    sys.stdout.write(json.dumps(found))
