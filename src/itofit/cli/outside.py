"""Options for covariates, periodic variables and units, as texts: `angle=2pi`, `dose=1`, `x=µm`, or a table."""

from __future__ import annotations

import math
from collections.abc import Container
from pathlib import Path

import numpy as np

from itofit._checks import Float, InputError
from itofit.data.reading.files import read_columns
from itofit.model.sde import SDE

PERIODIC = (
    "--periodic must be a name and its period, such as angle=2pi, angle=-180:180 or angle=2pi,hour=24, got {text!r}"
)


def periods_from(text: str | None) -> dict[str, float | tuple[float, float]] | None:
    """What --periodic says: by name the length of a period, or where it begins and ends."""
    if text is None:
        return None
    periods: dict[str, float | tuple[float, float]] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        ends = [number_from(end) for end in value.split(":")]
        if not name.strip() or len(ends) > 2 or None in ends:
            raise InputError(PERIODIC.format(text=text))
        _refuse_twice("--periodic", name.strip(), periods)
        low, *high = (end for end in ends if end is not None)
        periods[name.strip()] = (low, high[0]) if high else low
    return periods


def units_from(text: str | None) -> tuple[dict[str, str] | None, str | None]:
    """What --units says: units by name, and that of time."""
    if text is None:
        return None, None
    units: dict[str, str] = {}
    for part in text.split(","):
        name, _, unit = part.rpartition("=")
        if not name.strip() or not unit.strip():
            raise InputError(f"--units must be names with their units, such as x=µm,y=µm,time=s, got {text!r}")
        _refuse_twice("--units", name.strip(), units)
        units[name.strip()] = unit.strip()
    return units, units.pop("time", None)


def _refuse_twice(option: str, name: str, before: Container[str]) -> None:
    """Raise if an option names something that it named before."""
    if name in before:
        raise InputError(f"{option} names {name} twice: give it once")


def number_from(text: str) -> float | None:
    """A number, which may be a multiple of pi: 6.28, 2pi, -pi."""
    plain = text.strip().lower().replace("π", "pi")
    try:
        if not plain.endswith("pi"):
            return float(plain)
        factor = plain.removesuffix("pi").rstrip("*").strip()
        return math.pi * float(factor + "1" if factor in ("", "-", "+") else factor)
    except ValueError:
        return None


def drive_from(text: str | None, sde: SDE, steps: int, decimal: str = ".") -> Float | None:
    """What --covariates says: constants such as dose=1,season=0.5, or a table with a row for each step: (steps, k)."""
    if text is None:
        return None
    names = sde.covariate_names
    if not names:
        raise InputError("--covariates were given, but nothing drives this equation from outside: leave them out")
    if "=" in text and not Path(text).exists():
        return _constants(text, names)
    return _table(Path(text), names, steps, decimal)


def _constants(text: str, names: tuple[str, ...]) -> Float:
    values: dict[str, float | None] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        _refuse_twice("--covariates", name.strip(), values)
        values[name.strip()] = number_from(value)
    if set(values) != set(names) or None in values.values():
        raise InputError(f"--covariates must give a number for {', '.join(names)}, as in {names[0]}=1, got {text!r}")
    return np.array([values[name] for name in names], dtype=float)


def _table(path: Path, names: tuple[str, ...], steps: int, decimal: str) -> Float:
    if not path.exists():
        raise InputError(f"--covariates: there is no file {path}; give one, or constants such as {names[0]}=1")
    values = read_columns(path, names, decimal)
    if len(values) < steps:
        raise InputError(f"{path} has {len(values)} rows: one for each of {steps} steps is needed; give fewer --steps")
    return values[: steps + 1]  # one more row, after the last step, is told with the last state
