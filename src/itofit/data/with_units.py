"""Units that data and models carry: given by the user, checked, and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar

from itofit._checks import InputError, Message, Option
from itofit.data.names import HasVariables, did_you_mean, same_units
from itofit.data.units import Units

GivenUnits = Mapping[str, str] | None
DATES = {"us": "µs", "D": "d", "W": "week"}
"""Units of dates that people write otherwise."""
LONGEST = 40
"""Letters of a unit."""


class WithUnits:
    """What has variables, and perhaps their units."""

    units: Units

    def with_units(self, units: GivenUnits = None, time_unit: str | None = None) -> Self:
        """The same with units of its variables and of time, which labels, tables and answers then show.

        Nothing is converted: they say what the numbers are. Those that are not mentioned stay as they are; an empty
        text takes one away. A velocity has by default the unit of its position over that of time.

        Parameters
        ----------
        units : dict, optional
            By the names of variables, as in ``{"x": "µm", "y": "µm"}``.
        time_unit : str, optional
            Of times and of h, such as "s".

        Examples
        --------
        >>> import numpy as np, itofit
        >>> path = np.cumsum(np.random.default_rng(0).normal(size=(100, 2)), axis=0)
        >>> data = itofit.Transitions.from_trajectories(path, dt=0.5, names=["x", "y"])
        >>> data.with_units({"x": "µm", "y": "µm"}, time_unit="s")
        Transitions(99 transitions, 2 inputs, 2 outputs, h = 0.5 s, 1 group, kind = diffusion, x in µm, y in µm)
        """
        this: Any = self
        own = checked_units(this, units, time_unit)
        return self if own == self.units else self._carrying(own)

    def _carrying(self, units: Units) -> Self:
        """The same with other units."""
        other = copy(self)
        object.__setattr__(other, "units", units)
        return other


def checked_units(owner: HasVariables, units: GivenUnits, time_unit: str | None) -> Units:
    """The units of an owner with those that a user gives; an error if they are not texts for its variables."""
    names = _all_names(owner)
    if units is not None and not isinstance(units, Mapping):
        raise InputError("{units} must be a dict, as in {{'x': 'µm'}}, got {got!r}", units=Option("units"), got=units)
    for name, unit in (units or {}).items():
        if name not in names:
            text = "{units}: there is no variable {name!r}{hint}; there are {names}"
            hint = did_you_mean(name, names) if isinstance(name, str) else ""
            if name == "time":
                hint = Message(" (that of time is {time_unit})", time_unit=Option("time_unit", keyword=True))
            raise InputError(text, units=Option("units"), name=name, hint=hint, names=", ".join(names))
        _check_text(Message("{units}: that of {name}", units=Option("units"), name=name), unit)
    if time_unit is not None:
        _check_text(Message("{time_unit}", time_unit=Option("time_unit")), time_unit)
    return _replaced(owner, owner.units, units or {}, owner.units.time if time_unit is None else time_unit)


def joint_units(parts: Sequence[HasVariables]) -> Units:
    """The units of several sets of transitions together, each from the first that knows it; an error if two differ."""
    joint = parts[0].units
    for part in parts[1:]:
        joint = with_those_of(part, joint)
    return joint


def with_those_of(part: HasVariables, before: Units) -> Units:
    """Units that are known already, with those that only further transitions know; an error if any are others."""
    if not part.units or part.units == before:
        return before
    same_units(part.units, before)
    new = {name: unit for name, unit in part.units.as_dict(time=False).items() if not before.of(name)}
    return _replaced(part, before, new, before.time or part.units.time)


def _all_names(owner: HasVariables) -> tuple[str, ...]:
    """Names of the inputs, and of the outputs that are none of them."""
    return tuple(dict.fromkeys((*owner.input_names, *owner.output_names)))


def _check_text(what: Message, unit: object) -> None:
    """Raise unless a unit is a short text."""
    if not isinstance(unit, str) or len(unit) > LONGEST or not unit.isprintable():
        text = "{what} must be a string of at most {n} letters, such as 'µm', got {got!r}"
        raise InputError(text, what=what, n=LONGEST, got=unit)


def _replaced(owner: HasVariables, before: Units, units: Mapping[str, str], time_unit: str) -> Units:
    """Units with those given in place of others, and with those of velocities, of the variables of an owner."""
    names, derived = _all_names(owner), _velocities(owner, before)
    known = {name: before.of(name) for name in names if before.of(name) != derived.get(name)}
    known |= {name: unit.strip() for name, unit in units.items()}
    own = Units(names, tuple(known.get(name, "") for name in names), time_unit.strip())
    known = _velocities(owner, own) | {name: symbol for name, symbol in known.items() if symbol}
    own = Units(names, tuple(known.get(name, "") for name in names), own.time)
    return own if own else Units()


def _velocities(owner: HasVariables, units: Units) -> dict[str, str]:
    """Units that velocities have because of their positions."""
    if owner.kind not in ("underdamped", "positions") or not units.time:
        return {}
    pairs = zip(owner.input_names, owner.output_names, strict=False)
    return {velocity: units.drift(position) for position, velocity in pairs if units.of(position)}


M = TypeVar("M", bound=WithUnits)


def sharing_units(sde: M, data: HasVariables) -> M:
    """A model with the units of data, unless it has its own."""
    return sde if sde.units or not data.units else sde._carrying(data.units)


def unit_of_dates(unit: str | None, time_unit: str | None = None) -> str | None:
    """The unit of time, given that of dates; an error if they are two."""
    own = DATES.get(unit, unit) if isinstance(unit, str) else None  # what is no text is refused with the layout
    if own is not None and isinstance(time_unit, str) and time_unit.strip() not in (own, unit):
        raise InputError(
            "{unit} makes the unit of time {own}, but {time_unit} was given: leave one of them out",
            unit=Option("unit", unit),
            own=own,
            time_unit=Option("time_unit", time_unit),
        )
    return time_unit if own is None else own
