"""`fkpinn completion`: a script that lets the shell complete names."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro

from fkpinn.cli._catalogue import read_catalogue
from fkpinn.cli._output import PLAIN, OutputOptions, print_json

_HEAD = """\
_fkpinn() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%s"
  else
    case "${COMP_WORDS[1]} $prev" in
%s
      *) case "${COMP_WORDS[1]} $cur" in
%s
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _fkpinn fkpinn
"""


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print a script that completes commands, options, problems and settings in the shell.

    Example: `fkpinn completion bash >> ~/.bashrc`
    """

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional] = "bash"
    """Which shell; the script for zsh uses zsh's emulation of bash completion."""
    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Print it."""
        from fkpinn._solve import Settings
        from fkpinn.cli._main import COMMANDS

        settings = [f"{name}=" for name in Settings().flat()]
        script = completion_script(
            COMMANDS, [entry["name"] for entry in read_catalogue()], settings
        )
        if self.shell == "zsh":
            script = f"autoload -U +X bashcompinit && bashcompinit\n{script}"
        if self.output.json:
            print_json({"shell": self.shell, "script": script})
        else:
            print(script, end="")


def completion_script(
    commands: Mapping[str, type], problems: list[str], settings: list[str]
) -> str:
    """A function of bash that knows all words; file names are the shell's own default."""
    values, words = [], []
    for name, command in commands.items():
        options, named = [], []
        for option, hint in _arguments(command):
            choices = _choices(hint)
            if tyro.conf.Positional in _added(hint):
                named += problems if _metavar(hint).startswith("P") else choices
                continue
            options.append(option)
            choices = settings if option == "--set" else choices
            if choices:
                values.append(f'      "{name} {option}") words="{" ".join(choices)}" ;;')
        words.append(f'        "{name} -"*) words="{" ".join([*options, "--help"])}" ;;')
        words.append(f'        "{name} "*) words="{" ".join(named)}" ;;')
    return _HEAD % (" ".join(commands), "\n".join(values), "\n".join(words))


def _arguments(command: type) -> list[tuple[str, Any]]:
    """Options and positional arguments with their types; options of output stand beside others."""
    hints, found = typing.get_type_hints(command, include_extras=True), []
    for field in dataclasses.fields(command):
        inner = _plain(hints[field.name])
        if dataclasses.is_dataclass(inner):
            found += _arguments(typing.cast(type, inner))
        else:
            found.append((f"--{field.name.replace('_', '-')}", hints[field.name]))
    return found


def _plain(hint: Any) -> Any:
    """The type without what was added to it, and without `None`."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return _plain(next(arg for arg in get_args(hint) if arg is not type(None)))
    return hint


def _choices(hint: Any) -> list[str]:
    inner = _plain(hint)
    return list(get_args(inner)) if get_origin(inner) is Literal else []


def _added(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _metavar(hint: Any) -> str:
    found = (getattr(one, "metavar", None) for one in _added(hint))
    return next((one for one in found if one), "")
