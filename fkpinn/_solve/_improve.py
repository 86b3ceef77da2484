"""Fourth stage: rounds that measure the error by paths, continue training, and decide to stop."""

import itertools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._compute import current, precision
from .._progress import AbstractProgress
from .._streams import Stream
from .._together import clock
from ..evaluate import Certificate, DefectPaths, TooFar
from ..labels import Labels
from ..nn import Factor, Size, fit_factor
from ..problem import Problem
from ..sampling import sample_interior
from ..train import Fit
from ..train import precision as precision_of
from ._certify import measure
from ._job import Job
from ._solution import batched
from ._train import polish, with_doubled_points
from ._visit import visit

KINDS = ("polish", "correct", "refresh")
_PARTS = 2  # of a round, at most, where a certificate takes much longer than they
_AVERAGED = 2.0  # factor by which a network that is fitted to labels lowers their noise
_NEIGHBOURS = 8  # measured points whose squared errors tell where the error is large
_FLOOR = 0.3  # share of new labels that is spread evenly
_NOISE = 0.05  # of a label over the error, that is aimed at: the network takes over most of it
_LABEL_SHARE = 0.25  # of the time of a training that labels of a round may take
_LEAST_GAIN = 1.2  # factor by which a round must lower the error to be tried again
_SURE = 3.0  # standard errors of a height
_FIRST_GAIN = 2.0  # what plain rounds are expected to gain before one was seen
_LAST_RESORT = 1.25  # and in many dimensions, where these mostly lead away
_SHORT = 0.25  # share of the steps of a round after which the loss may say that it is enough
_MARGIN = 1.5  # factor below the target that the loss must promise


class Improved(NamedTuple):
    """The network after all rounds, its certificate, what was done, and how it ended.

    There is no certificate where a nonlinear problem's network did not come near enough.
    """

    network: Any
    certificate: Certificate | None
    rounds: list[dict[str, Any]]
    history: list[dict[str, Any]]
    notes: list[str]


def improve(job: Job, network: Any, *, size: Size, trained_in: float) -> Improved:
    """Certify a network; as long as it pays, train on, with or without corrected labels.

    A round `polish` takes more steps on residual and boundary data. A round `correct` adds labels:
    values of the network with the corrections of its certificate, which are there already. A
    round `refresh` makes new ones, at points where the error was found to be large. Their noise
    shrinks with the error of the network, so they are no floor. The kind with the largest gain for
    its time comes next, as seen so far or as predicted. A round trains as long as its labels and
    the certificate take, but in many dimensions, where these take long, in two parts at most. A
    network is kept only if its certificate is better than the one before. Where an equation is not
    linear and the network too far from its solution to be measured, rounds `polish` come first.

    Args:
        job: what is to be solved; `certificate.rounds` is the most there are, `certificate.target`
            ends them. Checkpoints of part `j` of round `k` go to `round-k-j` in its folder.
        network: where to start.
        size: typical size of the solution.
        trained_in: seconds the training before took; a round is allowed about as many.
    """
    return Rounds(job, size, trained_in).run(network)


