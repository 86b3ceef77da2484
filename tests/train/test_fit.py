"""The loop: phases, fresh points, checkpoints, and what happens when numbers end."""

import json
import threading
import time
import zipfile

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn.train._fit as module
from fkpinn.loss import Annealed, BoundaryTerm, Fixed, Loss, ResidualTerm, Uncertainty
from fkpinn.nn import MLP
from fkpinn.problem import catalogue
from fkpinn.sampling import sample_boundary, sample_interior
from fkpinn.train import (
    LBFGS,
    Adam,
    GradientDescent,
    NaturalGradient,
    Phase,
    fit,
    fit_many,
    working_in,
)
from fkpinn.train._identity import difference, identity

PROBLEM = catalogue("exit-ball-3d").problem


def start(dtype=jnp.float32):
    network = MLP(*PROBLEM.bounds(), (6,), dtype=dtype, key=jr.key(0))
    inside = sample_interior(PROBLEM, 30, dtype=dtype, key=jr.key(1))
    on = sample_boundary(PROBLEM, 10, dtype=dtype, key=jr.key(2))
    return network, Loss(
        {"residual": ResidualTerm(PROBLEM, inside), "boundary": BoundaryTerm(PROBLEM, on)}
    )


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]


def phases():
    return [
        Phase("Adam", Adam(40, 1e-2), 40, Uncertainty(("residual", "boundary")), redraw=15),
        Phase("natural gradient", NaturalGradient(), 4, Fixed({"boundary": 5.0}), 2, 2.0),
        Phase("natural gradient", NaturalGradient(), 2, redraw=2, times=0.5, continues=True),
    ]


@pytest.mark.broad
def test_phases_follow_each_other_in_their_own_precision():
    run = fit(*start(), phases(), key=jr.key(3))
    names = [record["phase"] for record in run.history]
    assert names == sorted(names) and set(names) == {"Adam", "natural gradient"}
    assert run.history[-1]["step"] == 46
    assert all(leaf.dtype == np.float64 for leaf in leaves(run.network))
    assert isinstance(run.weighting, Fixed)


def test_a_phase_that_continues_goes_on_as_if_nothing_had_been():
    """With the count of steps that weights depend on, and with the damping."""
    fading = Annealed({"boundary": 5.0}, fading=("boundary",), rate=0.5)
    whole = Phase("natural gradient", NaturalGradient(), 6, fading)
    two = [whole._replace(steps=4), whole._replace(steps=2, weighting=None, continues=True)]
    once, twice = (fit(*start(), phases, key=jr.key(3)) for phases in ([whole], two))
    for a, b in zip(leaves(once.network), leaves(twice.network), strict=True):
        np.testing.assert_array_equal(a, b)
    assert once.history[-1]["step"] == twice.history[-1]["step"] == 6


def test_a_phase_that_continues_with_another_optimizer_counts_on_and_forgets():
    seen = []

    class Counted(GradientDescent):
        def step(self, objective, parameters, state):
            jax.debug.callback(lambda k: seen.append(int(k)), objective.step)
            return super().step(objective, parameters, state)

    first = Phase("first", NaturalGradient(), 3, Fixed())
    second = Phase("second", Counted(1e-4), 2, continues=True)
    fit(*start(), [first, second], key=jr.key(3))
    assert sorted(set(seen)) == [3, 4]


def test_points_of_a_phase_are_counted_from_those_that_were_given():
    seen = []

    class Counted(GradientDescent):
        def step(self, objective, parameters, state):
            terms = objective.loss.terms
            seen.append((len(terms["residual"].points), len(terms["boundary"].on.points)))
            return super().step(objective, parameters, state)

    sizes = (0.5, 2.0, 1.0, 0.01)
    each = [Phase(f"{k}", Counted(10.0**-k), 1, Fixed(), times=s) for k, s in enumerate(sizes, 3)]
    fit(*start(), each, key=jr.key(3))
    assert set(seen) == {(15, 5), (60, 20), (30, 10), (1, 1)}


def test_phases_that_cannot_be_run_are_refused():
    one = Phase("first", GradientDescent(1e-3), 3)
    for wrong, word in (
        ([one._replace(continues=True)], "cannot continue"),
        ([one._replace(times=0.0)], "`times` above 0; got 0.0"),
    ):
        with pytest.raises(ValueError, match=word):
            fit(*start(), wrong, key=jr.key(3))


class Traced(GradientDescent):
    """Remembers which threads compiled it."""

    threads = []  # noqa: RUF012

    def step(self, objective, parameters, state):
        self.threads.append(threading.current_thread())
        return super().step(objective, parameters, state)


def test_the_next_phase_is_compiled_while_one_runs():
    """By another thread, and not again when its turn has come."""
    Traced.threads.clear()
    first = Phase("Adam", Adam(5, 1e-2), 5, Fixed({"boundary": 2.0}))
    fit(*start(), [first, Phase("descent", Traced(1e-3), 3)], key=jr.key(3))
    assert len(set(Traced.threads)) == 1 and threading.main_thread() not in Traced.threads


