"""The problems as a user of PINA writes them.

Lines after `# --- all` are needed for every problem, those after its name for one; lines of the
benchmark end in `# clock`.
"""

# --- all
import logging
import warnings

import numpy as np
import torch
from pina import Condition, LabelTensor, Trainer
from pina.domain import CartesianDomain, Difference, EllipsoidDomain
from pina.equation import Equation
from pina.model import FeedForward
from pina.operator import grad, laplacian
from pina.optim import TorchOptimizer
from pina.problem import SpatialProblem, TimeDependentProblem
from pina.solver import PhysicsInformedSingleModelSolver

torch.set_default_dtype(torch.float64)


class Shaped(torch.nn.Module):
    def __init__(self, names, shape):
        super().__init__()
        self.inner = FeedForward(len(names), 1, inner_size=50, n_layers=4, func=torch.nn.Tanh)
        self.shape = shape

    def forward(self, x):
        return self.shape(x, self.inner(x.as_subclass(torch.Tensor)))


def train(problem, shape, seed, clock, counts):
    torch.manual_seed(seed)
    for name, n in counts.items():
        problem.discretise_domain(n, mode="random", domains=name)
    model = Shaped(problem.input_variables, shape)
    ways = (
        TorchOptimizer(torch.optim.Adam, lr=1e-3),
        TorchOptimizer(
            torch.optim.LBFGS, history_size=100, max_iter=20, line_search_fn="strong_wolfe"
        ),
    )
    for optimizer, share in zip(ways, (0.4, 1.0), strict=True):
        solver = PhysicsInformedSingleModelSolver(problem, model, optimizer=optimizer)
        trainer = Trainer(
            solver, max_epochs=1_000_000, accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            callbacks=[Watch(clock, share, model, problem.input_variables)],  # clock
        )  # fmt: skip
        trainer.train()
    note(clock, model, problem.input_variables)  # clock


def column(x, name):
    return x.extract([name]).as_subclass(torch.Tensor)


# --- benchmark
from lightning.pytorch.callbacks import Callback  # noqa: E402

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def note(clock, model, names, loss=None):
    """The error now, and the loss that PINA shows."""

    def predict(x):
        with torch.no_grad():
            return model(LabelTensor(torch.tensor(x), names)).detach().numpy()

    clock.note(predict, loss)


class Watch(Callback):
    """Looks at the clock after every step."""

    def __init__(self, clock, share, model, names):
        self.clock, self.share, self.model, self.names = clock, share, model, names

    def on_train_batch_end(self, trainer, solver, outputs, batch, index):
        if self.clock.over(self.share):
            trainer.should_stop = True
        elif self.clock.due():
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            note(self.clock, self.model, self.names, loss)


# --- poisson
def poisson(seed, clock):
    modes = ((3.0, 1, 4), (6.0, 5, 1), (3.0, 2, 2), (4.0, 5, 6))

    def residual(x, u):
        a, b = torch.pi * column(x, "x"), torch.pi * column(x, "y")
        wave = lambda j, k: torch.sin(j * a) * torch.sin(k * b)
        source = sum(h * torch.pi**2 * (j**2 + k**2) * wave(j, k) for h, j, k in modes)
        return laplacian(u, x, ["u"], ["x", "y"]) + source

    class Poisson(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [0, 1], "y": [0, 1]})
        domains = {"inside": spatial_domain}
        conditions = {"inside": Condition(domain="inside", equation=Equation(residual))}

    def zero_on_walls(x, u):
        a, b = column(x, "x"), column(x, "y")
        return LabelTensor(u * a * (1 - a) * b * (1 - b), ["u"])

    train(Poisson(), zero_on_walls, seed, clock, {"inside": 2000})


# --- schrodinger
def schrodinger(seed, clock):
    def residual(x, u):
        a, b = column(x, "x"), column(x, "y")
        potential = -5 * (torch.cos(4 * torch.pi * a) + torch.cos(4 * torch.pi * b))
        source = 50 * torch.sin(5 * a) * torch.sin(5 * b)
        return 0.5 * laplacian(u, x, ["u"], ["x", "y"]) - potential * u + source

    class Schrodinger(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [-1, 1], "y": [-1, 1]})
        domains = {"inside": spatial_domain}
        conditions = {"inside": Condition(domain="inside", equation=Equation(residual))}

    def zero_on_walls(x, u):
        return LabelTensor(u * (1 - column(x, "x") ** 2) * (1 - column(x, "y") ** 2), ["u"])

    train(Schrodinger(), zero_on_walls, seed, clock, {"inside": 2000})


