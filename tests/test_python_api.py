"""The package as a library: solutions as functions, parts of one's own, run folders from Python."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from run_folders import SMALL

import fkpinn as fk
from fkpinn._compute import precision
from fkpinn._field import AbstractField, Taylor
from fkpinn._solve._network import data_inputs
from fkpinn.loss import AbstractSampler, Fixed, Spread, make_loss
from fkpinn.nn import MLP, Input
from fkpinn.sde import EulerMaruyama, PlainExit, Scheme
from fkpinn.train import AbstractOptimizer, Phase, Report, fit
from fkpinn.train._objective import not_stopped

pytestmark = pytest.mark.xdist_group("python")

LINE = fk.Problem(fk.Interval(0.0, 2.0), source=1.0, name="a line of one's own")
FEW = SMALL.changed(
    {
        "network.widths": (4,),
        "points.n_collocation": 20,
        "training.steps": 3,
        "training.adam_steps": 3,
        "training.lbfgs_steps": 0,
    }
)
HOW = {"settings": FEW.changed({"certificate.seconds": 0.5}), "method": "fk-pinn-adam"}


class Descent(AbstractOptimizer):
    """Plain gradient descent, which takes no time to compile."""

    reasons = ("",)
    dtype = None

    def init(self, objective, parameters):
        return ()

    def step(self, objective, parameters, state):
        (loss, terms), slope = jax.value_and_grad(objective.terms, has_aux=True)(parameters)
        return parameters - 1e-3 * slope, (), Report(loss, terms, not_stopped())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("line") / "run"


@pytest.fixture(scope="module")
def solution(folder):
    """Of a problem that is in no catalogue, in a run folder, certified."""
    return fk.solve(LINE, **HOW, seed=3, certify=True, out=folder)


# ---- solutions as functions


@pytest.mark.parametrize("network", ["float64", "float32"])
@pytest.mark.parametrize("mode", ["float64", "float32"])
def test_jax_takes_solutions_as_functions(solution, mode, network):
    if network == "float64":  # the one that was trained is in single precision
        with precision("float64"):
            drawn = MLP(*LINE.bounds(), (4,), dtype=jnp.float64, key=jr.key(0))
        solution = fk.Solution(LINE, drawn)
    close = {"rtol": 1e-12} if mode == network == "float64" else {"rtol": 2e-5, "atol": 1e-6}
    with precision(mode):
        points = jnp.linspace(0.1, 1.9, 7)[:, None]
        found, slopes = solution(points), solution.gradient(points)
        assert str(found.dtype) == mode and found.shape == (7,) and slopes.shape == (7, 1)
        np.testing.assert_allclose(jax.jit(solution)(points), found, **close)
        np.testing.assert_allclose(jax.jit(solution)(points[2]), found[2], **close)
        np.testing.assert_allclose(jax.vmap(solution)(points), found, **close)
        slope = jax.grad(lambda x: solution(x))
        np.testing.assert_allclose(slope(points[2]), slopes[2], **close)
        np.testing.assert_allclose(jax.jit(jax.vmap(slope))(points), slopes, **close)
        jitted = eqx.filter_jit(lambda u, x: u(x))  # as an argument
        np.testing.assert_allclose(jitted(solution, points), found, **close)
        with pytest.raises(ValueError, match=r"`points` must have shape \(1,\) or \(n, 1\)"):
            jax.jit(solution)(jnp.zeros(3))


# ---- labels of one's own


@pytest.mark.parametrize(
    ("method", "settings", "named"),
    [("pinn", FEW, "method"), ("fk-pinn", FEW.changed({"labels.p_data": 0.0}), "labels.p_data")],
)
def test_labels_that_would_be_dropped_are_refused(method, settings, named, tmp_path):
    mine = fk.Labels.from_data(jnp.ones((3, 1)), jnp.ones(3), 0.1)
    for out in (None, tmp_path / "run"):
        with pytest.raises(ValueError, match="`labels` were given and") as caught:
            fk.solve(LINE, method=method, settings=settings, labels=mine, out=out)
        assert "`labels`" in str(caught.value) and f"`{named}`" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_labels_of_another_problem_are_refused():
    mine = fk.Labels.from_data(jnp.ones((3, 2)), jnp.ones(3), 0.1)
    with pytest.raises(ValueError, match=r"`labels` must have points of length 1; got .*\(3, 2\)"):
        fk.solve(LINE, settings=FEW, labels=mine)


# ---- run folders


def test_a_folder_gives_its_solution_back(solution, folder):
    assert {"config.toml", "result.json", "report.html", "solution.fkpinn", "labels.npz"} <= {
        path.name for path in folder.iterdir()
    }
    again = fk.resume(folder, LINE)
    points = jnp.linspace(0.1, 1.9, 7)[:, None]
    np.testing.assert_array_equal(again(points), solution(points))
    assert again.name == LINE.name and again.problem is LINE
    assert again.certificate == solution.certificate  # it is not measured again
    other = fk.Problem(fk.Interval(0.0, 2.0), source=3.0, name=LINE.name)
    with pytest.raises(ValueError, match=r"another|differ"):
        fk.resume(folder, other)


def test_the_same_call_goes_on_and_another_is_refused(solution, folder):
    again = fk.solve(LINE, **HOW, seed=3, out=folder)
    assert again.certificate == solution.certificate
    np.testing.assert_array_equal(again([1.0]), solution([1.0]))
    with pytest.raises(ValueError, match=r"contains a different run: `seed` differ"):
        fk.solve(LINE, **HOW, seed=4, out=folder)
    with pytest.raises(ValueError, match=r"contains a different run: `own` differ"):
        fk.solve(LINE, **HOW, seed=3, out=folder, weighting=Fixed({"boundary": 2.0}))


def test_certificates_are_kept_with_the_solution(solution, folder):
    found = solution.certificate
    assert found["ci_low"] <= found["l2_rel"] <= found["ci_high"]
    loaded = fk.load(folder / "solution.fkpinn", LINE)
    assert loaded.certificate == found
    truth = fk.find_reference(LINE)
    error = fk.errors(LINE, solution.network, truth, fk.sobol_interior(LINE, 256)).l2_rel
    assert found["ci_low"] / 2 < error < 2 * found["ci_high"]


def test_without_the_problem_there_are_values_only(solution, folder, tmp_path):
    alone = fk.load(folder / "solution.fkpinn")
    points = jnp.linspace(0.1, 1.9, 7)[:, None]
    np.testing.assert_array_equal(alone(points), solution(points))
    np.testing.assert_array_equal(alone.gradient(points), solution.gradient(points))
    np.testing.assert_allclose(jax.jit(alone)(points), solution(points), rtol=1e-5)
    with pytest.raises(ValueError, match=r"must lie in the bounding box of the domain; 1 do not"):
        alone([2.5])
    for call in (
        alone.certify,
        lambda: alone.value_with_interval([1.0]),
        lambda: alone.plot(tmp_path / "a.png"),
        lambda: alone.save(tmp_path / "a.fkpinn"),
    ):
        with pytest.raises(ValueError, match=r"needs the problem, .*`load\(path, problem\)`"):
            call()
    with pytest.raises(ValueError, match=r"Without a `problem`, `layout` and `bounds`"):
        fk.Solution(None, solution.network)


def test_hard_networks_are_loaded_with_their_problem_only(tmp_path):
    from fkpinn._solve._network import harden

    network = harden(LINE, MLP(*LINE.bounds(), (4,), key=jr.key(0)))
    hard = fk.Solution(LINE, network, name=LINE.name)
    hard.save(tmp_path / "a.fkpinn")
    with pytest.raises(ValueError, match=r"data of the problem .* built in.*Pass the problem"):
        fk.load(tmp_path / "a.fkpinn")
    loaded = fk.load(tmp_path / "a.fkpinn", LINE)
    np.testing.assert_array_equal(loaded([0.5]), hard([0.5]))
    assert float(loaded([0.0])) == 0.0


def test_networks_that_read_data_are_loaded_with_their_problem_only(tmp_path):
    """Numbers of a file are checked, and say which functions of the problem it reads."""
    space = fk.Problem(
        fk.Ball([0.0, 1.0], 2.0), diffusion=1.0, horizon=1.0, terminal=lambda x: x[0] * x[1],
        boundary=fk.Neumann(0.0),
    )  # fmt: skip
    inputs = data_inputs(space)
    assert [type(each.function).__name__ for each in inputs] == ["EndData", "SquaredDistance"]
    network = MLP(*space.bounds(), (4,), further=inputs, key=jr.key(0))
    reads = fk.Solution(space, network, name="mine")
    reads.save(tmp_path / "a.fkpinn")
    with pytest.raises(ValueError, match=r"data of the problem 'mine' built in.*Pass the problem"):
        fk.load(tmp_path / "a.fkpinn")
    loaded = fk.load(tmp_path / "a.fkpinn", space)
    z = [0.2, 0.4, 0.9]
    np.testing.assert_array_equal(loaded(z), reads(z))
    assert loaded.network.further == network.further
    without = fk.Solution(space, MLP(*space.bounds(), (4,), key=jr.key(0)))
    assert float(without(z)) != float(reads(z))
    other = MLP(*space.bounds(), (4,), further=[Input(lambda z: z[0], 0.0, 1.0)], key=jr.key(0))
    with pytest.raises(ValueError, match="additional network inputs only if"):
        fk.Solution(space, other).save(tmp_path / "b.fkpinn")


def test_a_name_is_not_a_problem():
    """Unless types are checked before us, as in these tests."""
    solve = getattr(fk.solve, "__wrapped__", fk.solve)
    with pytest.raises(
        TypeError, match=r"must be a `Problem`; got 'met'. Try `fk.catalogue\('met'"
    ):
        solve("met")


def test_inputs_span_their_values():
    """Mean and twice the deviation of squared distances in a disk of radius 2; a box has none."""
    disk = fk.Problem(fk.Ball([3.0, 1.0], 2.0), source=1.0)
    (found,) = data_inputs(disk)
    assert found.center == pytest.approx(2.0, abs=0.15)  # of a uniform law on [0, 4]
    assert found.half_width == pytest.approx(4 / 3**0.5, rel=0.05)
    assert data_inputs(fk.Problem(fk.Box([0.0, 0.0], [1.0, 1.0]), source=1.0)) == ()
    holes = fk.Ball([3.0, 1.0], 2.0) - fk.Ball([3.0, 1.0], 0.5, name="a") - fk.Ball([4.0, 1.0], 0.1)
    assert holes.centers() == ((3.0, 1.0), (4.0, 1.0))


# ---- parts of one's own


class Line(AbstractField):
    """Straight, with a slope and a value."""

    slope: jax.Array
    value: jax.Array

    def __call__(self, z):
        return self.slope * z[0].astype(self.slope.dtype) + self.value

    def taylor(self, z, directions, weights):
        return Taylor(self(z), self.slope * directions[:, 0], jnp.zeros_like(self.slope))


class Middle(AbstractSampler):
    """All points at one place, and a list of how many were wanted."""

    asked: list = eqx.field(static=True)

    def draw(self, problem, u, at, n, dtype, *, key):
        self.asked.append(n)
        return Spread().points(problem, n, dtype, key=key) * 0 + 1


@pytest.mark.broad
def test_a_network_and_an_optimizer_of_ones_own(tmp_path):
    start = Line(jnp.asarray(2.0), jnp.asarray(1.0))
    found = fk.solve(
        LINE, settings=FEW, method="pinn", network=start, optimizer=Descent(), out=tmp_path / "run"
    )
    assert isinstance(found.network, Line)
    assert [r["phase"] for r in found.history] == ["Descent"] * len(found.history)
    assert found.history[-1]["step"] == FEW.training.steps
    assert 1.5 < float(found.network.slope) < 2.0  # towards the boundary data, a little
    assert "the network was not saved in the folder" in found.stopped[-1]
    with pytest.raises(ValueError, match=r"objects passed by the user \(network, optimizer\)"):
        fk.resume(tmp_path / "run", LINE)
    again = fk.solve(
        LINE, settings=FEW, method="pinn", network=start, optimizer=Descent(), out=tmp_path / "run"
    )
    np.testing.assert_array_equal(again([1.0]), found([1.0]))


@pytest.mark.broad
def test_a_sampler_and_a_weighting_of_ones_own():
    asked = []
    how = {"settings": FEW, "method": "pinn", "optimizer": Descent()}
    plain = fk.solve(LINE, **how)
    found = fk.solve(LINE, **how, sampler=Middle(asked))
    assert set(asked) == {20}
    heavy = fk.solve(LINE, **how, weighting=Fixed({"boundary": 1000.0}))
    first = [solution.history[0]["loss"] for solution in (plain, found, heavy)]
    assert first[0] == first[1] < first[2]
    assert float(found([1.0])) != float(plain([1.0])) != float(heavy([1.0]))


@pytest.mark.broad
def test_a_scheme_of_ones_own():
    seen = []

    class Step(EulerMaruyama):
        def step(self, *given, **more):
            seen.append(1)
            return super().step(*given, **more)

    fk.solve(LINE, settings=FEW, optimizer=Descent(), scheme=Scheme(Step(), PlainExit()))
    assert seen


WRONG = """
import fkpinn as fk

