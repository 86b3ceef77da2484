"""A problem in mathematical notation, as MathML: browsers draw it without any library."""

import html
import math
from typing import Any

import numpy as np


def equations(problem: dict[str, Any]) -> list[str]:
    """The equation and its boundary and final data, one MathML element each.

    Args:
        problem: as `fkpinn.problem.describe` tells it.
    """
    timed = problem["horizon"] is not None
    point = "<mi>t</mi><mo>,</mo><mi>x</mi>" if timed else "<mi>x</mi>"
    terms: list[tuple[str, str]] = []  # sign, what follows
    forward = bool(timed and problem.get("forward"))
    if timed and not forward:
        terms.append(("+", _partial("t")))
    jumps = problem.get("jumps")
    if jumps is None or not _zero(problem["diffusion"]):
        terms.append(("+", _second_order(problem["diffusion"], point)))
    if not _zero(problem["drift"]):
        terms.append(("+", _drift(problem["drift"], point)))
    if not _zero(problem["reaction"]):
        terms.append(_signed("-", problem["reaction"], "V", point, "<mi>u</mi>"))
    if jumps is not None:
        terms.append(_jumps(jumps, point))
    if not _zero(problem["source"]):
        terms.append(_signed("+", problem["source"], "f", point, ""))
    if problem.get("nonlinearity") is not None:
        terms.append(("+", _nonlinearity(problem["nonlinearity"], point)))
    body = "".join(
        (f"<mo>{_minus(sign)}</mo>" if k or sign == "-" else "") + term
        for k, (sign, term) in enumerate(terms)
    )
    inside = "<mi>D</mi>"
    if timed:
        times = "<mo>(</mo><mn>0</mn><mo>,</mo>" + _number(problem["horizon"]) + "<mo>)</mo>"
        inside = f"{times}<mo>×</mo>{inside}"
    whole = f"{_partial('t')}<mo>=</mo>{body}" if forward else f"{body}<mo>=</mo><mn>0</mn>"
    lines = [_math(whole + _text(" in ") + inside)]
    for condition in problem["boundary"]:
        lines.append(_math(_condition(condition, point)))
    if problem.get("exterior") is not None:
        outside = "<mi>u</mi><mo>=</mo>" + _data(problem["exterior"], "g", point)
        lines.append(_math(outside + _text(" outside ") + "<mi>D</mi>"))
    if timed:
        when = 0.0 if forward else problem["horizon"]
        final = "<mi>u</mi><mo>(</mo>" + _number(when) + "<mo>,</mo><mi>x</mi>"
        lines.append(
            _math(final + "<mo>)</mo><mo>=</mo>" + _data(problem["terminal"], "φ", "<mi>x</mi>"))
        )
    for law in problem.get("parameters", ()):
        name, low, high = html.escape(law["name"]), _number(law["lower"]), _number(law["upper"])
        left, right = (f'<mo stretchy="false">{b}</mo>' for b in "[]")
        between = f"<mo>∈</mo>{left}{low}<mo>,</mo>{high}{right}"
        lines.append(_math(f"<mi>{name}</mi>{between}"))
    return lines


def _second_order(diffusion: dict[str, Any], point: str) -> str:
    constant = diffusion["constant"]
    if constant is not None and np.ndim(constant) == 0:
        factor = 0.5 * float(constant) ** 2
        head = "" if math.isclose(factor, 1.0) else _number(factor)
        return head + "<mi>Δ</mi><mi>u</mi>"
    half = "<mfrac><mn>1</mn><mn>2</mn></mfrac>"
    sigma = "<mi>σ</mi>" if constant is not None else f"<mi>σ</mi><mo>(</mo>{point}<mo>)</mo>"
    if not diffusion["shape"]:  # a scalar function
        square = f"<msup><mrow>{sigma}</mrow><mn>2</mn></msup>"
        return f"{half}{square}<mi>Δ</mi><mi>u</mi>"
    hessian = "<msup><mi>D</mi><mn>2</mn></msup><mi>u</mi>"
    transposed = "<mi>σ</mi><msup><mi>σ</mi><mo>⊤</mo></msup>"
    return f"{half}<mi>tr</mi><mo>(</mo>{transposed}{hessian}<mo>)</mo>"


