"""Trajectories in the forms people have them: as lists of arrays, with the time between observations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from itofit._checks import Float, InputError, columns, float_array, plain_array, positive


def as_trajectories(paths: npt.ArrayLike | Sequence[npt.ArrayLike]) -> list[Float]:
    """Trajectories as a list of arrays of shape (T, d)."""
    if isinstance(paths, np.ndarray) and paths.dtype.kind == "O":
        raise InputError("paths must be numbers, got dtype object; give trajectories of different lengths as a list")
    if isinstance(paths, list | tuple) and _holds_arrays(paths):
        lengths = {len(path) if isinstance(path, list | tuple) else None for path in paths}
        if None not in lengths and len(lengths) == 1 and len(paths) > len(paths[0]):
            raise InputError(
                f"paths is a list of {len(paths)} lists of {len(paths[0])}: "
                "for one trajectory give np.array(paths), for several a list of arrays"
            )
        found = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(paths)]
    else:
        array = float_array("paths", paths, allow_nan=True)  # type: ignore[arg-type]
        if array.ndim == 3:
            found = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(array)]
        else:
            found = [columns("paths", array, allow_nan=True)]
    if not found:
        raise InputError("paths holds no trajectory")
    widths = {path.shape[1] for path in found}
    if len(widths) > 1:
        raise InputError(f"all trajectories must have the same number of columns, got {sorted(widths)}")
    return found


def _holds_arrays(values: Sequence[object]) -> bool:
    """Whether a list is one of arrays (or lists), and not of numbers."""
    return len(values) > 0 and (isinstance(values[0], list | tuple) or np.ndim(values[0]) > 0)  # type: ignore[arg-type]


def steps_of(
    paths: list[Float], dt: float | None, times: npt.ArrayLike | Sequence[npt.ArrayLike] | None
) -> list[Float]:
    """The time from each observation to the next, for each trajectory."""
    if dt is not None:
        step = positive("dt", dt)
        return [np.full(max(len(path) - 1, 0), step) for path in paths]
    if isinstance(times, np.ndarray) and times.ndim == 2:
        times = list(times)
    if isinstance(times, list | tuple) and _holds_arrays(times):
        if len(times) != len(paths):
            raise InputError(f"times must have one array for each trajectory: expected {len(paths)}, got {len(times)}")
        clocks = [_clock(f"times[{i}]", clock, path) for i, (clock, path) in enumerate(zip(times, paths, strict=True))]
    else:
        clocks = [_clock("times", times, path) for path in paths]  # type: ignore[arg-type]
    return [np.diff(clock) for clock in clocks]


def _clock(name: str, times: npt.ArrayLike | None, path: Float) -> Float:
    array = plain_array(name, times)  # type: ignore[arg-type]
    first = array.flat[0] if array.size and array.dtype.kind == "O" else None
    if array.dtype.kind in "mM" or isinstance(first, date | timedelta):
        raise InputError(
            f"{name} must be numbers, got dates; take t = np.asarray({name}, dtype='datetime64[us]'), then "
            "(t - t[0]) / np.timedelta64(1, 's')"
        )
    clock = float_array(name, array)
    if clock.shape != (len(path),):
        raise InputError(f"{name} must have one time for each observation: expected ({len(path)},), got {clock.shape}")
    if (i := _first_backward(clock)) is not None:
        raise InputError(
            f"{name} must be increasing: {name}[{i}] = {clock[i]:g} is followed by {clock[i + 1]:g}; "
            "sort the rows, drop repeated times, and give several trajectories as a list"
        )
    return clock


def _first_backward(clock: Float) -> int | None:
    """Where times first fail to increase, if they do."""
    backward = np.flatnonzero(np.diff(clock) <= 0)
    return int(backward[0]) if len(backward) else None


def moves(path: Float, steps: Float, shortest: float = 0.0, longest: float = np.inf) -> tuple[Float, Float, Float]:
    """Where each move of a trajectory began, how far it went and how long it took.

    Moves that start or end at a row with NaN are left out, and those that took less or more time than given.

    Parameters
    ----------
    path : array of shape (T, d)
    steps : array of shape (T − 1,)
        Time from each observation to the next.
    shortest, longest : float
    """
    increments = np.diff(path, axis=0)
    kept = (steps >= shortest) & (steps <= longest)
    for column in increments.T:
        kept &= ~np.isnan(column)
    if kept.all():
        return path[:-1], increments, steps
    return path[:-1][kept], increments[kept], steps[kept]


class Pieces:
    """A trajectory that comes in pieces: the moves within each, and from each to the next.

    Parameters
    ----------
    dt : float or None
        Time between observations, if pieces bring no times.
    """

    def __init__(self, dt: float | None) -> None:
        self.dt = dt
        self.last: tuple[Float, Float] | None = None  # the last observation and its time

    def moves(self, piece: object) -> tuple[Float, Float, Float]:
        """Starts, increments and durations of the moves into and within a piece: an array, or one with its times."""
        path: Any
        path, times = piece if isinstance(piece, tuple) and len(piece) == 2 else (piece, None)
        rows = columns("the trajectory", path, allow_nan=True)
        if not len(rows):
            raise InputError("is empty; leave such blocks out")
        if times is None and self.dt is None:
            raise InputError("the time between observations is missing: give h=, or tuples (path, times)")
        if times is not None and self.dt is not None:
            raise InputError("the time between observations was given twice, as h= and as times")
        if times is None:
            clock = np.arange(1.0, len(rows) + 1)
        else:
            clock = float_array("times", times)
            if clock.shape != (len(rows),):
                raise InputError(f"times must have one entry for each of {len(rows)} observations, got {clock.shape}")
        if self.last is not None:
            before, then = self.last
            if before.shape[1] != rows.shape[1]:
                wide = f"{rows.shape[1]} column{'s' if rows.shape[1] > 1 else ''}"
                raise InputError(f"has {wide}, the block before it has {before.shape[1]}")
            rows = np.concatenate([before, rows])
            clock = np.concatenate([then if times is not None else np.zeros(1), clock])
        if (i := _first_backward(clock)) is not None:
            raise InputError(
                f"times must be increasing, also from block to block: {clock[i]:g} is followed by {clock[i + 1]:g}; a "
                "block that starts another trajectory can be given as Transitions.from_trajectories(...)"
            )
        self.last = rows[-1:].copy(), clock[-1:].copy()
        steps = np.diff(clock) if self.dt is None else np.full(len(rows) - 1, self.dt)
        starts, increments, h = moves(rows, steps)
        if not np.isfinite(increments).all():
            raise InputError("has steps that are too large for double precision; change the unit")
        return starts, increments, h
