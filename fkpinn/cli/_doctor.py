"""`fkpinn doctor`: does everything needed work on this machine, and if not, what to do?"""

import dataclasses
import importlib.metadata
import operator
import os
import platform
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from fkpinn.cli._memory import memory
from fkpinn.cli._output import PLAIN, OutputOptions, print_json

Verdict = Literal["ok", "note", "missing", "broken"]

_STYLES: dict[Verdict, str] = {"ok": "green", "note": "yellow", "missing": "dim", "broken": "red"}
_EXTRAS = {  # which packages these are, the installed metadata say
    "fem": "finite element references in one and two dimensions",
    "slurm": "`fkpinn submit --slurm`, jobs in a queue",
    "tensorboard": "`fkpinn solve --tensorboard`, curves while it runs",
    "vtk": "viewing files from `Solution.to_vtk` in Python",
    "xarray": "`Solution.to_xarray`, grids with named axes",
    "inverse": "`fk.infer`, parameters from data",
    "export": "`Solution.export`, a function that does not need fkpinn",
    "cuda12": "NVIDIA GPUs with a driver for CUDA 12",
    "cuda13": "NVIDIA GPUs with a driver for CUDA 13",
}
_GIB = 1 << 30
_LITTLE = 2 * _GIB  # what the preset `quick` takes in two dimensions
_DRIVER = Path("/proc/driver/nvidia/version")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_COMPARISONS = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Check what works on this machine, and say what to do about what does not.

    The exit code is 1 if something required is broken; missing extras are not a failure.

    Example: `fkpinn doctor`
    """

    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Look at everything and print what was found."""
        with self.output.reserved():
            findings = examine()
        broken = [one.name for one in findings if one.verdict == "broken"]
        if self.output.json:
            print_json({"ok": not broken, "checks": [one._asdict() for one in findings]})
        else:
            _print_list(findings)
        if broken:
            raise RuntimeError(
                f"This does not work here: {', '.join(broken)}. See the lines marked `try` above."
            )
        if not self.output.json:
            print("Everything needed works.")


class Finding(NamedTuple):
    """One line: what was looked at, whether it is well, what there is, and what to do."""

    name: str
    verdict: Verdict
    found: str
    action: str | None = None


def examine() -> list[Finding]:
    """Look at versions, devices, memory, precision, folders and extras, in a few seconds."""
    again = "pip install --force-reinstall fkpinn"
    findings = [*_try("Python", _python, again), *_try("packages", _packages, again)]
    try:
        import fkpinn._compute  # noqa: F401  # brings jax, numpy and equinox
    except Exception as error:  # whatever a broken package raises
        findings.append(Finding("import jax", "broken", _in_a_line(error), again))
    else:
        unset = "Unset the variables JAX_PLATFORMS and XLA_FLAGS, if they are set."
        findings += _try("devices", _devices, unset)
        findings += _try("cores", _cores, again)
        findings += _try("precision", _precision, unset)
        findings += _try("compiled code", _cache, "Set FKPINN_CACHE to `off`.")
    findings += _try("memory", _memory, again)
    findings += _try("this folder", _folder, again)
    return [*findings, *_try("extras", _extras, again)]


def _try(name: str, check: Callable[[], Iterator[Finding]], action: str) -> list[Finding]:
    """What a check found; one that fails is a finding, too."""
    try:
        return list(check())
    except Exception as error:
        return [Finding(name, "broken", _in_a_line(error), action)]


def _in_a_line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


# ---- versions


class _Requirement(NamedTuple):
    """`scikit-fem>=11.0; extra == 'fem'`, in parts. Other markers than extras are not read."""

    name: str
    extras: tuple[str, ...]
    versions: str
    only_for: str | None

    @property
    def command(self) -> str:
        """How to install what is required."""
        return f'pip install "{self.name}{self.versions}"'


