"""The package's source files as trees, for tests that look at every line of it."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "fkpinn"
FILES = sorted(ROOT.rglob("*.py"))
in_one_worker = pytest.mark.xdist_group("sources")  # files are parsed once a worker


@functools.cache
def tree(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of it, in no order."""
    return tuple(ast.walk(tree(path)))


def dotted(node: ast.AST) -> str:
    """`jax.random.key` of names and attributes; of other things only what follows them."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
