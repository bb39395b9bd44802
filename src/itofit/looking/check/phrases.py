"""Numbers and shares in the words of findings."""

from __future__ import annotations

MOST_PERCENT = 10.0
"""Shares above this, 1000 %, are written as multiples, which are easier to read."""


def percent(value: float, decimals: int = 1, of: str = "") -> str:
    """A share in percent, or as a multiple if it is above 1000 %; followed by what it is a share of, if given."""
    if value < MOST_PERCENT:
        return f"{value:.{decimals}%}" + (f" of {of}" if of else "")
    return f"{multiple(value)} times" + (f" {of}" if of else "")


def percents(value: float) -> str:
    """A share in whole percents, or as a multiple if it is above 1000 %."""
    return percent(value, 0)


def of_a_step(value: float) -> str:
    """A part of the motion, in standard deviations of a step."""
    return f"{value:.2g} of a step"


def two_digits(value: float) -> str:
    """A number with two digits."""
    return f"{value:.2g}"


def multiple(value: float) -> str:
    """A multiple, without decimals where two digits are enough."""
    return f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"


def compared(ratio: float, what: str) -> str:
    """How a number compares with another, given their ratio: 12% smaller than ..., or 20 times what ..."""
    if ratio > 1 + MOST_PERCENT:
        return f"{multiple(ratio)} times {what}"
    return f"{abs(ratio - 1):.0%} {'smaller' if ratio < 1 else 'larger'} than"


def p_text(p: float) -> str:
    """A p-value for a table."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def fixed(value: float, decimals: int = 3, sign: str = "") -> str:
    """A number for a table: so many decimals, or three digits of a large one; "+" as sign if it is always wanted."""
    return f"{value:{sign}.{decimals}f}" if abs(value) < 10 else f"{value:{sign}.3g}"


def drift_share(missed: float, drift: float) -> str:
    """A part of the motion relative to the drift's typical size, in words."""
    if missed >= MOST_PERCENT * drift:
        return "far more than the drift says"
    return f"{missed / drift:.0%} of the drift's typical size"


def capitalised(text: str) -> str:
    """A text with a capital letter first, and the others as they are."""
    return text[:1].upper() + text[1:]
