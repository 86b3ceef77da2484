"""The loss of a problem: all its terms, at points drawn for them."""

from typing import Any

from jaxtyping import PRNGKeyArray

from .._streams import fold
from ..labels import Labels
from ..nn import Size
from ..problem import Problem
from ..sampling import sample_terminal
from ._martingale import MartingaleTerm
from ._sampler import AbstractSampler, Spread
from ._terms import (
    AbstractTerm,
    BoundaryTerm,
    LabelTerm,
    Loss,
    ResidualTerm,
    SampledResidualTerm,
    TerminalTerm,
)


def make_loss(
    problem: Problem,
    n_interior: int,
    n_boundary: int,
    labels: Labels | None = None,
    *,
    size: float | Size | None = None,
    by_error: bool = False,
    batch: int | None = None,
    sampler: AbstractSampler | None = None,
    n_directions: int = 0,
    time_power: float = 0.0,
    path_steps: int = 0,
    whole_paths: bool = False,
    dtype: Any,
    key: PRNGKeyArray,
) -> Loss:
    """The loss: residual, boundary data, terminal (or initial) data, and labels.

    Args:
        problem: the boundary value problem.
        n_interior: collocation points.
        n_boundary: points on the boundary, and at the terminal (or initial) time.
        labels: none for a plain PINN.
        size: typical size of the solution, by which residuals of all terms are scaled; None does
            not scale them, as in the paper.
        by_error: weigh labels by their errors.
        batch: number of labels used at a time, if there are more.
        sampler: chooses new collocation and boundary points; the first ones are spread evenly.
        n_directions: number of random directions for second derivatives, for first-order optimizers
            in very high dimension; 0 uses all directions.
        time_power: residuals are weighted by this power of the time left, see `ResidualTerm`.
        path_steps: steps of pieces of paths, as many pieces as collocation points; 0 for none.
        whole_paths: pieces are whole paths, and there is no residual.
        dtype: precision.
        key: random key of the points.
    """
    spread = Spread()
    inside = spread.points(problem, n_interior, dtype, key=fold(key, "residual"))
    exact = ResidualTerm(problem, inside, size, sampler or spread, time_power)
    terms: dict[str, AbstractTerm] = {}
    if not whole_paths:
        terms["residual"] = SampledResidualTerm(exact, n_directions) if n_directions else exact
    if path_steps:
        terms["martingale"] = MartingaleTerm.of(
            problem, n_interior, path_steps, whole=whole_paths, size=size or 1.0, dtype=dtype,
            key=fold(key, "martingale"),
        )  # fmt: skip
    if problem.domain.parts:
        on = spread.draw_boundary(problem, n_boundary, dtype, key=fold(key, "boundary"))
        terms["boundary"] = BoundaryTerm(problem, on, size or 1.0, sampler or spread)
    if problem.timed:
        last = sample_terminal(problem, n_boundary, dtype=dtype, key=fold(key, "terminal"))
        terms["terminal"] = TerminalTerm(problem, last, size or 1.0)
    if labels is not None:
        batch = None if batch is None or batch >= len(labels.value) else batch
        terms["labels"] = LabelTerm.of(
            labels, size=size or 1.0, by_error=by_error, batch=batch, dtype=dtype
        )
    return Loss(terms)
