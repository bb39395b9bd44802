"""A formula in words: as text, in LaTeX and in SymPy."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from itofit._checks import InputError
from itofit.data.names import plural
from itofit.data.units import HALF, SUPERSCRIPTS, UNKNOWN_TIME, product, written_in_line
from itofit.model.formula.library import Term
from itofit.model.formula.lines import SYMBOLS, Line, Prediction, Slot

if TYPE_CHECKING:
    from itofit.model.formula.formula_sde import Formula

PLAIN_EXPONENTS = range(-3, 5)
"""Powers of ten of a coefficient that is written without them."""
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
}  # fmt: skip
"""Letters that LaTeX knows by these names."""


class SymbolicEquation(NamedTuple):
    """An equation in SymPy."""

    symbols: tuple[Any, ...]  # m symbols, one for each input
    drift: Any  # Matrix (d, 1)
    covariance: Any  # Matrix (d, d): Σ, without the limits that keep it positive definite
    diffusion: Any  # Matrix (d, d): σ if the formula is one for it, else None


class Number(NamedTuple):
    """A coefficient with its error, in digits."""

    value: str
    error: str
    exponent: int  # of ten, that multiplies both
    negative: bool


def number(value: float, error: float) -> Number:
    """A value rounded to two digits of its error."""
    size = max(abs(value), error)
    power = int(np.floor(np.log10(size))) if size > 0 else 0
    exponent = 0 if power in PLAIN_EXPONENTS else power
    scale = 10.0**-exponent
    if not error > 0:
        return Number(f"{abs(value) * scale:.4g}", "0", exponent, value < 0)
    digits = max(0, 1 - int(np.floor(np.log10(error * scale))))
    return Number(f"{abs(value) * scale:.{digits}f}", f"{error * scale:.{digits}f}", exponent, value < 0)


# Text


def text(formula: Formula) -> str:
    """The lines of a formula, what it was chosen from, and how it predicts."""
    named = [(name, line_text(formula, line)) for name, line in formula.lines.items()]
    width = max(len(name) for name, _ in named)
    rows = [headline(formula), *(f"{name:<{width}} = {right}" for name, right in named)]
    return "\n".join(rows + notes(formula))


def headline(formula: Formula) -> str:
    """What kind of equation the lines are of."""
    names = ", ".join(formula.output_names)
    left = f"d{names}" if formula.n_outputs == 1 else f"d({names})"
    noise = "" if formula.noise_lines[0].slot.what == "diffusion" else ", Σ = σσᵀ"
    return f"{left} = f dt + σ dW{noise}, from {formula.data.n_transitions:,} transitions"


def notes(formula: Formula) -> list[str]:
    """How it was chosen and how it predicts, a sentence each."""
    library, rate = len(formula.library), formula.false_alarms
    found = [
        f"chosen from {plural(library, 'term')} for each of {plural(len(formula.lines), 'line')}; "
        f"chance of any false term at most {rate:.2g}",
    ]
    if formula.hidden_velocity is not None:
        found.append("velocities were not observed: coefficients come from what positions show of them")
    if formula.measurement_noise is not None:
        found.append(_measurement_text(formula))
    if formula.prediction is not None:
        found.append(prediction_text(formula.prediction))
        if not formula.is_short:
            worse = [name for name, line in formula.lines.items() if line.is_worse]
            lines = f", mostly in {', '.join(worse)}" if worse and len(worse) < len(formula.lines) else ""
            found.insert(0, f"NO SHORT FORMULA WAS FOUND: the learned functions hold more than these terms{lines}")
    if formula.clipped_share:
        found.append(f"Σ had to be kept positive definite at {formula.clipped_share:.2%} of the data")
    return found


def _measurement_text(formula: Formula) -> str:
    """The errors of measurement that belong to a formula, in a sentence."""
    noise = formula.measurement_noise
    assert noise is not None
    shown = noise.sd_text(formula.input_names[: formula.n_outputs], formula.units)
    given = ", as given" if noise.known else ", estimated with the coefficients"
    return f"seen through errors of measurement with standard deviation {shown}{given}"


def prediction_text(prediction: Prediction) -> str:
    """How the formula predicts, in a sentence."""
    words = {
        "worse": "predicts worse than",
        "perhaps worse": "may predict worse than",
        "as well": "predicts as well as",
        "better": "predicts better than",
    }[prediction.verdict]
    difference = f"{prediction.difference:+.2g}".replace("-", "−")
    return (
        f"{words} the learned functions: loss {difference} ± {prediction.error:.1g} nats per transition "
        f"({prediction.how})"
    )


def line_name(formula: Formula, slot: Slot) -> str:
    """f_x, Σ_x for a variance, Σ_x,y for a covariance; σ_x,y."""
    row, column = formula.output_names[slot.row], formula.output_names[slot.column]
    letter = SYMBOLS[slot.what]
    return f"{letter}_{row}" if slot.row == slot.column else f"{letter}_{row},{column}"


def line_text(formula: Formula, line: Line) -> str:
    """The right-hand side of a line."""
    return joined([(_coefficient(formula, line, k), term.name) for k, term in enumerate(line.terms)], "1", "−", " ")


def _coefficient(formula: Formula, line: Line, k: int) -> tuple[str, bool]:
    """A coefficient with its error and unit in brackets, and whether it is negative."""
    shown = number(line.coefficients[k], line.std[k])
    ten = f"·10{str(shown.exponent).translate(SUPERSCRIPTS)}" if shown.exponent else ""
    unit = coefficient_unit(formula, line.slot, line.terms[k])
    bare = f"({shown.value} ± {shown.error}){ten}"
    return (f"{bare} {unit}" if unit else bare), shown.negative


def coefficient_unit(formula: Formula, slot: Slot, term: Term) -> str:
    """The unit of a coefficient: that of its line over that of its term; empty if one of a variable is not known."""
    units, names = formula.units, formula.output_names
    line = [names[slot.row], names[slot.column]] if slot.what == "covariance" else [names[slot.row]]
    powers = dict(zip(formula.input_names, term.powers, strict=True))
    left = Counter(line)
    left.subtract(powers)
    involved = [name for name, power in left.items() if power]
    if not all(units.of(name) for name in involved):
        return ""
    clock = (units.time or (UNKNOWN_TIME if involved else ""), -HALF if slot.what == "diffusion" else -1)
    above = [(units.of(name), 1) for name in line]
    return written_in_line(product([*above, clock, *((units.of(name), -power) for name, power in powers.items())]))


def joined(parts: list[tuple[tuple[str, bool], str]], one: str, minus: str, between: str) -> str:
    """A sum of coefficients times terms; 0 if there are none."""
    written = ""
    for (coefficient, negative), term in parts:
        sign = f" {minus} " if negative else " + "
        written += sign.lstrip() if not written and negative else (sign if written else "")
        written += coefficient if term == one else f"{coefficient}{between}{term}"
    return written or "0"


# LaTeX


def latex(formula: Formula) -> str:
    """All lines as an `aligned` environment."""
    rows = []
    for line in formula.lines.values():
        slot = line.slot
        row, column = (latex_name(formula.output_names[i]) for i in (slot.row, slot.column))
        letter = {"drift": "f", "covariance": r"\Sigma", "diffusion": r"\sigma"}[slot.what]
        index = row if slot.what == "drift" else f"{row} {column}"
        parts = [(_latex_coefficient(formula, line, k), latex_term(formula, term)) for k, term in enumerate(line.terms)]
        right = joined(parts, "1", "-", r" \, ")
        rows.append(f"{letter}_{{{index}}} &= {right}")
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _latex_coefficient(formula: Formula, line: Line, k: int) -> tuple[str, bool]:
    shown = number(line.coefficients[k], line.std[k])
    ten = rf" \cdot 10^{{{shown.exponent}}}" if shown.exponent else ""
    unit = coefficient_unit(formula, line.slot, line.terms[k])
    bare = rf"({shown.value} \pm {shown.error}){ten}"
    return (rf"{bare} \, \mathrm{{{_latex_unit(unit)}}}" if unit else bare), shown.negative


def _latex_unit(unit: str) -> str:
    raised = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda found: f"^{{{_plain(found[0])}}}", unit)
    raised = re.sub(r"\^\(([^)]*)\)", r"^{\1}", raised)
    raised = re.sub(r"√(\w+|\([^)]*\))", r"\\sqrt{\1}", raised)
    return re.sub("[µμ]", r"\\mu ", raised.replace(" ", r"\,")).replace("%", r"\%")


def _plain(raised: str) -> str:
    return raised.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))


def latex_name(name: str) -> str:
    """A variable in LaTeX: letters with numbers as indices, Greek letters, anything else upright."""
    found = re.fullmatch(r"([A-Za-z]+)_?(\d*)", name)
    if found and (len(found[1]) == 1 or found[1].lower() in GREEK):
        letter = found[1] if len(found[1]) == 1 else f"\\{found[1]}"
        return f"{letter}_{{{found[2]}}}" if found[2] else letter
    safe = re.sub(r"([#$%&_{}])", r"\\\1", name.replace("\\", "/")).replace("^", r"\hat{}").replace("~", r"\sim ")
    spaced = safe.replace(" ", r"\ ")
    return rf"\mathrm{{{spaced}}}"


def latex_term(formula: Formula, term: Term) -> str:
    """A term in LaTeX."""
    if term.function is not None:
        return latex_name(term.name)
    names = [latex_name(name) for name in formula.input_names]
    parts = [
        names[i] if power == 1 else f"{_bracketed(names[i])}^{{{power}}}"
        for i, power in enumerate(term.powers)
        if power
    ]
    for shape, place, frequency in term.waves:
        times = "" if frequency == 1 else rf"{frequency:.6g} \, "
        parts.append(rf"\{shape}({times}{names[place]})")
    return r" \, ".join(parts) or "1"


def _bracketed(name: str) -> str:
    return f"{{{name}}}" if "_" in name else name


# SymPy


def symbolic(formula: Formula) -> SymbolicEquation:
    """The formula in SymPy, coefficients as numbers."""
    try:
        import sympy  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('Formula.sympy needs SymPy: pip install "itofit[formula]"') from error
    symbols = tuple(sympy.Symbol(name, real=True) for name in formula.input_names)
    d = formula.n_outputs
    drift = sympy.Matrix([_expression(sympy, symbols, line) for line in formula.drift_lines])
    lower = sympy.zeros(d, d)
    for line in formula.noise_lines:
        lower[line.slot.row, line.slot.column] = _expression(sympy, symbols, line)
    if formula.noise_lines[0].slot.what == "diffusion":
        return SymbolicEquation(symbols, drift, lower * lower.T, lower)
    full = sympy.Matrix(d, d, lambda i, j: lower[max(i, j), min(i, j)])
    return SymbolicEquation(symbols, drift, full, None)


def _expression(sympy: Any, symbols: tuple[Any, ...], line: Line) -> Any:  # noqa: ANN401
    """The right-hand side of a line."""
    total = sympy.Integer(0)
    for term, coefficient in zip(line.terms, line.coefficients, strict=True):
        if term.function is not None:
            name = re.sub(r"\W+", "_", term.name).strip("_")
            if not name:
                raise InputError(f"the term {term.name!r} has no name that SymPy could use")
            value = sympy.Function(name)(*symbols)
        else:
            value = sympy.prod([symbol**power for symbol, power in zip(symbols, term.powers, strict=True)])
            for shape, place, frequency in term.waves:
                times = sympy.Integer(int(frequency)) if frequency == int(frequency) else sympy.Float(frequency)
                value *= getattr(sympy, shape)(times * symbols[place])
        total += sympy.Float(float(coefficient)) * value
    return total
