"""One table or figure: run what is missing, then draw it from records alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._files import read_json, reading
from .._progress import AbstractProgress
from .._records import write_bytes
from .._solve import PRESETS
from ..diagnostics import Sizes, diagnose
from ..report import (
    METHOD_NAMES,
    draw_conditioning,
    draw_landscapes,
    draw_losses,
    draw_solution,
    draw_sweep,
    latex_table,
    markdown_table,
    with_spread,
)
from ._config import Experiment
from ._jobs import run_in_jobs
from ._run import run_missing
from ._summary import METRICS, load_records, summarize, varied
from ._verdict import verdict

_DIAGNOSED = ("conditioning", "landscape")
_METRIC_NAMES = {
    "l2_abs": "L2 absolute", "l2_rel": "L2 relative", "h1_abs": "H1 absolute",
    "h1_rel": "H1 relative", "seconds": "seconds",
}  # fmt: skip
_AXES = {
    "labels.dt": "time step of the paths", "labels.n_paths": "paths a label",
    "labels.p_data": "share of points with labels", "labels.scheme": "paths",
}  # fmt: skip
_BASELINE = "PINN, no labels"
_SCHEMES = {"euler": "plain Euler", "default": "corrected"}


def reproduce(
    experiment: Experiment,
    *,
    results: Path,
    pages: Path,
    from_records: bool = False,
    seconds: float = float("inf"),
    at_once: int | None = None,
    jobs: int = 1,
    progress: AbstractProgress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run what is missing of a table or figure, and write its page.

    Args:
        experiment: what to make.
        results: the folder of records.
        pages: where the page goes; its figures and LaTeX lie in `assets` there.
        from_records: train nothing.
        seconds: no training is begun after these.
        at_once: seeds trained side by side, see `run_missing`.
        jobs: processes that train, see `run_in_jobs`.
        progress: told how far a training is.
        say: told what is done.

    Returns:
        What was written, the summary the page is made from, and how many runs are missing.
    """
    if not from_records:
        if experiment.kind in _DIAGNOSED:
            _diagnose_missing(experiment, results, progress, say)
        elif jobs != 1:
            run_in_jobs(
                experiment.runs(), results, jobs=jobs, seconds=seconds, progress=progress, say=say
            )
        else:
            run_missing(
                experiment.runs(), results,
                seconds=seconds, at_once=at_once, progress=progress, say=say,
            )  # fmt: skip
    return _Page(experiment, results, pages).write()


def _diagnose_missing(experiment: Experiment, results: Path, progress, say) -> None:
    for problem in experiment.problems:
        out = diagnose_folder(results, problem)
        if not (out / f"{experiment.kind}.json").is_file():
            sizes = Sizes(**experiment.sizes)
            diagnose(problem, experiment.kind, out=out, sizes=sizes, progress=progress)
            say(f"{experiment.kind} of {problem}: done")


def diagnose_folder(results: Path, problem: str) -> Path:
    """Where the diagnostics of a problem are kept."""
    return results / "runs" / "diagnose" / problem


