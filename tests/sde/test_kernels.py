"""What happens where a kernel cannot be made, or fails."""

import gc
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fkpinn as fk
from fkpinn._compute import Lanes
from fkpinn.sde import EulerMaruyama, PlainExit, Plan, Scheme, _walk, run_batches

KERNEL = Lanes((8,), 64, 1, 4, "triton")


def plan(source=1.0):
    problem = fk.Problem(fk.Interval(0.0, 1.0), drift=[0.5], source=source, check=False)
    walk = Scheme(EulerMaruyama(), PlainExit())
    return Plan(problem, walk, jnp.asarray([[0.5]]), 6, 0.05, None, 1)


def payoffs(how, lanes):
    [ended] = run_batches(how, [(0, 6)], lanes)
    return ended.payoff


def test_without_a_kernel_plain_loops_run_and_the_cause_is_said_once():
    """Processor cores have no such kernels, so this failure is a real one."""
    how = plan(lambda x: x[0])
    with pytest.warns(UserWarning, match="plain loops, since no GPU kernel can.*interpret"):
        found = payoffs(how, KERNEL)
    np.testing.assert_array_equal(found, payoffs(how, Lanes((8,), 64, 1)))
    payoffs(how, KERNEL)  # a second warning would be an error here


def test_what_a_kernel_cannot_express_falls_back(monkeypatch):
    def refuse(*_):
        raise NotImplementedError("no such operation: frobnicate")

    monkeypatch.setattr(_walk, "_launch", refuse)
    with pytest.warns(UserWarning, match="NotImplementedError: no such operation: frobnicate"):
        payoffs(plan(lambda x: 2 * x[0]), KERNEL)


@pytest.mark.parametrize("message", ["RESOURCE_EXHAUSTED: out of memory", "INTERNAL: it broke"])
def test_what_fails_while_it_runs_is_raised_with_its_cause(monkeypatch, message):
    """And the same kernel is tried again the next time."""

    def broken(*_):
        raise jax.errors.JaxRuntimeError(message)

    how = plan(lambda x: 3 * x[0])
    monkeypatch.setattr(_walk._Loop, "compiled", lambda *_: broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        payoffs(how, KERNEL)
    monkeypatch.undo()
    assert np.all(np.isfinite(payoffs(how, Lanes((8,), 64, 1))))


def test_out_of_memory_while_compiling_is_raised(monkeypatch):
    class Lowered:
        def compile(self):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(_walk._Loop, "_lowered", lambda *_: Lowered())
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        payoffs(plan(lambda x: 4 * x[0]), KERNEL)


@pytest.mark.slow  # what others have compiled is lost
def test_functions_of_problems_are_not_kept_for_ever():
    class Source:
        def __call__(self, x):
            return x[0]

    source = Source()
    gone = weakref.ref(source)
    payoffs(plan(source), Lanes((8,), 64, 1))
    del source
    for kept in (_walk._loop, _walk._lane_shapes):
        assert kept.cache_info().maxsize is not None
        kept.cache_clear()
    jax.clear_caches()
    gc.collect()
    assert gone() is None


def test_data_of_other_shapes_compile_anew():
    """Networks that differ in their widths only have the same structure."""
    found = []
    for n in (3, 5):
        weights = jnp.linspace(0.5, 1.0, n)
        found.append(payoffs(plan(Weighted(weights)), Lanes((8,), 64, 1)))
    np.testing.assert_allclose(found[0] / 3, found[1] / 5, rtol=1e-12)


class Weighted(eqx.Module):
    """A source that holds an array."""

    weights: jax.Array

    def __call__(self, x):
        return jnp.sum(self.weights) / 0.75 + 0.0 * x[0]
