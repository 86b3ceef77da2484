"""Sums that jaxlib 0.10.2 miscompiles are right, or fkpinn says that they are not."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from fkpinn import _miscompiled
from fkpinn.nn import MLP, Input, SquaredDistance
from fkpinn.problem import Layout

AFFECTED = _miscompiled._is_affected()


@pytest.mark.parametrize("n", [8, 1024])
def test_slopes_of_a_network_with_a_squared_distance_do_not_depend_on_the_batch(n):
    dim = 10
    further = (Input(SquaredDistance((0.0,) * dim, Layout(dim)), 1.0, 0.1),)
    network = MLP([-1.0] * dim, [1.0] * dim, (24,), further=further, dtype="float32", key=jr.key(0))
    x = jr.normal(jr.key(1), (n, dim), jnp.float32)
    along = jnp.eye(dim, dtype=jnp.float32)
    slopes = jax.jit(jax.vmap(lambda z: network.taylor(z, along, along[0]).slopes))(x)
    by_jax = [jax.grad(lambda z: network(z))(z) for z in x[:: max(n // 8, 1)]]
    np.testing.assert_allclose(slopes[:: max(n // 8, 1)], np.stack(by_jax), rtol=1e-3, atol=1e-4)


def said(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    rest = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    told = {"JAX_PLATFORMS": "cpu", "FKPINN_CACHE": "off"} | variables
    words = [sys.executable, "-c", code]
    return subprocess.run(words, env=rest | told, capture_output=True, text=True, check=False)


PROBLEM = "fk.Problem(fk.Interval(0.0, 1.0)); print('fine')"


@pytest.mark.skipif(not AFFECTED, reason="this release of jaxlib is not affected")
def test_who_starts_jax_too_early_is_told():
    late = said(f"import jax; jax.numpy.ones(3) + 1; import fkpinn as fk; {PROBLEM}")
    assert late.returncode and "Import fkpinn before anything is computed" in late.stderr


def test_flags_of_the_user_stay():
    mine = "--xla_force_host_platform_device_count=2"
    code = f"import fkpinn as fk, os; {PROBLEM}; import jax; print(jax.device_count())"
    ran = said(code + "; print(os.environ['XLA_FLAGS'])", XLA_FLAGS=mine)
    fine, count, flags = ran.stdout.split("\n", 2)
    assert (fine, count) == ("fine", "2"), ran.stderr
    assert flags.split()[0] == mine and (len(flags.split()) == 2) == AFFECTED


def test_other_releases_are_left_alone(monkeypatch):
    monkeypatch.setattr(_miscompiled, "_RELEASE", "0.0.0")
    monkeypatch.setenv("XLA_FLAGS", "")
    _miscompiled.avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == ""
    _miscompiled.refuse_wrong_sums.__wrapped__()


def test_sums_are_right_here():
    assert _miscompiled._sums_are_right()
