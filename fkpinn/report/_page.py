"""One self-contained page a run."""

import base64
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._records import write_bytes


def write_page(path: Path, result: dict[str, Any], figures: list[Path]) -> Path:
    """Write the report of a run, pictures included, as one HTML file.

    Args:
        path: where it goes.
        result: the record of the run.
        figures: pictures, in order; file names become headings.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string((files("fkpinn.report") / "page.html").read_text("utf-8"))
    pictures = [
        (figure.stem.capitalize(), base64.b64encode(figure.read_bytes()).decode())
        for figure in figures
    ]
    write_bytes(path, template.render(result=result, figures=pictures).encode())
    return path