# --- met
def met(seed, clock):
    angles = np.pi / 6 + np.arange(6) * np.pi / 3
    walls = lambda a, b: [1 - (a * np.cos(k) + b * np.sin(k)) / 3**0.5 for k in angles]
    drawn = np.random.default_rng(seed).uniform([-2, -(3**0.5)], [2, 3**0.5], (2667, 2))
    drawn = torch.tensor(drawn[np.min(walls(*drawn.T), axis=0) > 0])

    def residual(x, u):
        a, b, slope = column(x, "x"), column(x, "y"), grad(u, x, ["u"], ["x", "y"])
        down = -a * (a**2 - 1) * column(slope, "dudx") - b * column(slope, "dudy")
        return laplacian(u, x, ["u"], ["x", "y"]) / 5 + down + 1.0

    class ExitTime(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [-2, 2], "y": [-(3**0.5), 3**0.5]})
        conditions = {
            "inside": Condition(input=LabelTensor(drawn, ["x", "y"]), equation=Equation(residual))
        }

    def zero_on_walls(x, u):
        for wall in walls(column(x, "x"), column(x, "y")):
            u = u * wall
        return LabelTensor(u, ["u"])

    train(ExitTime(), zero_on_walls, seed, clock, {})


# --- committor
HEIGHTS = (
    (-200.0, -1.0, 0.0, -10.0, 1.0, 0.0), (-100.0, -1.0, 0.0, -10.0, 0.0, 0.5),
    (-170.0, -6.5, 11.0, -6.5, -0.5, 1.5), (15.0, 0.7, 0.6, 0.7, -1.0, 1.0),
)  # fmt: skip


def committor(seed, clock):
    low, high, names = [-1.5, -0.2], [1.2, 2.0], ["x", "y"]
    disk = lambda p, q: EllipsoidDomain({"x": [p - 0.2, p + 0.2], "y": [q - 0.2, q + 0.2]})

    def residual(x, u):
        slope, down = grad(u, x, ["u"], names), 0.0
        for h, a, b, c, p, q in HEIGHTS:
            dx, dy = column(x, "x") - p, column(x, "y") - q
            value = h * torch.exp(a * dx**2 + b * dx * dy + c * dy**2)
            down = down + value * (2 * a * dx + b * dy) * column(slope, "dudx")
            down = down + value * (b * dx + 2 * c * dy) * column(slope, "dudy")
        return laplacian(u, x, ["u"], names) - 0.05 * down

    across = Equation(lambda x, u: column(grad(u, x, ["u"], names), "dudx"))
    up = Equation(lambda x, u: column(grad(u, x, ["u"], names), "dudy"))

    class Committor(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [low[0], high[0]], "y": [low[1], high[1]]})
        domains = {
            "inside": Difference([spatial_domain, disk(-0.5582, 1.4417), disk(0.6235, 0.0281)]),
            "left": CartesianDomain({"x": low[0], "y": [low[1], high[1]]}),
            "right": CartesianDomain({"x": high[0], "y": [low[1], high[1]]}),
            "bottom": CartesianDomain({"x": [low[0], high[0]], "y": low[1]}),
            "top": CartesianDomain({"x": [low[0], high[0]], "y": high[1]}),
        }
        conditions = {
            "inside": Condition(domain="inside", equation=Equation(residual)),
            "left": Condition(domain="left", equation=across),
            "right": Condition(domain="right", equation=across),
            "bottom": Condition(domain="bottom", equation=up),
            "top": Condition(domain="top", equation=up),
        }

    def zero_and_one(x, u):
        a = (column(x, "x") + 0.5582) ** 2 + (column(x, "y") - 1.4417) ** 2 - 0.04
        b = (column(x, "x") - 0.6235) ** 2 + (column(x, "y") - 0.0281) ** 2 - 0.04
        return LabelTensor((a + a * b * u) / (a + b), ["u"])

    sides = dict.fromkeys(("left", "right", "bottom", "top"), 100)
    train(Committor(), zero_and_one, seed, clock, {"inside": 2000} | sides)


