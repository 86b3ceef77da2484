"""What notebooks show: whole, escaped, asking nobody, readable on light and on dark."""

import html
import re
import sys
import types
import xml.etree.ElementTree as ET

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.labels import Labels
from fkpinn.nn import MLP
from fkpinn.problem import describe
from fkpinn.problem._sketch import sketch
from fkpinn.report import NoPicture, certificate_html, labels_html, problem_html, progress_here
from fkpinn.report._inline import Canvas, paint, ticks

BAD = "<script>alert(1)</script>"
SQUARE = fk.Box([0, 0], [1, 1], name="wall")
RECORD = {
    "l2_rel": 0.0123, "ci_low": 0.009, "ci_high": 0.0154, "level": 0.95, "l2_abs": 0.01,
    "step_effect": 8e-4, "remainder": 0.0, "n_points": 2048, "n_paths": 64, "scheme": "heun",
    "dt": 0.001, "path_steps": 10**6, "seconds": 12.3,
}  # fmt: skip


def problem(which):
    match which:
        case "1-D":
            return fk.Problem(fk.Interval(-1, 2), drift=lambda x: -x, source=1.0, boundary=0.5)
        case "2-D":
            parts = {"wall": fk.Neumann(0.0), "hole": fk.Dirichlet(lambda x: x[0])}
            shape = SQUARE - fk.Ball([0.5, 0.5], 0.2, name="hole")
            return fk.Problem(shape, source=1.0, boundary=parts, measure=fk.InBox([0, 0], [0.3, 1]))
        case "time":
            return fk.Problem(fk.Interval(0, 1), horizon=2.0, terminal=1.0, boundary=0.0)
        case "forward":
            return fk.heat(fk.Ball([0.0, 0.0], 1.0), initial=1.0, horizon=0.5)
        case "10-D":
            return fk.Problem(fk.Ball([0.0] * 10, 1.0), source=1.0)
        case "jumps":
            return fk.catalogue("jump-exit").problem
        case "nonlinear":
            return fk.Problem(SQUARE, nonlinearity=lambda x, u, p: u - u**3, boundary=0.0)
        case "space":
            wanted = fk.Normal([0.0, 0.0], 1.0)
            return fk.Problem(fk.Space(2), horizon=1.0, terminal=1.0, measure=wanted)
    raise AssertionError(which)


SAID = {
    "1-D": ["=0 in D", "between −1 and 2", "Dirichlet, value 0.5", "uniform in the domain"],
    "2-D": ["on wall", "Neumann, flux 0", "on hole", "value a function", "InBox", "dots: where"],
    "time": ["∂tu+0.5Δu=0", "(0,2)×D", "u(2,x)=1", "from 0 to 2, data are given at the end"],
    "forward": ["∂tu=Δu in (0,0.5)×D", "u(0,x)=1", "data are given at time zero"],
    "10-D": ["No picture: a domain in dimension 10 is not drawn.", "(−1, −1, −1, −1, …)"],
    "jumps": ["E[u(x+Z)−u]", "u=0 outside D"],
    "nonlinear": ["+F(x,u)=0"],
    "space": ["with 0 boundary parts", "Normal"],
}


def text(shown):
    """What a reader reads."""
    bare = re.sub(r"<svg.*?</svg>", "", shown, flags=re.S)
    return html.unescape(re.sub(r"<[^>]*>", "", bare)).replace("\u00a0", " ")


def checked(shown):
    """Whole, and of no outside thing; no ink that only one kind of page can show."""
    ET.fromstring(shown)
    for word in ("<script", "http", "url(", "@import", "white;", 'white"', "#fff", "black", "nan"):
        assert word not in re.sub(r"base64,[^\"]*", "", shown), word
    for name in re.findall(r'(?:href|src)="([^"]*)"', shown):
        assert name.startswith("data:image/png;base64,")
    return text(shown)


def untrained(given, **more):
    return fk.Solution(given, MLP(*given.bounds(), (4,), key=jr.key(0)), **more)


FAST = ("2-D", "10-D", "space", "nonlinear")


@pytest.mark.parametrize("which", helpers.of_which_fast(SAID, *FAST))
def test_problems(which):
    given = problem(which)
    shown = given._repr_html_()
    words = checked(shown)
    for said in SAID[which]:
        assert said in words
    assert ("<svg" in shown) == (which != "10-D")


@pytest.mark.parametrize("which", helpers.of_which_fast(SAID, *FAST))
def test_solutions(which):
    given = problem(which)
    shown = untrained(given, name=BAD, stopped=[f"steps: {BAD}"])._repr_html_()
    words = checked(shown)
    assert BAD in words and f"steps: {BAD}" in words
    assert "has not been measured" in words and "MLP with" in words
    assert "<svg" in shown and "No picture" not in words
    assert ("at t = 0" in words) == given.timed
    assert ("through the center" in words) == (given.dim > 2)


