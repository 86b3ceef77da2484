import json

import pytest

import fkpinn
from fkpinn.cli import main
from fkpinn.cli._catalogue import read_catalogue
from fkpinn.cli._problem_argument import find_problem

NAMES = [
    *("poisson", "schrodinger", "met", "committor", "heat2d-ms", "poisson-5d", "laplace-10d"),
    *("poisson-50d", "poisson-100d", "variable-diffusion", "robin", "exit-ball-3d"),
    *("exit-ball-10d", "exit-box-10d", "ornstein-uhlenbeck", "ou-exit-10d", "ou-exit-50d"),
    *("double-well-committor-10d", "two-body-100d", "two-body-1000d", "bratu"),
    *("allen-cahn-2d", "allen-cahn-20d", "allen-cahn-100d", "sine-gordon-10d", "sine-gordon-100d"),
    *("semilinear-heat-10d", "semilinear-heat-100d", "hjb-lq-20d", "hjb-lq-100d"),
    *("fully-nonlinear-20d", "fully-nonlinear-100d", "bsb-100d", "uncertain-volatility"),
    *("american-put", "fisher-kpp", "fisher-kpp-10d"),
    *("merton", "jump-exit", "stable-exit-2d", "stable-exit-10d"),
    "fractional-poisson-20d",
]


def test_json_is_one_list_and_nothing_else(capsys):
    assert main(["problems", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)] == NAMES
    assert err == ""


def test_entries_are_complete():
    for entry in read_catalogue():
        assert set(entry) == {"name", "dim", "kind", "reference", "summary", "equation"}
        assert entry["kind"] in {"elliptic", "parabolic"}
        assert entry["reference"] in {"exact", "spectral", "fem", "grid"}
        assert entry["dim"] >= 1
        assert "\n" not in entry["summary"] + entry["equation"]


def test_table_shows_every_name_and_its_equation(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["problems"]) == 0
    out = capsys.readouterr().out
    for entry in read_catalogue():
        assert entry["name"] in out
        assert entry["summary"] in out
    assert "∂D" in out


@pytest.mark.parametrize("command", ["solve", "reference"])
def test_unknown_name_says_what_is_near(command, capsys):
    assert main([command, "poison"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "`P` must be a problem of the catalogue" in err
    assert "got 'poison'" in err
    assert "`poisson`" in err
    assert "`fkpinn problems`" in err
    assert "Traceback" not in err


def test_debug_lets_the_error_through(monkeypatch):
    with pytest.raises(ValueError, match="got 'nothing-like-it'"):
        main(["solve", "nothing-like-it", "--debug"])
    monkeypatch.setenv("FKPINN_DEBUG", "1")
    with pytest.raises(ValueError, match="got 'nothing-like-it'"):
        main(["solve", "nothing-like-it"])


def test_missing_file(capsys, tmp_path):
    assert main(["solve", str(tmp_path / "mine.py")]) == 2
    assert "names a file that does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "got"), [("x = 1", "nothing with that name"), ("problem = 3", "a `int`")]
)
def test_file_without_a_problem(text, got, capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert main(["solve", str(path)]) == 2
    err = capsys.readouterr().err
    assert "must define `problem`, an `fkpinn.Problem`" in err
    assert got in err


def test_file_that_fails(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("problem = 1 / 0")
    assert main(["solve", str(path)]) == 2
    assert "mine.py failed: ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_file_with_a_problem(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import fkpinn\nproblem = fkpinn.Problem(fkpinn.Interval(0.0, 1.0))\n")
    found = find_problem(str(path))
    assert not isinstance(found, str)
    assert found.dim == 1


LARGE = [name for name in NAMES if name.endswith("00d")]  # built as others are
FAST = ("met", "heat2d-ms", "robin", "bratu", "jump-exit", "exit-ball-10d")


def marks(name):
    return pytest.mark.slow if name in LARGE else [] if name in FAST else pytest.mark.broad


ENTRIES = [
    pytest.param(entry, id=entry["name"], marks=marks(entry["name"])) for entry in read_catalogue()
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_list_describes_the_problem_that_is_built(entry):
    problem, exact = fkpinn.catalogue(entry["name"])
    assert problem.name == entry["name"]
    assert problem.dim == entry["dim"]
    assert ("parabolic" if problem.timed else "elliptic") == entry["kind"]
    assert (exact is not None) == (entry["reference"] == "exact")