# --- convection-layer
def convection_layer(seed, clock):
    low = np.exp(-50.0)

    def residual(x, u):
        wave, a = torch.sin(torch.pi * column(x, "y")), column(x, "x")
        profile = a - (torch.exp(50 * (a - 1)) - low) / (1 - low)
        source = wave + 0.02 * torch.pi**2 * profile * wave
        slope = grad(u, x, ["u"], ["x"])
        return 0.02 * laplacian(u, x, ["u"], ["x", "y"]) - column(slope, "dudx") + source

    class Layer(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [0, 1], "y": [0, 1]})
        domains = {"inside": spatial_domain}
        conditions = {"inside": Condition(domain="inside", equation=Equation(residual))}

    def zero_on_walls(x, u):
        a, b = column(x, "x"), column(x, "y")
        return LabelTensor(u * a * (1 - a) * b * (1 - b), ["u"])

    train(Layer(), zero_on_walls, seed, clock, {"inside": 2000})


# --- heat2d-ms
def heat2d_ms(seed, clock):
    def residual(x, u):
        spread = laplacian(u, x, ["u"], ["x"]) / (500 * torch.pi) ** 2
        spread = spread + laplacian(u, x, ["u"], ["y"]) / torch.pi**2
        return column(grad(u, x, ["u"], ["t"]), "dudt") - spread

    class Heat(TimeDependentProblem, SpatialProblem):
        output_variables = ["u"]
        spatial_domain = CartesianDomain({"x": [0, 1], "y": [0, 1]})
        temporal_domain = CartesianDomain({"t": [0, 5]})
        domains = {"inside": CartesianDomain({"x": [0, 1], "y": [0, 1], "t": [0, 5]})}
        conditions = {"inside": Condition(domain="inside", equation=Equation(residual))}

    def start_and_walls(x, u):
        a, b, t = column(x, "x"), column(x, "y"), column(x, "t")
        start = torch.sin(20 * torch.pi * a) * torch.sin(torch.pi * b)
        return LabelTensor(start + t * a * (1 - a) * b * (1 - b) * u, ["u"])

    clock.points = clock.points[
        :, [1, 2, 0] if Heat().input_variables[-1] == "t" else [0, 1, 2]
    ]  # clock
    train(Heat(), start_and_walls, seed, clock, {"inside": 2000})


# --- poisson-5d, laplace-10d
def faces(names):
    whole = {name: [0, 1] for name in names}
    return {
        f"{name}{side}": CartesianDomain(whole | {name: side}) for name in names for side in (0, 1)
    }


def declared(residual, walls, names):
    inside = CartesianDomain({name: [0, 1] for name in names})

    class Cube(SpatialProblem):
        output_variables = ["u"]
        spatial_domain = inside
        domains = {"inside": inside} | faces(names)
        conditions = {"inside": Condition(domain="inside", equation=Equation(residual))} | {
            face: Condition(domain=face, equation=Equation(walls)) for face in faces(names)
        }

    return Cube()


# --- poisson-5d
def poisson_5d(seed, clock):
    names = ["a", "b", "c", "d", "e"]
    wave = lambda x: torch.sin(0.5 * torch.pi * x.as_subclass(torch.Tensor)).sum(1, keepdim=True)
    residual = lambda x, u: laplacian(u, x, ["u"], names) + 0.25 * torch.pi**2 * wave(x)
    problem = declared(residual, lambda x, u: 10 * (u - wave(x)), names)
    as_it_is = lambda x, u: LabelTensor(u, ["u"])
    counts = {"inside": 2000} | dict.fromkeys(faces(names), 40)
    train(problem, as_it_is, seed, clock, counts)


# --- laplace-10d
def laplace_10d(seed, clock):
    names = list("abcdefghij")
    pairs = lambda x: (x[:, 0::2] * x[:, 1::2]).sum(1, keepdim=True)
    residual = lambda x, u: laplacian(u, x, ["u"], names)
    walls = lambda x, u: 10 * (u - pairs(x.as_subclass(torch.Tensor)))
    as_it_is = lambda x, u: LabelTensor(u, ["u"])
    counts = {"inside": 2000} | dict.fromkeys(faces(names), 20)
    train(declared(residual, walls, names), as_it_is, seed, clock, counts)
