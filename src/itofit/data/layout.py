"""Tables with a column for each variable and a row for each time: columns as arrays, which hold what, and moves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from sys import modules
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from itofit._checks import AS_GAPS, Either, Float, InputError, Int, Option, flag, one_of, positive
from itofit.data.names import did_you_mean, plural
from itofit.data.periods import Periodic, checked_periods
from itofit.data.step_limits import StepLimits, none_within_limits
from itofit.data.trajectories import Moves, Observations, moves_in, warn_of_left_out

ColumnNames: TypeAlias = Hashable | Sequence[Hashable]


class MissingPackageError(InputError, ImportError):
    """A package that is needed for some data is not installed."""


def optional(package: str, purpose: str | Either) -> Any:  # noqa: ANN401
    """A package that only some purposes need, imported when they do."""
    try:
        return import_module(package)
    except ImportError:
        text = '{purpose} needs {package}, which is not installed: pip install "itofit[data]"'
        raise MissingPackageError(text, purpose=purpose, package=package.partition(".")[0]) from None


UNITS = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "min": "m", "h": "h", "D": "D", "W": "W"}
"""Units of time by the names that pandas gives them, and what NumPy calls them."""
EXACT = 2**53
"""Doubles hold all whole numbers up to this one."""


class Table:
    """Columns by name as arrays, whatever the table is made of.

    Parameters
    ----------
    frame : DataFrame, mapping of arrays, or anything with `columns` and `to_numpy`
    place : callable, optional
        What to call the row at a position, from 0, in messages. Default: its position, and its label if it has one.
    """

    def __init__(self, frame: Any, place: Callable[[int], str] | None = None) -> None:  # noqa: ANN401
        if not isinstance(frame, Mapping) and not (hasattr(frame, "columns") and hasattr(frame, "to_numpy")):
            raise InputError(
                "{df} must be a table with named columns such as a pandas DataFrame, got {got}; arrays go to "
                "Transitions.from_trajectories",
                df=Option("df"),
                got=type(frame).__name__,
            )
        self.frame = frame
        self.columns: list[Any] = list(frame if isinstance(frame, Mapping) else frame.columns)
        self.place = place or self._row

    def _row(self, position: int) -> str:
        index = getattr(self.frame, "index", None)
        return f"row {position}" + ("" if index is None or callable(index) else f" (index label {index[position]!r})")

    def check(self, argument: str, name: Hashable) -> None:
        """Raise unless there is one column of this name."""
        n = self.columns.count(name)
        if n > 1:
            text = "{option}: there are {n} columns called {name!r}; rename them"
            raise InputError(text, option=Option(argument), n=n, name=name)
        if n == 1:
            return
        hint = did_you_mean(name, self.columns)
        if name in (getattr(getattr(self.frame, "index", None), "names", None) or []):
            hint = " (it is the index: use df.reset_index())"
        raise self.no_such_column(argument, name, hint)

    def no_such_column(self, argument: str, name: Hashable, hint: str) -> InputError:
        """The error for an argument that names a column that the table does not have."""
        text = "{option}: there is no column {name!r}{hint}; the columns are {columns}"
        return InputError(text, option=Option(argument), name=name, hint=hint, columns=self.column_list())

    def column_list(self) -> str:
        """The names of the columns, the first 20 of them, for messages."""
        return ", ".join(map(repr, self.columns[:20])) + (", ..." if len(self.columns) > 20 else "")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.frame[self.columns[0]]) if self.columns else 0

    def shown(self, name: Hashable, position: int) -> str:
        """A value as the table shows it."""
        column = self.frame[name]
        return str(column.iloc[position] if hasattr(column, "iloc") else column[position])

    def numbers(self, name: Hashable) -> Float:
        """A column of numbers as an array of shape (n,), NaN where they are missing."""
        values = _values(self.frame[name])
        if values.dtype.kind in "fiub":
            numbers = values.astype(np.float64, copy=False)
        elif values.dtype.kind in "mMcV":
            raise InputError(f"column {name!r} must hold real numbers, got {values.dtype}")
        else:
            numbers = self._parsed(name, values)
        infinite = np.isinf(numbers)
        if infinite.any():
            first = int(np.argmax(infinite))
            raise InputError(
                "column {name!r} must be finite or missing: {n_infinite} of {n} values are not, the first in {place}; "
                "{advice}",
                name=name,
                n_infinite=int(infinite.sum()),
                n=len(numbers),
                place=self.place(first),
                advice=AS_GAPS,
            )
        return numbers

    def _parsed(self, name: Hashable, values: npt.NDArray[np.generic]) -> Float:
        """Numbers in an array of any objects; an error names the first that is not a number."""
        numbers = np.empty(len(values))
        for i, value in enumerate(values.tolist()):
            number = _number(value)
            if number is None:
                advice = "correct it, or leave it empty, which is a gap"
                raise InputError(
                    f"column {name!r} must hold numbers, got {value!r} in {self.place(i)}; "
                    + ("write decimals with a point" if _has_comma(value) else advice)
                )
            numbers[i] = number
        return numbers

    def holds_numbers(self, name: Hashable) -> bool:
        """Whether the first value of a column that is not missing is a number; True and False are not."""
        values = _values(self.frame[name])
        if values.dtype.kind in "fiu":
            return not np.isnan(values.astype(np.float64)).all()
        known = (value for value in values.tolist() if not _is_missing(value))
        first = next(known, None)
        if first is None or isinstance(first, bool):
            return False
        return _number(first) is not None or _has_comma(first)  # a decimal comma is reported when the column is read

    def times(self, name: Hashable, unit: str | None, origin: Any = None) -> tuple[Float, Any]:  # noqa: ANN401
        """A column of times as numbers of shape (n,), NaN where they are missing, and the time they count from.

        Dates, and whole numbers of more digits than doubles hold, count from the first of them, or from a given origin;
        other numbers stay as they are.
        """
        values = _values(self.frame[name], whole=True)
        if values.dtype.kind in "OU":
            values = self._dates(name, values, unit)
        if values.dtype.kind == "f" and np.isnan(values).all():
            return values.astype(np.float64), origin
        dates = values.dtype.kind in "mM"
        if dates and unit is None:
            raise InputError(
                "column {name!r} holds dates or durations: give {unit}, the unit of h and of all rates, one of {units}",
                name=name,
                unit=Option("unit", keyword=True),
                units=", ".join(map(repr, UNITS)),
            )
        if not dates and unit is not None:
            text = "{unit} is for dates, but column {name!r} holds numbers; leave it out"
            raise InputError(text, unit=Option("unit", unit), name=name)
        if dates:
            known = values[~np.isnat(values)]
            origin = known[0] if origin is None and len(known) else origin
            if origin is None:
                return np.full(len(values), np.nan), None
            return (values - origin) / np.array(1, dtype=f"timedelta64[{UNITS[str(unit)]}]"), origin
        numbers = values if values.dtype.kind == "i" else self.numbers(name)
        if origin is None:
            origin = values[0] if values.dtype.kind == "i" and len(values) and abs(values[0]) > EXACT else 0
        return (numbers - origin if origin else numbers).astype(np.float64), origin

    def _dates(self, name: Hashable, values: npt.NDArray[Any], unit: str | None) -> npt.NDArray[Any]:
        """Dates from objects that are dates or texts of dates; a column of numbers as numbers."""
        first = next((value for value in values.tolist() if not _is_missing(value)), None)
        if first is None or _number(first) is not None:
            return self.numbers(name)
        if unit is None:
            raise InputError(
                "column {name!r} must hold numbers, got {first!r}: if these are dates, give {unit}, the unit of h and "
                "of all rates, one of {units}",
                name=name,
                first=first,
                unit=Option("unit", keyword=True),
                units=", ".join(map(repr, UNITS)),
            )
        pandas = optional("pandas", "reading dates")
        missing = np.array([_is_missing(value) for value in values.tolist()])
        format_ = {"format": "ISO8601"} if isinstance(first, str) else {}
        dates = pandas.to_datetime(pandas.Series(values, dtype=object), errors="coerce", utc=True, **format_)
        bad = dates.isna().to_numpy() & ~missing
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                "column {name!r} must hold dates as in '2024-01-31 12:00', got {got!r} in {place}; {advice}",
                name=name,
                got=values[i],
                place=self.place(i),
                advice=Either(
                    python="convert others with pandas.to_datetime first", command="write all of them in this way"
                ),
            )
        return np.asarray(dates.dt.tz_localize(None).to_numpy())

    def labels(self, names: tuple[Hashable, ...]) -> tuple[Int, npt.NDArray[np.generic]]:
        """For each row the number of its label, (n,), −1 where it is missing, and the labels in order of appearance.

        Labels are whole numbers or strings; those in several columns are joined to one string.
        """
        code, labels = _factorized(self.frame[names[0]])
        for name in names[1:]:
            other, others = _factorized(self.frame[name])
            both = np.where((code < 0) | (other < 0), -1, code * len(others) + other)
            code, pairs = _factorized(both, missing=-1)
            firsts, seconds = np.divmod(pairs.astype(np.intp), max(len(others), 1))
            labels = np.array([f"{a}, {b}" for a, b in zip(labels[firsts], others[seconds], strict=True)], dtype=str)
        return code, labels


def _values(column: Any, *, whole: bool = False) -> npt.NDArray[Any]:  # noqa: ANN401
    """A column as a NumPy array: numbers as floats, or with `whole` as int64 if they are whole and none is missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if isinstance(column, np.ndarray) or not hasattr(column, "to_numpy"):
        values = np.asarray(column)
    elif kind in "iu" and whole and not column.isna().any():
        values = column.to_numpy(dtype=np.int64)
    elif kind in "fiub" and not isinstance(column.dtype, np.dtype):  # Float64 with <NA>, or of pyarrow
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = np.asarray(column.to_numpy())
        if kind == "M" and values.dtype.kind == "O":  # with a time zone
            values = column.to_numpy(dtype="datetime64[ns]")
    if values.ndim != 1:
        raise InputError(f"a column must have one value in each row, got shape {values.shape}")
    return values.astype(np.int64) if whole and values.dtype.kind in "iu" else values


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, <NA>, NaT or an empty text."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _number(value: Any) -> float | None:  # noqa: ANN401
    """A number, or a text that is one, as a float; NaN for a missing value; None for anything else."""
    try:
        return np.nan if _is_missing(value) else float(value)
    except (TypeError, ValueError):
        return None


