"""`fkpinn problems`: the catalogue, as a table or as JSON."""

import dataclasses

from fkpinn.cli._catalogue import Entry, read_catalogue
from fkpinn.cli._output import PLAIN, OutputOptions, print_json


@dataclasses.dataclass(frozen=True)
class Problems:
    """List the problems that can be named on the command line.

    Example: `fkpinn problems --json`
    """

    output: OutputOptions = PLAIN

    def run(self) -> None:
        """Print the catalogue."""
        entries = read_catalogue()
        if self.output.json:
            print_json(entries)
        else:
            _print_table(entries)


def _print_table(entries: list[Entry]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("dim", justify="right")
    table.add_column("kind", no_wrap=True)
    table.add_column("reference", no_wrap=True)
    table.add_column("what it is")
    for entry in entries:
        table.add_row(
            entry["name"],
            str(entry["dim"]),
            entry["kind"],
            entry["reference"],
            f"{entry['summary']}\n[dim]{entry['equation']}[/dim]",
        )
    Console().print(table)
