"""`fkpinn solve`: one problem, one run folder."""

import contextlib
import dataclasses
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from fkpinn._progress import AbstractProgress, TensorBoardProgress, Together
from fkpinn.cli._hardware import EVERY_DEVICE, HardwareOptions, speaks
from fkpinn.cli._output import PLAIN, OutputOptions, print_json
from fkpinn.cli._problem_argument import find_problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class HowToSolve:
    """What `solve` and `submit` have in common."""

    method: Literal[
        "fk-pinn", "pinn", "fk-pinn-adam", "fk-pinn-nncg", "pinn-engd", "pinn-nncg", "bsde"
    ] = "fk-pinn"
    """fk-pinn: with Feynman-Kac labels, by natural gradient (in the preset `paper`, by Adam and
    L-BFGS as in the paper). pinn: residual and boundary only, by Adam and L-BFGS. Others name their
    optimizer; nncg follows Adam and L-BFGS. bsde: Deep BSDE, whole paths, by Adam."""
    preset: Literal["quick", "best", "paper"] = "quick"
    """quick: minutes on two cores. best: highest accuracy. paper: the paper's settings."""
    set: Annotated[
        tuple[tuple[str, ...], ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="KEY=VALUE"),
    ] = ()
    """Settings to change, such as `training.steps=200` or `labels.n_paths=500`."""
    target: float | None = None
    """Relative L2 error to reach: the error is measured by paths, and training continues until its
    upper confidence limit is below the target, or further rounds are not expected to help."""

    def words(self) -> list[str]:
        """The same as words of a command."""
        words = ["--method", self.method, "--preset", self.preset]
        words += ["--target", repr(self.target)] if self.target is not None else []
        changes = sum(self.set, ())
        return words + (["--set", *changes] if changes else [])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solve(HowToSolve):
    """Solve one problem and write a run folder: result, figures, report.

    Example: `fkpinn solve met --preset quick --out runs/demo`
    """

    problem: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="P")] = None
    """Name from `fkpinn problems`, or path of a Python file that defines `problem`."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Continue the run in this folder after a crash, instead of starting a new one."""
    seed: int = 0
    """Seed of all random numbers."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Run folder; by default runs/PROBLEM-METHOD-PRESET-SEED."""
    tensorboard: bool = False
    """Write curves for TensorBoard to `tensorboard` in the run folder."""
    open: bool = False
    """Show the report in a browser at the end; without a browser, print its path."""
    hardware: HardwareOptions = EVERY_DEVICE
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Solve, then print the errors and where the files lie."""
        with self.output.reserved(), self.hardware.chosen():
            if (self.problem is None) == (self.resume is None):
                raise ValueError("`fkpinn solve` needs either a problem or `--resume DIR`.")
            progress = self._progress()
            try:
                result = self._result(progress)
            except KeyboardInterrupt:
                progress.finish()
                print(f"Continue with: fkpinn solve --resume {self._folder()}", file=sys.stderr)
                raise
            finally:
                progress.finish()
        if not speaks():
            return
        if self.output.json:
            print_json(result)
        else:
            from fkpinn.cli._result import print_result

            print_result(result)
        if self.open:
            _show(Path(result["report"]))

    def _result(self, progress) -> dict[str, Any]:
        from fkpinn._together import own_copy

        with own_copy(self._folder()) as out:
            assert out is not None
            return self._in(out, progress)

    def _in(self, out: Path, progress: AbstractProgress) -> dict[str, Any]:
        """The result of a run in a folder."""
        if self.resume is not None:
            from fkpinn._solve import resume_run

            return resume_run(out, progress=progress, find=find_problem)
        assert self.problem is not None
        problem = find_problem(self.problem)

        from fkpinn._solve import run

        return run(
            problem,
            method=self.method,
            preset=self.preset,
            settings=_changed(self.preset, problem, sum(self.set, ())) if self.set else None,
            target=self.target,
            seed=self.seed,
            out=out,
            source=self.problem,
            progress=progress,
        )

    def _folder(self) -> Path:
        given = self.resume or self.out
        if given is not None:
            return given
        assert self.problem is not None
        stem = Path(self.problem).stem
        return Path("runs") / f"{stem}-{self.method}-{self.preset}-{self.seed}"

    def _progress(self) -> AbstractProgress:
        shown = self.output.progress()
        if not self.tensorboard or not speaks():
            return shown
        return Together(shown, TensorBoardProgress(self._folder() / "tensorboard"))


def _show(report: Path) -> None:
    """Open a page in a browser, or say where it lies."""
    import webbrowser

    page = report.resolve()
    try:
        with _children_on_stderr():
            shown = _may_have_windows() and webbrowser.open(page.as_uri())
    except (webbrowser.Error, OSError):
        shown = False
    if not shown:
        print(f"No browser could be opened here. The report is {page}", file=sys.stderr)


def _may_have_windows() -> bool:
    """Whether a browser could show a page; browsers of text would take the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


@contextlib.contextmanager
def _children_on_stderr() -> Iterator[None]:
    """What started processes print goes to standard error: standard output may hold JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _changed(preset: str, problem: Any, changes: tuple[str, ...]):
    """The settings of a preset with `KEY=VALUE` changes, values as in TOML."""
    from fkpinn._solve import settings_for, settings_from
    from fkpinn.problem import catalogue

    values = key_values("--set", changes)
    wanted = catalogue(problem).problem if isinstance(problem, str) else problem
    return settings_from(values, settings_for(preset, wanted))


def key_values(flag: str, words: tuple[str, ...]) -> dict[str, Any]:
    """What `KEY=VALUE` words say, values as in TOML; plain words stay as they are."""
    found = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"`{flag}` takes KEY=VALUE; got {word!r}.")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found
