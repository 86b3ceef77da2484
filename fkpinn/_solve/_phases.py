"""Which network, which terms and which phases a method takes."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._field import AbstractField
from .._progress import AbstractProgress
from ..labels import Labels, estimate_labels, step_size
from ..loss import (
    AbstractTerm,
    Adaptive,
    Annealed,
    BoundaryTerm,
    Fixed,
    LabelTerm,
    Loss,
    ResidualTerm,
    TerminalTerm,
    Uncertainty,
    cast,
)
from ..nn import MLP, HardDirichlet
from ..problem import Dirichlet, Problem
from ..sampling import sample_boundary, sample_interior, sample_terminal
from ..train import (
    LBFGS,
    Adam,
    Fit,
    NaturalGradient,
    NystromNewton,
    Phase,
    fit,
    fit_many,
    precision,
)
from ._settings import Settings

_PILOT = 30  # steps of the training whose residual tells where more labels go
_APART = 1 << 40  # between the seeds of the two sets of labels
_ROUND_STEPS = 40  # of a round, where the settings name none
_POLISH = 1e-6  # damping of the last steps
_POLISH_BOUNDARY = 10.0  # factor of the boundary's weight in the last steps
_LEAST_NOISE = 0.01  # of the solution's size; labels better than that are not trusted more


def make_labels(
    problem: Problem,
    settings: Settings,
    method: str,
    *,
    folder: Path | None,
    progress: AbstractProgress,
    seed: int,
    key: PRNGKeyArray,
) -> Labels | None:
    """Labels at uniform points, and maybe at points where they are needed most; None for none."""
    if settings.n_labels == 0:
        return None
    pilot_key, second_key = jr.fold_in(key, 1), jr.fold_in(key, 2)
    n_second = int(settings.second_pass * settings.n_labels)
    n_first = settings.n_labels - n_second
    points = sample_interior(problem, n_first, dtype=jnp.float32, key=key)

    def at(points, name: str, seed: int) -> Labels:
        return estimate_labels(
            problem,
            points,
            n_paths=settings.n_paths,
            dt=settings.dt or step_size(problem, points),
            scheme=settings.scheme,
            seed=seed,
            store=None if folder is None else folder / name,
            progress=progress,
        )

    first = at(points, "labels.npz", seed)
    if n_second == 0:
        return first
    short = dataclasses.replace(
        settings,
        natural_steps=min(settings.natural_steps, _PILOT),
        polish_steps=0,
        adam_steps=min(settings.adam_steps, 50 * _PILOT),
        lbfgs_steps=0,
    )
    pilot = train_network(problem, short, method, first, progress=progress, key=pilot_key)
    with jax.enable_x64(precision(pilot.network) == "float64"):
        dtype = jnp.dtype(precision(pilot.network))
        term = ResidualTerm(problem, points.astype(dtype), solution_size(first))
        draw = Adaptive(floor=0.2).draw
        where = draw(problem, pilot.network, term.at, n_second, dtype, key=second_key)
    second = at(jnp.asarray(np.asarray(where), jnp.float32), "labels-second.npz", seed + _APART)
    return first.joined(second)


def train_network(
    problem: Problem,
    settings: Settings,
    method: str,
    labels: Labels | None,
    *,
    progress: AbstractProgress,
    watch: Callable[[Any], dict[str, float]] | None = None,
    folder: Path | None = None,
    key: PRNGKeyArray,
) -> Fit:
    """Draw points, make the network, run the phases."""
    work = _Work.of(problem, settings, method, labels, key)
    return fit(
        work.network, work.loss, work.phases,
        progress=progress, watch=watch, folder=folder,
        interval=settings.checkpoint_seconds, key=work.key,
    )  # fmt: skip


def train_networks(
    problem: Problem,
    settings: Settings,
    method: str,
    labels: Sequence[Labels | None],
    *,
    progress: AbstractProgress,
    keys: Sequence[PRNGKeyArray],
) -> list[Fit]:
    """What `train_network` does for each of these keys, side by side as one computation."""
    works = [
        _Work.of(problem, settings, method, own, key) for own, key in zip(labels, keys, strict=True)
    ]
    return fit_many(
        [work.network for work in works], [work.loss for work in works], works[0].phases,
        progress=progress, keys=[work.key for work in works],
    )  # fmt: skip


class _Work(NamedTuple):
    """What a training starts from."""

    network: AbstractField
    loss: Loss
    phases: list[Phase]
    key: PRNGKeyArray

    @classmethod
    def of(
        cls,
        problem: Problem,
        settings: Settings,
        method: str,
        labels: Labels | None,
        key: PRNGKeyArray,
    ) -> "_Work":
        net_key, data_key, fit_key = jr.split(key, 3)
        size = output_size(settings, labels)
        phases = _phases(problem, settings, method, labels, size)
        double = any(phase.optimizer.dtype == "float64" for phase in phases)
        with jax.enable_x64(True) if double else contextlib.nullcontext():
            dtype = jnp.dtype(phases[0].optimizer.dtype or "float32")
            loss = _loss(problem, settings, labels, size, dtype, data_key)
            network = make_network(problem, settings, size, dtype=dtype, key=net_key)
        return cls(network, loss, phases, fit_key)


def polish(
    problem: Problem,
    settings: Settings,
    network: AbstractField,
    labels: Labels | None,
    *,
    size: float,
    name: str,
    progress: AbstractProgress,
    watch: Callable[[Any], dict[str, float]] | None = None,
    folder: Path | None = None,
    key: PRNGKeyArray,
) -> Fit:
    """Train a good network on, with many points; labels weigh what their noise allows.

    The residual that is left counts as the noise of its points, so that a label weighs as many of
    these as its own noise, squared, goes into it.
    """
    data_key, fit_key = jr.split(key)
    times = settings.polish_times
    many = dataclasses.replace(
        settings,
        n_collocation=times * settings.n_collocation,
        n_boundary=times * settings.n_boundary,
        p_data=0.0,
    )
    with jax.enable_x64(True):
        network = cast(network, "float64")
        loss = _loss(problem, many, labels, size, jnp.dtype("float64"), data_key)
        given = _polish_weights(problem, settings)
        if labels is not None:
            noise = float(np.sqrt(np.mean(np.asarray(labels.error(), np.float64) ** 2))) / size
            left = float(loss.terms["residual"](network))
            given["labels"] = left / noise**2 * len(labels.value) / many.n_collocation
        steps = settings.polish_steps or _ROUND_STEPS
        phase = Phase(name, _polisher(settings, steps), steps, Fixed(given), settings.redraw)
        return fit(
            network, loss, [phase],
            progress=progress, watch=watch, folder=folder,
            interval=settings.checkpoint_seconds, key=fit_key,
        )  # fmt: skip


def solution_size(labels: Labels | None) -> float:
    """Typical size of the solution; 1 where nothing is known of it."""
    if labels is None:
        return 1.0
    return float(np.sqrt(np.mean(np.asarray(labels.value, np.float64) ** 2))) or 1.0


def output_size(settings: Settings, labels: Labels | None) -> float:
    """What the network's output is multiplied by."""
    return solution_size(labels) if settings.scaled else 1.0


