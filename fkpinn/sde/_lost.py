"""Where a path met a coefficient that is not finite."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..problem import CompoundPoisson, Problem
from ._walk import Plan, follow


def describe_lost_path(plan: Plan, number: int, how_many: int) -> str:
    """Run one path again, step by step, and say which coefficient fails and where."""
    point, path = divmod(number, plan.n_paths)
    visited = itertools.takewhile(lambda z: np.all(np.isfinite(z)), follow(plan, number))
    step, last = max(enumerate(visited), key=lambda pair: pair[0])
    names = _not_finite(plan.problem, jnp.asarray(last))
    what = f"`{names[0]}` is not finite" if names else "the payoff is not finite"
    jumps = plan.problem.jumps
    if not names and isinstance(jumps, CompoundPoisson) and jumps.rate.function is not None:
        what = f"`rate` exceeds its `bound`, {jumps.highest:g}, close to a place"
    return (
        f"{what} along a path: path {path} from point {np.asarray(plan.points[point])}, at "
        f"{np.asarray(last)} after {step} steps ({how_many} paths in this batch). Paths may step "
        f"past the boundary by about sigma * sqrt(dt); the data must be finite there too."
    )


def _not_finite(problem: Problem, z) -> list[str]:
    parts = {
        "drift": problem.drift,
        "diffusion": problem.diffusion,
        "reaction": problem.reaction,
        "source": problem.source,
    }
    if isinstance(problem.jumps, CompoundPoisson):
        parts["rate"] = problem.jumps.rate
    for part, condition in problem.boundary.items():
        for field, datum in condition.data().items():
            parts[f"boundary[{part!r}]: {type(condition).__name__}({field}=...)"] = datum
    bad = eqx.filter_jit(lambda f, z: ~jnp.all(jnp.isfinite(f(z))))
    with jax.debug_nans(False):
        return [name for name, f in parts.items() if bool(bad(f, z))]
