"""Units of the variables, and what follows from them for the coefficients of a formula."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from itofit._checks import InputError, Option
from itofit.data.names import HasVariables, did_you_mean
from itofit.model.formula.library import SUPERSCRIPTS, Term
from itofit.model.formula.lines import Slot

Powers = dict[str, Fraction]


@dataclass(frozen=True)
class Units:
    """Units of variables by their names, and of time; empty where none are known."""

    variables: Mapping[str, str] = field(default_factory=dict)
    time: str = ""

    @classmethod
    def checked(cls, owner: HasVariables, units: Mapping[str, str] | None, time_unit: str | None) -> Units:
        """Units as the user gave them; an error if they are not strings for variables of the equation."""
        names = {*owner.input_names, *owner.output_names}
        if units is not None and not isinstance(units, Mapping):
            raise InputError(
                "{units} must be a dict, as in {{'x': 'µm'}}, got {got!r}", units=Option("units"), got=units
            )
        for name, unit in (units or {}).items():
            if name not in names:
                text = "{units}: there is no variable {name!r}{hint}; there are {names}"
                listed = ", ".join(owner.input_names)
                raise InputError(text, units=Option("units"), name=name, hint=did_you_mean(name, names), names=listed)
            if not isinstance(unit, str):
                raise InputError(
                    "{units}: {name} must be a string, got {got!r}", units=Option("units"), name=name, got=unit
                )
        if time_unit is not None and not isinstance(time_unit, str):
            raise InputError("{time} must be a string, got {got!r}", time=Option("time_unit"), got=time_unit)
        return cls(dict(units or {}), time_unit or "")

    def __bool__(self) -> bool:
        return bool(self.time or any(self.variables.values()))

    def of(self, name: str) -> str:
        """The unit of a variable; empty if it is not known."""
        return self.variables.get(name, "")

    def of_coefficient(self, owner: HasVariables, slot: Slot, term: Term) -> str:
        """The unit of a coefficient, as text: that of its line over that of its term."""
        powers: Powers = defaultdict(Fraction)
        self._add(powers, owner.output_names[slot.row], Fraction(1))
        if slot.what == "covariance":
            self._add(powers, owner.output_names[slot.column], Fraction(1))
        if self.time:
            powers[self.time] -= Fraction(1, 2) if slot.what == "diffusion" else Fraction(1)
        for name, power in zip(owner.input_names, term.powers, strict=True):
            self._add(powers, name, -Fraction(power))
        return _written(powers)

    def _add(self, powers: Powers, name: str, power: Fraction) -> None:
        if self.of(name):
            powers[self.of(name)] += power


def _written(powers: Powers) -> str:
    """A product of powers of units: those above one first, then those below, as in µm s⁻¹."""
    kept = sorted((item for item in powers.items() if item[1]), key=lambda item: item[1] < 0)
    return " ".join(f"{unit}{_power(power)}" for unit, power in kept)


def _power(power: Fraction) -> str:
    if power == 1:
        return ""
    return str(power).translate(SUPERSCRIPTS) if power.denominator == 1 else f"^({power})"