class Rounds:
    """The state of `improve`."""

    def __init__(self, job: Job, size: Size, trained_in: float):
        self.job, self.size = job, size
        self.target, self.most = job.settings.certificate.target, job.settings.certificate.rounds
        self.stream = job.stream / "rounds"
        # in many dimensions steps without labels may lead away, so they come second
        self.first = "polish" if job.settings.points.visited == 0 else "correct"
        self.parts = None if self.first == "polish" else _PARTS
        # where momentum has not made a mean of many draws of points
        self.doubled = self.first == "polish" and job.settings.training.momentum == 0
        self.seconds: dict[str, float] = {}
        self.measured_in = 0.0  # seconds of the last certificate
        self.allowed = max(trained_in, 10.0)
        self.n_labels = max(job.settings.n_labels, 64)
        self.gain: dict[str, float] = {}
        # with momentum a round has many steps, more than a target near by asks for
        self.early = self.target is not None and job.settings.training.momentum > 0
        self.done: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []

    def certify(self, network: Any, number: int, name: str = "certificate") -> Certificate:
        """The error after round `number`, by paths of its own."""
        began = clock()
        found = measure(self.job, network, self.stream / number / name)
        self.measured_in = clock() - began
        return found

    def run(self, network: Any) -> Improved:
        """All rounds."""
        network, best, far = self.brought_near(network)
        if far is not None:
            said = [*self.rounds_in_words(), f"no certificate: {far}"]
            if self.is_near_enough(far):
                limit = f"with it the error is at most {far.most:.1e}"
                said += [f"{limit}: target {self.target:.3e} reached"]
            return Improved(network, None, self.done, self.history, said)
        spent, note = len(self.done), ""
        network, best = self.at_its_height(network, best)
        for number in range(1 + spent, self.most + 1):
            if self.target is not None and best.ci_high <= self.target:
                break
            if note := self.too_far(best, 1 + self.most - number):
                break
            kind = self.choose(best)
            predicted = self.predict(kind, best)
            if predicted < _LEAST_GAIN:
                note = "no further round was expected to reduce the error enough"
                break
            began = clock()
            tried = self.train(kind, network, best, number)
            found, far = self.certified(tried, number)
            self.seconds[kind] = clock() - began
            self.gain[kind] = best.typical / max(found.typical, 1e-100)
            kept = far is None and found.typical < best.typical
            self.record(number, kind, predicted, best, found, kept, self.seconds[kind])
            if kept:
                network, best = tried, found
        return Improved(network, best, self.done, self.history, self.outcome(best, note))

    def certified(self, network: Any, number: int) -> tuple[Certificate, TooFar | None]:
        """The error after round `number`, and why it is not known where the network is too far."""
        try:
            return self.certify(network, number), None
        except TooFar as far:
            return far.found, far

    def brought_near(self, network: Any) -> tuple[Any, Certificate, TooFar | None]:
        """The network after as many rounds as it takes until its error can be measured.

        The first is always tried; they end where further ones like the last would not bring it
        near enough.
        """
        best, far = self.certified(network, 0)
        gain = _FIRST_GAIN
        for number in range(1, self.most + 1):
            if far is None or self.is_near_enough(far):
                break
            if number > 1 and gain ** (self.most - number + 1) < far.excess:
                break
            began = clock()
            tried = self.train("polish", network, None, number)
            found, now = self.certified(tried, number)
            kept = now is None or now.excess < far.excess
            self.record(number, "polish", gain, best, found, kept, clock() - began)
            gain = _FIRST_GAIN if now is None else far.excess / now.excess
            if kept:
                network, best, far = tried, found, now
        return network, best, far

    def is_near_enough(self, far: TooFar) -> bool:
        """Whether the error is below the target whatever the linear problem leaves out."""
        return self.target is not None and far.most <= self.target

    def at_its_height(self, network: Any, best: Certificate) -> tuple[Any, Certificate]:
        """The network with the height that paths say it has, and its certificate.

        Where drift holds paths back, an error is mostly one number, the height of a plateau that
        the residual hardly sees. All corrections together tell it much better than any of them.
        Where data are built in or zero, the network is multiplied by it, in a family by a function
        of the parameters; other paths must agree.
        """
        reached = self.target is not None and best.ci_high <= self.target
        if reached or not self.has_height():
            return network, best
        wanted = height(network, best.corrections, self.size)
        if wanted is None or not wanted.sure > _SURE:
            return network, best
        began = clock()
        with precision(precision_of(network)):
            tried = network.scaled(wanted.size if wanted.size.growth else wanted.size.typical)
        found = self.certify(tried, 0, "height/certificate")
        after = height(tried, found.corrections, self.size)
        kept = after is not None and after.share < wanted.share
        self.record(0, "height", wanted.sure, best, found, kept, clock() - began)
        return (tried, found) if kept else (network, best)

    def has_height(self) -> bool:
        """Whether a network may be multiplied, and it is likely that this is what it lacks.

        In a family heights are what problems differ by most, so there it is asked without rounds
        too.
        """
        problem, settings = self.job.problem, self.job.settings
        if problem.layout.parameters:
            return settings.network.hard or problem.is_homogeneous
        return self.most > 0 and settings.network.hard and settings.labels.likely

    def record(
        self,
        number: int,
        kind: str,
        predicted: float,
        best: Certificate,
        found: Certificate,
        kept: bool,
        seconds: float,
    ) -> None:
        """What a round did."""
        self.done.append(
            {
                "round": number,
                "kind": kind,
                "predicted_gain": predicted,
                "before": best.l2_rel,
                "after": found.l2_rel,
                "kept": kept,
                "seconds": seconds,
            }
        )

    def choose(self, best: Certificate) -> str:
        """The kind of the next round."""
        if self.first not in self.gain:
            return self.first
        rate = {k: self.log_gain(k, best) / self.expect(k, best) for k in KINDS}
        return max(KINDS, key=rate.__getitem__)

    def log_gain(self, kind: str, best: Certificate) -> float:
        """What a round is expected to add to the digits."""
        return math.log(max(self.predict(kind, best), 1e-9))

    def expect(self, kind: str, best: Certificate) -> float:
        """Seconds of a round: as the last one, or as `polish` with labels and steps for as long."""
        if kind in self.seconds:
            return self.seconds[kind]
        plain = self.seconds.get("polish", 2 * self.measured_in)
        if kind != "refresh":
            return plain
        return plain + 2 * self.label_noise(best)[0] * self.path_seconds(best)

    def too_far(self, best: Certificate, left: int) -> str:
        """Why the target is not expected to be reached in this number of rounds, if so."""
        if self.target is None or not self.gain:
            return ""
        end = best.typical / max(1.0, *(self.predict(kind, best) for kind in KINDS)) ** left
        if end <= self.target:
            return ""
        more = "another round" if left == 1 else f"{left} more rounds"
        return f"{more} at the best rate so far would end near {end:.1e}"

    def rounds_in_words(self) -> list[str]:
        """What was done."""
        return [
            f"round {r['round']}, {r['kind']}: relative error {r['before']:.2e} -> "
            f"{r['after']:.2e} in {r['seconds']:.0f} s{'' if r['kept'] else ', not kept'}"
            for r in self.done
        ]

    def outcome(self, best: Certificate, note: str) -> list[str]:
        """What was done and how it ended, in words."""
        said, target = self.rounds_in_words(), self.target
        if target is None:
            return [*said, note] if note else said
        if best.ci_high <= target:
            return [*said, f"target {target:g} reached: {best}"]
        why = note or f"{len(self.done)} rounds were not enough"
        return [
            *said,
            f"target {target:g} not reached: {best}; {why}. Try `preset='best'`, more "
            f"`certificate.rounds`, or wider layers.",
        ]

    def predict(self, kind: str, best: Certificate) -> float:
        """Factor by which a round lowers the error: as the last one did, or as its noise allows."""
        if kind == "correct":
            noise = float(np.sqrt(np.mean(np.asarray(best.corrections.stderr, float) ** 2)))
            allowed = _AVERAGED * best.typical / max(noise / self.typical_size(best), 1e-100)
            return min(allowed, self.gain.get(kind, allowed))
        if kind in self.gain:
            return self.gain[kind]
        if kind == "polish":
            return _FIRST_GAIN if self.first == "polish" else _LAST_RESORT
        return best.typical / max(self.label_noise(best)[1], 1e-100) / 2

    def label_noise(self, best: Certificate) -> tuple[int, float]:
        """Paths a label, as wanted and as far as affordable, and the relative noise they leave."""
        found = best.corrections
        spread = float(np.sqrt(np.mean(np.asarray(found.stderr, np.float64) ** 2)))
        spread *= math.sqrt(found.n_paths) / self.typical_size(best)
        wanted = (spread / max(_NOISE * best.typical, 1e-100)) ** 2
        affordable = _LABEL_SHARE * self.allowed / max(self.path_seconds(best), 1e-12)
        n_paths = int(np.clip(min(wanted, affordable), 64, 1 << 22))
        return n_paths, spread / math.sqrt(n_paths)

    def typical_size(self, best: Certificate) -> float:
        """Of the solution, over all points of a certificate."""
        return float(np.sqrt(np.mean(self.size.at(np.asarray(best.corrections.points)) ** 2)))

    def path_seconds(self, best: Certificate) -> float:
        """What one path of every label takes."""
        found = best.corrections
        spent = found.provenance["seconds"]["run"] / (len(found.points) * found.n_paths)
        return spent * self.n_labels

    def train(self, kind: str, network: Any, best: Certificate | None, number: int) -> Any:
        """The network after a round of that kind; all but `polish` ask for its certificate."""
        stream = self.stream / number
        labels, began = None, clock()
        self.look_again(stream / "visits")
        if kind == "correct":
            assert best is not None
            labels = with_corrections(network, best.corrections)
        if kind == "refresh":
            assert best is not None
            points = self.where(best, self.n_labels, stream / "labels")
            labels = corrected(
                self.job.problem, network, points,
                n_paths=self.label_noise(best)[0], dtype=str(best.corrections.points.dtype),
                seed=(stream / "paths").seed, progress=self.job.progress,
            )  # fmt: skip
        labelled = clock()
        for part in itertools.count():
            share = (_SHORT if part == 0 else 1.0 - _SHORT) if self.early else 1.0
            trained = self.steps(
                kind, network, labels, f"{number}-{part}", stream / "steps" / part, share
            )
            network, spent = trained.network, clock() - labelled
            if self.early and part == 0:
                if self.is_enough(network, best, trained.history, number, spent):
                    return network
                continue
            if spent >= self.measured_in + (labelled - began) or part + 1 == self.parts:
                return network

    def is_enough(
        self,
        network: Any,
        best: Certificate | None,
        history: list[dict[str, Any]],
        number: int,
        spent: float,
    ) -> bool:
        """Whether the target is met after the first steps of a round, which took `spent` seconds.

        If the loss does not indicate it, a certificate decides, if that takes less time.
        """
        if self.promised(best, history):
            return True
        if self.target is None or self.measured_in > spent:
            return False
        try:
            return self.certify(network, number, "early/certificate").ci_high <= self.target
        except TooFar:
            return False

    def promised(self, best: Certificate | None, history: list[dict[str, Any]]) -> bool:
        """Whether the error is below the target by now, if errors fall as the root of the loss."""
        if best is None or self.target is None or not history:
            return False
        first, last = (
            float(np.median([r["loss"] for r in part])) for part in (history[:3], history[-5:])
        )
        return best.typical * math.sqrt(max(last, 0.0) / max(first, 1e-300)) < self.target / _MARGIN

    def look_again(self, stream: Stream) -> None:
        """New places visited by paths; not on CPUs, where new ones are expensive."""
        if self.job.visited is not None and not current().on_cpu:
            self.job = visit(self.job, stream)

    def steps(
        self,
        kind: str,
        network: Any,
        labels: Labels | None,
        name: str,
        stream: Stream,
        share: float = 1.0,
    ) -> Fit:
        """Some steps with new points, a fraction `share` of the steps of a round."""
        folder = None if self.job.folder is None else self.job.folder / f"round-{name}"
        job = with_doubled_points(self.job) if self.doubled else self.job
        trained = polish(
            job, network, labels,
            size=self.size, name=kind, stream=stream, folder=folder, share=share,
        )  # fmt: skip
        taken = self.history[-1]["step"] if self.history else 0
        self.history += [r | {"step": r["step"] + taken} for r in trained.history]
        return trained

    def where(self, best: Certificate, n: int, stream: Stream) -> np.ndarray:
        """Points for labels: some anywhere, the others where the measured error is large."""
        from scipy.spatial import KDTree

        with precision("float64"):
            key = (stream / "pool").key
            pool = np.asarray(sample_interior(self.job.problem, 8 * n, key=key))
        found = best.corrections
        value, stderr = (np.asarray(a, np.float64) for a in (found.value, found.stderr))
        square = np.maximum(value**2 - stderr**2, 0.0)
        near = KDTree(np.asarray(found.points)).query(pool, _NEIGHBOURS)[1]
        density = np.mean(square[near], axis=1)
        mean = float(np.mean(density)) or 1.0
        chance = (1 - _FLOOR) * density / mean + _FLOOR
        generator = (stream / "pick").generator
        return pool[generator.choice(len(pool), n, replace=False, p=chance / chance.sum())]


