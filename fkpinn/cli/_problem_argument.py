"""What the argument `P` of the commands means."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from fkpinn.cli._catalogue import read_catalogue

if TYPE_CHECKING:
    from fkpinn.problem import Problem

ProblemArgument = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="P")]


def find_problem(text: str) -> "str | Problem":
    """The problem that the user means.

    Args:
        text: a catalogue name, or the path of a Python file that defines `problem`.

    Returns:
        The name, unchanged, if it is in the catalogue; else the `Problem` of the file.
    """
    names = [entry["name"] for entry in read_catalogue()]
    if text in names:
        return text
    path = Path(text)
    if path.suffix == ".py" or len(path.parts) > 1:
        return _load(path)
    raise ValueError(_unknown(text, names))


def _unknown(text: str, names: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(text.lower(), names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(f'`{name}`' for name in close)}?" if close else ""
    return (
        f"`P` must be a problem of the catalogue or a Python file that defines `problem`; "
        f"got {text!r}.{hint} `fkpinn problems` lists the catalogue."
    )


def _load(path: Path) -> "Problem":
    if not path.is_file():
        raise ValueError(f"`P` names a file that does not exist: {path}.")

    import runpy

    from fkpinn.problem import Problem

    try:
        found = runpy.run_path(str(path)).get("problem")
    except Exception as error:  # whatever the user's code raises is bad input to us
        raise ValueError(f"`P`: {path} failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, Problem):
        got = "nothing with that name" if found is None else f"a `{type(found).__name__}`"
        raise ValueError(
            f"`P`: {path} must define `problem`, an `fkpinn.Problem`; got {got}. "
            "Write `problem = fkpinn.Problem(...)` or use a recipe such as `fkpinn.poisson`."
        )
    return found