line = fk.Problem(fk.Interval(0.0, 2.0), source=1.0)
for name in ("network", "optimizer", "scheme", "weighting", "sampler"):
    try:
        fk.solve(line, **{name: "adam"})
    except TypeError as error:
        print(error)
"""


@pytest.mark.broad
def test_what_is_no_such_part_is_refused():
    """In a process of its own, where nothing checks types but the package itself."""
    done = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    kinds = ("Field", "Optimizer", "Walk", "Weighting", "Sampler")
    names = ("network", "optimizer", "scheme", "weighting", "sampler")
    for text, name, kind in zip(said, names, kinds, strict=True):
        assert f"`{name}` must be an object of class `Abstract{kind}`; got str" in text


# ---- checkpoints belong to one training


def training(folder, **changes):
    given = {"weights": {"boundary": 5.0}, "key": 3, "problem": LINE, "points": 8} | changes
    network = MLP(*LINE.bounds(), (3,), key=jr.key(0))
    loss = make_loss(given["problem"], given["points"], 2, dtype=jnp.float64, key=jr.key(1))
    phases = [Phase("Descent", Descent(), 4, Fixed(given["weights"]))]
    return fit(network, loss, phases, folder=folder, interval=0.0, key=jr.key(given["key"]))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"weights": {"boundary": 6.0}}, "weighting"),
        ({"weights": {"boundary": 5.0, "residual": 2.0}}, "weighting"),
        ({"key": 4}, "key"),
        ({"points": 9}, "loss"),
        ({"problem": fk.Problem(fk.Interval(0.0, 2.0), source=2.0)}, "problem"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_checkpoints_of_another_training_are_refused(change, named, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "checkpoint"
    if not folder.exists():
        training(folder)
    training(folder)  # the same goes on
    with pytest.raises(ValueError, match=rf"belongs to another training: its `{named}` differs"):
        training(folder, **change)
