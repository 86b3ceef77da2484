"""The recipe for conda says what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
BUILD, PROJECT = (
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[part]
    for part in ("build-system", "project")
)
NAMES = {"matplotlib": "matplotlib-base"}  # without a toolkit for windows


def told(key: str) -> str:
    """The value of a key."""
    found = re.findall(rf"^ *{key}: (.+)$", RECIPE, re.M)
    assert len(found) == 1
    return found[0].strip('"')


def listed(key: str) -> list[str]:
    """The items below a key."""
    found = re.findall(rf"^( *){key}:\n((?:\1  - .+\n)+)", RECIPE, re.M)
    assert len(found) == 1
    return re.findall(r"- (.+)", found[0][1])


def in_conda(requirement: str) -> str:
    """`matplotlib>=3.9` -> `matplotlib-base >=3.9`."""
    name, versions = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()
    assert re.fullmatch(r"(>=[\d.]+)?", versions), "conda may write other conditions differently"
    return f"{NAMES.get(name, name)} {versions}".strip()


def test_version_and_license():
    assert told("version") == PROJECT["version"] and told("license") == PROJECT["license"]
    assert told("summary") == PROJECT["description"]
    assert [told("license_file")] == PROJECT["license-files"]
    assert told("noarch") == "python"


def test_what_is_needed():
    python = f"python {PROJECT['requires-python']}"
    assert listed("run") == [python, *map(in_conda, PROJECT["dependencies"])]
    assert listed("host") == [python, "pip", *map(in_conda, BUILD["requires"])]


def test_entry_points():
    scripts = PROJECT["scripts"]
    assert listed("entry_points") == [f"{name} = {where}" for name, where in scripts.items()]
    used = [line.split()[0] for line in listed("commands")]
    assert set(used) == {"python", *scripts}
