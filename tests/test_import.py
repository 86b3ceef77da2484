"""What importing costs, and that the public names are what they say."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fkpinn

ROOT = Path(fkpinn.__file__).parent
PARTS = sorted(
    {p.parent.name for p in ROOT.glob("*/__init__.py")} | {p.stem for p in ROOT.glob("_[a-z]*.py")}
)


def loaded_by(*statements: str) -> list[set[str]]:
    """The top-level packages that a fresh interpreter has after each of the statements."""
    lines = ["import sys"]
    for statement in statements:
        lines += [statement, "print(*{m.split('.')[0] for m in sys.modules})"]
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_import_is_light_and_so_is_the_command_line():
    heavy = {"jax", "numpy", "scipy", "matplotlib", "skfem"}
    package, command = loaded_by("import fkpinn", "import fkpinn.cli")
    assert package.isdisjoint(heavy | {"tyro", "rich"}) and command.isdisjoint(heavy)


def test_parts_leave_plots_and_meshes_alone():
    """One after the other in one process: the first that loads something heavy is named."""
    parts = [part for part in PARTS if part != "cli"]
    heavy = {"matplotlib", "skfem", "tyro", "rich"}
    for part, loaded in zip(parts, loaded_by(*(f"import fkpinn.{p}" for p in parts)), strict=True):
        assert loaded.isdisjoint(heavy), part


def test_table_and_type_checkers_agree():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    shown = {alias.name: node.module for node in imports for alias in node.names}
    assert shown == fkpinn._EXPORTS


@pytest.mark.parametrize("name", sorted(fkpinn._EXPORTS))
def test_export_exists(name):
    assert not isinstance(getattr(fkpinn, name), ModuleType)


def test_dir_lists_exports():
    assert {*fkpinn._EXPORTS, "__version__"} <= set(dir(fkpinn))


def test_version_is_that_of_the_project():
    assert fkpinn.__version__[0].isdigit()


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'fkpinn' has no attribute 'nonsense'"):
        fkpinn.nonsense  # noqa: B018
