"""What a user writes for a problem: lines of the scripts in `users`, the benchmark's left out."""

from pathlib import Path

_USERS = Path(__file__).with_name("users")
_MARK = "# --- "


def script(tool: str) -> Path:
    """Where the user's code of a tool is."""
    return _USERS / f"{tool}_user.py"


def count(text: str, problem: str) -> int:
    """Lines of code for a problem: neither blank, nor comments, nor the benchmark's.

    Args:
        text: a script whose parts begin with `# --- ` and what they are needed for: `all`, names
            of problems, or `benchmark`.
        problem: its name.
    """
    found, wanted, inside = 0, False, False
    for line in text.splitlines():
        if line.startswith(_MARK):
            names = {name.strip() for name in line.removeprefix(_MARK).split(",")}
            wanted = bool(names & {"all", problem})
            continue
        bare = line.strip()
        quotes = bare.count('"""')
        if inside or quotes:  # documentation
            inside = inside != (quotes == 1)
            continue
        found += wanted and bool(bare) and not bare.startswith("#") and not bare.endswith("# clock")
    return found


def lines_of(tool: str, problem: str) -> int:
    """Lines of code that a tool needs for a problem."""
    return count(script(tool).read_text(encoding="utf-8"), problem)
