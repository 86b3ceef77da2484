"""What solving does for nonlinear equations, and for data with kinks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_folders import SMALL as small

import fkpinn as fk
from fkpinn._solve import Job, settings_for
from fkpinn._solve._end import kinks_at_end
from fkpinn._solve._improve import Rounds
from fkpinn._solve._label import _damped, approach, approaches, label
from fkpinn.evaluate import TooFar
from fkpinn.nn import MLP, Size

EXIT = fk.catalogue("exit-ball-3d").problem


def test_kinks_at_the_end_of_time_are_seen():
    """Residuals count less there; of smooth data, steep ones too, and of cubes they do not."""
    timed = lambda data: fk.Problem(
        fk.Interval(-1.0, 1.0), horizon=1.0, terminal=data, boundary=0.0, check=False
    )
    assert kinks_at_end(timed(lambda x: jnp.maximum(x[0] - 0.3, 0.0)))
    assert kinks_at_end(timed(lambda x: jnp.where(x[0] > 0.3, 1.0, 0.0)))
    for smooth in (lambda x: jnp.sin(20 * x[0]), lambda x: x[0] ** 3, lambda x: 2.0 * x[0]):
        assert not kinks_at_end(timed(smooth))
    assert not kinks_at_end(EXIT)
    swap = lambda x: jnp.maximum(x[0] - x[1], 0.0)  # along (1, 1) it has none
    square = fk.Box([-1.0, -1.0], [1.0, 1.0])
    assert kinks_at_end(fk.Problem(square, horizon=1.0, terminal=swap, boundary=0.0, check=False))
    assert settings_for("quick", fk.catalogue("heat2d-ms").problem).points.time_power == 0.0


@pytest.mark.broad
def test_labels_of_a_nonlinear_problem_are_made_anew_next_to_a_network():
    """u'' + 2.5 exp(u) = 0: those next to zero are too small."""
    problem = fk.Problem(
        fk.Interval(0.0, 1.0), diffusion=2**0.5, nonlinearity=lambda x, u, p: 2.5 * jnp.exp(u)
    )
    few = small.changed(
        {"network.widths": (8, 8), "labels.p_data": 0.5, "labels.n_paths": 400,
         "labels.dt": 2e-3, "points.n_collocation": 200, "training.steps": 60}
    )  # fmt: skip
    job = Job.of(problem, few, "fk-pinn", seed=0)
    truth = fk.find_reference(problem)
    sums = lambda labels: (np.sum(labels.value), np.sum(truth.values(labels.points)))
    wrong = lambda labels: float(np.divide(*sums(labels)) - 1)
    before = label(job)
    later, after, first = approach(job, before)
    assert wrong(before) < -0.05 and abs(wrong(after)) < 0.4 * abs(wrong(before))
    assert later.near is first.network and later.parts.network is first.network
    assert later.settings.training.steps == 40 and first.history[-1]["step"] == 20


def test_steps_of_newtons_are_cut_where_they_lead_far():
    at = jnp.zeros((2, 1), jnp.float32)
    zeros = jnp.zeros(2, jnp.float32)
    made = fk.Labels(at, zeros + 7.0, zeros, 2, jnp.zeros(2, int), zeros, zeros, zeros, {})
    network = MLP([-1.0], [1.0], [4], key=jax.random.key(0))
    network = eqx.tree_at(lambda u: u.biases[-1], network.scaled(0.0), jnp.full(1, 2.0))
    cut, note = _damped(network, made)
    np.testing.assert_allclose(cut.value, 4.0, rtol=1e-6)  # from 2, as far as 2 is large
    assert note == ["labels: a Newton step was shortened to 0.4 of its length"]
    same, silent = _damped(network, made._replace(value=zeros + 3.0))
    assert silent == [] and float(same.value[0]) == 3.0


def test_two_steps_are_not_divided():
    """Nor those of nobody: the method stays what it was."""
    bratu = fk.catalogue("bratu").problem
    job = lambda problem, method="fk-pinn", **n: Job.of(
        problem, small.changed({f"training.{name}": count for name, count in n.items()}), method
    )
    assert approaches(job(bratu, steps=3)) and not approaches(job(bratu, steps=2))
    assert not approaches(job(EXIT, steps=30))  # linear
    assert approaches(job(bratu, steps=0, adam_steps=9))
    assert not approaches(job(bratu, steps=0, adam_steps=0, lbfgs_steps=5))
    assert not approaches(job(bratu, "fk-pinn-adam", steps=30, adam_steps=0, lbfgs_steps=5))


def _certificate(error):
    labels = fk.Labels.from_data(jnp.zeros((1, 3)), jnp.zeros(1), 0.1)
    labels = labels._replace(provenance={"seconds": {"run": 1.0}}, n_paths=4)
    return fk.Certificate(error, error, error, 0.95, error, 0.0, labels, 1.0)


def _rounds(monkeypatch, errors, most=3, left_out=100.0, target=1e-9):
    """Rounds over networks that are numbers, with these errors one after the other."""
    settings = small.changed({"certificate.rounds": most, "certificate.target": target})
    rounds = Rounds(Job.of(fk.catalogue("bratu").problem, settings, "fk-pinn"), Size(1.0), 1.0)

    def certify(network, number):
        found, remainder = _certificate(errors[network]), left_out * errors[network] ** 2
        if remainder > 0.5 * errors[network]:
            raise TooFar(found, remainder)
        return found

    monkeypatch.setattr(rounds, "certify", certify)
    monkeypatch.setattr(rounds, "train", lambda kind, network, best, number: number)
    return rounds.run(0)


def test_a_network_that_is_too_far_is_trained_on(monkeypatch):
    """As long as it comes nearer fast enough; what was certified stays."""
    near = _rounds(monkeypatch, [2e-2, 8e-3, 2e-3, 1e-3])
    assert near.network == 3 and near.certificate.l2_rel == 1e-3
    assert [r["round"] for r in near.rounds] == [1, 2, 3] and all(r["kept"] for r in near.rounds)
    far = _rounds(monkeypatch, [4e-2, 3e-2, 1e-3])
    assert far.network == 1 and far.certificate is None and len(far.rounds) == 1
    assert far.notes[-1].startswith("no certificate: the candidate is too far")
    worse = _rounds(monkeypatch, [4e-2, 5e-2])
    assert worse.network == 0 and not worse.rounds[0]["kept"] and worse.certificate is None
    astray = _rounds(monkeypatch, [1e-3, 2e-2, 5e-4, 4e-4])
    assert astray.network == 0 and astray.certificate.l2_rel == 1e-3
    assert not astray.rounds[0]["kept"]
    once = _rounds(monkeypatch, [5e-2, 4.9e-2])  # always tried, and no second time
    assert once.certificate is None and len(once.rounds) == 1
    saved = _rounds(monkeypatch, [5e-2, 1e-3], most=1)  # though nobody would have expected it
    assert saved.network == 1 and saved.certificate.l2_rel == 1e-3
    assert TooFar(_certificate(0.0), 1e-3).excess > 1e9  # noise may hide the whole error
    enough = _rounds(monkeypatch, [4e-2, 1e-3], target=0.3)  # 4e-2 and 0.16 that are left out
    assert enough.network == 0 and enough.certificate is None and enough.rounds == []
    assert enough.notes[-1] == "with it the error is at most 2.0e-01: target 3.000e-01 reached"
    assert len(_rounds(monkeypatch, [4e-2, 1e-3], target=0.19).rounds) == 1
    none = _rounds(monkeypatch, [4e-2], most=0)
    assert none.network == 0 and none.certificate is None and none.rounds == []