def _requirements(package: str) -> list[_Requirement]:
    """What the installed metadata of a package ask for."""
    found = []
    for line in importlib.metadata.requires(package) or []:
        match = _REQUIREMENT.match(line)
        if match is None:
            raise ValueError(f"The metadata of {package} require {line!r}, which is not a package.")
        name, extras, versions, marker = match.groups(default="")
        only = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        wanted = tuple(word.strip() for word in extras.split(",") if word.strip())
        found.append(_Requirement(name, wanted, versions.strip(), only[1] if only else None))
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fits(version: str, wanted: str) -> bool:
    """Whether `0.10.2` is in `>=0.10,<1`; what we cannot read counts as met."""
    for clause in filter(None, (word.strip() for word in wanted.split(","))):
        match = re.fullmatch(r"([<>=!]=|[<>])\s*([\d.]+)", clause)
        if match is None:
            continue
        have, limit = _numbers(version), _numbers(match[2])
        longest = max(len(have), len(limit))
        have, limit = (n + [0] * (longest - len(n)) for n in (have, limit))
        if not _COMPARISONS[match[1]](have, limit):
            return False
    return True


def _numbers(version: str) -> list[int]:
    """`0.10.2.dev3` -> 0, 10, 2."""
    match = re.match(r"\d+(\.\d+)*", version)
    return [int(word) for word in match[0].split(".")] if match else []


def _python() -> Iterator[Finding]:
    from fkpinn import __version__

    found, wanted = platform.python_version(), ""
    if _version("fkpinn"):
        wanted = importlib.metadata.metadata("fkpinn")["Requires-Python"] or ""
    if _fits(found, wanted):
        yield Finding("Python", "ok", f"{found} ({wanted})" if wanted else found)
    else:
        action = f"Create an environment with Python {wanted}, and install fkpinn there."
        yield Finding("Python", "broken", f"{found}, but {wanted} is required", action)
    yield Finding("fkpinn", "ok", __version__)


def _packages() -> Iterator[Finding]:
    if not _version("fkpinn"):
        from fkpinn._records import installed_versions

        there = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
        told = f"{there}; the required versions are unknown in a source tree"
        yield Finding("packages", "note", told, "pip install -e .")
        return
    needed = _requirements("fkpinn")
    if _version("jax"):
        needed += [one for one in _requirements("jax") if one.name == "jaxlib"]
    needed = [one for one in needed if one.only_for is None]
    for one in sorted(needed, key=lambda one: one.name):
        version = _version(one.name)
        if version is None:
            yield Finding(one.name, "broken", f"not installed ({one.versions})", one.command)
        elif _fits(version, one.versions):
            yield Finding(one.name, "ok", f"{version} ({one.versions})")
        else:
            found = f"{version}, but {one.versions} is required"
            yield Finding(one.name, "broken", found, one.command)


def _extras() -> Iterator[Finding]:
    if not _version("fkpinn"):
        return
    known = _requirements("fkpinn")
    there = {name: [one for one in known if one.only_for == name] for name in _EXTRAS}
    cuda = [name for name in _EXTRAS if name.startswith("cuda") and _has(there[name])]
    for name, purpose in _EXTRAS.items():
        line, command = f"extra {name}", f'pip install "fkpinn[{name}]"'
        if _has(there[name]):
            packages = ", ".join(f"{one.name} {_version(one.name)}" for one in there[name])
            yield Finding(line, "ok", f"{packages}: {purpose}")
        elif name.startswith("cuda") and cuda:
            yield Finding(line, "ok", f"not needed, since {cuda[0]} is installed")
        else:
            yield Finding(line, "missing", f"for {purpose}", command)


def _has(wanted: list[_Requirement]) -> bool:
    """Whether all of these are installed, with what their own extras ask for."""
    if not wanted:  # metadata older than the extra
        return False
    for one in wanted:
        version = _version(one.name)
        if version is None or not _fits(version, one.versions):
            return False
        inner = _requirements(one.name) if one.extras else []
        # packages of an extra alone: what those want in turn need not come from pip
        if not all(_version(two.name) for two in inner if two.only_for in one.extras):
            return False
    return True


# ---- the machine