def test_what_fails_ahead_is_said_in_its_turn():
    class Broken(GradientDescent):
        def step(self, objective, parameters, state):
            raise RuntimeError("no step today")

    two = [Phase("Adam", Adam(5, 1e-2), 5, Fixed()), Phase("broken", Broken(1e-3), 3)]
    with pytest.raises(RuntimeError, match="no step today"):
        fit(*start(), two, key=jr.key(3))


@pytest.mark.slow
def test_a_weighting_goes_on_with_what_it_learned():
    two = [
        Phase("Adam", Adam(30, 1e-2), 30, Uncertainty(("residual", "boundary"))),
        Phase("L-BFGS", LBFGS(), 3),
    ]
    run = fit(*start(), two, key=jr.key(3))
    assert isinstance(run.weighting, Uncertainty)
    assert all(float(s) != 0.0 for s in run.weighting.log_variances.values())


class Crash(Exception):
    """What a killed process leaves behind: files, nothing else."""


@pytest.mark.slow
def test_a_crash_anywhere_changes_nothing(tmp_path, monkeypatch):
    """Checkpoints after every report; stopped after any number of them, the end is the same."""
    whole = fit(*start(), phases(), folder=tmp_path / "whole", interval=0.0, key=jr.key(3))
    expected = leaves(whole.network)
    for reports in (1, 5):
        folder = tmp_path / str(reports)
        left = [reports]
        report = module._Run._report

        def counted(self, *arguments, left=left, report=report):
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            report(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(module._Run, "_report", counted)
            with pytest.raises(Crash):
                fit(*start(), phases(), folder=folder, interval=0.0, key=jr.key(3))
        again = fit(*start(), phases(), folder=folder, interval=0.0, key=jr.key(3))
        for a, b in zip(leaves(again.network), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines]
        assert steps == sorted(set(steps)) and steps[-1] == 46


def test_a_loss_that_ends_being_a_number_is_rolled_back():
    bad = [
        Phase("wild", GradientDescent(1e3), 400),
        Phase("calm", NaturalGradient(), 3),
    ]
    run = fit(*start(), bad, key=jr.key(3))
    (why,) = run.stopped
    assert "wild: the loss became NaN or infinite" in why and "Try a smaller learning rate" in why
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(run.network))
    assert run.history[-1]["phase"] == "calm"


def test_files_of_another_run_are_refused(tmp_path):
    fit(*start(), phases()[:1], folder=tmp_path, interval=0.0, key=jr.key(3))
    other = [Phase("Adam", Adam(50, 1e-2), 50)]
    with pytest.raises(ValueError, match="belongs to another training"):
        fit(*start(), other, folder=tmp_path, key=jr.key(3))


def damaged(path, how):
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        path.write_bytes(content[:200] + bytes(b ^ 0xFF for b in content[200:400]) + content[400:])
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("leaf0.npy", b"cos\nsystem\n(S'true'\ntR.")


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "hostile"])
def test_damaged_checkpoints_are_refused(tmp_path, how):
    fit(*start(), phases()[:1], folder=tmp_path, interval=0.0, key=jr.key(3))
    damaged(tmp_path / "checkpoints" / "last.npz", how)
    with pytest.raises(ValueError, match=r"is damaged|is not a checkpoint"):
        fit(*start(), phases()[:1], folder=tmp_path, key=jr.key(3))


@pytest.mark.parametrize("about", ["[1]", '{"format": 1, "leaves": 0, "identity": WHO}'])
def test_checkpoints_without_their_record_are_refused(tmp_path, about):
    with working_in(phases()[:1]):
        who = identity(*start(), phases()[:1], jr.key(3))
    text = np.array(about.replace("WHO", json.dumps(who)))
    (tmp_path / "checkpoints").mkdir()
    np.savez(tmp_path / "checkpoints" / "last.npz", about=text)
    with pytest.raises(ValueError, match=r"is damaged"):
        fit(*start(), phases()[:1], folder=tmp_path, key=jr.key(3))


