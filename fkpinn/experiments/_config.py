"""What a table or figure is made of: problems, methods, values that vary, seeds."""

import dataclasses
import itertools
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from .._solve import PRESETS, Settings, check_method, close_matches, settings_from
from ..diagnostics import Sizes
from ..problem import catalogue

_KINDS = ("table", "sweep", "conditioning", "landscape", "losses", "solutions")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training but for its seed: what is varied is named, all else is the preset's."""

    problem: str
    method: str
    preset: str
    changes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, problem: str, method: str, preset: str, changes: dict[str, Any]) -> "Cell":
        """The same training has the same cell, however it is spelled."""
        plain = PRESETS[preset]
        settings_from(changes, plain)  # refuses what there is not
        kept = {k: _frozen(v) for k, v in changes.items() if _frozen(v) != getattr(plain, k)}
        if kept.get("p_data") == 0 and method == "fk-pinn" and plain.natural_steps == 0:
            method = "pinn"  # without labels nothing else is left
        if method.startswith("pinn"):
            kept = {k: v for k, v in kept.items() if k not in _OF_LABELS}
        return cls(problem, method, preset, tuple(sorted(kept.items())))

    @property
    def settings(self) -> Settings:
        """All sizes and weights."""
        without = {} if self.method.startswith("fk") else {"p_data": 0.0}
        return settings_from(
            dict(self.changes) | without | {"certify_seconds": 0.0}, PRESETS[self.preset]
        )

    @property
    def name(self) -> str:
        """A name for files."""
        spelled = [f"{key}={_short(value)}" for key, value in self.changes]
        return "_".join([self.problem, self.method, *spelled])

    def record_path(self, results: Path, seed: int) -> Path:
        """Where the record of a run lies."""
        return results / "runs" / self.preset / f"{self.name}_{seed}.json"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure; `paper` is what the paper prints, by row and metric.

    `search` are trainings with other settings, one seed each, so that no method is judged by a bad
    choice; `ours` are those of the product.
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


_OF_LABELS = {"p_data", "n_paths", "dt", "scheme"}
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


def known_experiments(configs: Path) -> list[str]:
    """Names of the files in a folder of configurations."""
    found = sorted(path.stem for path in Path(configs).glob("*.toml"))
    if not found:
        raise ValueError(
            f"`{configs}` holds no configurations. Run this in a checkout of the project, or name "
            f"the folder with `--configs`."
        )
    return found


def read_experiment(configs: Path, name: str, seeds: int | None = None) -> Experiment:
    """The experiment of that name, checked before any work starts."""
    known = known_experiments(configs)
    if name not in known:
        raise ValueError(f"There is no experiment `{name}`; known: {', '.join(known)}.")
    path = Path(configs) / f"{name}.toml"
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"`{path}` is not a TOML file: {error}.") from error
    _known(path, "key", [*config, *config.get("ours", {})], _KEYS)
    _known(path, "size", config.get("sizes", {}), [f.name for f in dataclasses.fields(Sizes)])
    for key, value in config.items():
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            raise ValueError(f"`{path}`: `{key}` must be a {_KEYS[key].__name__}; got {value!r}.")
    if config.get("kind") not in _KINDS:
        raise ValueError(f"`{path}`: `kind` must be one of {_KINDS}; got {config.get('kind')!r}.")
    count = config.get("seeds", 1) if seeds is None else seeds
    if count < 1:
        raise ValueError(f"`seeds` must be at least 1; got {count}.")
    ours = config.get("ours", {})
    return Experiment(
        name=name,
        kind=config["kind"],
        title=config.get("title", name),
        label=config.get("label", ""),
        cells=_cells(path, config),
        seeds=count,
        search=_search(path, config),
        ours=_cells(path, config | {"vary": {}, "own": {}} | ours) if ours else (),
        ours_seeds=ours.get("seeds", count),
        paper=config.get("paper", {}),
        text=config.get("text", {}),
        vary=tuple(config.get("vary", {})),
        problems=tuple(config.get("problems", [])),
        sizes={key: _frozen(value) for key, value in config.get("sizes", {}).items()},
    )


def _cells(path: Path, config: dict[str, Any]) -> tuple[Cell, ...]:
    preset = config.get("preset", "paper")
    if preset not in PRESETS:
        raise ValueError(
            f"`{path}`: `preset` must be one of {tuple(PRESETS)}; got {preset!r}."
            f"{close_matches(preset, PRESETS)}"
        )
    problems, methods = config.get("problems", []), config.get("methods", [])
    for word in problems:
        catalogue(word)
    for word in methods:
        check_method(word)
    vary = config.get("vary", {})
    choices = [[(key, value) for value in values] for key, values in vary.items()]
    own = config.get("own", {})  # settings that a method brings along
    cells = [
        Cell.of(problem, method, preset, own.get(method, {}) | dict(choice))
        for problem, method, *choice in itertools.product(problems, methods, *choices)
    ]
    return tuple(dict.fromkeys(cells))


def _search(path: Path, config: dict[str, Any]) -> tuple[Cell, ...]:
    cells = []
    for given in config.get("search", []):
        tried = dict(given)
        try:
            problem, method = tried.pop("problem"), tried.pop("method")
        except KeyError as error:
            raise ValueError(f"`{path}`: a `search` must name its {error}; got {given}.") from None
        cells.append(Cell.of(problem, method, config.get("preset", "paper"), tried))
    return tuple(cells)


def _known(path: Path, what: str, given: Iterable[str], known: Collection[str]) -> None:
    for word in given:
        if word not in known:
            raise ValueError(f"`{path}`: there is no {what} `{word}`.{close_matches(word, known)}")


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
