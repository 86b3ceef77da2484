"""The problems as a user of jinns writes them.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all
import equinox as eqx
import jax
import jax.numpy as jnp
import jinns
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)


class Residual(jinns.loss.PDEStatio):
    residual: callable = eqx.field(static=True, kw_only=True)

    def equation(self, x, u, params):
        return jnp.atleast_1d(self.residual(x, lambda x: u(x, params).squeeze()))


def train(residual, low, high, seed, clock, transform=None, walls=None, known=None):
    dim, keys = len(low), jax.random.split(jax.random.PRNGKey(seed), 3)
    layers = ((eqx.nn.Linear, dim, 20), (jax.nn.tanh,), (eqx.nn.Linear, 20, 20), (jax.nn.tanh,))
    u, start = jinns.nn.PINN_MLP.create(
        key=keys[0], eqx_list=(*layers, (eqx.nn.Linear, 20, 1)), eq_type="PDEStatio",
        output_transform=transform and (lambda x, y, params: transform(x, y)),
    )  # fmt: skip
    params = jinns.parameters.Params(nn_params=start, eq_params={})
    points = jinns.data.CubicMeshPDEStatio(
        key=keys[1], n=1500, nb=400 if walls else None, dim=dim, min_pts=low, max_pts=high
    )
    if known:  # data on walls, as observations
        known = jinns.data.DataGeneratorObservations(
            observed_pinn_in=known[0], observed_values=known[1], key=keys[2]
        )
    search = optax.scale_by_backtracking_linesearch(50, decrease_factor=0.5)
    weights = jinns.loss.LossWeightsPDEStatio(
        dyn_loss=1.0, boundary_loss=1.0 if walls else None, observations=100.0 if known else None
    )
    loss = jinns.loss.LossPDEStatio(
        u=u, params=params, dynamic_loss=Residual(residual=residual), boundary_condition=walls,
        loss_weights=weights,
    )  # fmt: skip
    jinns.solve(
        n_iter=100_000, init_params=params, data=points, obs_data=known, loss=loss,
        optimizer=jinns.optimizers.vanilla_ngd(linesearch=search), verbose=False,
        validation=Watch(clock=clock),  # clock
    )  # fmt: skip
    settle(clock, u, loss, points, known)  # clock


def laplacian(u, x):
    return jnp.trace(jax.hessian(u)(x))


# --- benchmark
from jinns.data._utils import append_obs_batch  # noqa: E402
from jinns.validation import AbstractValidationModule  # noqa: E402


class Watch(AbstractValidationModule):
    """Looks at the clock between steps; errors are measured when all is over."""

    clock: object = eqx.field(static=True, kw_only=True)
    call_every: int = eqx.field(default=1, kw_only=True)

    def __call__(self, params):
        """Whether time is over."""
        leaves, form = jax.tree.flatten(params)

        def look(*leaves):
            over = self.clock.over()
            if over or self.clock.due():
                kept = [np.array(a) for a in leaves]
                self.clock.keep(jax.tree.unflatten(form, kept))
            return np.asarray(over)

        over = jax.experimental.io_callback(look, jax.ShapeDtypeStruct((), bool), *leaves)
        return self, over, jnp.asarray(0.0), False


def settle(clock, u, loss, points, known):
    """Errors and losses of what was kept."""
    batch = points.get_batch()[1]
    if known:
        batch = append_obs_batch(batch, known.get_batch()[1])
    values = jax.jit(lambda params, x: jax.vmap(lambda x: u(x, params).squeeze())(x))
    clock.settle(values, lambda params: loss.evaluate(params, batch)[0])


# --- poisson
def poisson(seed, clock):
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))

    def residual(x, u):
        wave = lambda j, k: jnp.sin(j * jnp.pi * x[0]) * jnp.sin(k * jnp.pi * x[1])
        source = sum(a * jnp.pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in modes)
        return laplacian(u, x) + source

    zero_on_walls = lambda x, u: u * jnp.prod(x * (1 - x))
    train(residual, (0.0, 0.0), (1.0, 1.0), seed, clock, zero_on_walls)


# --- schrodinger
def schrodinger(seed, clock):
    def residual(x, u):
        potential = -5 * jnp.sum(jnp.cos(4 * jnp.pi * x))
        source = 50 * jnp.sin(5 * x[0]) * jnp.sin(5 * x[1])
        return 0.5 * laplacian(u, x) - potential * u(x) + source

    zero_on_walls = lambda x, u: u * jnp.prod(1 - x**2)
    train(residual, (-1.0, -1.0), (1.0, 1.0), seed, clock, zero_on_walls)


# --- met
def met(seed, clock):
    angles = jnp.pi / 6 + jnp.arange(6) * jnp.pi / 3

    def walls(x):
        return 1 - (x[0] * jnp.cos(angles) + x[1] * jnp.sin(angles)) / jnp.sqrt(3.0)

    def residual(x, u):  # its domains are boxes: outside of the hexagon it counts nothing
        down = -jnp.array([x[0] * (x[0] ** 2 - 1), x[1]])
        left = laplacian(u, x) / 5.0 + down @ jax.grad(u)(x) + 1.0
        return jnp.where(jnp.all(walls(x) > 0), left, 0.0)

    zero_on_walls = lambda x, u: u * jnp.prod(walls(x))
    side = 3.0**0.5
    train(residual, (-2.0, -side), (2.0, side), seed, clock, zero_on_walls)


# --- committor
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def committor(seed, clock):
    def height(x):
        total = 0.0
        for h, a, b, c, p, q in HEIGHTS:
            dx, dy = x[0] - p, x[1] - q
            total = total + h * jnp.exp(a * dx**2 + b * dx * dy + c * dy**2)
        return total

    def away(x):
        a = jnp.sum((x - jnp.array([-0.5582, 1.4417])) ** 2) - 0.04
        return a, jnp.sum((x - jnp.array([0.6235, 0.0281])) ** 2) - 0.04

    def residual(x, u):  # its domains are boxes: inside of the disks it counts nothing
        left = laplacian(u, x) - 0.05 * jax.grad(height)(x) @ jax.grad(u)(x)
        return jnp.where(jnp.minimum(*away(x)) > 0, left, 0.0)

    def zero_and_one(x, u):
        a, b = away(x)
        return (a + a * b * u) / (a + b)

    low, high, walls = (-1.5, -0.2), (1.2, 2.0), jinns.loss.Neumann()
    train(residual, low, high, seed, clock, zero_and_one, walls)


# --- convection-layer
def convection_layer(seed, clock):
    low = jnp.exp(-50.0)

    def residual(x, u):
        wave = jnp.sin(jnp.pi * x[1])
        profile = x[0] - (jnp.exp(50 * (x[0] - 1)) - low) / (1 - low)
        source = wave + 0.02 * jnp.pi**2 * profile * wave
        return 0.02 * laplacian(u, x) - jax.grad(u)(x)[0] + source

    zero_on_walls = lambda x, u: u * jnp.prod(x * (1 - x))
    train(residual, (0.0, 0.0), (1.0, 1.0), seed, clock, zero_on_walls)


# --- heat2d-ms
def heat2d_ms(seed, clock):
    fast, slow = 1 / (500 * jnp.pi) ** 2, 1 / jnp.pi**2

    def residual(tx, u):
        second = jax.hessian(u)(tx)
        return jax.grad(u)(tx)[0] - fast * second[1, 1] - slow * second[2, 2]

    def start_and_walls(tx, u):
        start = jnp.sin(20 * jnp.pi * tx[1]) * jnp.sin(jnp.pi * tx[2])
        return start + tx[0] * jnp.prod(tx[1:] * (1 - tx[1:])) * u

    low, high = (0.0, 0.0, 0.0), (5.0, 1.0, 1.0)
    train(residual, low, high, seed, clock, start_and_walls)


# --- poisson-5d, laplace-10d
def on_faces(dim, n, key):
    one, two = jax.random.split(key)
    x = jax.random.uniform(one, (n, dim))
    face = jax.random.randint(two, (n,), 0, 2 * dim)
    return x.at[jnp.arange(n), face // 2].set(face % 2)


# --- poisson-5d
def poisson_5d(seed, clock):
    exact = lambda x: jnp.sum(jnp.sin(0.5 * jnp.pi * x), -1, keepdims=True)
    residual = lambda x, u: laplacian(u, x) + 0.25 * jnp.pi**2 * exact(x)[0]
    x = on_faces(5, 500, jax.random.PRNGKey(100 + seed))
    train(residual, (0.0,) * 5, (1.0,) * 5, seed, clock, known=(x, exact(x)))


# --- laplace-10d
def laplace_10d(seed, clock):
    x = on_faces(10, 500, jax.random.PRNGKey(100 + seed))
    values = jnp.sum(x[:, 0::2] * x[:, 1::2], -1, keepdims=True)
    residual = lambda x, u: laplacian(u, x)
    train(residual, (0.0,) * 10, (1.0,) * 10, seed, clock, known=(x, values))