def test_text_of_users_is_escaped():
    given = fk.Problem(fk.Interval(0, 1, name=BAD), name=BAD)
    words = checked(given._repr_html_())
    assert words.startswith(f"Problem {BAD}") and f"on {BAD}" in words
    labels = Labels.from_data([[0.5]], [1.0], [0.1], source=BAD)
    assert f"made by{BAD}" in checked(labels._repr_html_())
    assert BAD in checked(certificate_html(RECORD | {"scheme": BAD}))
    assert "time step 0.001" not in text(certificate_html(RECORD | {"scheme": "spheres"}))


def test_outlines_of_combinations():
    """Pieces inside a union are no boundary; parts keep their names."""
    shape = fk.Box([0, 0], [1, 1]) | fk.Box([0.8, 0.2], [2, 0.8], name="right")
    drawn = sketch(fk.Problem(shape, source=1.0))
    walls = dict(drawn.walls)
    assert [*walls] == ["outer", "right"]
    right = walls["right"][np.isfinite(walls["right"][:, 0])]
    assert np.all(right[:, 0] >= 1.0 - 0.01) and right[:, 0].max() == 2.0
    assert drawn.depth.min() < -0.4 and len(drawn.wanted) == 0
    gap = fk.Problem(fk.Interval(0, 3) - fk.Interval(1, 2, name="gap"), source=1.0)
    ends = [(part, round(float(place[0, 0]), 6)) for part, place in sketch(gap).walls]
    assert ends == [("outer", 0.0), ("gap", 1.0), ("gap", 2.0), ("outer", 3.0)]
    assert gap._repr_html_().count("<path") == 2 + 4


def test_a_picture_that_fails_says_why_and_other_errors_are_not_hidden():
    about = describe(problem("1-D"))

    def fails(error):
        def make():
            raise error

        return make

    for error in (NoPicture("too <large>"), NotImplementedError("no outline"), RuntimeError()):
        words = checked(problem_html(about, fails(error)))
        assert f"No picture: {str(error) or 'RuntimeError()'}" in words and "=0 in D" in words
    with pytest.raises(KeyError):
        problem_html(about, fails(KeyError("a mistake")))


def test_solutions_without_a_picture():
    whole = untrained(problem("2-D"), certificate=RECORD)
    bare = fk.Solution(None, whole.network, layout=whole.layout, bounds=whole.bounds)
    assert "No picture: the solution was loaded without its problem" in checked(bare._repr_html_())
    words = checked(whole._repr_html_())
    assert "Relative L2 error 1.2%" in words and "not been measured" not in words
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, whole.network)
    shown = fk.Solution(whole.problem, broken)._repr_html_()
    assert "No picture: no value of the slice is a finite number." in text(shown)


def estimated(which, n):
    given = problem(which)
    points = fk.sample_interior(given, n, key=jr.key(0))
    return fk.estimate_labels(given, points, n_paths=8, dt=0.02, seed=0)


def test_labels_of_paths():
    labels = estimated("1-D", 12)
    words, shown = checked(labels._repr_html_()), labels._repr_html_()
    assert "12, of 1 coordinate" in words and "8 from each point, 96 in all" in words
    assert "time step0.02" in words and "unfinished pathsnone" in words
    assert re.search(r"typical standard error[\d.]+ \(\d+% of the value\)", words)
    assert shown.count("<circle") == 12 and "with 95% limits" in words
    cut = labels._replace(unfinished=labels.unfinished.at[0].add(3))
    assert "<b>3</b> of 96" in labels_html(cut)
    known = labels._replace(bias=0.01 * labels.value)
    assert "(1% of the value)" in text(labels_html(known))
    assert "time step0.02" in text(labels_html(labels.joined(labels)))


def test_labels_from_data():
    one = Labels.from_data([[0.5, 0.2]], [2.0], [0.1])
    words = checked(one._repr_html_())
    assert "1, of 2 coordinates" in words and "2 (from 2 to 2)" in words
    assert "0.1 (5% of the value)" in words and "unfinished" not in words
    assert one._repr_html_().count("<circle") == 1
    zero = checked(Labels.from_data([[0.5]], [0.0], [0.0])._repr_html_())
    assert "typical standard error0" in zero and "of the value" not in zero
    u = np.random.default_rng(0).random((3000, 10))
    many = Labels.from_data(u[:, :2], u[:, 2], 0.1)._repr_html_()
    assert "(375 of them are drawn)" in many and len(many) < 100_000
    assert "points of 10 coordinates are not drawn" in checked(
        Labels.from_data(u, u[:, 2], 0.1)._repr_html_()
    )