def make_network(
    problem: Problem, settings: Settings, size: float, *, dtype, key: PRNGKeyArray
) -> AbstractField:
    """A network for the problem, with its boundary data built in if the settings say so."""
    network = MLP(
        *problem.bounds(),
        settings.widths,
        frequencies=settings.frequencies,
        output_scale=size,
        dtype=dtype,
        key=key,
    )
    return harden(problem, network) if settings.hard else network


def harden(problem: Problem, network: AbstractField) -> AbstractField:
    """The network with the Dirichlet data built in."""
    data = {
        part: condition.value
        for part, condition in problem.boundary.items()
        if isinstance(condition, Dirichlet)
    }
    if not data:
        raise ValueError("`hard` needs a Dirichlet part, and the problem has none.")
    return HardDirichlet(network, problem.domain, data, timed=problem.timed)


def _loss(
    problem: Problem,
    settings: Settings,
    labels: Labels | None,
    size: float,
    dtype,
    key: PRNGKeyArray,
) -> Loss:
    in_key, on_key, end_key = jr.split(key, 3)
    # the paper's setting takes residuals as they are
    scale = None if settings.uncertainty else size
    inside = sample_interior(problem, settings.n_interior, dtype=dtype, key=in_key)
    adaptive = Adaptive() if settings.adaptive else None
    on = sample_boundary(problem, settings.n_boundary, dtype=dtype, key=on_key)
    terms: dict[str, AbstractTerm] = {
        "residual": ResidualTerm(problem, inside, scale, adaptive),
        "boundary": BoundaryTerm(problem, on, scale or 1.0),
    }
    if problem.timed:
        last = sample_terminal(problem, settings.n_boundary, dtype=dtype, key=end_key)
        terms["terminal"] = TerminalTerm(problem, last, scale or 1.0)
    if labels is not None:
        by_error = not settings.uncertainty
        terms["labels"] = LabelTerm.of(labels, size=scale or 1.0, by_error=by_error, dtype=dtype)
    return Loss(terms)