def _devices() -> Iterator[Finding]:
    import jax

    kinds = [device.device_kind for device in jax.devices()]
    found = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    card = _DRIVER.exists() or shutil.which("nvidia-smi") is not None
    if jax.default_backend() != "cpu" or not card:
        yield Finding("devices", "ok", found)
        return
    if not any(_version(f"jax-cuda{number}-plugin") for number in (12, 13)):
        why, action = "jax is installed without CUDA", 'pip install "fkpinn[cuda12]"'
    elif os.environ.get("JAX_PLATFORMS"):
        why = f"JAX_PLATFORMS is {os.environ['JAX_PLATFORMS']!r}"
        action = "Unset the variable JAX_PLATFORMS."
    else:
        why = "jax cannot use it"
        action = "Check that `nvidia-smi` lists it and that CUDA_VISIBLE_DEVICES does not hide it."
    told = f"{found}; there seems to be an NVIDIA GPU, but {why}"
    yield Finding("devices", "note", told, action)


def _cores() -> Iterator[Finding]:
    from fkpinn._compute import usable_cores

    usable, all_of_them = usable_cores(), os.cpu_count() or 1
    if usable >= all_of_them:
        yield Finding("cores", "ok", f"{usable}")
    else:
        action = "If this is not intended, change the limit of the container, queue or `taskset`."
        yield Finding("cores", "note", f"{usable} of {all_of_them} can be used", action)


def _memory() -> Iterator[Finding]:
    there = memory()
    if there is None:
        yield Finding("memory", "ok", "unknown: this system does not report it")
        return
    found = f"{there.free / _GIB:.1f} GiB free of {there.most / _GIB:.1f} GiB"
    if there.free >= _LITTLE:
        yield Finding("memory", "ok", found)
    else:
        action = "Close other programs, or use fewer points: `--set points.n_collocation=500`."
        yield Finding("memory", "note", f"{found}; the preset `quick` needs 2 GiB", action)


def _precision() -> Iterator[Finding]:
    import jax
    import jax.numpy as jnp

    from fkpinn._compute import precision

    little = 2.0**-40  # lost beside one in single precision
    with precision("float64"):
        value = jax.jit(lambda x: x + little)(jnp.asarray(1.0))
    if str(value.dtype) == "float64" and float(value) - 1.0 == little:
        yield Finding("precision", "ok", "float64 is computed in 64 bits")
    else:
        found = f"requested float64, got {value.dtype}; 1 + 2**-40 gave {float(value)!r}"
        action = "Compute on the CPU, with JAX_PLATFORMS=cpu, or on another device."
        yield Finding("precision", "broken", found, action)


# ---- folders


def _cache() -> Iterator[Finding]:
    import jax

    from fkpinn._compute import keep_compiled_code

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ours = keep_compiled_code()
    told = jax.config.values["jax_compilation_cache_dir"]
    if said:
        why, _, action = str(said[0].message).partition(". ")
        yield Finding("compiled code", "note", why, action)
    elif ours is not None:
        found = f"cached in {ours}, {_size(ours.parent)}"
        yield Finding("compiled code", "ok", found)
    elif not told:
        found = "not cached because of FKPINN_CACHE, so every run compiles again"
        yield Finding("compiled code", "note", found, "Unset the variable FKPINN_CACHE.")
    elif _writable(Path(told)):
        found = f"cached in {told} by jax's own setting, {_size(Path(told))}"
        yield Finding("compiled code", "ok", found)
    else:
        found = f"jax is set to cache it in {told}, which cannot be written"
        action = "Unset the variable JAX_COMPILATION_CACHE_DIR, or set it to another folder."
        yield Finding("compiled code", "note", found, action)


def _size(folder: Path) -> str:
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{sum(files) / (1 << 20):.0f} MiB"


def _writable(folder: Path) -> bool:
    """Whether a file can be made there, or in the folder above that it would be made in."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


def _folder() -> Iterator[Finding]:
    here = Path.cwd()
    if _writable(here):
        yield Finding("this folder", "ok", f"{here} can be written")
    else:
        action = "Go to a folder of your own, or give `--out DIR` to every command."
        yield Finding("this folder", "note", f"{here} cannot be written", action)


# ---- on the screen


def _print_list(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)  # commands stay whole, to be copied
    width = max(len(one.name) for one in findings)
    for one in findings:
        line = Text(f"{one.verdict:<8} ", style=_STYLES[one.verdict])
        console.print(line + Text(f"{one.name:<{width}}  {one.found}", style="default"))
        if one.action:
            console.print(Text(f"{'':<{9 + width}}  try: {one.action}"))
