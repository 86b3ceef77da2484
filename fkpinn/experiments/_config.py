"""What a table or figure is made of: problems, methods, values that vary, seeds."""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from .._files import brief, read_toml
from .._solve import PRESETS, Settings, close_matches, find_method, settings_from
from ..diagnostics import Sizes
from ..problem import catalogue

_KINDS = ("table", "sweep", "conditioning", "landscape", "losses", "solutions")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training except for its seed: settings that differ from the preset are given by name."""

    problem: str
    method: str
    preset: str
    changes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, problem: str, method: str, preset: str, changes: dict[str, Any]) -> "Cell":
        """The cell of a training; equal trainings have equal cells, however they are written."""
        plain = PRESETS[preset]
        settings_from(changes, plain)  # refuses what there is not
        kept = {k: _frozen(v) for k, v in changes.items() if _frozen(v) != plain.get(k)}
        if kept.get("labels.p_data") == 0 and method == "fk-pinn" and plain.training.steps == 0:
            method = "pinn"  # without labels nothing else is left
        if not find_method(method).labelled:
            kept = {k: v for k, v in kept.items() if k not in _OF_LABELS}
        return cls(problem, method, preset, tuple(sorted(kept.items())))

    @property
    def settings(self) -> Settings:
        """All sizes and weights."""
        without = {} if find_method(self.method).labelled else {"labels.p_data": 0.0}
        return settings_from(
            dict(self.changes) | without | {"certificate.seconds": 0.0}, PRESETS[self.preset]
        )

    @property
    def name(self) -> str:
        """A name for files."""
        short = sorted((key.partition(".")[2], value) for key, value in self.changes)
        spelled = [f"{key}={_short(value)}" for key, value in short]
        return "_".join([self.problem, self.method, *spelled])

    def record_path(self, results: Path, seed: int) -> Path:
        """Where the record of a run lies."""
        return results / "runs" / self.preset / f"{self.name}_{seed}.json"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure; `paper` has the paper's values, by row and metric.

    `search` are trainings with other settings, one seed each, so that no method is judged by a bad
    choice of settings; `ours` are trainings by fkpinn's own presets.
    """

    name: str
    kind: str
    title: str
    label: str
    cells: tuple[Cell, ...]
    seeds: int
    search: tuple[Cell, ...]
    ours: tuple[Cell, ...]
    ours_seeds: int
    paper: dict[str, Any]
    text: dict[str, str]
    vary: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    sizes: dict[str, Any] = dataclasses.field(default_factory=dict)

    def parts(self) -> dict[str, tuple[tuple[Cell, ...], int]]:
        """Cells and how many seeds each has, by their part in the table."""
        return {
            "here": (self.cells, self.seeds),
            "search": (self.search, 1),
            "ours": (self.ours, self.ours_seeds),
        }

    def runs(self) -> list[tuple[Cell, int]]:
        """All trainings, those of the product last."""
        return [
            run
            for cells, seeds in self.parts().values()
            for run in itertools.product(cells, range(seeds))
        ]


_OF_LABELS = {"labels.p_data", "labels.n_paths", "labels.dt", "labels.scheme"}
_KEYS = {
    "kind": str,
    "title": str,
    "label": str,
    "preset": str,
    "seeds": int,
    "problems": list,
    "methods": list,
    "vary": dict,
    "own": dict,
    "search": list,
    "ours": dict,
    "sizes": dict,
    "paper": dict,
    "text": dict,
}
_INNER = {"problems": str, "methods": str, "vary": list, "own": dict, "search": dict, "text": str}
_MOST = 10_000  # trainings of a kind; more is a slip


def known_experiments(configs: Path) -> list[str]:
    """Names of the files in a folder of configurations."""
    found = sorted(path.stem for path in Path(configs).glob("*.toml"))
    if not found:
        raise ValueError(
            f"`{configs}` contains no configurations. Run this in a checkout of the project, or "
            f"name the folder with `--configs`."
        )
    return found


def read_experiment(configs: Path, name: str, seeds: int | None = None) -> Experiment:
    """The experiment of that name, checked before any work starts."""
    known = known_experiments(configs)
    if name not in known:
        raise ValueError(f"There is no experiment `{name}`; known: {', '.join(known)}.")
    path = Path(configs) / f"{name}.toml"
    config = read_toml(path)
    _check_seeds(1 if seeds is None else seeds)
    try:
        _check(config)
        return _experiment(name, config, seeds)
    except ValueError as error:
        raise ValueError(f"`{path}`: {brief(error)}") from error


def _experiment(name: str, config: dict[str, Any], seeds: int | None) -> Experiment:
    count = config.get("seeds", 1) if seeds is None else seeds
    ours = config.get("ours", {})
    return Experiment(
        name=name,
        kind=config["kind"],
        title=config.get("title", name),
        label=config.get("label", ""),
        cells=_cells(config),
        seeds=count,
        search=_search(config),
        ours=_cells(config | {"vary": {}, "own": {}} | ours) if ours else (),
        ours_seeds=ours.get("seeds", count),
        paper=_with_floats(config.get("paper", {})),
        text=config.get("text", {}),
        vary=tuple(config.get("vary", {})),
        problems=tuple(config.get("problems", [])),
        sizes=_sizes(config.get("sizes", {})),
    )


