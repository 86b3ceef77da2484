"""The command line starts without the numerics and keeps its promises about exit codes."""

import json
import signal
import subprocess
import sys
import time

import helpers
import pytest

from fkpinn.cli import main
from fkpinn.cli._main import _guard

PROBE = """\
import sys
from fkpinn.cli import main
try:
    code = main({argv!r})
except SystemExit as stop:
    code = stop.code
heavy = {{"jax", "numpy", "scipy", "matplotlib", "skfem"}} & {{*sys.modules}}
assert not heavy, heavy
sys.exit(code)
"""


def run_fresh(*argv: str) -> subprocess.CompletedProcess[str]:
    """The command in an interpreter of its own, which fails if anything heavy was imported."""
    code = PROBE.format(argv=list(argv))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize(
    "argv",
    helpers.of_which_fast(
        [
            [],
            ["--help"],
            ["--version"],
            ["problems"],
            ["problems", "--json"],
            ["solve", "--help"],
            ["reference", "--help"],
        ],
        [],
        ["--help"],
        ["problems"],
    ),
    ids=" ".join,
)
def test_start_is_light(argv):
    done = run_fresh(*argv)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""


def test_json_from_a_fresh_process():
    assert json.loads(run_fresh("problems", "--json").stdout)


@pytest.mark.parametrize(
    "command", helpers.of_which_fast(["problems", "solve", "reference"], "problems")
)
def test_help_has_an_example(command):
    assert f"fkpinn {command}" in run_fresh("--help").stdout
    assert f"Example: `fkpinn {command}" in run_fresh(command, "--help").stdout


def test_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "fkpinn", "problems", "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sovle", "met"], "Available subcommands"),
        (["labels"], "Missing from fkpinn labels"),
        (["solve", "met", "--preset", "fast"], "'--preset'"),
        (["solve", "met", "--sede", "3"], "--seed"),
    ],
)
def test_bad_arguments(argv, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("`n` must be positive; got 0."), 2, "fkpinn: `n` must be positive; got 0."),
        (FileNotFoundError("no such file"), 2, "no such file"),
        (ImportError("install scikit-fem"), 2, "install scikit-fem"),
        (RuntimeError("3 paths are unfinished"), 1, "3 paths are unfinished"),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error, code, message, capsys):
    def run():
        raise error

    assert _guard(run, debug=False) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_bugs_keep_their_traceback():
    def run():
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        _guard(run, debug=False)


@pytest.mark.parametrize("words", ["problems", "bench --help"])
def test_reader_may_leave_early(words):
    command = f"{sys.executable} -m fkpinn {words} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


HEEDING = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by children in the background
from fkpinn.cli import start
start()
"""


@pytest.mark.broad
def test_an_interrupt_while_compiled_code_runs_is_no_crash(tmp_path):
    words = "labels exit-ball-3d --points 64 --paths 1000000 --out".split()
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *words, str(tmp_path / "labels.npz")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "labels" in process.stderr.readline()  # progress: it has begun
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "Interrupted.")


def test_warnings_are_sentences():
    """Not lines of our source."""
    code = (
        "import sys, warnings; from fkpinn.cli import _main; sys.argv[1:] = ['--version']; "
        "_main.main = lambda: warnings.warn('few paths') or 0; _main.start()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "Warning: few paths\n")
