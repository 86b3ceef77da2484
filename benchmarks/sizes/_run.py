"""Commands of the documentation at their largest, each in a process of its own."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from fkpinn._files import kept

from .._common import run_process, say, surroundings

# memory is that of more steps
_FEW = "certificate.seconds=0 training.steps=10 training.polish_steps=4"
COMMANDS = {
    "2000 labels of 500 paths": "labels met --points 2000 --paths 500 --dt 1e-3 --out a.npz",
    "10 labels of 100,000 paths": "labels met --points 10 --paths 100000 --dt 1e-2 --out a.npz",
    "200 labels in 50 dimensions": "labels poisson-50d --points 200 --paths 1000 --out a.npz",
    "finite elements, 256 edges across": "reference committor --refine 2 --out a.npz",
    "`quick`, 14 steps": f"solve met --preset quick --set {_FEW}",
    "`best`, 14 steps": f"solve met --preset best --set {_FEW}",
    "`best` in 50 dimensions, 14 steps": f"solve poisson-50d --preset best --set {_FEW}",
    "`paper`, 60 steps": (
        "solve met --preset paper --set certificate.seconds=0 training.adam_steps=50 "
        "training.lbfgs_steps=10"
    ),
    "curvature of a 2 × 24 network": "diagnose met --what spectrum",
}


def run(folder: Path | None = None) -> dict[str, Any]:
    """Each command, with few steps where it trains.

    Args:
        folder: where single results are kept, so that the same call goes on where it was stopped.
    """
    folder = Path("runs/sizes") if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = [
        kept(folder / f"{number}.json", lambda n=name: _one(n))
        for number, name in enumerate(COMMANDS)
    ]
    return {"benchmark": "sizes", "records": records, **surroundings()}


def _one(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        words = [sys.executable, "-m", "fkpinn", *COMMANDS[name].split()]
        _, seconds, mib = run_process(words, Path(place))
    say(f"sizes: {name}: {seconds:.0f} s, {mib:.0f} MiB")
    return {"what": name, "command": COMMANDS[name], "seconds": seconds, "peak_mib": mib}