def test_a_last_step_into_nothing_is_taken_back():
    """The loss of a step is that before it, so the end of a phase must look at the parameters."""
    run = fit(*start(), [Phase("wild", GradientDescent(float("inf")), 1)], key=jr.key(3))
    for a, b in zip(leaves(run.network), leaves(start()[0]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_run_that_stops_keeps_its_last_steps():
    """One of several that has reached its minimum is returned there, not a block earlier."""
    networks, losses, keys = several(2)
    long = [Phase("L-BFGS", LBFGS(tolerance=1e-3), 300)]
    for run, network, loss, key in zip(
        fit_many(networks, losses, long, keys=keys), networks, losses, keys, strict=True
    ):
        alone = fit(network, loss, long, key=key)
        assert alone.stopped and run.stopped
        for a, b in zip(leaves(run.network), leaves(alone.network), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_watch_is_called_and_recorded():
    run = fit(
        *start(),
        [Phase("Adam", Adam(3), 3)],
        watch=lambda network: {"error": float(network(jnp.zeros(3, jnp.float32)))},
        key=jr.key(3),
    )
    assert "error" in run.history[-1] and run.history[-1]["seconds"] >= 0


def test_refusals():
    with pytest.raises(ValueError, match="`phases` must not be empty"):
        fit(*start(), [], key=jr.key(0))
    with pytest.raises(ValueError, match="Phase `Adam` must have `steps` of at least 1"):
        fit(*start(), [Phase("Adam", Adam(3), 0)], key=jr.key(0))


def several(n=3, dtype=jnp.float64):
    """Networks and losses that differ by their keys only."""
    network, loss = start(dtype)
    networks = [MLP(*PROBLEM.bounds(), (6,), dtype=dtype, key=jr.key(k)) for k in range(n)]
    losses = [loss.redrawn(network, jr.key(10 + k)) for k in range(n)]
    return networks, losses, [jr.key(20 + k) for k in range(n)]


@pytest.mark.slow
def test_several_runs_at_once_are_those_one_by_one():
    """To rounding: a batched sum is added up in another order."""
    networks, losses, keys = several(2)
    many = fit_many(networks, losses, phases(), keys=keys)
    for network, loss, key, run in zip(networks, losses, keys, many, strict=True):
        alone = fit(network, loss, phases(), key=key)
        assert run.history[-1]["step"] == 46 and run.stopped == alone.stopped
        for a, b in zip(leaves(run.network), leaves(alone.network), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_several_runs_must_be_alike():
    networks, losses, keys = several()
    other = MLP(*PROBLEM.bounds(), (6,), output_scale=2.0, key=jr.key(0))
    with pytest.raises(ValueError, match="`networks` must differ only in the values"):
        fit_many([*networks[:2], other], losses, phases(), keys=keys)
    with pytest.raises(ValueError, match="must have the same length"):
        fit_many(networks, losses[:1], phases(), keys=keys)


def test_one_bad_run_does_not_spoil_the_others():
    networks, losses, keys = several(2, jnp.float32)
    scale = lambda u, by: eqx.tree_at(lambda v: v.weights[-1], u, u.weights[-1] * by)
    networks[1] = scale(networks[1], jnp.float32(1e25))
    wild = [Phase("steep", GradientDescent(1e-3), 5)]
    calm, lost = fit_many(networks, losses, wild, keys=keys)
    assert calm.stopped == [] and calm.history[-1]["step"] == 5
    assert "became NaN or infinite" in lost.stopped[0]
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(lost.network))


def test_other_weights_share_what_is_compiled():
    """They come in as numbers; what comes out is as if it had been compiled for them."""
    module._compiled.cache_clear()
    run = lambda weight: leaves(
        fit(
            *start(), [Phase("down", GradientDescent(1e-3), 5, Fixed({"boundary": weight}))],
            key=jr.key(0),
        ).network
    )  # fmt: skip
    light, heavy = run(1.0), run(100.0)
    assert module._compiled.cache_info().misses == 1
    assert any(not np.array_equal(a, b) for a, b in zip(light, heavy, strict=True))
    module._compiled.cache_clear()
    for one, other in zip(heavy, run(100.0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_weighting_of_ones_own():
    """Leaves of it that are not numbers stay as they are."""

    class Named(Fixed):
        name: str = "mine"

        def penalty(self) -> float:
            assert self.name == "mine"
            return 0.0

    module._compiled.cache_clear()
    phase = Phase("down", GradientDescent(1e-3), 2, Named({"boundary": 2.0}))
    assert np.isfinite(fit(*start(), [phase], key=jr.key(0)).history[-1]["loss"])


def test_compiling_takes_part_of_the_time():
    began = time.perf_counter()
    run = fit(*start(), phases()[:1], key=jr.key(3))
    assert 0 <= run.compile_seconds <= time.perf_counter() - began
    assert 0 <= run.history[-1]["seconds"] <= time.perf_counter() - began


def test_a_training_is_told_from_one_with_other_signs_or_weights():
    network, loss = start()
    given = lambda **weights: [Phase("Adam", Adam(5), 5, Fixed(weights))]
    who = identity(network, loss, given(residual=1.0), jr.key(3))
    again = json.loads(json.dumps(who))
    assert difference(again, identity(*start(), given(residual=1.0), jr.key(3))) is None
    assert difference({"weight": 0.1}, {"weight": 0.0}) == "weight"
    assert difference({"weight": 1.0 + 1e-3}, {"weight": 1.0}) == "weight"
    assert difference({"weight": 1.0 + 1e-15}, {"weight": 1.0}) is None
    turned = jax.tree.map(lambda leaf: -leaf if eqx.is_inexact_array(leaf) else leaf, network)
    assert difference(again, identity(turned, loss, given(residual=1.0), jr.key(3))) == "network"
    assert difference(again, identity(network, loss, given(residual=2.0), jr.key(3))) == "weighting"
    assert difference(again, identity(network, loss, given(residual=1.0), jr.key(4))) == "key"
    assert difference(None, who) == "problem"
