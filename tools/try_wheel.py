"""Does the package work where nothing but its wheel is?

Builds wheel and sdist from this checkout, checks them as an index would, installs the wheel without
extras into a fresh environment outside of the repository, and runs commands there that need no
extra. Every step is timed and written to a record.

    python tools/try_wheel.py --out results/install/wheel.json    # some minutes; pip downloads

The exit code is 0 if all steps went as they should, else 1.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_PUBLIC = """\
import importlib, pkgutil, fkpinn
found = [module.name for module in pkgutil.walk_packages(fkpinn.__path__, "fkpinn.")]
parts = [name for name in found if not name.endswith("__main__")]
for part in parts: importlib.import_module(part)
for name in dir(fkpinn): getattr(fkpinn, name)
print(len(parts), "files and", len(dir(fkpinn)), "names can be imported")
"""


class Command(NamedTuple):
    """What is run where only the wheel is, with which exit code, and what it must say."""

    words: str
    code: int = 0
    says: str = ""


# None needs an extra but the last two, which must name the one that they lack.
COMMANDS = (
    Command("doctor"),
    Command("--version"),
    Command("problems --json"),
    Command("new mine"),
    Command("completion bash"),
    Command("labels met --points 4 --paths 16 --out labels.npz"),
    Command(
        "solve poisson --preset quick --set training.steps=5 labels.n_paths=8 "
        "certificate.seconds=0 --out run"
    ),
    Command("report run"),
    Command("runs . --json", says='"ended"'),
    Command("solve poisson --tensorboard --out other", 2, "fkpinn[tensorboard]"),
    Command("submit poisson --seeds 0-1 --slurm timeout_min=5 --out batch", 2, "fkpinn[slurm]"),
)


class Trial:
    """Steps in one temporary folder, and what became of them."""

    def __init__(self, folder: Path, timeout: float):
        self.folder, self.timeout = folder, timeout
        self.steps: list[dict[str, Any]] = []
        # the user's settings must not leak in, nor code that was compiled before
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FKPINN_CACHE", "XLA_FLAGS")
        self.environment = {k: v for k, v in os.environ.items() if k not in hidden}
        self.environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "NO_COLOR": "1"}
        self.environment |= {"MPLBACKEND": "agg", "COLUMNS": "100"}

    @property
    def ok(self) -> bool:
        """Whether every step so far went as it should."""
        return all(step["ok"] for step in self.steps)

    def step(
        self,
        name: str,
        command: list[Any],
        *,
        code: int = 0,
        says: str = "",
        own_cache: bool = True,
    ) -> str:
        """Run a command in the temporary folder; what it printed on standard output."""
        words = [str(word) for word in command]
        environment = dict(self.environment)
        if not own_cache:  # what pip has fetched before need not be fetched again
            environment.pop("XDG_CACHE_HOME")
            if "XDG_CACHE_HOME" in os.environ:
                environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
        begun = time.perf_counter()
        try:
            done = subprocess.run(
                words, cwd=self.folder / "work", env=environment, text=True,
                capture_output=True, timeout=self.timeout,
            )  # fmt: skip
            printed, told, found = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            printed, told, found = "", f"stopped after {self.timeout:.0f} s", -1
        said = told + printed
        self.note(name, found == code and says in said, time.perf_counter() - begun, said)
        self.steps[-1]["exit_code"] = found
        return printed

    def note(self, name: str, ok: bool, seconds: float, said: str) -> None:
        """Keep the outcome of a step, with the end of what it said, and print it."""
        lines = [line.rstrip()[:200] for line in self.scrubbed(said).splitlines() if line.strip()]
        kept = lines[-3:] if ok else lines[-30:]
        self.steps.append({"step": name, "ok": ok, "seconds": round(seconds, 1), "said": kept})
        tell(f"{'ok' if ok else 'FAILED':6s} {seconds:7.1f} s  {name}")
        if not ok:
            tell("\n".join(kept))

    def scrubbed(self, text: str) -> str:
        """Without colors, folders of this machine and addresses of package indexes."""
        text = re.sub(r"\x1b\[[\d;]*m", "", text)
        places = {self.folder: "TEMP", ROOT: "REPOSITORY", Path.home(): "HOME"}  # inner ones first
        for place, word in places.items():
            for spelled in (str(place), str(place.resolve())):
                text = text.replace(spelled, word)
        return re.sub(r"\b[a-z+]+://[^\s'\",)]+", "URL", text)


def tell(text: str) -> None:
    """A line for who waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def new_environment(trial: Trial, name: str) -> Path:
    """A fresh virtual environment; its Python."""
    begun = time.perf_counter()
    folder = trial.folder / name
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    trial.note(f"environment {name}", python.exists(), time.perf_counter() - begun, "")
    return python


