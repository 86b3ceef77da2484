"""Several small trainings at once are the same trainings one by one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from fkpinn.labels import Labels
from fkpinn.loss import Fixed, LabelTerm, Loss
from fkpinn.train import GradientDescent, Phase, fit, fit_many


class Line(eqx.Module):
    """A straight line."""

    slope: jax.Array
    start: jax.Array

    def __call__(self, z):
        return self.slope * z[0] + self.start


def case(k: int):
    """A line, fresh parts of its labels every three steps, and a key."""
    points = jr.uniform(jr.key(k), (12, 1))
    labels = Labels.from_data(points, 1.0 + k * points[:, 0], 0.1)
    line = Line(jnp.asarray(0.5 * k), jnp.asarray(-1.0))
    return line, Loss({"labels": LabelTerm.of(labels, batch=5)}), jr.key(40 + k)


def test_several_lines_at_once_are_those_one_by_one():
    phases = [
        Phase("down", GradientDescent(0.05), 7, Fixed({"labels": 2.0}), redraw=3),
        Phase("on", GradientDescent(0.05), 5),
    ]
    watch = lambda u: {"slope": float(u.slope)}
    networks, losses, keys = zip(*map(case, range(2)), strict=True)
    many = fit_many(list(networks), list(losses), phases, keys=list(keys), watch=watch)
    for network, loss, key, run in zip(networks, losses, keys, many, strict=True):
        alone = fit(network, loss, phases, key=key, watch=watch)
        last, expected = run.history[-1], alone.history[-1]
        assert last["phase"] == "on" and last["step"] == expected["step"] == 12
        for name in ("loss", "labels", "slope"):
            np.testing.assert_allclose(last[name], expected[name], rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(last["slope"], float(run.network.slope))
        np.testing.assert_allclose(last["loss"], 2.0 * last["labels"], rtol=1e-12)
        np.testing.assert_allclose(run.network.start, alone.network.start, rtol=1e-9)
        assert run.stopped == alone.stopped == []
        assert 2 <= len(run.history) < 12 and len(alone.history) < 12  # blocks of several steps


class Until(GradientDescent):
    """Stops where nothing is wrong any more."""

    reasons = ("", "nothing is wrong")

    def step(self, objective, parameters, state):
        moved, state, report = super().step(objective, parameters, state)
        return moved, state, report._replace(stopped=(report.loss < 1e-6).astype(jnp.int32))


def test_one_that_is_done_waits_for_the_others():
    """The first begins at its minimum."""
    points = jnp.linspace(0.0, 1.0, 6)[:, None]
    loss = Loss({"labels": LabelTerm.of(Labels.from_data(points, 1.0 + 2.0 * points[:, 0], 0.1))})
    there, away = (Line(jnp.asarray(2.0), jnp.asarray(a)) for a in (1.0, 4.0))
    keys = [jr.key(0), jr.key(1)]
    done, going = fit_many([there, away], [loss, loss], [Phase("test", Until(0.3), 9)], keys=keys)
    assert done.stopped == ["test stopped after 1 steps: nothing is wrong."]
    assert float(done.network.start) == 1.0 and [r["step"] for r in done.history] == [1]
    assert going.stopped == [] and float(going.network.start) < 2.0
    assert going.history[-1]["step"] == 9 and going.history[0]["loss"] == 9.0
