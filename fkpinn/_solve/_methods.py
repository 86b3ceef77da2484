"""Methods by name: whether they take labels, and which optimizers follow each other."""

import dataclasses
from collections.abc import Callable
from typing import Any

from ..loss import AbstractWeighting, Annealed, Fixed, Uncertainty
from ..problem import Problem, smoothing
from ..train import LBFGS, Adam, NaturalGradient, NystromNewton, Phase
from ._settings import Settings, close_matches

_START = 1e-3  # damping of the first step
_POLISH = 1e-6  # and of the last ones, or more if the settings say so
_POLISH_BOUNDARY = 10.0  # factor of the boundary's weight in the last steps
_LEAST_NOISE = 0.01  # of the solution's size; labels better than that are not trusted more
_WHOLE = 0.6  # share of steps that are whole ones, where later ones average over points
_LATE_WHOLE = 0.8  # the same share of the late steps with momentum of their own, still far away
_MOST_CUT = 40  # steps with momentum that average over points: later ones hardly move
_EARLY = 0.6  # share of steps that take fewer points, if the settings say so
_NATURAL_STEPS = 500  # where a method needs them and the settings name none


@dataclasses.dataclass(frozen=True)
class Weighted:
    """What the phases of a training are made from.

    Args:
        problem: the boundary value problem.
        settings: sizes and weights.
        noise: of the labels beside the size of the solution; None for a plain PINN.
        given: a weighting of the user's own, for all phases.
    """

    problem: Problem
    settings: Settings
    noise: float | None
    given: AbstractWeighting | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the terms of the loss."""
        found = ("residual", *(["boundary"] if self.problem.domain.parts else []))
        found += ("martingale",) if self.settings.points.path_steps else ()
        found += ("terminal",) if self.problem.timed else ()
        return found if self.noise is None else (*found, "labels")

    def weights(self) -> dict[str, float]:
        """At the start; labels weigh so many times their own noise, squared."""
        weight = self.settings.training.boundary_weight
        found = {"boundary": weight, "terminal": weight}
        if self.noise is not None:
            found["labels"] = self.settings.labels.weight / max(self.noise, _LEAST_NOISE) ** 2
        return found

    def fading(self) -> AbstractWeighting:
        """Labels choose the basin and fade."""
        if self.given is not None:
            return self.given
        rate = self.settings.labels.rate
        return Fixed(self.weights()) if self.noise is None else Annealed(self.weights(), rate=rate)

    def constant(self) -> AbstractWeighting:
        """The same throughout, or trained along."""
        if self.given is not None:
            return self.given
        if self.settings.training.uncertainty:
            return Uncertainty(self.names)
        return Fixed(self.weights())


def natural_phases(work: Weighted) -> list[Phase]:
    """Natural gradient with fresh points, and steps with many points at the end."""
    training, redraw = work.settings.training, work.settings.points.redraw
    least = training.damping
    start = max(least, _START)
    steps = training.steps or _NATURAL_STEPS
    # next to kinks of the data residuals stay large, and which of them a draw sees is chance
    rough = work.settings.points.time_power or smoothing(work.problem) is not None
    settle = round(_WHOLE * steps) if rough else None
    optimizer = NaturalGradient(
        damping=start, least=least, momentum=training.momentum, settle=settle
    )
    phases = [Phase("natural gradient", optimizer, steps, work.fading(), redraw)]
    early = round(_EARLY * steps)
    if (training.early_points < 1 or training.late_momentum > 0) and 0 < early < steps:
        whole = phases.pop()
        few = whole._replace(steps=early, times=training.early_points)
        last = whole._replace(steps=steps - early, weighting=None, continues=True)
        if training.late_momentum > 0:
            momentum, left = training.late_momentum, steps - early
            late = _averaging(training.damping, momentum, left, _LATE_WHOLE, since=early)
            last = last._replace(optimizer=late)
        phases = [few._replace(name="natural gradient, early"), last]
    if training.polish_steps and not _come_as_rounds(work.settings):
        final = work.given or Fixed(polish_weights(work.problem, work.settings) | {"labels": 0.0})
        last = polisher(work.settings, training.polish_steps)
        phases.append(
            Phase("polish", last, training.polish_steps, final, redraw, training.polish_times)
        )
    return phases


def _come_as_rounds(settings: Settings) -> bool:
    """Whether the last steps wait for a certificate that says they are needed.

    With momentum those of a round are the same; without it a round takes more points.
    """
    certificate = settings.certificate
    wanted = certificate.target is not None and certificate.rounds > 0 and certificate.seconds > 0
    return wanted and settings.training.momentum > 0


def first_order_phases(work: Weighted) -> list[Phase]:
    """Adam, then L-BFGS, as in the paper."""
    training, weighting = work.settings.training, work.constant()
    phases, fresh = [], int(work.settings.points.directions > 0)
    if training.adam_steps:
        adam = Adam(training.adam_steps, training.learning_rate)
        phases.append(Phase("Adam", adam, training.adam_steps, weighting, fresh))
    if training.lbfgs_steps:
        first = None if phases else weighting
        phases.append(Phase("L-BFGS", LBFGS(), training.lbfgs_steps, first))
    return phases


def path_phases(work: Weighted) -> list[Phase]:
    """Adam, with fresh paths at every step."""
    training = work.settings.training
    adam = Adam(training.adam_steps, training.learning_rate)
    weighting = work.given or Fixed(work.weights())
    return [Phase("Adam", adam, training.adam_steps, weighting, 1)]


def newton_phases(work: Weighted) -> list[Phase]:
    """The same, then NNCG."""
    phases, steps = first_order_phases(work), work.settings.training.nncg_steps
    if steps:
        first = None if phases else work.constant()
        phases.append(Phase("NNCG", NystromNewton(), steps, first))
    return phases


def paper_or_natural_phases(work: Weighted) -> list[Phase]:
    """Natural gradient, unless the settings leave it out."""
    return natural_phases(work) if work.settings.training.steps else first_order_phases(work)


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train.

    Args:
        labelled: whether it takes labels.
        phases: makes its phases.
        whole_paths: whether it is trained on whole paths, and not on residuals.
    """

    labelled: bool
    phases: Callable[[Weighted], list[Phase]]
    whole_paths: bool = False


