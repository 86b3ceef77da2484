"""Rows as Markdown and as LaTeX."""

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown, the first columns, which hold `names`, to the left."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    lines = [list(header), rule, *map(list, rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def latex_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    """A table in LaTeX, with rules of the package `booktabs`."""
    line = lambda cells: "    " + " & ".join(map(_escaped, cells)) + " \\\\\n"
    return (
        "\\begin{table}\n  \\centering\n"
        f"  \\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}\n    \\toprule\n"
        + line(header)
        + "    \\midrule\n"
        + "".join(map(line, rows))
        + "    \\bottomrule\n  \\end{tabular}\n"
        f"  \\caption{{{_escaped(caption)}}}\n  \\label{{{label}}}\n\\end{{table}}\n"
    )


def with_spread(mean: float, spread: float) -> str:
    """`0.107 ± 0.006`, or `1.2e-4 ± 3e-5` where that is shorter; a single value has no spread."""
    if mean != 0 and (abs(mean) < 1e-2 or abs(mean) >= 1e4):
        value, about = _power(mean, 1), _power(spread, 0)
    else:
        digits = 3 if abs(mean) < 10 else 1
        value, about = f"{mean:.{digits}f}", f"{spread:.{digits}f}"
    return f"{value} ± {about}" if spread else value


def _power(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "`": "",
}  # fmt: skip


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