def _jumps(jumps: dict[str, Any], point: str) -> tuple[str, str]:
    """What jumps add, with its sign."""
    if jumps["kind"] == "Stable":
        alpha, scale = jumps["alpha"], float(jumps["scale"]) ** float(jumps["alpha"])
        power = f"<mrow>{_number(alpha)}<mo>/</mo><mn>2</mn></mrow>"
        base = "<mrow><mo>(</mo><mo>−</mo><mi>Δ</mi><mo>)</mo></mrow>"
        head = "" if math.isclose(scale, 1.0) else _number(scale)
        return "-", f"{head}<msup>{base}{power}</msup><mi>u</mi>"
    sum_of = "<mi>x</mi><mo>+</mo><mi>Z</mi>"
    there = f"<mi>t</mi><mo>,</mo>{sum_of}" if "<mi>t</mi>" in point else sum_of
    mean = f"<mi>u</mi><mo>(</mo>{there}<mo>)</mo><mo>−</mo><mi>u</mi>"
    rate = _data(jumps["rate"], "λ", point) if "rate" in jumps else "<mi>λ</mi>"
    return "+", f"{rate}<mi>E</mi><mo>[</mo>{mean}<mo>]</mo>"


def _nonlinearity(reads: list[str], point: str) -> str:
    """A letter, with what it reads."""
    second = "<msup><mi>D</mi><mn>2</mn></msup><mi>u</mi>"
    names = {"u": "<mi>u</mi>", "p": "<mo>∇</mo><mi>u</mi>", "Q": second}
    read = "".join(f"<mo>,</mo>{names[name]}" for name in ("u", "p", "Q") if name in reads)
    return f"<mi>F</mi><mo>(</mo>{point}{read}<mo>)</mo>"


def _drift(drift: dict[str, Any], point: str) -> str:
    constant = drift["constant"]
    if constant is None:
        vector = f"<mi>b</mi><mo>(</mo>{point}<mo>)</mo>"
    elif len(constant) > 4:
        vector = "<mi>b</mi>"
    else:
        vector = "<mo>(</mo>" + "<mo>,</mo>".join(map(_number, constant)) + "<mo>)</mo>"
    return vector + "<mo>·</mo><mo>∇</mo><mi>u</mi>"


def _signed(sign: str, data: dict[str, Any], symbol: str, point: str, after: str):
    """A term with its sign in front; a negative constant turns the sign."""
    constant = data["constant"]
    if constant is None:
        return sign, f"<mi>{symbol}</mi><mo>(</mo>{point}<mo>)</mo>{after}"
    if constant < 0:
        sign = "+" if sign == "-" else "-"
    one = abs(constant) == 1 and after
    return sign, ("" if one else _number(abs(constant))) + after


def _condition(condition: dict[str, Any], point: str) -> str:
    slope = "<mfrac><mrow><mo>∂</mo><mi>u</mi></mrow><mrow><mo>∂</mo><mi>n</mi></mrow></mfrac>"
    kind, on = condition["kind"], _text(f" on {condition['part']}")
    if kind == "Neumann":
        return slope + "<mo>=</mo>" + _data(condition["flux"], "h", point) + on
    if kind == "Robin":
        factor = _data(condition["coefficient"], "c", point)
        flux = _data(condition["flux"], "h", point)
        return f"{slope}<mo>+</mo>{factor}<mi>u</mi><mo>=</mo>{flux}{on}"
    if "value" not in condition:
        return _text(kind) + on
    return "<mi>u</mi><mo>=</mo>" + _data(condition["value"], "g", point) + on


def _data(data: dict[str, Any], symbol: str, point: str) -> str:
    if data["constant"] is None:
        return f"<mi>{symbol}</mi><mo>(</mo>{point}<mo>)</mo>"
    return _number(data["constant"])


def _partial(by: str) -> str:
    return f"<msub><mo>∂</mo><mi>{by}</mi></msub><mi>u</mi>"


def _zero(data: dict[str, Any]) -> bool:
    return data["constant"] is not None and not np.any(data["constant"])


def _minus(sign: str) -> str:
    return "−" if sign == "-" else sign


def _number(value: float) -> str:
    text = f"{value:.6g}"
    sign = "<mo>−</mo>" if text.startswith("-") else ""
    return f"{sign}<mn>{text.lstrip('-')}</mn>"


def _text(words: str) -> str:
    return f"<mtext>{html.escape(words)}</mtext>".replace(" ", "\u00a0")


def _math(body: str) -> str:
    return f'<math display="block"><mrow>{body}</mrow></math>'