class _Page:
    """A page in the making."""

    def __init__(self, experiment: Experiment, results: Path, pages: Path):
        self.experiment, self.results, self.pages = experiment, Path(results), Path(pages)
        self.assets = self.pages / "assets"
        self.figures: list[Path] = []
        self.summary = summarize(experiment, self.results)

    def write(self) -> dict[str, Any]:
        """All of it, and what it was made from."""
        make = {
            "table": self.table,
            "sweep": self.sweep,
            "losses": self.losses,
            "solutions": self.solutions,
            "conditioning": self.conditioning,
            "landscape": self.landscape,
        }[self.experiment.kind]
        self.assets.mkdir(parents=True, exist_ok=True)
        body = make()
        page = self.pages / f"{self.experiment.name}.md"
        write_bytes(page, (self.head() + body + self.foot()).encode())
        return {
            "name": self.experiment.name,
            "page": str(page),
            "figures": list(map(str, self.figures)),
            "missing": self.summary["missing"],
            "summary": self.summary,
        }

    def head(self) -> str:
        name, label = self.experiment.name, self.experiment.label
        lines = f"# {self.experiment.title}\n\n"
        if label:
            lines += f"`{label}` of the paper. "
        lines += f"Made by `fkpinn reproduce {name}`; `--from-records` draws it again.\n\n"
        spent, devices = self.summary["seconds"], self.summary["devices"]
        if devices:
            lines += (
                f"Runs on {', '.join(devices)}, {spent / 60:.0f} minutes in all; records in "
                f"`results/runs`.\n\n"
            )
        if self.summary["missing"]:
            lines += (
                f"!!! warning\n    {self.summary['missing']} runs of this page are not on record "
                f"yet.\n\n"
            )
        return lines

    def foot(self) -> str:
        said = verdict(self.experiment, self.summary)
        text = f"\n**Verdict.** {said}\n" if said else ""
        for name, words in self.experiment.text.items():
            text += f"\n**{name.capitalize()}.** {words.strip()}\n"
        return text

    def table(self) -> str:
        """Rows by problem and method; what the paper prints above what is found here."""
        printed = self.experiment.paper
        shown = [
            m for m in METRICS if any(m in v for own in printed.values() for v in own.values())
        ]
        header = ["problem", "method", *(_METRIC_NAMES[m] for m in shown), "seconds"]
        rows, trials = [], []
        for problem in self.experiment.problems:
            own = [r for r in self.summary["rows"] if r["problem"] == problem]
            for method, values in printed.get(problem, {}).items():
                cells = [with_spread(*values[m]) if m in values else "–" for m in shown]
                rows.append([f"`{problem}`", f"{METHOD_NAMES[method]}, paper", *cells, "–"])
                for r in (r for r in own if (r["part"], r["method"]) == ("here", method)):
                    rows.append(self._found(r, shown))
                for r in (r for r in own if (r["part"], r["method"]) == ("search", method)):
                    trials.append(f"{len(trials) + 1}. {METHOD_NAMES[method]}: {self._tried(r)}\n")
                    rows.append(self._found(r, shown, len(trials)))
            rows += [self._found(r, shown) for r in own if r["part"] == "ours"]
        told = f"\nTrials, with other settings:\n\n{''.join(trials)}\n" if trials else ""
        return self._both(header, rows, names=2) + told

    def _found(self, row: dict[str, Any], shown: list[str], trial: int = 0) -> list[str]:
        name = METHOD_NAMES[row["method"]]
        who = {
            "here": f"{name}, here",
            "search": f"{name}, trial {trial}",
            "ours": "fkpinn `best`",
        }[row["part"]]
        cells = [with_spread(*row[metric]) for metric in shown]
        seconds = with_spread(*row["seconds"])
        seeds = f"{row['n']} seed{'s' if row['n'] > 1 else ''}"
        return [f"`{row['problem']}`", f"{who} ({seeds})", *cells, seconds]

    def _tried(self, row: dict[str, Any]) -> str:
        """What a run of the search changes in the method's own settings."""
        plain = PRESETS[row["preset"]].flat()
        own = plain | next(
            (dict(c.changes) for c in self.experiment.cells if c.method == row["method"]), {}
        )
        tried = plain | row["changes"]
        changes = {key: tried[key] for key in sorted(tried) if tried[key] != own[key]}
        return ", ".join(f"`{key} = {_spelled(value)}`" for key, value in changes.items())

    def sweep(self) -> str:
        """Rows by the value that varies, and a figure."""
        keys = self.experiment.vary
        printed, rows = self.experiment.paper, []
        shown = ["l2_rel", "h1_rel", "seconds"]
        header = [*(_AXES[key] for key in keys)]
        for metric in shown:
            header += [f"{_METRIC_NAMES[metric]}, paper"] if printed else []
            header += [f"{_METRIC_NAMES[metric]}, here" if printed else _METRIC_NAMES[metric]]
        header += ["label error", "label bias"]
        for row in self.summary["rows"]:
            values = varied(self.experiment, row)
            cells = [
                _SCHEMES.get(str(v), f"{v:g}" if isinstance(v, float) else str(v)) for v in values
            ]
            if row["part"] == "ours" or self._is_baseline(row):
                name = "fkpinn `best`" if row["part"] == "ours" else _BASELINE
                cells = [name, *[""] * (len(keys) - 1)]
            for metric in shown:
                if printed:
                    known = {} if row["part"] == "ours" else printed.get(str(values[0]), {})
                    cells.append(with_spread(*known[metric]) if metric in known else "–")
                cells.append(with_spread(*row[metric]))
            for part in ("label_rel_err", "label_rel_bias"):
                cells.append(with_spread(*row[part]) if part in row else "–")
            rows.append(cells)
        return self._both(header, rows) + self._sweep_figure()

    def _sweep_figure(self) -> str:
        key = self.experiment.vary[-1]
        found = [r for r in self.summary["rows"] if r["part"] == "here"]
        rows = [r for r in found if not self._is_baseline(r)]
        if not rows:
            return ""
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            values = varied(self.experiment, row)
            groups.setdefault(str(values[0]) if len(values) > 1 else "euler", []).append(row)
        curves: dict[str, dict[str, Any]] = {}
        for scheme, own in groups.items():
            corrected = "corrected" if scheme == "default" else ""
            for metric, what, style in (
                ("l2_rel", "network", corrected or "error"),
                ("label_rel_err", "labels", f"{corrected} label".strip()),
            ):
                some = [r for r in own if metric in r]
                if some:
                    curves[f"{what}, {_SCHEMES[scheme]} paths"] = {
                        "x": [varied(self.experiment, r)[-1] for r in some],
                        "mean": [r[metric][0] for r in some],
                        "each": [r["each"][metric] for r in some] if what == "network" else [],
                        "style": style,
                    }
        printed = {float(x): v["l2_rel"] for x, v in self.experiment.paper.items() if "l2_rel" in v}
        if printed:
            means, spreads = zip(*printed.values(), strict=True)
            curves["network, as the paper prints"] = {
                "x": list(printed), "mean": means, "spread": spreads, "style": "paper",
            }  # fmt: skip
        plain = [r["l2_rel"][0] for r in found if self._is_baseline(r)]
        levels = {_BASELINE: plain[0]} if plain else {}
        path = self.assets / f"{self.experiment.name}.png"
        self.figures.append(draw_sweep(path, self.experiment.title, _AXES[key], curves, levels))
        return self._image(path)

    def _is_baseline(self, row: dict[str, Any]) -> bool:
        """Whether a row of a sweep has nothing of what varies: a PINN has no labels."""
        return row["method"].startswith("pinn") and "labels.p_data" not in self.experiment.vary

    def losses(self) -> str:
        """Curves of the first seed."""
        records = load_records(self.experiment.cells, 1, self.results)
        if not records:
            return ""
        path = self.assets / "losses.png"
        self.figures.append(draw_losses(path, self.experiment.title, records))
        return self._image(path)

    def solutions(self) -> str:
        """A figure a problem."""
        text = ""
        for problem in self.experiment.problems:
            cells = [cell for cell in self.experiment.cells if cell.problem == problem]
            records = {r["method"]: r for r in load_records(cells, 1, self.results)}
            if any(r.get("picture") for r in records.values()):
                path = self.assets / f"solutions-{problem}.png"
                self.figures.append(draw_solution(path, problem, records))
                text += f"## `{problem}`\n\n{self._image(path)}"
        return text

    def conditioning(self) -> str:
        """A figure and a sentence a problem."""
        text = ""
        for source, problem, record in self._diagnosed():
            path = self.assets / f"conditioning-{problem}.png"
            title = f"{problem}: condition number against points"
            with reading(source):
                self.figures.append(draw_conditioning(path, title, record))
                text += f"## `{problem}`\n\n{self._image(path)}{record['verdict']}\n\n"
        return text

    def landscape(self) -> str:
        """Both kinds of directions, a figure each."""
        text = ""
        names = {"random": "random directions", "curved": "the most curved directions"}
        for source, problem, record in self._diagnosed():
            for kind, words in names.items():
                path = self.assets / f"landscape-{problem}-{kind}.png"
                title = f"{problem}: loss along {words}"
                with reading(source):
                    self.figures.append(draw_landscapes(path, title, record[kind]))
                    rough = {m: found["roughness"] for m, found in record[kind].items()}
                    said = ", ".join(f"{METHOD_NAMES[m]} {v:.2f}" for m, v in rough.items())
                text += f"## `{problem}`, {words}\n\n{self._image(path)}Roughness: {said}.\n\n"
        if text:
            text += "Roughness is the share of second differences of the log loss below zero.\n"
        return text

    def _diagnosed(self) -> list[tuple[Path, str, dict[str, Any]]]:
        found = []
        for problem in self.experiment.problems:
            path = diagnose_folder(self.results, problem) / f"{self.experiment.kind}.json"
            if path.is_file():
                record = read_json(path)
                with reading(path):
                    self.summary["seconds"] += record["seconds"]
                    seen = {*self.summary["devices"], str(record["device"])}
                found.append((path, problem, record))
                self.summary["devices"] = sorted(seen)
            else:
                self.summary["missing"] += 1
        return found

    def _both(self, header: list[str], rows: list[list[str]], names: int = 1) -> str:
        if not rows:
            return ""
        name, title = self.experiment.name, self.experiment.title
        text = latex_table(header, rows, title, f"tab:fkpinn-{name}")
        write_bytes(self.assets / f"{name}.tex", text.encode())
        return markdown_table(header, rows, names) + "\n"

    def _image(self, path: Path) -> str:
        return f"![{self.experiment.title}](assets/{path.name})\n\n"


def _spelled(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