def _has_comma(value: object) -> bool:
    """Whether a text would be a number with a point in place of its comma."""
    return isinstance(value, str) and value.count(",") == 1 and _number(value.replace(",", ".")) is not None


def _factorized(column: Any, missing: object = None) -> tuple[Int, npt.NDArray[Any]]:  # noqa: ANN401
    """For each row the number of its label, −1 where it is missing, and the labels in order of appearance."""
    if (pandas := modules.get("pandas")) is not None:  # if it was never imported, the column is not from pandas
        code, labels = pandas.factorize(column if hasattr(column, "dtype") else np.asarray(column))
        unique = np.asarray(labels)
    else:
        unique, first, inverse = np.unique(np.asarray(column), return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        code, unique = rank[inverse], unique[np.argsort(first)]
    absent = np.array([label == missing or _is_missing(label) for label in unique.tolist()], dtype=bool)
    if absent.any():
        number = np.where(absent, -1, np.cumsum(~absent) - 1)
        code, unique = np.where(code < 0, -1, number[code]), unique[~absent]
    if unique.dtype.kind == "f" and (unique == np.round(unique)).all():
        unique = unique.astype(np.int64)
    return code.astype(np.intp), unique if unique.dtype.kind in "iu" else unique.astype(str)


class Layout(NamedTuple):
    """Which columns of a table hold what; `checked_layout` makes it from a user's arguments."""

    state: tuple[Hashable, ...]
    velocity: tuple[Hashable, ...]
    time: Hashable | None
    track: tuple[Hashable, ...]
    dt: float | None
    unit: str | None
    covariates: tuple[Hashable, ...] = ()
    periodic: Periodic | None = None
    second_order: bool = False  # whether the state is positions, whose velocities were not observed

    @property
    def variables(self) -> tuple[tuple[Hashable, ...], ...]:
        """The columns of states, velocities and covariates."""
        return self.state, self.velocity, self.covariates

    @property
    def columns(self) -> dict[Hashable, str]:
        """All columns, and the argument that names each."""
        variables = dict.fromkeys(self.covariates, "covariates")
        variables |= dict.fromkeys(self.state, "state") | dict.fromkeys(self.velocity, "velocity")
        return variables | ({} if self.time is None else {self.time: "time"}) | dict.fromkeys(self.track, "track")

    def observations(self, table: Table, origin: Any = None) -> tuple[Observations, Any, int]:  # noqa: ANN401
        """Rows of a `Table`, the time that times count from, and the number of rows left out: those without a track."""
        for name, argument in self.columns.items():
            table.check(argument, name)
        clock = None
        if self.time is not None:
            clock, origin = table.times(self.time, self.unit, origin)
        states = np.column_stack([table.numbers(name) for name in self.state + self.velocity])
        for name in self.covariates:
            own = clock if clock is not None and name == self.time else table.numbers(name)
            states = np.column_stack([states, own])
        track, labels = table.labels(self.track) if self.track else (np.zeros(len(states), dtype=np.intp), None)
        rows = Observations(
            states, clock, track, labels, np.arange(len(states)), table.place, lambda i: table.shown(self.time, i)
        )._replace(n_covariates=len(self.covariates))
        kept = track >= 0
        return (rows if kept.all() else rows.take(np.flatnonzero(kept))), origin, int((~kept).sum())


def _check_second_order(layout: Layout) -> None:
    """Raise if a layout of positions alone has what they cannot have."""
    if not layout.second_order:
        return
    if layout.velocity:
        raise InputError(
            "{second_order} is for positions whose velocities were not observed, but {velocity} names them: leave out "
            "one of the two",
            second_order=Option("second_order", True),
            velocity=Option("velocity"),
        )
    for name, given in (("covariates", layout.covariates), ("periodic", layout.periodic)):
        if given:
            raise InputError(
                "{second_order} does not go together with {other}: velocities are found from positions alone",
                second_order=Option("second_order", True),
                other=Option(name),
            )


def checked_layout(
    state: ColumnNames,
    time: Hashable | None = None,
    track: ColumnNames | None = None,
    dt: float | None = None,
    velocity: ColumnNames | None = None,
    unit: str | None = None,
    covariates: ColumnNames | None = None,
    periodic: Periodic | None = None,
    second_order: bool = False,
) -> Layout:
    """The layout that a user's arguments describe; raise if they do not fit together."""
    if (dt is None) == (time is None):
        raise InputError(
            "give either {time}, the column of times, or {dt}, the time between rows: {given}",
            time=Option("time"),
            dt=Option("dt"),
            given="neither was given" if dt is None else "not both",
        )
    if unit is not None:
        one_of("unit", unit, tuple(UNITS))
        if time is None:
            text = "{unit} is the unit of a column of dates, but no column of times was given"
            raise InputError(text, unit=Option("unit"))
    layout = Layout(
        column_names("state", state),
        () if velocity is None else column_names("velocity", velocity),
        time,
        () if track is None else column_names("track", track),
        None if dt is None else positive("dt", dt),
        unit,
        () if covariates is None else column_names("covariates", covariates),
        periodic,
        flag("second_order", second_order),
    )
    _check_second_order(layout)
    checked_periods(periodic, tuple(str(name) for own in layout.variables for name in own))
    if both := [name for name in layout.covariates if name in layout.state + layout.velocity + layout.track]:
        raise InputError(
            "the column {name!r} is named twice, among {covariates} and otherwise",
            name=both[0],
            covariates=Option("covariates", keyword=True),
        )
    if velocity is not None and len(layout.velocity) != len(layout.state):
        raise InputError(
            "{velocity} must name one column for each of {state}: expected {expected}, got {got}",
            velocity=Option("velocity"),
            state=Option("state"),
            expected=len(layout.state),
            got=len(layout.velocity),
        )
    return layout


def column_names(argument: str, names: ColumnNames) -> tuple[Hashable, ...]:
    """Names of columns as a tuple; a name that is itself a tuple must be given in a list."""
    given = (names,) if isinstance(names, str) or not isinstance(names, Sequence) else tuple(names)
    if not given:
        raise InputError("{option} must name at least one column, got {got!r}", option=Option(argument), got=names)
    if len(set(given)) < len(given):
        raise InputError("{option} names a column twice: {got!r}", option=Option(argument), got=names)
    return given


def moves_in_table(layout: Layout, table: Table, limits: StepLimits) -> Moves:
    """All moves in a whole table that took an allowed time, with warnings of rows that were left out."""
    observations, _, n_untracked = layout.observations(table)
    n_rows = np.bincount(observations.track)
    moves = moves_in(observations, layout.dt, sort=True)
    if not len(moves.h):
        raise InputError(
            "there is no transition: no track has two consecutive rows that are complete "
            f"({plural(len(observations.track), 'row')} in {plural(len(n_rows), 'track')})"
        )
    kept = limits.allow(moves.h)
    if not kept.any():
        raise none_within_limits(moves.h.min(), moves.h.max())
    warn_of_left_out(n_untracked, n_rows, stacklevel=4)
    return moves if kept.all() else moves.take(kept)