def build(trial: Trial) -> Path | None:
    """Build and check wheel and sdist; the wheel, if all went well."""
    python = new_environment(trial, "tools")
    pip = [python, "-m", "pip", "install", "-qq"]
    trial.step("install build and twine", [*pip, "build", "twine"], own_cache=False)
    made = trial.folder / "dist"
    command = [python, "-m", "build", "--outdir", made, ROOT]
    trial.step("build wheel and sdist", command, own_cache=False)
    if not trial.ok:
        return None
    files = sorted(made.iterdir())
    trial.step("twine check", [python, "-m", "twine", "check", "--strict", *files])
    (wheel,) = made.glob("*.whl")
    begun = time.perf_counter()
    lacking = left_out(wheel)
    said = f"not in the wheel: {', '.join(lacking)}" if lacking else "all files are in the wheel"
    trial.note("compare wheel and checkout", not lacking, time.perf_counter() - begun, said)
    return wheel


def left_out(wheel: Path) -> list[str]:
    """Files of the package that the wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    there = (
        p for p in (ROOT / "fkpinn").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    )
    return sorted({p.relative_to(ROOT).as_posix() for p in there} - packed)


def use(trial: Trial, wheel: Path) -> dict[str, str]:
    """Install the wheel without extras and run what needs none; which versions pip took."""
    python = new_environment(trial, "user")
    pip = [python, "-m", "pip", "install", "-qq", wheel]
    trial.step("install the wheel", pip, own_cache=False)
    if not trial.ok:
        return {}
    listed = subprocess.run(
        [str(python), "-m", "pip", "list", "--format", "json"],
        cwd=trial.folder, env=trial.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    trial.step("import everything", [python, "-c", _PUBLIC])
    trial.step("pip check", [python, "-m", "pip", "check"])
    script = python.with_name("fkpinn" + python.suffix)
    for one in COMMANDS:
        trial.step(
            f"fkpinn {one.words}", [script, *one.words.split()], code=one.code, says=one.says
        )
    doctor = trial.step("fkpinn doctor --json", [script, "doctor", "--json"])
    trial.steps[-1]["said"] = (
        json.loads(trial.scrubbed(doctor)) if trial.steps[-1]["ok"] else doctor
    )
    return {one["name"]: one["version"] for one in json.loads(listed.stdout)}


def commit() -> str | None:
    """The commit of this checkout, with `+` if files differ from it."""
    found = []
    for words in (["rev-parse", "HEAD"], ["status", "--porcelain"]):
        try:
            done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
        except OSError:
            return None
        if done.returncode:
            return None
        found.append(done.stdout.strip())
    return found[0] + ("+" if found[1] else "")


def busy() -> list[float]:
    """How many processes wanted a core in the last minute, where the system tells."""
    return [round(os.getloadavg()[0], 1)] if hasattr(os, "getloadavg") else []


def main() -> int:
    """Build, install, run, write the record; 0 if all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the record goes, as JSON")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds a step")
    given = parser.parse_args()
    versions, sizes, load = {}, {}, busy()
    with tempfile.TemporaryDirectory(prefix="fkpinn-wheel-") as folder:
        trial = Trial(Path(folder), given.timeout)
        (trial.folder / "work").mkdir()
        wheel = build(trial)
        if wheel is not None:
            sizes = {path.name: path.stat().st_size for path in sorted(wheel.parent.iterdir())}
            versions = use(trial, wheel) if trial.ok else {}
    load += busy()
    record = {
        "what": "the wheel alone, without extras, in a fresh environment",
        "ok": trial.ok,
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,  # processes that wanted a core, at the start and at the end
        "bytes": sizes,
        "versions": versions,
        "steps": trial.steps,
    }
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=2, ensure_ascii=False)
        given.out.write_text(text + "\n", encoding="utf-8")
    bad = [step["step"] for step in trial.steps if not step["ok"]]
    tell(f"These failed: {'; '.join(bad)}" if bad else f"All {len(trial.steps)} steps went well.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
