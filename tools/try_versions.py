"""Does the wheel work with the oldest versions that pyproject.toml states, and with the newest?

For every Python that is found here, the wheel is installed twice into fresh environments outside of
the repository: with each package it needs pinned to the oldest version that is stated (or to the
oldest after it that has a wheel for this Python), and with whatever is newest. In each of them
`fkpinn doctor` and a small `fkpinn solve` are run. Every step is timed and written to a record.

    python tools/try_versions.py --out results/install/versions.json    # a while; pip downloads

The exit code is 0 if all steps went as they should, else 1.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from try_wheel import ROOT, Trial, build, busy, commit, tell

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
KINDS = ("oldest", "newest")
_SMALL = (
    "network.widths=[16,16] points.n_collocation=200 points.n_boundary=80 points.n_test=200 "
    "labels.p_data=0.2 labels.n_paths=50 training.steps=20 certificate.seconds=2"
)
_IMPORT = """\
import importlib, pkgutil, fkpinn
found = [module.name for module in pkgutil.walk_packages(fkpinn.__path__, "fkpinn.")]
for name in found: name.endswith("__main__") or importlib.import_module(name)
print(len(found), "files")
"""
_LEARNT = 0.2  # relative L2 error; 0.54 is that of a constant
_WHEELS = ("--only-binary", ":all:")  # nothing is compiled
_VERSION = "import platform; print(platform.python_version())"


def stated() -> dict[str, str]:
    """Packages that are needed without extras, with the oldest version that will do."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = {}
    for line in tomllib.loads(text)["project"]["dependencies"]:
        match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", line)
        if match is None:
            raise ValueError(f"pyproject.toml needs {line!r}; expected `package>=version`.")
        found[match[1]] = match[2]
    return found


def numbers(version: str) -> tuple[int, ...]:
    """`0.10.0` -> 0, 10; so that it equals `0.10`."""
    found = [int(word) for word in version.split(".")]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def releases(bound: str, listed: str) -> list[str]:
    """Of what `pip index versions` lists, those that are not older than the bound, oldest first."""
    match = re.search(r"Available versions: (.*)", listed)
    known = [word.strip() for word in match[1].split(",")] if match else []
    fit = [v for v in known if re.fullmatch(r"[\d.]+", v) and numbers(v) >= numbers(bound)]
    return sorted(fit, key=numbers)