def height(network: Any, found: Labels, size: Size) -> Factor | None:
    """By what corrections multiply what of a network is not given by data; None if it cannot."""
    with precision(precision_of(network)):
        flat = network.scaled(0.0)
    if flat is None:
        return None
    points = np.asarray(found.points, np.float64)
    with precision("float64"):
        z = jnp.asarray(points)
        own = np.asarray(batched(network, z)) - np.asarray(batched(flat, z))
    return fit_factor(points, own, np.asarray(found.value, np.float64), size)


def corrected(
    problem: Problem,
    network: Any,
    points: np.ndarray,
    *,
    n_paths: int,
    dtype: str,
    seed: int,
    progress: AbstractProgress,
) -> Labels:
    """Labels that are the network's own values, corrected by paths: noise in units of its error."""
    paths = DefectPaths(problem, network, points, dtype=dtype, seed=seed, progress=progress)
    return with_corrections(network, paths.run(n_paths))


def with_corrections(network: Any, found: Labels) -> Labels:
    """The network's own values plus the corrections by paths."""
    with precision("float64"):
        points = jnp.asarray(np.asarray(found.points, np.float64))
        value = np.asarray(batched(network, points)) + np.asarray(found.value, np.float64)
        stderr = np.asarray(found.stderr, np.float64)
        return Labels.from_data(points, value, stderr, source="corrected")
