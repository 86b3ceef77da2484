"""Which small mistakes would the tests not see?

Draws random mutants of the package: one sign, constant, comparison or index changed in one place.
Each is applied to a copy of the tree, where the fast tests of its own folder run, and if these
pass the broad ones. A mutant is killed if one of them fails or the time limit passes, and has
survived otherwise.

    python tools/mutants.py --count 60             # all folders; one to five minutes each
    python tools/mutants.py --list                 # which ones, without running anything
    python tools/mutants.py --folders sde --only 3 # the fourth one drawn

Left alone are annotations, imports, strings, asserts, `raise` and warnings. Nothing else is: widths
and room that only cost time are mutated too, and survive.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("sde", "problem", "loss", "labels", "evaluate", "train")
_SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
_COMPARISONS = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_SUITES = ("not slow and not broad", "broad and not slow")  # fast tests first
_NONE = 5  # what pytest says where no test is of a suite
_LEFT_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)


class Mutant(NamedTuple):
    """One change: characters `start` to `end` of a file become `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str

    @property
    def folder(self) -> str:
        """The folder of the package it lies in."""
        return Path(self.path).parts[1]

    def apply(self, text: str) -> str:
        """The file's text with the change."""
        assert text[self.start : self.end] == self.old
        return text[: self.start] + self.new + text[self.end :]

    def describe(self, text: str) -> str:
        """Where it is, and the line before and after."""
        pick = lambda whole: whole.splitlines()[self.line - 1].strip()
        return f"{self.path}:{self.line}: {pick(text)}  ->  {pick(self.apply(text))}"


def find(path: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of its text."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:  # columns of `ast` count bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.expr) -> tuple[int, int]:
        end = place(node.end_lineno or 0, node.end_col_offset or 0)
        return place(node.lineno, node.col_offset), end

    def change(start: int, old: str, new: str, kind: str) -> Mutant:
        assert text.startswith(old, start)
        return Mutant(path, text.count("\n", 0, start) + 1, start, start + len(old), old, new, kind)

    def between(left: ast.expr, right: ast.expr, pair: tuple[str, str], kind: str) -> Mutant:
        start, end = span(left)[1], span(right)[0]
        gap = "\n".join(  # comments blanked out
            row.split("#")[0].ljust(len(row)) for row in text[start:end].split("\n")
        )
        return change(start + gap.index(pair[0]), *pair, kind)

    found = []
    for node, in_index in _walk(ast.parse(text), False):
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS and not _is_text(node):
            found.append(between(node.left, node.right, _SIGNS[type(node.op)], "sign"))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            found.append(change(span(node)[0], "-", "", "index" if in_index else "sign"))
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                if type(op) in _COMPARISONS:
                    found.append(between(left, right, _COMPARISONS[type(op)], "comparison"))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = span(node)
            value, old = node.value, text[start:end]
            if in_index:
                found.append(change(start, old, str(value + 1), "index"))
            else:
                found.append(change(start, old, str(2 * value + 1), "constant"))
                if isinstance(value, float) and value:
                    found.append(change(start, old, f"-{old}", "sign"))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.new))


def _walk(node: ast.AST, in_index: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Everything but what is left alone, and whether it is an index."""
    if isinstance(node, _LEFT_ALONE) or _warns(node):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node, in_index
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "stacklevel":
                continue
            if isinstance(child, ast.AST):
                # an expression within an index, `a[2 * k]`, is arithmetic again
                plain = isinstance(node, (ast.Tuple, ast.Slice, ast.UnaryOp)) and in_index
                inside = plain or (isinstance(node, ast.Subscript) and name == "slice")
                yield from _walk(child, inside)


def _warns(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")


def _is_text(node: ast.BinOp) -> bool:
    sides = node.left, node.right
    known = (isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides)
    return any(known) or any(isinstance(s, ast.JoinedStr) for s in sides)


def draw(count: int, seed: int, folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    """That many of all mutants of these folders, the same ones for the same seed."""
    paths = [p for f in folders for p in sorted((ROOT / "fkpinn" / f).rglob("*.py"))]
    every = [m for p in paths for m in find(str(p.relative_to(ROOT)), p.read_text())]
    return random.Random(seed).sample(every, min(count, len(every)))


def copy_tree(to: Path) -> None:
    """A copy in which files of the package can be changed; the rest is linked."""
    leave = shutil.ignore_patterns("__pycache__")
    for entry in ROOT.iterdir():
        if entry.name in ("fkpinn", "tests"):
            shutil.copytree(entry, to / entry.name, ignore=leave)
        elif entry.name not in (".git", ".pytest_cache"):
            (to / entry.name).symlink_to(entry)


def passes(tree: Path, folder: str, timeout: float) -> bool:
    """Whether the tests of a folder pass in a tree, each suite in time."""
    return all(_passes(tree, folder, suite, timeout) for suite in _SUITES)


def _passes(tree: Path, folder: str, suite: str, timeout: float) -> bool:
    first = ["-m", suite, "-x", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", f"tests/{folder}", *first]
    cache = str(ROOT / ".pytest_cache" / "jax")  # what is not mutated is not compiled again
    environment = {"JAX_COMPILATION_CACHE_DIR": cache, **os.environ}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        try:
            return process.wait(timeout) in (0, _NONE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def survives(tree: Path, number: int, mutant: Mutant, timeout: float) -> bool:
    """Whether the tests of its folder pass with the mutant."""
    original, target = ROOT / mutant.path, tree / mutant.path
    target.write_text(mutant.apply(original.read_text()))
    os.utime(target, (1e9 + number, 1e9 + number))  # no compiled file of another one fits
    try:
        return passes(tree, mutant.folder, timeout)
    finally:
        shutil.copy2(original, target)


def main() -> None:
    """Read the options, run the mutants, print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=FOLDERS)
    parser.add_argument("--count", type=int, default=60, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--only", type=int, nargs="+", metavar="K", help="numbers of the draw")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there too")
    given = parser.parse_args()
    drawn = list(enumerate(draw(given.count, given.seed, tuple(given.folders))))
    drawn = [(k, m) for k, m in drawn if given.only is None or k in given.only]
    say = lambda *words: sys.stdout.write(" ".join(words) + "\n") and sys.stdout.flush()
    text = lambda mutant: (ROOT / mutant.path).read_text()
    records, own = [], threading.local()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:

        def tree() -> Path:  # each thread has a copy of its own
            if not hasattr(own, "tree"):
                own.tree = Path(tempfile.mkdtemp(dir=folder))
                copy_tree(own.tree)
            return own.tree

        def outcome(k: int, mutant: Mutant) -> str:
            if given.list:
                return "listed"
            return "survived" if survives(tree(), k, mutant, given.timeout) else "killed"

        if not given.list:
            names = sorted({m.folder for _, m in drawn})
            fine = pool.map(lambda name: passes(tree(), name, 4 * given.timeout), names)
            if bad := [name for name, passed in zip(names, fine, strict=True) if not passed]:
                raise SystemExit(f"{', '.join(bad)}: the tests fail without any mutant.")
        outcomes = pool.map(lambda pair: outcome(*pair), drawn)
        for (k, mutant), found in zip(drawn, outcomes, strict=True):
            say(f"{k:3d} {found:8s} {mutant.kind:10s}", mutant.describe(text(mutant)))
            records.append({**mutant._asdict(), "number": k, "outcome": found})
            if given.json is not None:
                given.json.write_text(json.dumps(records, indent=1))
    if not given.list:
        killed = sum(record["outcome"] == "killed" for record in records)
        say(f"{killed} of {len(records)} killed")


if __name__ == "__main__":
    main()
