"""How much work a run does, stage by stage, and how that is read from and written to a file."""

import dataclasses
import difflib
import math
from pathlib import Path
from typing import Any

from .._files import brief, read_toml
from .._records import write_bytes


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
    """The network.

    Args:
        widths: units of each hidden layer.
        frequencies: standard deviation of random Fourier features of the inputs; None for no
            features.
        hard: build the Dirichlet data into the network, so that it satisfies them exactly; if there
            are none, or if terminal data have kinks that can be smoothed as the diffusion does,
            build in the terminal (or initial) data instead.
        data_inputs: additional inputs besides the coordinates: terminal (or initial) data, squared
            distances to the centers of balls, mean times to leave boxes; used by the presets in
            high dimension.
        scaled: multiply the output by the typical size of the labels.
    """

    widths: tuple[int, ...] = (40, 40, 40)
    frequencies: float | None = None
    hard: bool = False
    data_inputs: bool = False
    scaled: bool = True


@dataclasses.dataclass(frozen=True)
class PointSettings:
    """Collocation points.

    Args:
        n_collocation: points in the domain; a fraction of them gets labels, the others the residual
            ([eq:n_data](../theory/equations.md)).
        n_boundary: points on the boundary, and at the terminal (or initial) time.
        adaptive: draw new points where the residual is large.
        visited: fraction of the collocation points that are places visited by paths, which in high
            dimension are a tiny part of the domain.
        redraw: natural-gradient steps between two draws of points; 0 keeps the points.
        directions: number of random directions for second derivatives, for training by Adam in very
            high dimension; 0 uses all directions.
        time_power: residuals are weighted by this power of the time left until terminal (or
            initial) data are given; presets use 1 if these data have kinks in several dimensions.
        path_steps: steps of pieces of paths whose martingale defect is added to the loss; 0 for
            none. The method `bsde` uses whole paths with this number of steps, or 20.
        n_test: points at which errors against a reference are measured.
    """

    n_collocation: int = 1700
    n_boundary: int = 300
    adaptive: bool = False
    visited: float = 0.0
    redraw: int = 1
    directions: int = 0
    time_power: float = 0.0
    path_steps: int = 0
    n_test: int = 4000


