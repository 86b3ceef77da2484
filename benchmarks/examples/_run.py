"""Every example as a user would run it, one after the other."""

import sys
from pathlib import Path
from typing import Any

from fkpinn._files import kept

from .._common import ROOT, run_process, say, surroundings

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def run(folder: Path | None = None) -> dict[str, Any]:
    """Each script in a process of its own.

    Args:
        folder: where pictures and single results are kept, so that the same call goes on where it
            was stopped.
    """
    folder = Path("runs/examples") if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = [
        kept(folder / f"{script.stem}.json", lambda s=script: _one(s, folder)) for script in SCRIPTS
    ]
    return {"benchmark": "examples", "records": records, **surroundings()}


def _one(script: Path, folder: Path) -> dict[str, Any]:
    text, seconds, mib = run_process([sys.executable, str(script.resolve())], folder)
    said = text.strip().splitlines()
    say(f"examples: {script.stem}: {said[-1]} ({seconds:.0f} s)")
    return {"example": script.stem, "said": said, "seconds": seconds, "peak_mib": mib}