def _phases(
    problem: Problem, settings: Settings, method: str, labels: Labels | None, size: float
) -> list[Phase]:
    """The phases of a method; every weight is said in the first."""
    names = ("residual", "boundary", *(["terminal"] if problem.timed else []))
    names += ("labels",) if labels is not None else ()
    weight = settings.boundary_weight
    given: dict[str, float] = {"boundary": weight, "terminal": weight}
    if labels is not None:
        noise = float(np.sqrt(np.mean(np.asarray(labels.error(), np.float64) ** 2))) / size
        given["labels"] = settings.label_weight / max(noise, _LEAST_NOISE) ** 2
    natural = settings.natural_steps > 0 and method in ("fk-pinn", "pinn-engd")
    if natural or method == "pinn-engd":
        weighting = Annealed(given, rate=settings.label_rate) if labels else Fixed(given)
        optimizer = NaturalGradient(momentum=settings.momentum)
        steps = settings.natural_steps or 500
        phases = [Phase("natural gradient", optimizer, steps, weighting, settings.redraw)]
        if settings.polish_steps:
            final = Fixed(_polish_weights(problem, settings) | {"labels": 0.0})
            more, steps = settings.polish_times, settings.polish_steps
            polisher = _polisher(settings, steps)
            phases.append(Phase("polish", polisher, steps, final, settings.redraw, more))
        return phases
    weighting = Uncertainty(names) if settings.uncertainty else Fixed(given)
    phases = []
    if settings.adam_steps:
        adam = Adam(settings.adam_steps, settings.learning_rate)
        phases.append(Phase("Adam", adam, settings.adam_steps, weighting))
    if settings.lbfgs_steps:
        first = None if phases else weighting
        phases.append(Phase("L-BFGS", LBFGS(), settings.lbfgs_steps, first))
    if method.endswith("nncg") and settings.nncg_steps:
        first = None if phases else weighting
        phases.append(Phase("NNCG", NystromNewton(), settings.nncg_steps, first))
    if not phases:
        raise ValueError(
            f"The settings leave nothing to do for `{method}`: give it `adam_steps` or "
            f"`lbfgs_steps`."
        )
    return phases


def _polisher(settings: Settings, steps: int) -> NaturalGradient:
    # With fresh points in every step and less damping, directions that these points hardly
    # determine would be moved by chance; towards the end that chance is averaged out.
    return NaturalGradient(
        damping=_POLISH, least=_POLISH, momentum=settings.momentum, settle=3 * steps // 5
    )


def _polish_weights(problem: Problem, settings: Settings) -> dict[str, float]:
    """Where the residual is small, what is left is mostly error of the Dirichlet data.

    More weight on slopes at reflecting walls made the committor worse, so there it stays.
    """
    absorbing = all(isinstance(c, Dirichlet) for c in problem.conditions())
    weight = settings.boundary_weight * (_POLISH_BOUNDARY if absorbing else 1.0)
    return {"boundary": weight, "terminal": weight}