@dataclasses.dataclass(frozen=True)
class LabelSettings:
    """Monte Carlo labels.

    Args:
        p_data: fraction of the collocation points that gets labels.
        second_pass: fraction of the labels that is placed where the residual of a first, short
            training is large.
        times: multiplies the number of labels; each natural-gradient step uses a new subset of the
            usual size.
        held_out: fraction of the labels held out from training, to detect when it makes the network
            worse.
        pooled: use one noise level for all labels in their weights, since error bars from few paths
            are inaccurate, and too small where the values happen to be small.
        n_paths: paths per label.
        dt: time step of the paths; None derives it from the size of the domain.
        scheme: how paths move and end, see `SCHEMES`.
        bias: measure the time-step bias, by paths with twice the step; it is part of the labels'
            error, and so of their weights.
        weight: initial weight of the labels, in units of their own noise.
        rate: factor applied to that weight in every natural-gradient step.
        likely: instead of fading, labels are weighted by their noise relative to the remaining
            residual, which is measured now and then (maximum likelihood).
    """

    p_data: float = 0.12
    second_pass: float = 0.0
    times: int = 1
    held_out: float = 0.0
    pooled: bool = False
    n_paths: int = 100
    dt: float | None = None
    scheme: str = "default"
    bias: bool = True
    weight: float = 3.0
    rate: float = 0.9
    likely: bool = False


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Optimizers and weights.

    Args:
        steps: natural-gradient steps, for the methods that use it; with 0 `fk-pinn` is trained by
            Adam and L-BFGS, as in the paper.
        early_points: fraction of the points used in the first 60% of these steps; far from the
            solution, few points are as good as many.
        late_momentum: momentum of the natural gradient in the last 40% of these steps; in the last
            20% of those, step k is scaled by 1/k.
        polish_steps: last natural-gradient steps, with more points.
        polish_times: factor by which these steps have more points, so that the random choice of
            points no longer matters.
        momentum: momentum of the natural gradient.
        damping: smallest damping of the natural gradient, relative to its mean curvature; with
            fewer points per step than parameters, small damping overfits these points.
        adam_steps: Adam steps.
        learning_rate: initial learning rate of Adam.
        lbfgs_steps: L-BFGS steps, after Adam.
        nncg_steps: NysNewton-CG steps, after both.
        boundary_weight: weight of the boundary terms relative to the residual.
        uncertainty: train the weights of the terms along with the network, residuals unscaled, as
            in the paper.
        checkpoint_seconds: seconds between two checkpoints.
    """

    steps: int = 120
    early_points: float = 1.0
    late_momentum: float = 0.0
    polish_steps: int = 0
    polish_times: int = 4
    momentum: float = 0.0
    damping: float = 1e-13
    adam_steps: int = 4000
    learning_rate: float = 1e-3
    lbfgs_steps: int = 1000
    nncg_steps: int = 100
    boundary_weight: float = 10.0
    uncertainty: bool = False
    checkpoint_seconds: float = 20.0


@dataclasses.dataclass(frozen=True)
class CertificateSettings:
    """The measured error, and rounds of further training.

    Args:
        seconds: time limit for its paths, without compilation; 0 skips the certificate.
        rounds: maximum number of rounds of further training; a round is run only if it is expected
            to help.
        target: relative L2 error; rounds end when the upper confidence limit is below it.
    """

    seconds: float = 20.0
    rounds: int = 0
    target: float | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes and weights of a run, stage by stage.

    Args:
        network: the network.
        points: collocation points.
        labels: Monte Carlo labels.
        training: optimizers and weights.
        certificate: the measured error.

    Example:
        ```python
        import fkpinn as fk

        settings = fk.Settings().changed({"training.steps": 40, "network.widths": [16, 16]})
        ```
    """

    network: NetworkSettings = NetworkSettings()
    points: PointSettings = PointSettings()
    labels: LabelSettings = LabelSettings()
    training: TrainingSettings = TrainingSettings()
    certificate: CertificateSettings = CertificateSettings()

    def __post_init__(self) -> None:
        for name, kind in _FIELDS.items():
            _check_type(name, kind, self.get(name))
        if not self.network.widths or min(self.network.widths) < 1:
            raise ValueError(
                f"`network.widths` must be positive numbers of units; got {self.network.widths}."
            )
        for name, (low, high) in _RANGES.items():
            value = self.get(name)
            if value is not None and not low <= value < high:
                words = f"at least {low:g}" + (f" and below {high:g}" if high < math.inf else "")
                raise ValueError(f"`{name}` must be {words}; got {value}.")
        for name in _POSITIVE:
            value = self.get(name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be positive; got {value}.")
        if self.points.adaptive and self.points.visited > 0:
            raise ValueError(
                f"`points.adaptive` and `points.visited` both choose the collocation points; got "
                f"true and {self.points.visited}. Set the first to false or the second to 0."
            )
        if self.labels.rate > 1:
            raise ValueError(f"`labels.rate` must lie in (0, 1]; got {self.labels.rate}.")

    @property
    def n_labels(self) -> int:
        """Points with labels, [eq:n_data](../theory/equations.md)."""
        return self.labels.times * self.n_labels_at_once

    @property
    def n_labels_at_once(self) -> int:
        """Number of labels used in a step."""
        return int(self.labels.p_data * self.points.n_collocation + 1e-9)

    @property
    def n_interior(self) -> int:
        """Number of points with a residual."""
        return self.points.n_collocation - self.n_labels_at_once

    def get(self, name: str) -> Any:
        """The value of a setting, such as `training.steps`."""
        stage, _, field = _known(name).partition(".")
        return getattr(getattr(self, stage), field)

    def flat(self) -> dict[str, Any]:
        """All values by their names, such as `training.steps`."""
        return {name: self.get(name) for name in _FIELDS}

    def to_dict(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return dataclasses.asdict(self)

    def changed(self, changes: dict[str, Any]) -> "Settings":
        """The same settings with some values replaced, by names such as `training.steps`."""
        stages: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            stage, _, field = _known(name).partition(".")
            value = tuple(value) if isinstance(value, list) else value
            _check_type(name, _FIELDS[name], value)
            if type(value) is int and "float" in _FIELDS[name]:
                value = float(value)
            stages.setdefault(stage, {})[field] = value
        replaced = {
            stage: dataclasses.replace(getattr(self, stage), **values)
            for stage, values in stages.items()
        }
        return dataclasses.replace(self, **replaced)


_STAGES = {
    "network": NetworkSettings,
    "points": PointSettings,
    "labels": LabelSettings,
    "training": TrainingSettings,
    "certificate": CertificateSettings,
}


def _spelled(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


_FIELDS = {
    f"{stage}.{field.name}": _spelled(field.type)
    for stage, kind in _STAGES.items()
    for field in dataclasses.fields(kind)
}
_RANGES = {
    "points.n_collocation": (1, math.inf), "points.n_boundary": (1, math.inf),
    "points.n_test": (1, math.inf), "points.redraw": (0, math.inf),
    "points.directions": (0, math.inf), "points.visited": (0, 1 + 1e-12),
    "points.time_power": (0, 4),
    "labels.p_data": (0, 1), "labels.second_pass": (0, 1), "labels.n_paths": (2, math.inf),
    "labels.times": (1, math.inf), "labels.held_out": (0, 0.9),
    "training.steps": (0, math.inf), "training.polish_steps": (0, math.inf),
    "training.early_points": (0.01, 1 + 1e-12), "training.late_momentum": (0, 1),
    "training.polish_times": (1, math.inf), "training.momentum": (0, 1),
    "training.adam_steps": (0, math.inf), "training.lbfgs_steps": (0, math.inf),
    "training.nncg_steps": (0, math.inf), "training.checkpoint_seconds": (0, math.inf),
    "certificate.seconds": (0, math.inf), "certificate.rounds": (0, math.inf),
}  # fmt: skip
_POSITIVE = (
    "network.frequencies", "labels.dt", "labels.weight", "labels.rate",
    "training.learning_rate", "training.damping", "training.boundary_weight", "certificate.target",
)  # fmt: skip
# names of before settings were grouped, for whoever knew them
_MOVED = {name.partition(".")[2]: name for name in _FIELDS} | {
    "label_weight": "labels.weight",
    "label_rate": "labels.rate",
    "natural_steps": "training.steps",
    "certify_seconds": "certificate.seconds",
}


def _known(name: str) -> str:
    """The name of a setting, or an error that says what it might be."""
    if name in _FIELDS:
        return name
    if name in _MOVED:
        raise ValueError(f"The setting `{name}` is now called `{_MOVED[name]}`.")
    raise ValueError(f"There is no setting `{name}`.{close_matches(name, _FIELDS)}")


def settings_from(values: dict[str, Any], base: Settings | None = None) -> Settings:
    """Settings with some values replaced, nested by stage or by full names."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in _STAGES and isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return (base or Settings()).changed(flat)


def write_config(path: Path, config: dict[str, Any]) -> None:
    """A TOML file of plain values, with a table of settings for each stage."""
    lines = [f"{key} = {toml(value)}" for key, value in config.items() if key != "settings"]
    for stage, values in config["settings"].items():
        lines += ["", f"[settings.{stage}]"]
        lines += [f"{key} = {toml(value)}" for key, value in values.items() if value is not None]
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def read_config(path: Path) -> dict[str, Any]:
    """What `write_config` wrote, its settings checked."""
    config = read_toml(path)
    wanted = {
        "problem": str, "method": str, "preset": str, "seed": int, "own": list, "settings": dict,
    }  # fmt: skip
    for key, kind in wanted.items():
        if type(config.get(key)) is not kind:
            raise ValueError(
                f"`{path}` must have `{key}`, a {kind.__name__}; got {config.get(key)!r:.80}."
            )
    if not 0 <= config["seed"] < 2**62:
        raise ValueError(f"`{path}`: `seed` must be from 0 to {2**62}; got {config['seed']!r:.80}.")
    if not all(isinstance(name, str) for name in config["own"]):
        raise ValueError(f"`{path}`: `own` must be names; got {config['own']!r:.80}.")
    for key in config:
        if key not in wanted:
            raise ValueError(f"`{path}`: there is no key `{key}`.{close_matches(key, wanted)}")
    try:
        # TOML has no word for nothing
        empty = {name: None for name, kind in _FIELDS.items() if "None" in kind}
        config["settings"] = settings_from(empty | config["settings"])
    except ValueError as error:
        raise ValueError(f"`{path}`: {brief(error)}") from error
    return config


def toml(value: Any) -> str:
    """A plain value as TOML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value)


def _check_type(name: str, expected: str, value: Any) -> None:
    kinds = {
        "int": (int,),
        "float": (int, float),
        "float | None": (int, float, type(None)),
        "bool": (bool,),
        "str": (str,),
        "tuple[int, ...]": (tuple,),
    }
    wrong = not isinstance(value, kinds[expected]) or (
        isinstance(value, bool) and expected != "bool"
    )
    if isinstance(value, tuple):
        wrong = wrong or any(isinstance(v, bool) or not isinstance(v, int) for v in value)
    if wrong:
        raise ValueError(f"`{name}` must be of type {expected}; got {value!r:.80}.")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, int) and abs(number) >= 2**31:  # no array has that size
            raise ValueError(f"`{name}` must be less than {2**31}; got {value!r:.80}.")


def close_matches(word: str, known) -> str:
    """A hint at names that look alike, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=3)
    return f" Did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
