"""The problems as a user of jNO writes them.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all
import foundax
import jax
import jax.numpy as jnp
import jno
import numpy as np

jax.config.update("jax_enable_x64", True)
sin, cos, exp, pi = jno.np.sin, jno.np.cos, jno.np.exp, np.pi


def train(net, constraints, clock, field):
    net.optimizer(jno.optimizers.soap(3e-3))
    core = jno.core(constraints)
    watch = Watch(clock)  # clock
    core.solve(
        100_000,
        callbacks=[watch],  # clock
    )
    settle(net, clock, field)  # clock


def network(dim, seed):
    key = jax.random.PRNGKey(seed)
    return jno.nn.wrap(foundax.mlp(dim, hidden_dims=40, num_layers=4, key=key))


def points(low, high, seed, n=1000):
    return np.random.default_rng(seed).uniform(low, high, (n, len(low)))


# --- benchmark
import equinox as eqx  # noqa: E402
from jno.utils.adaptive.callbacks import Callback  # noqa: E402


class Watch(Callback):
    """Looks at the clock after every step; errors are measured when all is over."""

    def __init__(self, clock):
        self.clock = clock

    def on_epoch_end(self, **now):
        over = self.clock.over()
        if over or self.clock.due():
            (parameters,) = now["trainable"].values()
            self.clock.keep(jax.tree.map(np.array, parameters), now["total_loss"])
        return over


def settle(net, clock, field):
    """`field` takes the network and the coordinates, here as arrays."""
    fixed = eqx.partition(net.module, eqx.is_inexact_array)[1]

    def predict(parameters, x):
        mlp = eqx.combine(parameters, fixed)
        call = lambda *xs: jax.vmap(mlp)(jnp.stack(xs, -1))[:, 0]
        return field(call, *jnp.asarray(x).T)

    clock.settle(predict)


# --- poisson
def poisson(seed, clock):
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))
    domain = jno.domain.from_array({"interior": points([0, 0], [1, 1], seed)})
    x, y, _ = domain.variable("interior")
    net = network(2, seed)
    field = lambda net, x, y: net(x, y) * x * (1 - x) * y * (1 - y)
    u = field(net, x, y)
    wave = lambda j, k: sin(j * pi * x) * sin(k * pi * y)
    source = sum(a * pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in modes)
    residual = u.laplacian(x, y) + source
    train(net, [residual.mse], clock, field)


# --- schrodinger
def schrodinger(seed, clock):
    domain = jno.domain.from_array({"interior": points([-1, -1], [1, 1], seed)})
    x, y, _ = domain.variable("interior")
    net = network(2, seed)
    field = lambda net, x, y: net(x, y) * (1 - x**2) * (1 - y**2)
    u = field(net, x, y)
    potential = -5 * (cos(4 * pi * x) + cos(4 * pi * y))
    residual = 0.5 * u.laplacian(x, y) - potential * u + 50 * sin(5 * x) * sin(5 * y)
    train(net, [residual.mse], clock, field)


# --- met
def met(seed, clock):
    angles = pi / 6 + np.arange(6) * pi / 3
    walls = lambda x, y: [1 - (x * np.cos(a) + y * np.sin(a)) / 3**0.5 for a in angles]
    inside = points([-2, -(3**0.5)], [2, 3**0.5], seed, 1333)
    inside = inside[np.min(walls(*inside.T), axis=0) > 0]
    domain = jno.domain.from_array({"interior": inside})
    x, y, _ = domain.variable("interior")
    net = network(2, seed)

    def field(net, x, y):
        u = net(x, y)
        for wall in walls(x, y):
            u = u * wall
        return u

    u = field(net, x, y)
    residual = u.laplacian(x, y) / 5 - x * (x**2 - 1) * u.d(x) - y * u.d(y) + 1.0
    train(net, [residual.mse], clock, field)


# --- committor
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def away(x, y):
    a = (x + 0.5582) ** 2 + (y - 1.4417) ** 2 - 0.04
    return a, (x - 0.6235) ** 2 + (y - 0.0281) ** 2 - 0.04


def committor(seed, clock):
    low, high = np.array([-1.5, -0.2]), np.array([1.2, 2.0])
    inside = points(low, high, seed, 1050)
    inside = inside[np.min(away(*inside.T), axis=0) > 0]
    sides = points(low, high, seed + 1, 200)
    across, up = sides[:100].copy(), sides[100:].copy()
    across[:, 0] = np.where(np.arange(100) < 50, low[0], high[0])
    up[:, 1] = np.where(np.arange(100) < 50, low[1], high[1])
    domain = jno.domain.from_array({"interior": inside, "across": across, "up": up})
    x, y, _ = domain.variable("interior")
    xa, ya, _ = domain.variable("across")
    xu, yu, _ = domain.variable("up")
    net = network(2, seed)

    def field(net, x, y):
        a, b = away(x, y)
        return (a + a * b * net(x, y)) / (a + b)

    u = field(net, x, y)
    fx, fy = 0.0, 0.0
    for h, a, b, c, p, q in HEIGHTS:
        dx, dy = x - p, y - q
        value = h * exp(a * dx**2 + b * dx * dy + c * dy**2)
        fx, fy = fx + value * (2 * a * dx + b * dy), fy + value * (b * dx + 2 * c * dy)
    residual = u.laplacian(x, y) - 0.05 * (fx * u.d(x) + fy * u.d(y))
    walls = field(net, xa, ya).d(xa), field(net, xu, yu).d(yu)
    train(net, [residual.mse, walls[0].mse, walls[1].mse], clock, field)


# --- convection-layer
def convection_layer(seed, clock):
    low = np.exp(-50.0)
    domain = jno.domain.from_array({"interior": points([0, 0], [1, 1], seed)})
    x, y, _ = domain.variable("interior")
    net = network(2, seed)
    field = lambda net, x, y: net(x, y) * x * (1 - x) * y * (1 - y)
    u = field(net, x, y)
    profile = x - (exp(50 * (x - 1)) - low) / (1 - low)
    source = sin(pi * y) * (1 + 0.02 * pi**2 * profile)
    residual = 0.02 * u.laplacian(x, y) - u.d(x) + source
    train(net, [residual.mse], clock, field)


# --- heat2d-ms
def heat2d_ms(seed, clock):
    domain = jno.domain.from_array({"interior": points([0, 0, 0], [5, 1, 1], seed)})
    t, x, y, _ = domain.variable("interior")
    net = network(3, seed)

    def field(net, t, x, y, sin=jnp.sin):
        start = sin(20 * pi * x) * sin(pi * y)
        return start + t * x * (1 - x) * y * (1 - y) * net(t, x, y)

    u = field(net, t, x, y, sin)
    residual = u.d(t) - u.dd(x) / (500 * pi) ** 2 - u.dd(y) / pi**2
    train(net, [residual.mse], clock, field)


# --- poisson-5d, laplace-10d
def on_faces(dim, n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, dim))
    face = rng.integers(0, 2 * dim, n)
    x[np.arange(n), face // 2] = face % 2
    return x


def plain(net, *x):
    return net(*x)


def coordinates(inside, faces):  # its own have three at most; these come as data at points
    domain = jno.domain.from_array({"inside": inside[:, :3], "walls": faces[:, :3]})
    x = domain.variable("x", inside[None, None], point_data=True, split=True)
    return x, domain.variable("b", faces[None, None], point_data=True, split=True)


# --- poisson-5d
def poisson_5d(seed, clock):
    inside, faces = points([0] * 5, [1] * 5, seed), on_faces(5, 400, seed + 1)
    x, b = coordinates(inside, faces)
    net = network(5, seed)
    u = net(*x)
    residual = u.laplacian(*x) + 0.25 * pi**2 * sum(sin(0.5 * pi * c) for c in x)
    walls = 10 * (net(*b) - sum(sin(0.5 * pi * c) for c in b))
    train(net, [residual.mse, walls.mse], clock, plain)


# --- laplace-10d
def laplace_10d(seed, clock):
    inside, faces = points([0] * 10, [1] * 10, seed), on_faces(10, 400, seed + 1)
    x, b = coordinates(inside, faces)
    net = network(10, seed)
    residual = net(*x).laplacian(*x)
    walls = 10 * (net(*b) - sum(b[k] * b[k + 1] for k in range(0, 10, 2)))
    train(net, [residual.mse, walls.mse], clock, plain)
