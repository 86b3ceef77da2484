"""The command `fkpinn`: which subcommands there are, and what its exit codes mean."""

import dataclasses
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from fkpinn._memory import share_freed_memory
from fkpinn.cli._bench import Bench
from fkpinn.cli._certify import Certify
from fkpinn.cli._compare import Compare
from fkpinn.cli._completion import Completion
from fkpinn.cli._diagnose import Diagnose
from fkpinn.cli._doctor import Doctor
from fkpinn.cli._labels import LabelsCommand
from fkpinn.cli._new import New
from fkpinn.cli._plan import PlanCommand
from fkpinn.cli._problems import Problems
from fkpinn.cli._reference import Reference
from fkpinn.cli._report import Report
from fkpinn.cli._reproduce import Reproduce
from fkpinn.cli._runs import Runs
from fkpinn.cli._solve import Solve
from fkpinn.cli._submit import Submit

_DESCRIPTION = """\
Solve boundary value problems with neural networks guided by Feynman-Kac labels.

Start with `fkpinn problems`, then `fkpinn solve met --preset quick --out runs/demo`.
`fkpinn COMMAND --help` describes a command, `fkpinn --version` prints the version.
"""

COMMANDS = {
    "problems": Problems,
    "new": New,
    "labels": LabelsCommand,
    "plan": PlanCommand,
    "solve": Solve,
    "submit": Submit,
    "certify": Certify,
    "report": Report,
    "runs": Runs,
    "compare": Compare,
    "diagnose": Diagnose,
    "reference": Reference,
    "reproduce": Reproduce,
    "bench": Bench,
    "doctor": Doctor,
    "completion": Completion,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; those of this process by default.

    Returns:
        The exit code: 0 done, 1 failed while computing, 2 bad input, 130 interrupted.
    """
    argv = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if argv == ["--version"]:
        from fkpinn import __version__

        print(f"fkpinn {__version__}")
        return 0
    try:
        command = parse(argv)
    except BrokenPipeError:
        return _reader_left()
    debug = command.output.debug or bool(os.environ.get("FKPINN_DEBUG"))

    def run() -> None:
        _check_numbers(command)
        command.run()

    return _guard(run, debug=debug)


def start() -> None:
    """Run the command that this process was started with, and leave with its code."""
    _write_utf8()
    warnings.showwarning = lambda message, *_, **__: print(f"Warning: {message}", file=sys.stderr)
    share_freed_memory()
    code = main()
    if code == 130:
        # Compiled code may still run in other threads; an orderly end would crash below it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _write_utf8() -> None:
    """Into files and pipes, too, for which Windows takes an alphabet without Greek."""
    if sys.platform != "win32" or "PYTHONIOENCODING" in os.environ:
        return
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")


def parse(argv: Sequence[str]) -> Any:
    """The command that these arguments ask for; leaves with code 2 where they are wrong."""
    return tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="fkpinn",
        description=_DESCRIPTION,
        args=list(argv),
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _check_numbers(command: Any) -> None:
    """Refuse whole numbers that are no size of an array, and seeds that no generator takes."""
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        limit = 2**62 if field.name == "seed" else 2**31
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) >= limit:
                flag = field.name.replace("_", "-")
                raise ValueError(f"`--{flag}` must be less than {limit}; got {number}.")


def _guard(run: Callable[[], None], *, debug: bool) -> int:
    """Turn what `run` raises into an exit code and one message; `debug` lets it through."""
    try:
        run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _reader_left()
    except (ValueError, FileNotFoundError, FileExistsError, ImportError) as error:
        if debug:
            raise
        return _fail(error, code=2)
    # found out under jit: unfinished paths, divergence; or a full disk, a folder in use
    except (RuntimeError, OSError, MemoryError) as error:
        if debug:
            raise
        return _fail(error, code=1)
    return 0


def _reader_left() -> int:
    """Whoever reads what is printed, `head` say, has had enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(error: Exception, *, code: int) -> int:
    told = error.strerror if isinstance(error, OSError) and error.filename is None else None
    message = told or str(error).strip() or type(error).__name__
    print(f"fkpinn: {message}\n(FKPINN_DEBUG=1 or --debug shows the traceback)", file=sys.stderr)
    return code
