"""The shell completes commands, options, their values, problems and settings."""

import shutil
import subprocess

import pytest

from fkpinn.cli._main import COMMANDS, main


@pytest.fixture(scope="module")
def script():
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["completion", "bash"]) == 0
    return out.getvalue()


def complete(script, *words):
    given = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _fkpinn; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fkpinn", "comp"], ["compare", "completion"]),
        (["fkpinn", "solve", "schr"], ["schrodinger"]),
        (["fkpinn", "solve", "met", "--pre"], ["--preset"]),
        (["fkpinn", "solve", "met", "--preset", ""], ["quick", "best", "paper"]),
        (["fkpinn", "solve", "met", "--set", "training.st"], ["training.steps="]),
        (["fkpinn", "diagnose", "poisson", "--what", "cond"], ["conditioning"]),
        (["fkpinn", "labels", "met", "--qu"], ["--quiet"]),
        (["fkpinn", "completion", "z"], ["zsh"]),
        (["fkpinn", "report", ""], []),  # the shell's own file names
    ],
)
def test_words(script, words, expected):
    assert complete(script, *words) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_every_command(script):
    assert complete(script, "fkpinn", "") == list(COMMANDS)
    for command in COMMANDS:
        assert {"--json", "--help"} <= set(complete(script, "fkpinn", command, "-"))


def test_zsh(capsys):
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload -U +X bashcompinit && bashcompinit\n")
