"""A file imports only from lower rows, or from its own folder."""

import ast
from pathlib import Path

import pytest
from sources import FILES, ROOT, dotted, in_one_worker, nodes, tree

pytestmark = in_one_worker

# folder or file: (its row, the highest row it may import)
LAYERS = {
    "_types": (0, -1),
    "_records": (0, -1),
    "_files": (0, -1),
    "_interval": (0, -1),
    "_lock": (1, 0),
    "_field": (1, 0),
    "_processes": (0, -1),
    "_progress": (0, -1),
    "_compute": (0, -1),
    "_memory": (0, -1),
    "_miscompiled": (0, -1),
    "_streams": (0, -1),
    "_together": (0, -1),
    "_words": (0, -1),
    "domain": (1, 0),
    "problem": (2, 1),
    "nn": (3, 2),
    "sampling": (3, 2),
    "reference": (3, 2),
    "sde": (4, 3),
    "labels": (5, 4),
    "loss": (6, 5),
    "train": (7, 6),
    "evaluate": (8, 7),
    "report": (9, 0),
    "_solve": (9, 8),
    "diagnostics": (10, 9),
    "inverse": (10, 9),
    "experiments": (11, 10),
    "cli": (12, 11),
    "__main__": (13, 12),
}
# `report` reads plain records and imports row 0 only, so the row that writes runs may call it, and
# classes that notebooks show; what reads files stands on what writes them.
SHOWN = ("problem", "labels", "evaluate", "_solve")
SIDEWAYS = {
    *((part, "report") for part in SHOWN),
    ("_files", "_records"),
    ("_compute", "_memory"),
    ("_compute", "_miscompiled"),
}
PUBLIC = 11  # the row of `fkpinn` itself: its names are for users and for the command line

of_every_file = pytest.mark.parametrize(
    "folder", sorted({path.parent for path in FILES}), ids=lambda p: p.name
)


def part_of(module: str) -> str:
    """`fkpinn.domain._ball` -> `domain`; the package itself -> ``."""
    return [*module.split("."), ""][1]


def imports_of_ours(path: Path) -> list[tuple[ast.stmt, str, bool]]:
    """Each import of fkpinn in the file: node, part imported, whether inside a function."""
    package = ["fkpinn", *path.relative_to(ROOT).parent.parts]
    found = []

    def visit(node: ast.AST, in_function: bool) -> None:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            # `from fkpinn import domain` imports a part, `from fkpinn import Ball` the package
            names = [alias.name for alias in node.names if alias.name in LAYERS]
            modules = [f"fkpinn.{n}" for n in names] if base == "fkpinn" and names else [base]
        else:
            modules = []
        found.extend(
            (node, part_of(m), in_function) for m in modules if m.split(".")[0] == "fkpinn"
        )
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree(path), False)
    return found


def own_part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


@of_every_file
def test_imports_go_down(folder):
    for path in sorted(folder.glob("*.py")):
        own = own_part(path)
        if own == "__init__":
            continue
        assert own in LAYERS, f"{path.name} has no row: add `{own}` to the table in this file"
        _, limit = LAYERS[own]
        for node, part, _ in imports_of_ours(path):
            if part == own or (own, part) in SIDEWAYS:
                continue
            row = LAYERS[part][0] if part else PUBLIC
            assert row <= limit, (
                f"{path.relative_to(ROOT)}:{node.lineno} imports `fkpinn.{part}` (row {row}), "
                f"but `{own}` may import rows up to {limit}"
            )


@of_every_file
def test_functions_do_not_import_other_folders(folder):
    for path in sorted(folder.glob("*.py")):
        own = own_part(path)
        if own in ("__init__", "cli"):  # these load the numerics late, on purpose
            continue
        late = [
            f"line {node.lineno} imports `fkpinn.{part}`"
            for node, part, in_function in imports_of_ours(path)
            if in_function and part != own
        ]
        assert not late, f"move to the top of {path.relative_to(ROOT)}: {late}"


def test_the_table_knows_an_upward_import(tmp_path, monkeypatch):
    (tmp_path / "domain").mkdir()
    bad = tmp_path / "domain" / "_bad.py"
    bad.write_text("def f():\n    from ..train import fit\n    import fkpinn.sde._walk\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert [(part, late) for _, part, late in imports_of_ours(bad)] == [
        ("train", True),
        ("sde", True),
    ]
    with pytest.raises(AssertionError, match=r"_bad.py:2 imports `fkpinn.train` \(row 7\)"):
        test_imports_go_down(bad.parent)


@of_every_file
def test_one_object_knows_what_a_point_is_made_of(folder):
    """Only the layout takes a point apart, or counts its coordinates by hand."""
    for path in sorted(folder.glob("*.py")):
        if path.name == "_layout.py":
            continue
        of_one, of_many = ("0", "1:", ":1", "..., 0", "..., 1:"), (":, 0", ":, 1:", ":, :1")
        for node in nodes(path):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                taken = ast.unparse(node.slice)
                one = node.value.id in ("z", "at", "point") and taken in of_one
                many = node.value.id in ("z", "points") and taken in of_many
                drawn = path.parts[-2] == "report"  # places in the plane, as pictures have them
                assert drawn or not (one or many), f"{path}:{node.lineno}: {ast.unparse(node)}"
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                assert not ast.unparse(node.left).endswith("n_coords"), f"{path}:{node.lineno}"


@of_every_file
def test_conditions_carry_their_own_behaviour(folder):
    """No type test on boundary conditions but in their own file."""
    for path in sorted(folder.glob("*.py")):
        if path.name == "_boundary.py":
            continue
        kinds = {"Dirichlet", "Neumann", "Robin"}
        for node in nodes(path):
            if isinstance(node, ast.Call) and dotted(node.func) in ("isinstance", "issubclass"):
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                assert not names & kinds, f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_device_and_precision_are_chosen_in_one_place():
    for word, most in (("enable_x64", 3), ("default_backend", 2)):
        found = [p for p in FILES if word in p.read_text(encoding="utf-8")]
        assert len(found) <= most, found
