"""Options that every command has: what is printed, and where."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import tyro

from fkpinn._progress import AbstractProgress, SilentProgress
from fkpinn._records import plain


@dataclasses.dataclass(frozen=True)
class Output:
    """What is printed."""

    json: bool = False
    """Print one JSON value on standard output, and nothing else there."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """Print results and errors only, no progress."""
    verbose: Annotated[bool, tyro.conf.arg(aliases=["-v"])] = False
    """Print device and versions, and progress line by line, every second."""
    debug: bool = False
    """Show the traceback of an error."""

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """While inside, standard output is kept for the JSON value, if there is to be one."""
        with contextlib.redirect_stdout(sys.stderr) if self.json else contextlib.nullcontext():
            yield

    def progress(self) -> AbstractProgress:
        """Who is told how far a computation is."""
        if self.quiet and self.verbose:
            raise ValueError("`--quiet` and `--verbose` exclude each other.")
        from fkpinn._together import leads

        if self.quiet or not leads():
            return SilentProgress()
        from fkpinn.cli._progress import BarProgress, LineProgress

        if self.verbose:
            self.say(_surroundings())
            return LineProgress(every=1.0)
        return BarProgress() if sys.stderr.isatty() else LineProgress()

    def say(self, text: str) -> None:
        """A line on standard error, unless nobody wants to hear it."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


OutputOptions = tyro.conf.OmitArgPrefixes[Output]
PLAIN = Output()


def print_json(value: Any) -> None:
    """Print `value` as one JSON document.

    Paths become strings, numpy and jax scalars numbers, and NaN and infinities `null`, since JSON
    has no word for them.
    """
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def _surroundings() -> str:
    import jax

    from fkpinn._records import installed_versions

    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    return f"{jax.devices()[0].device_kind} x {jax.device_count()}; {versions}"
