"""Make an environment with the peers, as they were run.

    python benchmarks/peers/environment.py FOLDER

It prints what FKPINN_PEERS must be. Python 3.11 is what they were run with.
"""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

PINNED = Path(__file__).with_name("peers.txt")


def main() -> None:
    """Make it in the folder that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install = [str(python), "-m", "pip", "install"]
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    subprocess.run([*install, torch], check=True)  # first: others would bring a larger one
    subprocess.run([*install, "-r", str(PINNED)], check=True)
    print(f"export FKPINN_PEERS={python}")


if __name__ == "__main__":
    main()
