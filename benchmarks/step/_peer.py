"""The same loss in DeepXDE or jinns: a script for the Python of an environment that has them.

Called as `python _peer.py NAME FOLDER`. The folder holds `points.npy` and the parameters
`weight0.npy`, `bias0.npy` and so on; the gradient is left there. The parameters are fkpinn's, so
that loss and gradient must agree. Each line of input asks for one timing and is answered by
`ready`, as compilation is; after the last one a record is printed.
"""

import importlib.metadata
import json
import os
import sys
from pathlib import Path

os.environ["DDE_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import numpy as np
from _timing import Timed

_MODES = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))  # amplitude, frequencies


def source(x, y):
    """The right-hand side of the catalogue's `poisson`."""
    waves = [
        a * (j**2 + k**2) * jnp.sin(j * jnp.pi * x) * jnp.sin(k * jnp.pi * y) for a, j, k in _MODES
    ]
    return jnp.pi**2 * sum(waves)


def deepxde(points, weights, biases, autodiff="reverse"):
    """`outputs_losses_train` of a compiled `Model`: what its training step differentiates."""
    import deepxde as dde

    dde.config.set_default_autodiff(autodiff)

    def pde(x, u):
        u_xx, _ = dde.grad.hessian(u, x, i=0, j=0)
        u_yy, _ = dde.grad.hessian(u, x, i=1, j=1)
        return u_xx + u_yy + source(x[:, :1], x[:, 1:])

    sizes = [weights[0].shape[1], *(len(bias) for bias in biases)]
    data = dde.data.PDE(dde.geometry.Rectangle([0, 0], [1, 1]), pde, [], anchors=points)
    model = dde.Model(data, dde.nn.FNN(sizes, "tanh", "Glorot normal"))
    model.compile("adam", lr=1e-3)
    layers = {
        f"denses_{i}": {"kernel": jnp.asarray(w.T), "bias": jnp.asarray(b)}
        for i, (w, b) in enumerate(zip(weights, biases, strict=True))
    }
    params = {"params": layers}
    ours, theirs = jax.tree.structure(params), jax.tree.structure(model.params[0])
    assert ours == theirs, f"DeepXDE's parameters are {theirs}"

    def loss(params, x):
        dde.grad.clear()  # it remembers derivatives by the address of arrays
        return jnp.sum(model.outputs_losses_train([params, []], x, None)[1])

    def flat(grad):
        layers = [grad["params"][f"denses_{i}"] for i in range(len(weights))]
        return [a for layer in layers for a in (layer["kernel"].T, layer["bias"])]

    return loss, params, flat


def jinns(points, weights, biases):
    """`LossPDEStatio` on a `PINN_MLP`, with `laplacian_rev` in the equation."""
    import equinox as eqx
    import jinns

    class Poisson(jinns.loss.PDEStatio):
        def equation(self, x, u, params):
            return jinns.loss.laplacian_rev(x, u, params)[None] + source(x[:1], x[1:])

    eqx_list = []
    for w in weights:
        eqx_list += [(eqx.nn.Linear, w.shape[1], w.shape[0]), (jax.nn.tanh,)]
    u, start = jinns.nn.PINN_MLP.create(
        key=jax.random.PRNGKey(0), eqx_list=tuple(eqx_list[:-1]), eq_type="PDEStatio"
    )

    def arrays(network):
        linear = network.layers[::2]
        return [a for layer in linear for a in (layer.weight, layer.bias)]

    values = [jnp.asarray(a) for pair in zip(weights, biases, strict=True) for a in pair]
    params = jinns.parameters.Params(nn_params=eqx.tree_at(arrays, start, values), eq_params={})
    term = jinns.loss.LossPDEStatio(
        u=u,
        dynamic_loss=Poisson(),
        loss_weights=jinns.loss.LossWeightsPDEStatio(dyn_loss=1.0),
        params=params,
    )

    def loss(params, x):
        batch = jinns.data.PDEStatioBatch(domain_batch=x, border_batch=None)
        return term.evaluate(params, batch)[0]

    return loss, params, lambda grad: arrays(grad.nn_params)


_PEERS = {
    "deepxde": ("deepxde", deepxde, "reverse over reverse, its default"),
    "deepxde_forward": (
        "deepxde",
        lambda *given: deepxde(*given, autodiff="forward"),
        "dde.config.set_default_autodiff('forward')",
    ),
    "jinns": ("jinns", jinns, "laplacian_rev in a PDEStatio, LossPDEStatio.evaluate"),
}


def main(name: str, folder: Path) -> dict:
    """Time loss and gradient of one of them."""
    package, build, how = _PEERS[name]
    depth = len(list(folder.glob("weight*.npy")))
    weights = [np.load(folder / f"weight{i}.npy") for i in range(depth)]
    biases = [np.load(folder / f"bias{i}.npy") for i in range(depth)]
    points = np.load(folder / "points.npy")
    loss, params, flat = build(points, weights, biases)
    given = params, jnp.asarray(points)
    timed = {"forward": Timed(loss, *given), "gradient": Timed(jax.value_and_grad(loss), *given)}
    value, grad = timed["gradient"].result
    parts = flat(grad)
    assert {part.dtype for part in parts} == {np.dtype(np.float32)}
    np.save(folder / f"{name}.npy", np.concatenate([np.ravel(part) for part in parts]))
    print("\nready", flush=True)
    for _ in sys.stdin:
        for one in timed.values():
            one.turn()
        print("ready", flush=True)
    device = jax.devices()[0]
    return {
        **{what: one.seconds() for what, one in timed.items()},
        "loss": float(value),
        "version": importlib.metadata.version(package),
        "jax": jax.__version__,
        "device": f"{device.platform}: {device.device_kind}",
        "how": how,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