def _check(config: dict[str, Any]) -> None:
    """Refuse what has the wrong name, type or size."""
    _check_types(config)
    _check_types(config.get("ours", {}))
    if config.get("kind") not in _KINDS:
        raise ValueError(f"`kind` must be one of {_KINDS}; got {config.get('kind')!r:.80}.")
    sizes = config.get("sizes", {})
    _known("size", sizes, [f.name for f in dataclasses.fields(Sizes)])
    Sizes(**_sizes(sizes))
    deep = {"table": 2, "sweep": 1}  # of no other kind it is read
    for key, values in config.get("paper", {}).items() if config["kind"] in deep else ():
        _check_printed(f"paper.{key}", values, deep[config["kind"]])
        for method in values if config["kind"] == "table" else ():
            find_method(method)


def _check_types(config: dict[str, Any]) -> None:
    _known("key", config, _KEYS)
    for key, value in config.items():
        if type(value) is not _KEYS[key]:
            raise ValueError(f"`{key}` must be a {_KEYS[key].__name__}; got {value!r:.80}.")
        inner = value.values() if isinstance(value, dict) else value
        if key in _INNER and any(type(one) is not _INNER[key] for one in inner):
            raise ValueError(f"`{key}` must hold values of type {_INNER[key].__name__}.")
    _check_seeds(config.get("seeds", 1))
    if math.prod(map(len, config.get("vary", {}).values())) > _MOST:
        raise ValueError(f"`vary` must not have more than {_MOST} combinations.")


def _sizes(given: dict[str, Any]) -> dict[str, Any]:
    """Values for `Sizes`, each of the type of its default."""
    usual, found = dataclasses.asdict(Sizes()), {}
    for key, value in given.items():
        found[key] = float(value) if _is_small(value) and key == "reach" else _frozen(value)
        numbers = found[key] if isinstance(found[key], tuple) else ()
        if type(found[key]) is not type(usual[key]) or not all(map(_is_small, numbers)):
            raise ValueError(f"`{key}` must be like {usual[key]}; got {value!r:.80}.")
    return found


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_small(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**31


def _check_seeds(count: int) -> None:
    if not 1 <= count <= _MOST:
        raise ValueError(f"`seeds` must be at least 1 and at most {_MOST}; got {count!r:.80}.")


def _check_printed(where: str, values: Any, deep: int) -> None:
    """Tables in tables, and at the end a mean and a spread by metric."""
    if deep == 0:
        plain = isinstance(values, list) and len(values) == 2
        if not plain or not all(_is_small(v) or _is_finite(v) for v in values):
            raise ValueError(f"`{where}` must be a mean and a spread; got {values!r:.80}.")
        return
    if not isinstance(values, dict):
        raise ValueError(f"`{where}` must be a table; got {values!r:.80}.")
    for key, inner in values.items():
        _check_printed(f"{where}.{key}", inner, deep - 1)


def _with_floats(printed: Any) -> Any:
    """The same tables; a mean may be written as 2."""
    if isinstance(printed, dict):
        return {key: _with_floats(inner) for key, inner in printed.items()}
    if isinstance(printed, list):
        return list(map(_with_floats, printed))
    return float(printed) if _is_small(printed) else printed


def _cells(config: dict[str, Any]) -> tuple[Cell, ...]:
    preset = config.get("preset", "paper")
    if preset not in PRESETS:
        raise ValueError(
            f"`preset` must be one of {tuple(PRESETS)}; got {preset!r}."
            f"{close_matches(preset, PRESETS)}"
        )
    problems, methods = config.get("problems", []), config.get("methods", [])
    for word in problems:
        catalogue(word)
    for word in methods:
        find_method(word)
    vary = config.get("vary", {})
    choices = [[(key, value) for value in values] for key, values in vary.items()]
    own = config.get("own", {})  # settings that a method brings along
    cells = [
        Cell.of(problem, method, preset, own.get(method, {}) | dict(choice))
        for problem, method, *choice in itertools.product(problems, methods, *choices)
    ]
    return tuple(dict.fromkeys(cells))


def _search(config: dict[str, Any]) -> tuple[Cell, ...]:
    cells = []
    for given in config.get("search", []):
        tried = dict(given)
        try:
            problem, method = tried.pop("problem"), tried.pop("method")
        except KeyError as error:
            raise ValueError(f"a `search` must name its {error}; got {given!r:.80}.") from None
        catalogue(str(problem))
        find_method(str(method))
        cells.append(Cell.of(problem, method, config.get("preset", "paper"), tried))
    return tuple(cells)


def _known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    for word in given:
        if word not in known:
            raise ValueError(f"there is no {what} `{word}`.{close_matches(word, known)}")


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
