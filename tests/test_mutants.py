"""The tool that makes mutants: what it changes, and what it leaves alone."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
assert spec is not None and spec.loader is not None
mutants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)

SAMPLE = '''\
"""Doc with 3 - 4."""

import os
if TYPE_CHECKING:
    two = 2


def f(x: Float[Array, "n 3"], n: int = 5) -> Tuple[3]:
    """Twice 2."""
    if n < 3 <= x[0]:
        raise ValueError("no" + 1 * 2)
    warnings.warn(f"{x + 1}", stacklevel=2)
    é = "α - β", -x[-1] * (  # 1 - 2
        n
    )
    return x[1:] + 1.5
'''


def test_what_is_changed():
    found = {(m.line, m.kind, m.old, m.new) for m in mutants.find("fkpinn/sde/f.py", SAMPLE)}
    assert found == {
        (8, "constant", "5", "11"),
        (10, "comparison", "<", ">="),
        (10, "comparison", "<=", ">"),
        (10, "constant", "3", "7"),
        (10, "index", "0", "1"),
        (13, "sign", "-", ""),
        (13, "index", "-", ""),
        (13, "index", "1", "2"),
        (13, "sign", "*", "/"),
        (16, "index", "1", "2"),
        (16, "sign", "+", "-"),
        (16, "sign", "1.5", "-1.5"),
        (16, "constant", "1.5", "4.0"),
    }


def test_a_mutant_changes_one_place_and_still_parses():
    for mutant in mutants.draw(12, 1):
        text = (ROOT / mutant.path).read_text()
        changed = mutant.apply(text)
        compile(changed, mutant.path, "exec")
        assert changed[: mutant.start] == text[: mutant.start]
        assert changed[mutant.start + len(mutant.new) :] == text[mutant.end :]
        before, after = text.splitlines(), changed.splitlines()
        assert [k for k, row in enumerate(before) if row != after[k]] == [mutant.line - 1]


def test_the_same_seed_draws_the_same_mutants():
    assert mutants.draw(10, 3, ("loss",)) == mutants.draw(10, 3, ("loss",))
    assert mutants.draw(10, 3, ("loss",)) != mutants.draw(10, 4, ("loss",))
    assert {m.folder for m in mutants.draw(10, 3, ("loss",))} == {"loss"}
