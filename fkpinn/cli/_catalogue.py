"""The catalogue as a list, read without importing anything that needs jax."""

import tomllib
from importlib.resources import files
from typing import TypedDict


class Entry(TypedDict):
    """One problem of the catalogue."""

    name: str
    dim: int
    kind: str
    reference: str
    summary: str
    equation: str


def read_catalogue() -> list[Entry]:
    """The entries of `fkpinn/problem/catalogue.toml`, in the file's order."""
    text = files("fkpinn").joinpath("problem", "catalogue.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["problem"]