def interpreter(wanted: str) -> tuple[str, str] | None:
    """A Python of this version, on the path or of pyenv, and its release; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    there = [shutil.which(f"python{wanted}"), *sorted(pyenv.glob(f"{wanted}.*/bin/python"))]
    for program in filter(None, there):
        try:  # the path may hold a stand-in for a Python that is not installed
            done = subprocess.run([program, "-c", _VERSION], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.startswith(f"{wanted}."):
            return str(program), done.stdout.strip()
    return None


def pins(trial: Trial, python: Path, bounds: dict[str, str]) -> dict[str, str]:
    """The oldest version of each package that this Python can have as a wheel."""

    def pip(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-m", "pip", *words]
        return subprocess.run(command, cwd=trial.folder, capture_output=True, text=True)

    found, begun = {}, time.perf_counter()
    look = ("install", "-qq", "--dry-run", "--no-deps", *_WHEELS)
    for name, bound in bounds.items():
        known = releases(bound, pip("index", "versions", name).stdout)  # with and without wheels
        fit = (v for v in known if pip(*look, f"{name}=={v}").returncode == 0)
        if version := next(fit, None):
            found[name] = version
    later = {n: v for n, v in found.items() if numbers(v) != numbers(bounds[n])}
    said = [f"{n} {bounds[n]} has no wheel here, taken: {v}" for n, v in later.items()]
    said += [f"{n}: nothing from {bounds[n]} on" for n in bounds.keys() - found.keys()]
    seconds = time.perf_counter() - begun
    trial.note("look for the oldest", len(found) == len(bounds), seconds, "\n".join(said))
    return found


def installed(python: Path) -> dict[str, str]:
    """Versions in this environment."""
    words = [str(python), "-m", "pip", "list", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {one["name"]: one["version"] for one in json.loads(done.stdout)}


def attempt(trial: Trial, program: str, kind: str, wheel: Path, name: str) -> dict[str, Any]:
    """Install and run in one environment; what its record says besides the steps."""
    folder = trial.folder / name
    trial.step("environment", [program, "-m", "venv", folder])
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not trial.ok:
        return {}
    taken = pins(trial, python, stated()) if kind == "oldest" else {}
    pip = [python, "-m", "pip", "install", "-qq", *_WHEELS, wheel]
    exact = [f"{package}=={version}" for package, version in taken.items()]
    if trial.ok:
        trial.step("install the wheel", [*pip, *exact], own_cache=False)
    if not trial.ok:
        return {"pinned": taken}
    versions = installed(python)
    lower = {package.lower(): version for package, version in versions.items()}
    other = [package for package, version in taken.items() if lower[package] != version]
    trial.note("compare with the pins", not other, 0.0, ", ".join(other))
    trial.step("pip check", [python, "-m", "pip", "check"])
    trial.step("import everything", [python, "-c", _IMPORT])
    script = python.with_name("fkpinn" + python.suffix)
    trial.step("fkpinn doctor", [script, "doctor"])
    words = f"solve exit-ball-3d --preset quick --set {_SMALL} --json --out {name}-run"
    said = trial.step(f"fkpinn {words}", [script, *words.split()])
    error = None
    if trial.steps[-1]["ok"]:
        error = json.loads(said)["errors"]["l2_rel"]
        trial.steps[-1]["said"] = []  # the whole result
        trial.note("relative L2 error", error < _LEARNT, 0.0, f"{error:.3f}")
    return {"pinned": taken, "versions": versions, "l2_rel": error}


def environments(folder: Path, wheel: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One record for each Python and kind; those that are not there are said to be."""
    for wanted in given.pythons:
        there = interpreter(wanted)
        for kind in given.kinds:
            if there is None:
                tell(f"Python {wanted} is not here: not tried")
                yield {"python": wanted, "kind": kind, "tried": False}
                continue
            tell(f"Python {wanted}, {kind}")
            name = f"python{wanted}-{kind}"
            trial = Trial(folder, given.timeout)
            found = attempt(trial, there[0], kind, wheel, name)
            shutil.rmtree(folder / name, ignore_errors=True)  # half a gigabyte each
            about = {"python": wanted, "kind": kind, "tried": True, "ok": trial.ok}
            yield about | {"release": there[1]} | found | {"steps": trial.steps}


def main() -> int:
    """Build, install, run, write the record; 0 if all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the record goes, as JSON")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds a step")
    parser.add_argument("--pythons", nargs="+", default=list(PYTHONS), metavar="X.Y")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    given = parser.parse_args()
    found, load = [], busy()
    with tempfile.TemporaryDirectory(prefix="fkpinn-versions-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        first = Trial(folder, given.timeout)
        wheel = build(first)
        if wheel is not None and first.ok:
            found = list(environments(folder, wheel, given))
    load += busy()
    tried = [one for one in found if one["tried"]]
    record = {
        "what": "the wheel with the oldest versions that are stated, and with the newest",
        "ok": first.ok and bool(tried) and all(one["ok"] for one in tried),
        "commit": commit(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,  # processes that wanted a core, at the start and at the end
        "stated": stated(),
        "steps": first.steps,
        "environments": found,
    }
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=2, ensure_ascii=False)
        given.out.write_text(text + "\n", encoding="utf-8")
    bad = [f"{one['python']} {one['kind']}" for one in tried if not one["ok"]]
    left = sorted({one["python"] for one in found if not one["tried"]})
    tell(f"Well: {len(tried) - len(bad)}; failed: {', '.join(bad) or 'none'}")
    tell(f"Not tried: {', '.join(left) or 'none'}")
    return 0 if record["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