METHODS = {
    "fk-pinn": Method(True, paper_or_natural_phases),
    "pinn": Method(False, first_order_phases),
    "fk-pinn-adam": Method(True, first_order_phases),
    "fk-pinn-nncg": Method(True, newton_phases),
    "pinn-engd": Method(False, natural_phases),
    "pinn-nncg": Method(False, newton_phases),
    "bsde": Method(False, path_phases, whole_paths=True),
}


def find_method(method: str) -> Method:
    """The method of that name, or an error."""
    if method not in METHODS:
        raise ValueError(
            f"`method` must be one of {tuple(METHODS)}; got {method!r}."
            f"{close_matches(method, METHODS)}"
        )
    return METHODS[method]


def for_method(settings: Settings, method: str) -> Settings:
    """A plain PINN takes all collocation points for the residual."""
    return settings if find_method(method).labelled else settings.changed({"labels.p_data": 0.0})


def polisher(settings: Settings, steps: int, whole: float = _WHOLE) -> NaturalGradient:
    """The optimizer of the last steps, of which that share are whole ones."""
    training = settings.training
    return _averaging(training.damping, training.momentum, steps, whole)


def _averaging(
    damping: float, momentum: float, steps: int, whole: float = _WHOLE, since: int = 0
) -> NaturalGradient:
    """For the last steps of a training, which are counted from `since`."""
    # With fresh points in every step and less damping, directions that these points hardly
    # determine would be moved by chance; towards the end that chance is averaged out.
    damping, settle = max(_POLISH, damping), round(whole * steps)
    if momentum > 0:
        settle = max(settle, steps - _MOST_CUT)
    return NaturalGradient(damping=damping, least=damping, momentum=momentum, settle=since + settle)


def polish_weights(problem: Problem, settings: Settings) -> dict[str, Any]:
    """Where the residual is small, what is left is mostly error of the Dirichlet data.

    More weight on slopes at reflecting walls made the committor worse, so there it stays.
    """
    factor = _POLISH_BOUNDARY if all(problem.absorbing()) else 1.0
    weight = settings.training.boundary_weight * factor
    return {"boundary": weight, "terminal": weight}
