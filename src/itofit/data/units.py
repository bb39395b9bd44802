"""Units of variables and of time, and those that follow from them: of a drift, of a covariance, of a rate.

A unit is a text such as µm, 1/s or kg m/s². It is taken apart into symbols and their powers, so that those of the same
symbol cancel; a text that cannot be taken apart is a symbol of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

Powers = Mapping[str, Fraction]
"""Powers of symbols, in the order in which they are written."""

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
FACTOR = re.compile(r"\s*([/·*]?)\s*([^\s\d/·*^()⁰¹²³⁴⁵⁶⁷⁸⁹⁻√]+|1(?=\s*/))((?:\^\(?-?\d+\)?)|[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)?\s*")
"""What joins it to the one before, a symbol, and its power."""
BELOW = re.compile(r"/\(([^()]+)\)")
"""Several symbols below a line."""
NONE = ("", "1", "-")
"""Units of numbers without one; the first also where it is not known."""
HALF = Fraction(1, 2)
CLOCKS = ("time", "h")
"""What time is called where its unit is told; the second if a variable has the first name."""
UNKNOWN_TIME = "time"
"""Stands for the unit of time where that of a variable is known and this is not."""


@dataclass(frozen=True)
class Units:
    """Units of variables by their names, and of time; empty texts where none are known.

    Parameters
    ----------
    names, symbols : tuples of str
        Variables, and the unit of each.
    time : str

    Examples
    --------
    >>> import itofit
    >>> units = itofit.Units(("x", "y"), ("µm", "µm"), "s")
    >>> units.drift("x"), units.covariance("x", "y"), units.diffusion("x"), units.rate
    ('µm/s', 'µm²/s', 'µm/√s', '1/s')
    """

    names: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    time: str = ""

    def __bool__(self) -> bool:
        return bool(self.time or any(self.symbols))

    def of(self, name: str) -> str:
        """The unit of a variable."""
        return dict(zip(self.names, self.symbols, strict=True)).get(name, "")

    def as_dict(self, time: bool = True) -> dict[str, str]:
        """All that are known; that of time, unless left out, as "time", or as "h" where a variable is called so."""
        known = {name: symbol for name, symbol in zip(self.names, self.symbols, strict=True) if symbol}
        return known | ({clock_beside(self.names): self.time} if self.time and time else {})

    def renamed(self, names: Mapping[str, str]) -> Units:
        """The same where variables have other names, given by those that they had."""
        return Units(tuple(names.get(name, name) for name in self.names), self.symbols, self.time)

    def labelled(self, name: str) -> str:
        """The name of a variable with its unit, as on an axis: x [µm]."""
        return with_unit(name, self.of(name))

    # Those that follow

    @property
    def rate(self) -> str:
        """Of what happens so many times in a time: 1/s."""
        return self.product({}, time=-1)

    def drift(self, name: str) -> str:
        """Of a component of the drift: µm/s."""
        return self.product({name: 1}, time=-1)

    def covariance(self, one: str, other: str) -> str:
        """Of an entry of Σ: µm²/s."""
        return self.product({one: 2} if one == other else {one: 1, other: 1}, time=-1)

    def diffusion(self, name: str) -> str:
        """Of a row of σ: µm/√s."""
        return self.product({name: 1}, time=-HALF)

    def product(self, variables: Mapping[str, int | Fraction], time: int | Fraction = 0) -> str:
        """Of a product of powers of variables and of time, as text: µm²/s; empty if that of a variable is not known."""
        if not all(self.of(name) for name in variables):
            return ""
        clock = self.time or (UNKNOWN_TIME if variables else "")
        return written(product([*((self.of(name), power) for name, power in variables.items()), (clock, time)]))


NO_UNITS = Units()


def with_unit(text: str, unit: str) -> str:
    """A label with a unit behind it, if there is one."""
    return f"{text} [{unit}]" if unit else text


def behind(unit: str) -> str:
    """A unit as it stands behind a number, with a space between; 1/s as s⁻¹."""
    if unit.startswith("1/"):
        unit = written_in_line(parsed(unit))
    return f" {unit}" if unit else ""


def clock_beside(names: Collection[str]) -> str:
    """What time is called beside variables of some names: a covariate may be called "time"."""
    return next(word for word in (*CLOCKS, "unit of time") if word not in names)


def same_unit(one: str, other: str) -> bool:
    """Whether two units are written alike, or one of them is not known; the two letters for micro are one."""
    alike = {" ".join(unicodedata.normalize("NFKC", unit).split()) for unit in (one, other)}
    return len(alike) == 1 or not (one and other)


# Taking apart and putting together


def product(factors: Iterable[tuple[str, int | Fraction]]) -> Powers:
    """The product of some units to some powers; those that are not known count as numbers."""
    total: dict[str, Fraction] = defaultdict(Fraction)
    for unit, power in factors:
        for symbol, own in parsed(unit).items():
            total[symbol] += own * power
    return {symbol: power for symbol, power in total.items() if power}


def parsed(unit: str) -> Powers:
    """Symbols and their powers."""
    if unit.strip() in NONE:
        return {}
    powers: dict[str, Fraction] = defaultdict(Fraction)
    place, plain = 0, BELOW.sub(lambda found: "/" + "/".join(found[1].split()), unit)
    while place < len(plain):
        found = FACTOR.match(plain, place)
        if found is None or not found[2]:
            return {unit.strip(): Fraction(1)}
        joint, symbol, power = found.groups()
        if symbol != "1":
            raised = Fraction((power or "1").translate(LOWERED).strip("^()"))
            powers[symbol] += -raised if joint == "/" else raised
        place = found.end()
    return {symbol: power for symbol, power in powers.items() if power}


def written(powers: Powers) -> str:
    """A product of powers as a fraction: µm²/s, 1/s, µm/(s mm)."""
    above = " ".join(f"{_symbol(each, p)}" for each, p in powers.items() if p > 0)
    below = [_symbol(each, -p) for each, p in powers.items() if p < 0]
    if not below:
        return above
    return f"{above or '1'}/{below[0] if len(below) == 1 else '(' + ' '.join(below) + ')'}"


def written_in_line(powers: Powers) -> str:
    """The same within an equation, where a line would be misread: µm² s⁻¹; powers below zero come last."""
    return " ".join(_symbol(each, p) for each, p in sorted(powers.items(), key=lambda item: item[1] < 0))


def _symbol(symbol: str, power: Fraction) -> str:
    """A symbol with its power; one that is more than a word is in brackets."""
    if power == 1:
        return symbol
    base = symbol if re.fullmatch(r"[^\W\d]+|[°%‰]\w*", symbol) else f"({symbol})"
    if power == HALF:
        return f"√{base}"
    return f"{base}{str(power).translate(SUPERSCRIPTS)}" if power.denominator == 1 else f"{base}^({power})"
