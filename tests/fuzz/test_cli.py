"""Whatever is typed after `fkpinn`: a code of 0, 1 or 2, a message, and never a traceback."""

import contextlib
import functools
import io
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_folders import finished_run

from fkpinn.cli._main import COMMANDS, main

# what takes long, or is looked at elsewhere
HEAVY = (
    "fkpinn.labels.estimate_labels", "fkpinn.labels.plan_labels", "fkpinn._solve.run",
    "fkpinn._solve.resume_run", "fkpinn._solve.certify_run", "fkpinn.diagnostics.diagnose",
    "fkpinn.reference.find_reference", "fkpinn.reference.fem_reference",
    "fkpinn.experiments.reproduce", "fkpinn.cli._bench._load",
    "fkpinn.reference.catalogue_reference", "fkpinn.sampling.sample_interior",
)  # fmt: skip
WORDS = (
    "met", "poison", "exit-ball-3d", "x.py", "bad.py", "a/b", "file/x", "run", "run/config.toml",
    "runs", ".", "..", "", " ", "-", "--", "-1", "0", "1", "3", "99999999999999999999", "1e400",
    "nan", "-inf", "0.5", "1e-3", "None", "True", "paper", "quick", "pinn", "fk-pinn", "spectrum",
    "all", "table1", "two", "paths", "labels.n_paths=3", "n_paths=3",
    "labels.n_paths", "labels.n_paths=x", "=", "network.widths=[1, 2]", "labels={n_paths=3}",
    "labels.dt=nan", "x=[[[[", "labels.n_paths=" + "9" * 5000, "w=" + "[" * 5000, "é", "\u2066",
    "a\nb", "x" * 300, "%s", "{}", "`", "$(x)", "\ud800", "bash", "zsh",
)  # fmt: skip


def refuse(*_, **__):
    raise RuntimeError("no work is done here")


@functools.cache
def flags(command):
    """Options that the help of a command names; `--debug` shows tracebacks, and is left out."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        main([command, "--help"])
    return sorted(set(re.findall(r"--?[a-z][a-z-]*", out.getvalue())) - {"--debug"})


@st.composite
def arguments(draw):
    """A command, then options and words in any order."""
    command = draw(st.sampled_from([*COMMANDS, *COMMANDS, "solv", "", "-x"]))
    known = flags(command) if command in COMMANDS else ["--help", "--version"]
    word = st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), st.text(max_size=8))
    option = st.tuples(st.sampled_from(known), word).map(list)
    lists = draw(st.lists(st.one_of(option, word.map(lambda w: [w])), max_size=5))
    return [command, *(w for words in lists for w in words if "\0" not in w)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a run, a file and a problem that fails; nothing in it takes time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FKPINN_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    for name in HEAVY:
        monkeypatch.setattr(name, refuse)
    finished_run(tmp_path / "run")
    Path("file").write_text("x")
    Path("bad.py").write_text("problem = 1 / 0")
    (tmp_path / "configs").mkdir()
    for command in COMMANDS:
        flags(command)  # now, once: drawing arguments must not depend on it
    return tmp_path


def call(argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as leave:
            code = leave.code
    assert code in (0, 1, 2), (argv, code)
    assert "Traceback" not in err.getvalue() + out.getvalue(), argv
    assert code == 0 or (err.getvalue().strip() and len(err.getvalue()) < 20_000), argv


quiet = settings(
    deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


@pytest.mark.broad
@settings(quiet, max_examples=25)
@given(argv=arguments())
def test_any_arguments(place, argv):
    call(argv)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["labels", "met", "--seed", "9" * 20], "`--seed` must be less than"),
        (
            ["labels", "met", "--points", "9" * 20],
            "`--points` must be less than 2147483648; got 99",
        ),
        (["diagnose", "met", "--widths", "3", "9" * 20], "`--widths` must be less than"),
        (
            ["solve", "met", "--set", "points.n_test=2147483648"],
            "`points.n_test` must be less than 2147483648",
        ),
        (["solve", "met", "--seed", "-" + "9" * 20], "`--seed` must be less than"),
    ],
)
def test_numbers_that_are_too_large(argv, words, capsys):
    assert main(argv) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
@settings(quiet, max_examples=3000)
@given(argv=arguments())
def test_many_arguments(place, argv):
    call(argv)
