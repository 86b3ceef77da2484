"""Functions taken apart give what `jax.vmap` gives."""

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import fkpinn as fk
from fkpinn.sde import unsplit
from fkpinn.sde._apart import apart

weights = jr.normal(jr.key(1), (3, 40))
FUNCTIONS = {
    "stack and slice": lambda x: jnp.stack([x[1] * x[0], jnp.sin(x[2]), 1.0 + x[0]])[1:],
    "gradient": jax.grad(lambda x: jnp.sum(x[:2] ** 3) * jnp.exp(x[2])),
    "hessian": lambda x: jax.hessian(lambda x: jnp.prod(x) + x[0] ** 4)(x).reshape(-1),
    "dot": lambda x: jnp.asarray([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0]]) @ x,
    "outer and trace": lambda x: jnp.trace(jnp.outer(x, x) @ jnp.diag(x)),
    "norm": lambda x: jnp.linalg.norm(x) + jnp.max(x) - jnp.min(jnp.abs(x)),
    "argmin": lambda x: x[jnp.argmin(x)],
    "set": lambda x: x.at[1].set(5.0) + jnp.flip(x),
    "where": lambda x: jnp.where(x > 0, x, -2.0 * x),
    "conditional": lambda x: jax.lax.cond(x[0] > 0, lambda x: x, lambda x: 2.0 * x, x),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x),
    "network": lambda x: jnp.tanh(x @ weights) @ weights.T,
    "network left whole": unsplit(lambda x: jnp.tanh(x @ weights) @ weights.T),
    "gradient of network": jax.grad(lambda x: jnp.sum(jnp.tanh(x @ weights))),
    "constant": lambda x: jnp.asarray([1.0, 2.0]),
    "pad": lambda x: jnp.pad(x, (1, 2), constant_values=3.0),
    "cumulative": lambda x: jnp.cumsum(x),
    "strided slice": lambda x: jnp.concatenate([x, -x])[1:6:2],
    "negative pad": lambda x: jax.lax.pad(x, 7.0, [(-1, 3, 1)]),
    "pad at the end cut": lambda x: jax.lax.pad(x, 7.0, [(2, -1, 2)]),
    "index": lambda x: jax.lax.dynamic_slice(x, (jnp.int32(jnp.sum(x > 0)),), (2,)),
    "argmax of rows": lambda x: jnp.argmax(jnp.outer(x, x**3), axis=0).astype(float),
    "not a number": lambda x: jnp.argmin(jnp.log(x)).astype(float),
    "sum over an axis": lambda x: jnp.sum(jnp.outer(x, x[:2] + 1.0), axis=0),
    "many in one": lambda x: jnp.einsum(
        "ij,ijk->ik", jnp.outer(x[:2], x), jnp.arange(12.0).reshape(2, 3, 2) * x[0]
    ).reshape(-1),
    "transpose": lambda x: jnp.outer(x, jnp.arange(1.0, 3.0)).T.reshape(-1),
    "rows apart": lambda x: jnp.prod(jnp.stack(list(jnp.outer(x, x)), axis=1)[:, 1:], axis=1),
    "numbers by place": lambda x: jax.lax.broadcasted_iota(float, (3, 2), 0)[:, 1] * x,
    "scalar": lambda x: jnp.sqrt(jnp.abs(x[0])) ** 1.5,
}


@pytest.mark.parametrize("name", helpers.of_which_fast(FUNCTIONS, *FUNCTIONS.keys() - {"hessian"}))
def test_as_vmap(name):
    function = FUNCTIONS[name]
    points = jr.normal(jr.key(0), (7, 3))
    together = apart(function, jax.ShapeDtypeStruct((3,), points.dtype))

    @jax.jit
    def run(points):
        found = together(tuple(points.T))
        return found if not isinstance(found, tuple) else jnp.stack(found, axis=1)

    np.testing.assert_allclose(run(points), jax.vmap(function)(points), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["met", "committor", "schrodinger", "variable-diffusion"])
def test_coefficients_leave_no_small_arrays(name):
    """What remains of a walk's coefficients is arithmetic on one number a path."""
    problem = fk.catalogue(name).problem
    sigma = lambda x: problem.sigma(x).reshape(-1)
    both = lambda x: (problem.drift(x), sigma(x), problem.source(x), problem.reaction(x))
    together = apart(both, jax.ShapeDtypeStruct((problem.dim,), jnp.float32))

    traced = jax.make_jaxpr(together)((jnp.zeros(5, jnp.float32),) * problem.dim)
    shapes = {var.aval.shape for eqn in traced.eqns for var in eqn.outvars}
    assert shapes <= {(5,), ()}
