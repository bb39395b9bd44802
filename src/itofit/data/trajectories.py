"""Trajectories in the forms people have them: lists of arrays, pieces of arrays, and rows of tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import DataWarning, Float, InputError, Int, columns, float_array, plain_array, positive

MANY_VARIABLES = 10
"""With more of them than this, and fewer times, an array is asked whether its rows are trajectories."""


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
        _warn_of_rows(array)
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


def _warn_of_rows(array: Float) -> None:
    """Say so if one trajectory has more variables than times: its rows are more likely trajectories."""
    if array.ndim == 2 and array.shape[1] > max(len(array), MANY_VARIABLES):
        T, d = array.shape
        warnings.warn(
            f"an array of shape ({T}, {d}) is read as one trajectory of {d} variables at {T} times; if its rows are "
            f"{T} trajectories of one variable, give them as list(paths) or paths[:, :, None], and if it is one of "
            f"{T} variables, as paths.T",
            DataWarning,
            stacklevel=4,
        )


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
    kept = (steps >= shortest) & (steps <= longest) & complete(increments)
    if kept.all():
        return path[:-1], increments, steps
    return path[:-1][kept], increments[kept], steps[kept]


def complete(rows: Float) -> npt.NDArray[np.bool_]:
    """Which rows of a narrow array (n, d) hold no NaN."""
    known = np.ones(len(rows), dtype=bool)
    for column in rows.T:
        known &= ~np.isnan(column)
    return known


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


# Tables


class Observations(NamedTuple):
    """Rows of a table in order: states (n, s), times, tracks, and how to speak of them."""

    states: Float
    clock: Float | None  # (n,), NaN where the time is missing
    track: Int  # (n,): number of the row's track in `labels`
    labels: npt.NDArray[np.generic] | None  # None if there is one track without a name
    row: Int  # (n,): position in the table
    place: Callable[[int], str]  # what to call the row at a position
    time: Callable[[int], str]  # the time in it as people know it

    def taken(self, order: Int) -> Observations:
        """Rows in another order."""
        clock = None if self.clock is None else self.clock[order]
        return self._replace(states=self.states[order], clock=clock, track=self.track[order], row=self.row[order])

    def track_name(self, row: int) -> str:
        """What to call the track of the i-th of these rows."""
        return "the trajectory" if self.labels is None else f"track {self.labels[self.track[row]]}"


class Moves(NamedTuple):
    """Starts and ends (n, s) of the moves in a table, their durations (n,) and the labels of their tracks (n,)."""

    start: Float
    end: Float
    h: Float
    groups: npt.NDArray[np.generic] | None

    def taken(self, rows: npt.NDArray[np.bool_]) -> Moves:
        """Some of them."""
        groups = None if self.groups is None else self.groups[rows]
        return Moves(self.start[rows], self.end[rows], self.h[rows], groups)


def moves_in(found: Observations, dt: float | None, *, sort: bool) -> Moves:
    """All moves from a row of a track to its next one; rows with missing values are gaps.

    Rows of a track may be anywhere in the table. With `sort` they are sorted by time if they are not, with a warning;
    otherwise times that go backward are an error.
    """
    found = _by_track(found)
    same = found.track[1:] == found.track[:-1]
    if found.clock is None:
        steps = np.full(len(same), dt)
    else:
        found = _in_time(found, same, sort)
        assert found.clock is not None
        with np.errstate(invalid="ignore"):  # between rows without a time
            steps = np.diff(found.clock)
        if (twice := same & (steps == 0) & np.isfinite(found.clock[1:])).any():
            _raise_repeated(found, int(np.argmax(twice)))
    known = complete(found.states)
    kept = np.flatnonzero(same & known[1:] & known[:-1])
    groups = None if found.labels is None else found.labels[found.track[kept]]
    return Moves(found.states[kept], found.states[kept + 1], np.asarray(steps, dtype=np.float64)[kept], groups)


def _by_track(found: Observations) -> Observations:
    """Rows of each track together, otherwise in the order they had."""
    if (np.diff(found.track) >= 0).all():
        return found
    return found.taken(np.argsort(found.track, kind="stable"))


def _in_time(found: Observations, same: npt.NDArray[np.bool_], sort: bool) -> Observations:
    """Rows of each track in the order of their times; one without a time is a gap after the row it follows."""
    assert found.clock is not None
    key, missing = found.clock, np.isnan(found.clock)
    if missing.any():
        last = np.maximum.accumulate(np.where(missing, 0, np.arange(len(key))))
        follows = ~missing[last] & (found.track[last] == found.track)
        key = np.where(follows, key[last], -np.inf)
        found = found._replace(states=np.where(missing[:, None], np.nan, found.states))
    with np.errstate(invalid="ignore"):
        backward = same & (np.diff(key) < 0)
    if not backward.any():
        return found
    if not sort:
        i = int(np.argmax(backward)) + 1
        raise InputError(
            f"the times of {found.track_name(i)} go backward to {found.time(int(found.row[i]))} in "
            f"{found.place(int(found.row[i]))}: data that are read in parts must be sorted by time within each track; "
            "sort them, or read them whole into a DataFrame for Transitions.from_dataframe"
        )
    n = len(np.unique(found.track[1:][backward]))
    which = "the rows" if found.labels is None else f"the rows of {n} of {len(found.labels)} tracks"
    warnings.warn(f"{which} were not in the order of their times and have been sorted", DataWarning, stacklevel=5)
    return found.taken(np.lexsort((key, found.track)))


def _raise_repeated(found: Observations, i: int) -> None:
    """Say that the i-th row and the next have the same track and time."""
    first, second = int(found.row[i]), int(found.row[i + 1])
    before = "an earlier part" if first < 0 else found.place(first)
    advice = "drop one of them" if found.labels is not None else "if there are several tracks, give track="
    raise InputError(
        f"{found.track_name(i)} has the time {found.time(second)} twice, in {before} and in {found.place(second)}; "
        + advice
    )


class OpenTracks:
    """The last row of every track so far, where the next part of a table goes on.

    Attributes
    ----------
    n_rows : array of shape (n_tracks,)
        How many rows each had.
    """

    def __init__(self) -> None:
        self.n_rows = np.zeros(0, dtype=np.intp)
        self._number: dict[object, int] = {}
        self._states: Float | None = None
        self._clock = np.zeros(0)

    def joined(self, found: Observations) -> Observations:
        """A part's rows, before them the last rows that its tracks had in the parts before."""
        labels = [None] if found.labels is None else found.labels.tolist()
        number = np.array([self._number.setdefault(label, len(self._number)) for label in labels], dtype=np.intp)
        known = np.flatnonzero(number < len(self.n_rows))
        result = found
        if len(known):
            assert self._states is not None
            result = found._replace(
                states=np.concatenate([self._states[number[known]], found.states]),
                clock=None if found.clock is None else np.concatenate([self._clock[number[known]], found.clock]),
                track=np.concatenate([known, found.track]),
                row=np.concatenate([np.full(len(known), -1), found.row]),
            )
        self._remember(found, number)
        return result

    def _remember(self, found: Observations, number: Int) -> None:
        n_new, s = len(self._number) - len(self.n_rows), found.states.shape[1]
        before = np.empty((0, s)) if self._states is None else self._states
        self._states = np.concatenate([before, np.empty((n_new, s))])
        self._clock = np.concatenate([self._clock, np.empty(n_new)])
        self.n_rows = np.concatenate([self.n_rows, np.zeros(n_new, dtype=np.intp)])
        last = np.zeros(len(number), dtype=np.intp)
        last[found.track] = np.arange(len(found.track))  # of several rows, the last one stays
        self._states[number] = found.states[last]
        if found.clock is not None:
            self._clock[number] = found.clock[last]
        self.n_rows[number] += np.bincount(found.track, minlength=len(number))


def warn_of_left_out(n_untracked: int, n_rows: Int, stacklevel: int = 3) -> None:
    """Say what was left out of a table: rows without a track, and tracks of one row among others, given their rows."""
    if n_untracked:
        text = "1 row has no track and was" if n_untracked == 1 else f"{n_untracked} rows have no track and were"
        warnings.warn(f"{text} left out", DataWarning, stacklevel=stacklevel)
    if n := int((n_rows == 1).sum()):
        text = f"{n} of {len(n_rows)} tracks {'has' if n == 1 else 'have'} one row and {'was' if n == 1 else 'were'}"
        warnings.warn(f"{text} left out: a move needs two", DataWarning, stacklevel=stacklevel)


def frame_of(pandas: Any, paths: Float, dt: float, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    """Paths (n_paths, T, s) as a DataFrame with columns track, time and the names of the state."""
    n_paths, T, _ = paths.shape
    parts = {"track": np.repeat(np.arange(n_paths), T), "time": np.tile(dt * np.arange(T), n_paths)}
    return pandas.DataFrame(parts | {name: paths[:, :, j].ravel() for j, name in enumerate(names)})