def test_certificates():
    labels = Labels.from_data([[0.5]], [1.0], [0.1])
    made = labels._replace(n_paths=64, provenance={"scheme": "heun", "dt": 0.001, "path_steps": 9})
    found = fk.Certificate(0.0123, 0.009, 0.0154, 0.95, 0.01, 8e-4, made, 12.3)
    words = checked(found._repr_html_())
    assert "Relative L2 error 1.2%, with 95% confidence between 0.9% and 1.5%" in words
    assert "64 paths from each of 1 new points (heun, time step 0.001), in 12.3 s" in words
    assert "the time-step effect (0.08%)" in words and "linearization" not in words


def test_limits_on_a_line_of_powers_of_ten():
    def bar(**more):
        shown = certificate_html(RECORD | more)
        svg = ET.fromstring(re.search(r"<svg.*?</svg>", shown, re.S)[0])
        thick = next(line for line in svg.iter("line") if line.get("stroke-width") == "7")
        ends = float(thick.get("x1")), float(thick.get("x2"))
        return *ends, float(svg.find("circle").get("cx")), [t.text for t in svg.iter("text")]

    low, high, middle, names = bar(ci_low=0.01, l2_rel=10**-1.5, ci_high=0.1)
    assert low < middle < high and abs(middle - 0.5 * (low + high)) < 0.2
    assert names[0] == "0.1%" and "1%" in names and names[-1] == "100%"
    assert bar(ci_low=0.0, l2_rel=0.0, ci_high=3e-6)[0] == 12.0  # open below
    *_, names = bar(ci_low=2e-9, l2_rel=1e-3, ci_high=2.5)
    assert len(names) <= 7 and names[0] == "10⁻⁹"
    shown = certificate_html(RECORD | {"ci_high": float("inf"), "remainder": 1e-7})
    assert "No picture: the limits are no positive numbers." in shown
    assert "the linearization error (1.0e−07)" in shown


def test_numbers_along_axes():
    assert [name for _, name in ticks(-1.0, 1.0)] == ["−1", "−0.5", "0", "0.5", "1"]
    assert [name for _, name in ticks(10000.0, 10000.03)][:2] == ["10000", "10000.01"]
    for low, high in ((0.0, 1e-9), (-3.7, 12.1), (1e6, 1.2e6), (0.0, 9.99)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 6 and len({name for _, name in found}) == len(found)
    with pytest.raises(NoPicture, match="not bounded"):
        Canvas([0.0, 0.0], [1.0, np.inf], ("x", "y"))
    found = paint(np.array([0.0, 1.0, np.nan]), (0.0, 1.0))
    assert found.tolist() == [[68, 1, 84, 255], [253, 231, 37, 255], [68, 1, 84, 0]]


class Cell:
    """The output of a cell, as IPython has it."""

    def __init__(self):
        self.pages = []

    def display(self, page, display_id):
        assert display_id is True
        self.update(page)
        return self

    def update(self, page):
        self.pages.append(page)


@pytest.fixture
def kernel(monkeypatch):
    cell, shell = Cell(), types.SimpleNamespace(kernel=object())
    package, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.get_ipython = lambda: shell
    inner.HTML, inner.display = str, cell.display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return cell, shell


def test_progress_in_a_notebook(kernel, monkeypatch):
    cell, _ = kernel
    progress = progress_here()
    assert isinstance(progress, fk.NotebookProgress)
    progress.finish()
    assert cell.pages == []
    progress.start(BAD, None)
    progress.update(3)
    progress.start("train", 10)
    assert len(cell.pages) == 2  # not at every step
    monkeypatch.setattr("fkpinn.report._live._EVERY", 0.0)
    progress.update(5, loss=0.01234)
    assert "train: 5 of 10, 0 s, about 0 s left, loss 0.0123" in text(cell.pages[-1])
    assert "width:50%" in cell.pages[-1] and checked(f"<div>{cell.pages[-1]}</div>")
    monkeypatch.setattr("fkpinn.report._live._EVERY", 3600.0)
    progress.update(10)  # nothing may follow, so it is shown
    assert "train: 10 of 10" in text(cell.pages[-1])
    progress.finish()
    assert BAD in text(cell.pages[-1])
    pages = len(cell.pages)
    progress.finish()
    assert len(cell.pages) == pages


def test_progress_elsewhere_is_silent(kernel, monkeypatch):
    _, shell = kernel
    shell.kernel = None  # IPython in a terminal
    assert isinstance(progress_here(), fk.SilentProgress)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(progress_here(), fk.SilentProgress)
