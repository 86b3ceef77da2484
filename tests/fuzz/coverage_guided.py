"""Coverage-guided fuzzing of one format with atheris, for as long as one likes; no test needs it.

    pip install atheris
    PYTHONPATH=tests python tests/fuzz/coverage_guided.py labels -max_total_time=600

The first word is the name of a format (`formats.FORMATS`); what follows goes to libFuzzer. Files
that fail are left in this folder as `crash-...`.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fkpinn", "zipfile", "json", "tomllib"]):
    from fuzz.formats import FORMATS


def main() -> None:
    """Read whatever atheris makes of a valid file."""
    (format_,) = (f for f in FORMATS if f.name == sys.argv[1])
    folder, corpus = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    path = format_.make(folder)
    (corpus / "valid").write_bytes(path.read_bytes())

    def one(content: bytes) -> None:
        path.write_bytes(content)
        try:
            format_.check(format_.read(path))
        except (ValueError, OSError) as error:
            if path.name not in str(error):
                raise AssertionError(f"the message does not name the file: {error}") from error

    atheris.Setup([sys.argv[0], str(corpus), "-rss_limit_mb=4096", *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
