"""Periodic variables: one period of each, values wrapped into it, and steps to the nearest image.

`periods` is an array of shape (2, m): where one period of each of m inputs begins and ends. Both are zero for an input
that is not periodic.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import LARGEST_COUNT, Float, InputError, Option, is_whole, shown
from itofit.data.names import HasVariables, did_you_mean

Periodic: TypeAlias = Mapping[Any, float | tuple[float, float]]
"""By name or number of a variable: the length of its period, or where one period begins and ends."""

LEAST_PERIOD, LARGEST_PERIOD = 1e-100, 1e100
"""Lengths of periods by which any value can be divided."""


def checked_periods(periodic: Periodic | None, names: tuple[str, ...]) -> Float:
    """The periods of inputs of some names, which a user gave: shape (2, m)."""
    periods = np.zeros((2, len(names)))
    if periodic is None:
        return periods
    if not isinstance(periodic, Mapping):
        raise InputError(
            "{periodic} must be a dictionary from names to periods, such as {{'angle': 2 * np.pi}}, got {got}",
            periodic=Option("periodic"),
            got=shown(periodic),
        )
    for name, period in periodic.items():
        place = _place(name, names)
        if periods[:, place].any():
            raise InputError("{periodic} names {name} twice", periodic=Option("periodic"), name=names[place])
        periods[:, place] = _period(name, period)
    return periods


def _place(name: Hashable, names: tuple[str, ...]) -> int:
    """The number of a variable that was given by name or number."""
    text = shown(name) if is_whole(name) and abs(name) > LARGEST_COUNT else str(name)  # type: ignore[arg-type]
    if text in names:
        return names.index(text)
    if is_whole(name) and 0 <= name < len(names):  # type: ignore[operator]
        return int(name)  # type: ignore[call-overload]
    raise InputError(
        "{periodic}: there is no variable {name!r}{hint}; the variables are {names}",
        periodic=Option("periodic"),
        name=name,
        hint=did_you_mean(text, names),
        names=", ".join(names),
    )


def _period(name: Hashable, period: object) -> tuple[float, float]:
    """Where a period begins and ends; one that is given by its length begins at zero."""
    ends: Any = [0.0, period] if isinstance(period, numbers.Real) else period
    known = isinstance(ends, Sequence | np.ndarray) and not isinstance(ends, str) and len(ends) == 2
    if known and all(isinstance(end, numbers.Real) and not isinstance(end, bool | np.timedelta64) for end in ends):
        with suppress(OverflowError):
            low, high = map(float, ends)
            if LEAST_PERIOD < high - low < LARGEST_PERIOD:
                return low, high
    raise InputError(
        "{periodic}: the period of {name} must be a number > 0, or where it begins and ends, such as (-180, 180), got "
        "{got}",
        periodic=Option("periodic"),
        name=name,
        got=shown(period),
    )


def is_periodic(periods: Float) -> npt.NDArray[np.bool_]:
    """Which inputs are periodic, shape (m,)."""
    return np.asarray(periods[1] > periods[0])


def wrapped(x: Float, periods: Float) -> Float:
    """Values (n, m) with those of periodic inputs within their period; the same array if there is nothing to do."""
    for place in np.flatnonzero(is_periodic(periods)):
        low, high = periods[:, place]
        beyond = (x[:, place] < low) | (x[:, place] >= high)
        if beyond.any():
            x = x.copy()
            turned = np.mod(x[beyond, place] - low, high - low) + low
            x[beyond, place] = np.where(turned < high, turned, low)  # rounding may lead to its very end
    return x


def nearest_image(increments: Float, periods: Float) -> Float:
    """Increments (n, d) of variables with periods (2, d), without whole turns: at most half a period long."""
    for place in np.flatnonzero(is_periodic(periods)):
        period = periods[1, place] - periods[0, place]
        turns = np.rint(increments[:, place] / period)
        if turns.any():
            increments = increments.copy()
            increments[:, place] -= period * turns
    return increments


def endless(box: Float, periods: Float) -> Float:
    """A range of inputs (2, m) without ends in the directions of periodic ones."""
    return np.where(is_periodic(periods), [[-np.inf], [np.inf]], box)


def periods_text(names: tuple[str, ...], periods: Float) -> str:
    """Which variables are periodic, in words; empty if none is."""
    places = np.flatnonzero(is_periodic(periods))
    return ", ".join(f"{names[i]} (from {periods[0, i]:.6g} to {periods[1, i]:.6g})" for i in places)


def surroundings_text(variables: HasVariables) -> str:
    """Covariates, periodic variables and units in words that follow others; empty if there are none."""
    drivers = variables.input_names[variables.n_inputs - variables.n_covariates :]
    driven = f", driven by {', '.join(drivers)}" if drivers else ""
    periodic = [name for name, has in zip(variables.input_names, is_periodic(variables.periods), strict=True) if has]
    measured = [f", {name} in {unit}" for name, unit in variables.units.as_dict(time=False).items()]
    return driven + (f", periodic in {', '.join(periodic)}" if periodic else "") + "".join(measured)
