"""Loss, error and time after so many steps of either.

`seconds` are those of the steps, without `compile`, which is spent on waiting for compiled code.
"""

import statistics
import time
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from fkpinn import Settings
from fkpinn._compute import precision
from fkpinn._streams import Stream
from fkpinn.loss import Fixed, Loss, make_loss
from fkpinn.nn import MLP
from fkpinn.problem import catalogue
from fkpinn.report import markdown_table
from fkpinn.train import LBFGS, AbstractOptimizer, Adam, Phase, Report, fit
from fkpinn.train._objective import Objective, Parameters, not_stopped

from .._common import say, surroundings, true_error

PROBLEMS = ("poisson", "ornstein-uhlenbeck")
WIDTHS = (32, 32, 32)
N_INTERIOR, N_BOUNDARY = 2000, 400
FIRST, STEPS = 1000, 1000  # of Adam, which both start from, and of L-BFGS
_MEMORY = LBFGS().memory


class OptaxLBFGS(AbstractOptimizer):
    """`optax.lbfgs` with its own line search, with as much memory."""

    reasons: ClassVar[tuple[str, ...]] = ("",)
    dtype: ClassVar[str | None] = "float64"

    memory: int = eqx.field(static=True, default=_MEMORY)

    @property
    def _inner(self) -> optax.GradientTransformationExtraArgs:
        return optax.lbfgs(memory_size=self.memory)

    def init(self, objective: Objective, parameters: Parameters) -> Any:
        """What optax keeps."""
        del objective
        return self._inner.init(parameters)

    def step(
        self, objective: Objective, parameters: Parameters, state: Any
    ) -> tuple[Parameters, Any, Report]:
        """One step, as optax documents it: the line search hands on the loss it saw last."""
        value, slope = optax.value_and_grad_from_state(objective)(parameters, state=state)
        change, state = self._inner.update(
            slope, state, parameters, value=value, grad=slope, value_fn=objective
        )
        # single terms would cost another evaluation
        terms = jax.eval_shape(objective.terms, parameters)[1]
        unknown = {name: jnp.full(t.shape, jnp.nan, t.dtype) for name, t in terms.items()}
        return optax.apply_updates(parameters, change), state, Report(value, unknown, not_stopped())


OPTIMIZERS = {"fkpinn": LBFGS(), "optax": OptaxLBFGS()}


def run(seeds: int = 3) -> dict[str, Any]:
    """What both make of the same networks and points.

    Args:
        seeds: of networks and points.
    """
    records = [_one(problem, seed) for problem in PROBLEMS for seed in range(seeds)]
    return {
        "benchmark": "lbfgs",
        "records": records,
        "medians": [_median(records, problem, who) for problem in PROBLEMS for who in OPTIMIZERS],
        **surroundings(),
    }


def _one(name: str, seed: int) -> dict[str, Any]:
    problem, stream = catalogue(name).problem, Stream(seed) / "benchmark"
    weight = Settings().training.boundary_weight
    weighting = Fixed({"boundary": weight, "terminal": weight})
    with precision("float64"):
        key = (stream / "points").key
        loss = make_loss(problem, N_INTERIOR, N_BOUNDARY, None, dtype=jnp.float64, key=key)
        network = MLP(*problem.bounds(), WIDTHS, dtype=jnp.float64, key=(stream / "network").key)
        adam = Phase("Adam", Adam(FIRST), FIRST, weighting)
        network = fit(network, loss, [adam], key=jr.key(seed)).network
    found = {
        who: _trained(name, network, loss, optimizer, weighting)
        for who, optimizer in OPTIMIZERS.items()
    }
    return {"problem": name, "seed": seed, **found}


def _trained(
    name: str, network: Any, loss: Loss, optimizer: AbstractOptimizer, weighting: Fixed
) -> dict[str, float]:
    phase = Phase("L-BFGS", optimizer, STEPS, weighting)
    began = time.perf_counter()
    with jax.numpy_dtype_promotion("standard"):  # optax mixes kinds of integers
        done = fit(network, loss, [phase], key=jr.key(0))
    seconds = time.perf_counter() - began - done.compile_seconds
    with precision("float64"):
        values = loss.values(done.network)
        left = float(weighting.total(values, jnp.asarray(0)))
    error = true_error(name, done.network)
    steps = done.history[-1]["step"]
    say(f"lbfgs: {name}, {type(optimizer).__name__}: {error:.2e} in {seconds:.0f} s")
    return {
        "loss": left,
        "error": error,
        "steps": steps,
        "seconds": seconds,
        "compile": done.compile_seconds,
    }


def _median(records: list[dict[str, Any]], problem: str, who: str) -> dict[str, Any]:
    own = [r[who] for r in records if r["problem"] == problem]
    return {"problem": problem, "optimizer": who} | {
        name: statistics.median(one[name] for one in own) for name in own[0]
    }


def page(record: dict[str, Any]) -> str:
    """The medians as a table."""
    rows = [
        (
            f"`{m['problem']}`", m["optimizer"], f"{m['loss']:.1e}", f"{m['error']:.1e}",
            f"{m['seconds']:.0f}",
        )
        for m in record["medians"]
    ]  # fmt: skip
    heads = ("problem", "L-BFGS of", "loss", "error", "seconds")
    return markdown_table(heads, rows)
