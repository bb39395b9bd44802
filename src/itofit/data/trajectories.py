"""Moves in trajectories that come as arrays, as lists of arrays, in pieces, or as rows of tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import (
    DataWarning,
    Either,
    Float,
    InputError,
    Int,
    Message,
    Option,
    columns,
    float_array,
    plain_array,
    positive,
    user_level,
)
from itofit.data.covariates import Covariates, covariates_of_trajectories
from itofit.data.frames.file_rows import FileRows, if_several_tracks
from itofit.data.step_limits import StepLimits
from itofit.data.units import Units

MANY_VARIABLES = 10
"""A warning asks whether the rows of an array are trajectories if it has more columns than this and fewer rows."""


def as_trajectories(paths: npt.ArrayLike | Sequence[npt.ArrayLike]) -> list[Float]:
    """Trajectories as a list of arrays of shape (T, d)."""
    if isinstance(paths, np.ndarray) and paths.dtype.kind == "O":
        text = "{paths} must be numbers, got dtype object; give trajectories of different lengths as a list"
        raise InputError(text, paths=Option("paths"))
    if isinstance(paths, list | tuple) and _holds_arrays(paths):
        lengths = {len(path) if isinstance(path, list | tuple) else None for path in paths}
        if None not in lengths and len(lengths) == 1 and len(paths) > len(paths[0]):
            raise InputError(
                "{paths} is a list of {n} lists of {length}: for one trajectory give np.array(paths), for several a "
                "list of arrays",
                paths=Option("paths"),
                n=len(paths),
                length=len(paths[0]),
            )
        trajectories = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(paths)]
    else:
        array = float_array("paths", paths, allow_nan=True)  # type: ignore[arg-type]
        _warn_of_rows(array)
        if array.ndim == 3:
            trajectories = [columns(f"paths[{i}]", path, allow_nan=True) for i, path in enumerate(array)]
        else:
            trajectories = [columns("paths", array, allow_nan=True)]
    if not trajectories:
        raise InputError("{paths} holds no trajectory", paths=Option("paths"))
    widths = {path.shape[1] for path in trajectories}
    if len(widths) > 1:
        raise InputError(f"all trajectories must have the same number of columns, got {sorted(widths)}")
    return trajectories


def _warn_of_rows(array: Float) -> None:
    """Warn if one trajectory has more variables than times: then its rows are more likely the trajectories."""
    if array.ndim == 2 and array.shape[1] > max(len(array), MANY_VARIABLES):
        T, d = array.shape
        warnings.warn(
            f"an array of shape ({T}, {d}) is read as one trajectory of {d} variables at {T} times; if its rows are "
            f"{T} trajectories of one variable, give them as list(paths) or paths[:, :, None], and if it is one of "
            f"{T} variables, as paths.T",
            DataWarning,
            stacklevel=user_level(),
        )


def _holds_arrays(values: Sequence[object]) -> bool:
    """Whether a list holds arrays or lists, and not numbers."""
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
            text = "{times} must have one array for each trajectory: expected {expected}, got {got}"
            raise InputError(text, times=Option("times"), expected=len(paths), got=len(times))
        clocks = [_clock(f"times[{i}]", clock, path) for i, (clock, path) in enumerate(zip(times, paths, strict=True))]
    else:
        clocks = [_clock("times", times, path) for path in paths]  # type: ignore[arg-type]
    return [np.diff(clock) for clock in clocks]


def _clock(name: str, times: npt.ArrayLike | None, path: Float) -> Float:
    array = plain_array(name, times)  # type: ignore[arg-type]
    first = array.flat[0] if array.size and array.dtype.kind == "O" else None
    if array.dtype.kind in "mM" or isinstance(first, date | timedelta):
        durations = array.dtype.kind == "m" or isinstance(first, timedelta)
        numbers = (
            f"np.asarray({name}, dtype='timedelta64') / np.timedelta64(1, 's')"
            if durations
            else f"t = np.asarray({name}, dtype='datetime64[us]'), then (t - t[0]) / np.timedelta64(1, 's')"
        )
        text = "{option} must be numbers, got {got}; take {numbers}"
        raise InputError(text, option=Option(name), got="durations" if durations else "dates", numbers=numbers)
    whole = array.dtype.kind in "iu" and array.size > 0  # differences of large ones are lost in floating point
    clock = float_array(name, array.astype(np.int64) - array.astype(np.int64).flat[0] if whole else array)
    if clock.shape != (len(path),):
        text = "{option} must have one time for each observation: expected ({n},), got {got}"
        raise InputError(text, option=Option(name), n=len(path), got=clock.shape)
    if (i := first_backward(clock)) is not None:
        raise InputError(
            "{option} must be increasing: {name}[{i}] = {time} is followed by {next_time}; "
            "sort the rows, drop repeated times, and give several trajectories as a list",
            option=Option(name),
            name=name,
            i=i,
            time=f"{array[i]:{'' if whole else 'g'}}",
            next_time=f"{array[i + 1]:{'' if whole else 'g'}}",
        )
    return clock


def first_backward(clock: Float) -> int | None:
    """The index of the first time that the next one does not exceed; None if all increase."""
    backward = np.flatnonzero(np.diff(clock) <= 0)
    return int(backward[0]) if len(backward) else None


def moves_in_trajectories(
    paths: npt.ArrayLike | Sequence[npt.ArrayLike],
    dt: float | None,
    times: npt.ArrayLike | Sequence[npt.ArrayLike] | None,
    limits: StepLimits,
    covariates: Covariates | None = None,
) -> tuple[tuple[Float, Float, Float, Int], Float | None]:
    """The moves of all trajectories: starts and increments (n, d), durations (n,), numbers of the trajectories (n,).

    Besides, the covariates where they start (n, k). The other arguments are those of `Transitions.from_trajectories`.
    """
    if (dt is None) == (times is None):
        raise InputError(
            "give either {dt}, the time between observations, or {times}, one for each: {given}",
            dt=Option("dt"),
            times=Option("times"),
            given="neither was given" if dt is None else "not both",
        )
    trajectories = as_trajectories(paths)
    d, driven = trajectories[0].shape[1], trajectories
    if covariates is not None:
        own = covariates_of_trajectories(covariates, trajectories)
        driven = [np.concatenate(both, axis=1) for both in zip(trajectories, own, strict=True)]
    parts = []
    for number, (path, steps) in enumerate(zip(driven, steps_of(trajectories, dt, times), strict=True)):
        starts, increments, h = moves(path, steps, limits, d)
        parts.append((starts, increments, h, np.full(len(h), number)))
    if not any(len(part[0]) for part in parts):
        raise InputError(
            "the trajectories hold no transition: each has fewer than two consecutive observations (lengths {lengths})"
            "{or_none_allowed}",
            lengths=", ".join(str(len(path)) for path in trajectories[:5]) + ", ..." * (len(trajectories) > 5),
            or_none_allowed=""
            if limits == StepLimits()
            else Message(", or none between {min_h} and {max_h}", min_h=Option("min_h"), max_h=Option("max_h")),
        )
    starts, increments, h, numbers = (np.concatenate(part) for part in zip(*parts, strict=True))
    return (starts[:, :d], increments, h, numbers), None if covariates is None else starts[:, d:]


def moves(
    path: Float,
    steps: Float,
    limits: StepLimits = StepLimits(),  # noqa: B008
    d: int | None = None,
) -> tuple[Float, Float, Float]:
    """Where each move of a trajectory began, how far it went and how long it took.

    Moves that start or end at a row with NaN are left out, and those that took a time outside the limits.

    Parameters
    ----------
    path : array of shape (T, d)
    steps : array of shape (T − 1,)
        Time from each observation to the next.
    limits : StepLimits
    d : int, optional
        How many of the columns move; those after them are covariates, of which starts are taken as they are.
    """
    increments = np.diff(path[:, :d], axis=0)
    kept = limits.allow(steps) & complete(increments)
    if kept.all():
        return path[:-1], increments, steps
    return path[:-1][kept], increments[kept], steps[kept]


def complete(rows: Float) -> npt.NDArray[np.bool_]:
    """Which rows of a narrow array (n, d) hold no NaN."""
    known = np.ones(len(rows), dtype=bool)
    for column in rows.T:
        known &= ~np.isnan(column)
    return known


# Tables


class Observations(NamedTuple):
    """Rows of a table in order: states (n, s), covariates as the last, times, tracks, and what messages call them."""

    states: Float
    clock: Float | None  # (n,), NaN where the time is missing
    track: Int  # (n,): number of the row's track in `labels`
    labels: npt.NDArray[np.generic] | None  # None if there is one track without a name
    row: Int  # (n,): position in the table
    place: Callable[[int], str]  # what to call the row at a position
    time: Callable[[int], str]  # its time as the table shows it
    n_covariates: int = 0
    files: FileRows | None = None  # which rows came from which file, if they came from several

    def take(self, order: Int) -> Observations:
        """The rows at some positions, in their order."""
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

    def take(self, rows: npt.NDArray[np.bool_]) -> Moves:
        """Those that a mask selects."""
        groups = None if self.groups is None else self.groups[rows]
        return Moves(self.start[rows], self.end[rows], self.h[rows], groups)


def moves_in(observations: Observations, dt: float | None, *, sort: bool) -> Moves:
    """All moves from a row of a track to its next one; rows with missing values are gaps.

    Rows of a track may be anywhere in the table. With `sort` they are sorted by time if they are not, with a warning;
    otherwise times that go backward are an error.
    """
    ordered, unsorted = in_order(observations, sort=sort)
    if n := len(unsorted):
        warn_of_sorted(n, None if observations.labels is None else len(observations.labels))
    return moves_between(ordered, dt)


def in_order(observations: Observations, *, sort: bool) -> tuple[Observations, Int]:
    """Rows of each track together and in the order of their times, and the numbers of the tracks that were not.

    Without `sort` times that go backward are an error.
    """
    observations = _by_track(observations)
    if observations.clock is None:
        return observations, np.zeros(0, dtype=np.intp)
    ordered, unsorted = _in_time(observations, observations.track[1:] == observations.track[:-1], sort)
    if ordered.files is not None:
        labelled = ordered.labels is not None
        ordered.files.check_apart(ordered.row, ordered.track, ordered.track_name, ordered.time, labelled)
    return ordered, unsorted


def moves_between(observations: Observations, dt: float | None) -> Moves:
    """All moves from a row to the next one of its track, given rows in order."""
    kept, h = starts_of_moves(observations, dt)
    groups = None if observations.labels is None else observations.labels.take(observations.track.take(kept))
    start, end = (rows.take(kept, axis=0) for rows in (observations.states, observations.states[1:]))
    return Moves(start, end, h, groups)


def starts_of_moves(observations: Observations, dt: float | None) -> tuple[Int, Float]:
    """The rows from which a move leads to the next one, and the time that each took, (n,) both."""
    same = observations.track[1:] == observations.track[:-1]
    if observations.clock is None:
        steps = np.full(len(same), dt)
    else:
        with np.errstate(invalid="ignore"):  # between rows without a time
            steps = np.diff(observations.clock)
        if (twice := same & (steps == 0) & np.isfinite(observations.clock[1:])).any():
            _raise_repeated(observations, int(np.argmax(twice)))
    known = complete(observations.states[:, : observations.states.shape[1] - observations.n_covariates])
    kept = np.flatnonzero(same & known[1:] & known[:-1])
    return kept, np.asarray(steps, dtype=np.float64).take(kept)


def _by_track(observations: Observations) -> Observations:
    """Rows of each track together, otherwise in the order they had."""
    if (np.diff(observations.track) >= 0).all():
        return observations
    return observations.take(np.argsort(observations.track, kind="stable"))


def _in_time(observations: Observations, same: npt.NDArray[np.bool_], sort: bool) -> tuple[Observations, Int]:
    """Rows of each track in the order of their times, and the tracks in which they were not.

    A row without a time is a gap after the row it follows.
    """
    assert observations.clock is not None
    key, missing = observations.clock, np.isnan(observations.clock)
    if missing.any():
        last = np.maximum.accumulate(np.where(missing, 0, np.arange(len(key))))
        follows = ~missing[last] & (observations.track[last] == observations.track)
        key = np.where(follows, key[last], -np.inf)
        observations = observations._replace(states=np.where(missing[:, None], np.nan, observations.states))
    with np.errstate(invalid="ignore"):
        backward = same & (np.diff(key) < 0)
    if not backward.any():
        return observations, np.zeros(0, dtype=np.intp)
    if not sort:
        i = int(np.argmax(backward)) + 1
        row = int(observations.row[i])
        raise InputError(
            "the times of {track} go backward to {time} in {place}: data that are read in parts must be sorted by time "
            "within each track; {advice}",
            track=observations.track_name(i),
            time=observations.time(row),
            place=observations.place(row),
            advice=Either(
                python="sort them, or read them whole into a DataFrame for Transitions.from_dataframe",
                command="sort the file",
            ),
        )
    if observations.files is not None:  # that files are not in the order of time is no news
        backward &= observations.files.of_one(observations.row)
    unsorted = np.unique(observations.track[1:][backward])
    return observations.take(np.lexsort((key, observations.track))), unsorted


def warn_of_sorted(n: int, n_tracks: int | None) -> None:
    """Warn that the rows of n of the tracks were sorted; of the only one, without a name, if n_tracks is None."""
    which = "the rows" if n_tracks is None else f"the rows of {n} of {n_tracks} tracks"
    text = f"{which} were not in the order of their times and have been sorted"
    warnings.warn(text, DataWarning, stacklevel=user_level())


def _raise_repeated(observations: Observations, i: int) -> None:
    """Raise the error that the i-th row and the next have the same track and time."""
    first, second = int(observations.row[i]), int(observations.row[i + 1])
    before = "an earlier part" if first < 0 else observations.place(first)
    raise InputError(
        "{track} has the time {time} twice, in {before} and in {place}; {advice}",
        track=observations.track_name(i),
        time=observations.time(second),
        before=before,
        place=observations.place(second),
        advice="drop one of them"
        if observations.labels is not None
        else if_several_tracks(observations.files is not None and len(observations.files.names) > 1),
    )


class OpenTracks:
    """The last row of every track so far, where the next part of a table goes on.

    Attributes
    ----------
    n_rows : array of shape (n_tracks,)
        How many rows each track had so far.
    """

    def __init__(self) -> None:
        self.n_rows = np.zeros(0, dtype=np.intp)
        self._number: dict[object, int] = {}
        self._states: Float | None = None
        self._clock = np.zeros(0)

    def joined(self, observations: Observations) -> Observations:
        """The rows of a part, preceded by the last rows that its tracks had in earlier parts."""
        labels = [None] if observations.labels is None else observations.labels.tolist()
        number = np.array([self._number.setdefault(label, len(self._number)) for label in labels], dtype=np.intp)
        known = np.flatnonzero(number < len(self.n_rows))
        result = observations
        if len(known):
            assert self._states is not None
            result = observations._replace(
                states=np.concatenate([self._states[number[known]], observations.states]),
                clock=None
                if observations.clock is None
                else np.concatenate([self._clock[number[known]], observations.clock]),
                track=np.concatenate([known, observations.track]),
                row=np.concatenate([np.full(len(known), -1), observations.row]),
            )
        self._remember(observations, number)
        return result

    def _remember(self, observations: Observations, number: Int) -> None:
        n_new, s = len(self._number) - len(self.n_rows), observations.states.shape[1]
        before = np.empty((0, s)) if self._states is None else self._states
        self._states = np.concatenate([before, np.empty((n_new, s))])
        self._clock = np.concatenate([self._clock, np.empty(n_new)])
        self.n_rows = np.concatenate([self.n_rows, np.zeros(n_new, dtype=np.intp)])
        last = np.zeros(len(number), dtype=np.intp)
        last[observations.track] = np.arange(len(observations.track))  # NumPy keeps the last of several values
        self._states[number] = observations.states[last]
        if observations.clock is not None:
            self._clock[number] = observations.clock[last]
        self.n_rows[number] += np.bincount(observations.track, minlength=len(number))


def warn_of_left_out(n_untracked: int, n_rows: npt.NDArray[np.signedinteger[Any]]) -> None:
    """Warn of what was left out of a table: rows without a track, and tracks that have a single row.

    Parameters
    ----------
    n_untracked : int
        Number of rows without a track.
    n_rows : array of shape (n_tracks,)
        How many rows each track has.
    """
    if n_untracked:
        text = "1 row has no track and was" if n_untracked == 1 else f"{n_untracked} rows have no track and were"
        warnings.warn(f"{text} left out", DataWarning, stacklevel=user_level())
    if n := int((n_rows == 1).sum()):
        text = f"{n} of {len(n_rows)} tracks {'has' if n == 1 else 'have'} one row and {'was' if n == 1 else 'were'}"
        warnings.warn(f"{text} left out: a move needs two", DataWarning, stacklevel=user_level())


def frame_of(pandas: Any, paths: Float, dt: float, names: tuple[str, ...], units: Units) -> Any:  # noqa: ANN401
    """Paths (n_paths, T, s) as a DataFrame with columns track, time and the names of the state, units in `attrs`."""
    n_paths, T, _ = paths.shape
    parts = {"track": np.repeat(np.arange(n_paths), T), "time": np.tile(dt * np.arange(T), n_paths)}
    frame = pandas.DataFrame(parts | {name: paths[:, :, j].ravel() for j, name in enumerate(names)})
    if units:
        frame.attrs["units"] = units.as_dict()
    return frame
