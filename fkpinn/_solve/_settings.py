"""How much work a run does, and how it is read from and written to a file."""

import dataclasses
import difflib
import math
from pathlib import Path
from typing import Any

from .._files import brief, read_toml
from .._records import write_bytes


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes and weights of a run.

    Of `n_collocation` points the share `p_data` gets labels, the others the residual
    ([eq:n_data](../theory/equations.md)). `dt` is the time step of the label paths; None takes
    one from the size of the domain. `label_weight` is in units of the labels' own noise and is
    multiplied by `label_rate` at every step of the natural gradient. `redraw` is the number of
    such steps between fresh points. The share `second_pass` of the labels is made where the
    residual of a first, short training is large. The last `polish_steps` have `polish_times` as
    many points, so that chance in their choice no longer shows. Unless `scaled` is false, the
    network's output is multiplied by the typical size of the labels. Paths of the certificate take
    up to `certify_seconds`, apart from compilation; 0 leaves it out. After it, up to `rounds` of
    further training follow where they are expected to pay, until its upper limit is below `target`.
    """

    widths: tuple[int, ...] = (40, 40, 40)
    frequencies: float | None = None
    hard: bool = False
    n_collocation: int = 1700
    p_data: float = 0.12
    n_boundary: int = 300
    second_pass: float = 0.0
    n_paths: int = 100
    dt: float | None = None
    scheme: str = "default"
    label_weight: float = 3.0
    label_rate: float = 0.9
    boundary_weight: float = 10.0
    uncertainty: bool = False
    scaled: bool = True
    adaptive: bool = False
    redraw: int = 1
    natural_steps: int = 120
    polish_steps: int = 0
    polish_times: int = 4
    momentum: float = 0.0
    adam_steps: int = 4000
    learning_rate: float = 1e-3
    lbfgs_steps: int = 1000
    nncg_steps: int = 100
    n_test: int = 4000
    certify_seconds: float = 20.0
    rounds: int = 0
    target: float | None = None
    checkpoint_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_type(field, getattr(self, field.name))
        if not self.widths or min(self.widths) < 1:
            raise ValueError(f"`widths` must be positive numbers of units; got {self.widths}.")
        for name in ("n_collocation", "n_boundary", "n_test"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}.")
        if self.n_paths < 2:
            raise ValueError(f"`n_paths` must be at least 2; got {self.n_paths}.")
        for name in (
            "natural_steps",
            "polish_steps",
            "adam_steps",
            "lbfgs_steps",
            "nncg_steps",
            "redraw",
            "rounds",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative; got {getattr(self, name)}.")
        for name in ("learning_rate", "boundary_weight", "label_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive; got {getattr(self, name)}.")
        if not 0 < self.label_rate <= 1:
            raise ValueError(f"`label_rate` must lie in (0, 1]; got {self.label_rate}.")
        if not 0 <= self.p_data < 1:
            raise ValueError(f"`p_data` must lie in [0, 1); got {self.p_data}.")
        if not 0 <= self.second_pass < 1:
            raise ValueError(f"`second_pass` must lie in [0, 1); got {self.second_pass}.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must lie in [0, 1); got {self.momentum}.")
        for name in ("dt", "frequencies", "target"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be positive; got {value}.")

        for name in ("checkpoint_seconds", "certify_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must not be negative; got {getattr(self, name)}.")
        if self.polish_times < 1:
            raise ValueError(f"`polish_times` must be at least 1; got {self.polish_times}.")

    @property
    def n_labels(self) -> int:
        """Points with labels, [eq:n_data](../theory/equations.md)."""
        return int(self.p_data * self.n_collocation + 1e-9)

    @property
    def n_interior(self) -> int:
        """Points of the residual."""
        return self.n_collocation - self.n_labels


def settings_from(values: dict[str, Any], base: Settings | None = None) -> Settings:
    """Settings with some values replaced; unknown keys are refused."""
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    given = {}
    for key, value in values.items():
        if key not in fields:
            raise ValueError(f"There is no setting `{key}`.{close_matches(key, fields)}")
        given[key] = tuple(value) if isinstance(value, list) else value
        _check_type(fields[key], given[key])
        if type(value) is int and "float" in _expected(fields[key]):
            given[key] = float(value)
    return dataclasses.replace(base or Settings(), **given)


def write_config(path: Path, config: dict[str, Any]) -> None:
    """A TOML file of plain values, with one table of settings."""
    lines = [f"{key} = {toml(value)}" for key, value in config.items() if key != "settings"]
    settings = config["settings"]
    lines += ["", "[settings]"]
    lines += [f"{key} = {toml(value)}" for key, value in settings.items() if value is not None]
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def read_config(path: Path) -> dict[str, Any]:
    """What `write_config` wrote, its settings checked."""
    config = read_toml(path)
    wanted = {"problem": str, "method": str, "preset": str, "seed": int, "settings": dict}
    for key, kind in wanted.items():
        if type(config.get(key)) is not kind:
            raise ValueError(
                f"`{path}` must have `{key}`, a {kind.__name__}; got {config.get(key)!r:.80}."
            )
    if abs(config["seed"]) >= 2**62:
        raise ValueError(f"`{path}`: `seed` must be less than {2**62}; got {config['seed']!r:.80}.")
    for key in config:
        if key not in wanted:
            raise ValueError(f"`{path}`: there is no key `{key}`.{close_matches(key, wanted)}")
    optional = {"dt": None, "frequencies": None, "target": None}  # TOML has no word for nothing
    try:
        config["settings"] = settings_from(optional | config["settings"])
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


def _check_type(field: dataclasses.Field, value: Any) -> None:
    kinds = {
        "int": (int,),
        "float": (int, float),
        "float | None": (int, float, type(None)),
        "bool": (bool,),
        "str": (str,),
        "tuple[int, ...]": (tuple,),
    }
    expected = _expected(field)
    wrong = not isinstance(value, kinds[expected]) or (
        isinstance(value, bool) and expected != "bool"
    )
    if isinstance(value, tuple):
        wrong = wrong or any(isinstance(v, bool) or not isinstance(v, int) for v in value)
    if wrong:
        raise ValueError(f"`{field.name}` must be of type {expected}; got {value!r:.80}.")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, int) and abs(number) >= 2**31:  # no array has that size
            raise ValueError(f"`{field.name}` must be less than {2**31}; got {value!r:.80}.")


def _expected(field: dataclasses.Field) -> str:
    return field.type if isinstance(field.type, str) else _spelled(field.type)


def _spelled(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def close_matches(word: str, known) -> str:
    """A hint at names that look alike, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=3)
    return f" Did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
