"""The problems as a user of DeepXDE writes them, with PyTorch.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all

import os

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde
import numpy as np
import torch

torch.set_num_threads(1)  # clock
dde.config.set_default_float("float64")
dde.optimizers.set_LBFGS_options(maxcor=100, ftol=0, gtol=1e-12, maxiter=1_000_000)
dde.optimizers.config.LBFGS_options |= {"iter_per_step": 20, "fun_per_step": 25}  # clock


def train(shape, residual, conditions, clock, transform=None, weights=None, dim=2, **points):
    points = {"num_domain": 2000, "num_boundary": 400} | points
    data = (dde.data.TimePDE if "num_initial" in points else dde.data.PDE)(
        shape, residual, conditions, **points
    )
    net = dde.nn.FNN([dim, *[50] * 4, 1], "tanh", "Glorot normal")
    if transform is not None:
        net.apply_output_transform(transform)
    model = dde.Model(data, net)
    model.compile("adam", lr=1e-3, loss_weights=weights)
    resample = dde.callbacks.PDEPointResampler(period=100)
    model.train(10**9, display_every=10**9, verbose=0, callbacks=[resample, Watch(clock, 0.4)])
    model.compile("L-BFGS", loss_weights=weights)
    while not clock.over():  # clock
        model.train(display_every=10**9, verbose=0, callbacks=[Watch(clock, 1.0)])
    note(model, clock)  # clock


def sum_of_second(x, u, coordinates):
    return sum(dde.grad.hessian(u, x, i=k, j=k) for k in coordinates)


# --- benchmark


def note(model, clock):
    """The error now, and the loss that DeepXDE shows."""
    loss = model.train_state.loss_train
    clock.note(model.predict, None if loss is None else np.sum(loss))


class Watch(dde.callbacks.Callback):
    """Looks at the clock after every step of Adam and some of L-BFGS."""

    def __init__(self, clock, share):
        super().__init__()
        self.clock, self.share = clock, share

    def on_epoch_end(self):
        if self.clock.over(self.share):
            self.model.stop_training = True
        elif self.clock.due():
            note(self.model, self.clock)


# --- poisson
def poisson(seed, clock):
    dde.config.set_random_seed(seed)
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))

    def residual(x, u):
        wave = lambda j, k: torch.sin(j * np.pi * x[:, :1]) * torch.sin(k * np.pi * x[:, 1:])
        source = sum(a * np.pi**2 * (j**2 + k**2) * wave(j, k) for a, j, k in modes)
        return sum_of_second(x, u, range(2)) + source

    def zero_on_walls(x, u):
        return u * x[:, :1] * (1 - x[:, :1]) * x[:, 1:] * (1 - x[:, 1:])

    shape = dde.geometry.Rectangle([0, 0], [1, 1])
    train(shape, residual, [], clock, zero_on_walls)


# --- schrodinger
def schrodinger(seed, clock):
    dde.config.set_random_seed(seed)

    def residual(x, u):
        x1, x2 = x[:, :1], x[:, 1:]
        potential = -5 * (torch.cos(4 * np.pi * x1) + torch.cos(4 * np.pi * x2))
        source = 50 * torch.sin(5 * x1) * torch.sin(5 * x2)
        return 0.5 * sum_of_second(x, u, range(2)) - potential * u + source

    def zero_on_walls(x, u):
        return u * (1 - x[:, :1] ** 2) * (1 - x[:, 1:] ** 2)

    shape = dde.geometry.Rectangle([-1, -1], [1, 1])
    train(shape, residual, [], clock, zero_on_walls)


# --- met
def met(seed, clock):
    dde.config.set_random_seed(seed)
    corners = [[2 * np.cos(k * np.pi / 3), 2 * np.sin(k * np.pi / 3)] for k in range(6)]

    def residual(x, u):
        x1, x2 = x[:, :1], x[:, 1:]
        slope = [dde.grad.jacobian(u, x, i=0, j=k) for k in range(2)]
        down = -x1 * (x1**2 - 1) * slope[0] - x2 * slope[1]
        return sum_of_second(x, u, range(2)) / 5.0 + down + 1.0

    def zero_on_walls(x, u):
        for k in range(6):
            a = np.pi / 6 + k * np.pi / 3
            u = u * (1 - (x[:, :1] * np.cos(a) + x[:, 1:] * np.sin(a)) / np.sqrt(3))
        return u

    shape = dde.geometry.Polygon(corners)
    train(shape, residual, [], clock, zero_on_walls)


# --- committor
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def committor(seed, clock):
    dde.config.set_random_seed(seed)

    def residual(x, u):
        force = [0.0, 0.0]
        for height, a, b, c, p, q in HEIGHTS:
            dx, dy = x[:, :1] - p, x[:, 1:] - q
            value = height * torch.exp(a * dx**2 + b * dx * dy + c * dy**2)
            force[0] = force[0] + value * (2 * a * dx + b * dy)
            force[1] = force[1] + value * (b * dx + 2 * c * dy)
        slope = [dde.grad.jacobian(u, x, i=0, j=k) for k in range(2)]
        down = force[0] * slope[0] + force[1] * slope[1]
        return sum_of_second(x, u, range(2)) - 0.05 * down

    def zero_and_one(x, u):
        a = ((x - x.new_tensor([-0.5582, 1.4417])) ** 2).sum(1, keepdim=True) - 0.04
        b = ((x - x.new_tensor([0.6235, 0.0281])) ** 2).sum(1, keepdim=True) - 0.04
        return (a + a * b * u) / (a + b)

    box = dde.geometry.Rectangle([-1.5, -0.2], [1.2, 2.0])
    disks = dde.geometry.Disk([-0.5582, 1.4417], 0.2) | dde.geometry.Disk([0.6235, 0.0281], 0.2)
    walls = dde.icbc.NeumannBC(box - disks, lambda x: 0.0, lambda x, on: on and box.on_boundary(x))
    train(box - disks, residual, [walls], clock, zero_and_one)


# --- convection-layer
def convection_layer(seed, clock):
    dde.config.set_random_seed(seed)
    low = np.exp(-50.0)

    def residual(x, u):
        wave = torch.sin(np.pi * x[:, 1:])
        profile = x[:, :1] - (torch.exp(50 * (x[:, :1] - 1)) - low) / (1 - low)
        source = wave + 0.02 * np.pi**2 * profile * wave
        return 0.02 * sum_of_second(x, u, range(2)) - dde.grad.jacobian(u, x, j=0) + source

    def zero_on_walls(x, u):
        return u * x[:, :1] * (1 - x[:, :1]) * x[:, 1:] * (1 - x[:, 1:])

    shape = dde.geometry.Rectangle([0, 0], [1, 1])
    train(shape, residual, [], clock, zero_on_walls)


# --- heat2d-ms
def heat2d_ms(seed, clock):
    dde.config.set_random_seed(seed)
    fast, slow = 1 / (500 * np.pi) ** 2, 1 / np.pi**2

    def residual(x, u):
        spread = fast * dde.grad.hessian(u, x, i=0, j=0) + slow * dde.grad.hessian(u, x, i=1, j=1)
        return dde.grad.jacobian(u, x, j=2) - spread

    def start_and_walls(x, u):
        x1, x2, t = x[:, :1], x[:, 1:2], x[:, 2:]
        start = torch.sin(20 * np.pi * x1) * torch.sin(np.pi * x2)
        return start + t * x1 * (1 - x1) * x2 * (1 - x2) * u

    square, times = dde.geometry.Rectangle([0, 0], [1, 1]), dde.geometry.TimeDomain(0, 5)
    shape = dde.geometry.GeometryXTime(square, times)
    clock.points = np.roll(clock.points, -1, axis=1)  # clock
    train(shape, residual, [], clock, start_and_walls, dim=3, num_initial=0)


# --- poisson-5d
def poisson_5d(seed, clock):
    dde.config.set_random_seed(seed)

    def residual(x, u):
        source = 0.25 * np.pi**2 * torch.sin(0.5 * np.pi * x).sum(1, keepdim=True)
        return sum_of_second(x, u, range(5)) + source

    shape = dde.geometry.Hypercube([0] * 5, [1] * 5)
    data = lambda x: np.sin(0.5 * np.pi * x).sum(1, keepdims=True)
    walls = dde.icbc.DirichletBC(shape, data, lambda x, on: on)
    train(shape, residual, [walls], clock, weights=[1, 100], dim=5)


# --- laplace-10d
def laplace_10d(seed, clock):
    dde.config.set_random_seed(seed)
    shape = dde.geometry.Hypercube([0] * 10, [1] * 10)
    data = lambda x: (x[:, 0::2] * x[:, 1::2]).sum(1, keepdims=True)
    walls = dde.icbc.DirichletBC(shape, data, lambda x, on: on)
    residual = lambda x, u: sum_of_second(x, u, range(10))
    train(shape, residual, [walls], clock, weights=[1, 100], dim=10)
