"""Tables of any library, and their columns as arrays: numbers, times, and labels of tracks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from importlib import import_module
from sys import modules
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import AS_GAPS, Either, Float, InputError, Int, Message, Option, shown
from itofit.data.frames.any_frame import readable
from itofit.data.frames.arrow_columns import codes_in_runs, codes_of, holds_several, is_arrow, values_of
from itofit.data.frames.day_first import iso_date
from itofit.data.frames.file_rows import FileRows
from itofit.data.names import did_you_mean


class MissingPackageError(InputError, ImportError):
    """A package that is needed for some data is not installed."""


def optional(package: str, purpose: str | Either, extra: str = "data") -> Any:  # noqa: ANN401
    """A package that only some purposes need, imported when they do."""
    try:
        return import_module(package)
    except ImportError:
        text = '{purpose} needs {package}, which is not installed: pip install "itofit[{extra}]"'
        raise MissingPackageError(text, purpose=purpose, package=package.partition(".")[0], extra=extra) from None


class Texts(NamedTuple):
    """How numbers and dates are written, where they are texts."""

    decimal: str = "."  # or a comma
    dayfirst: bool = False  # 31.1.2024 instead of 2024-01-31


PLAIN = Texts()


UNITS = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "min": "m", "h": "h", "D": "D", "W": "W"}
"""Units of time by the names that pandas gives them, and what NumPy calls them."""
GROUPED = re.compile(r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{3})+\.\d+|(?:[,.' ]\d{3}){2,})")
"""Numbers with marks between thousands: 1.234,5 or 1,234.5 or 1'234'567."""
EXACT = 2**53
"""Doubles hold all whole numbers up to this one."""


class Table:
    """Columns by name as arrays, whatever the table is made of.

    Parameters
    ----------
    frame : DataFrame of any library, Arrow table, mapping of arrays, or anything with `columns` and `to_numpy`
    place : callable, optional
        What to call the row at a position, from 0, in messages. Default: its position, and its label if it has one.
    files : FileRows, optional
        Which rows came from which file.
    """

    def __init__(
        self,
        frame: Any,  # noqa: ANN401
        place: Callable[[int], str] | None = None,
        files: FileRows | None = None,
    ) -> None:
        self.frame = readable(frame)
        if is_arrow(self.frame):
            self.columns: list[Any] = list(self.frame.column_names)
        else:
            self.columns = list(self.frame if isinstance(self.frame, Mapping) else self.frame.columns)
        self.files = files
        self.place = place or (self._row if files is None else files.place)

    def _row(self, position: int) -> str:
        index = getattr(self.frame, "index", None)
        return f"row {position}" + ("" if index is None or callable(index) else f" (index label {index[position]!r})")

    def has(self, name: Hashable) -> bool:
        """Whether there is a column of this name."""
        return name in self._occurrences

    def check(self, argument: str, name: Hashable) -> None:
        """Raise unless there is one column of this name."""
        n = self._occurrences[name]
        if n > 1:
            text = "{option}: there are {n} columns called {name!r}; rename them"
            raise InputError(text, option=Option(argument), n=n, name=name)
        if n == 1:
            return
        hint = did_you_mean(name, self.columns)
        if name is not None and name in (getattr(getattr(self.frame, "index", None), "names", None) or []):
            hint = " (it is the index: use df.reset_index())"
        raise self.no_such_column(argument, name, hint)

    @cached_property
    def _occurrences(self) -> Counter[Any]:
        return Counter(self.columns)

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

    def numbers(self, name: Hashable, decimal: str = ".") -> Float:
        """A column of numbers as an array of shape (n,), NaN where they are missing."""
        values = self._single_values(name)
        if values.dtype.kind in "fiub":
            numbers = values.astype(np.float64, copy=False)
        elif values.dtype.kind in "mMcV":
            raise InputError(f"column {name!r} must hold real numbers, got {values.dtype}")
        else:
            numbers = self._parsed(name, values, decimal)
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

    def _single_values(self, name: Hashable) -> npt.NDArray[Any]:
        """A column as an array; raise if each row of it holds several values."""
        column = self.frame[name]
        if is_arrow(column) and holds_several(column):
            raise InputError(f"column {name!r} must hold real numbers, got {column.type}")
        return _values(column)

    def _parsed(self, name: Hashable, values: npt.NDArray[np.generic], decimal: str) -> Float:
        """Numbers in an array of any objects; an error names the first that is not a number."""
        numbers = np.empty(len(values))
        for i, value in enumerate(values.tolist()):
            number = _number(value, decimal)
            if number is None:
                raise InputError(
                    "column {name!r} must hold numbers, got {value} in {place}; {advice}",
                    name=name,
                    value=shown(value),
                    place=self.place(i),
                    advice=_advice(value, decimal),
                )
            numbers[i] = number
        return numbers

    def holds_numbers(self, name: Hashable) -> bool:
        """Whether the first value of a column that is not missing is a number; True and False are not."""
        if is_arrow(column := self.frame[name]) and holds_several(column):
            return False
        values = _values(column)
        if values.dtype.kind in "fiu":
            return not np.isnan(values.astype(np.float64)).all()
        known = (value for value in values.tolist() if not _is_missing(value))
        first = next(known, None)
        if first is None or isinstance(first, bool):
            return False
        if isinstance(first, str) and GROUPED.fullmatch(
            first.strip()
        ):  # reported when the column is read, as commas are
            return True
        return _is_almost_number(first)

    def moments(self, name: Hashable, unit: str | None, texts: Texts = PLAIN) -> npt.NDArray[Any]:
        """A column of times as dates, durations, whole numbers or other numbers, of shape (n,)."""
        values = _values(self.frame[name], whole=True)
        if values.dtype.kind in "OU":
            values = self._dates(name, values, unit, texts)
        if values.dtype.kind == "f" and np.isnan(values).all():
            return values.astype(np.float64)
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
        return values if dates or values.dtype.kind == "i" else self.numbers(name, texts.decimal)

    def _dates(self, name: Hashable, values: npt.NDArray[Any], unit: str | None, texts: Texts) -> npt.NDArray[Any]:
        """Dates from objects that are dates or texts of dates; a column of numbers as numbers."""
        first = next((value for value in values.tolist() if not _is_missing(value)), None)
        if first is None or _number(first, texts.decimal) is not None or (unit is None and _is_almost_number(first)):
            return self.numbers(name, texts.decimal)
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
        written = [iso_date(value) for value in values.tolist()] if texts.dayfirst else values
        format_ = {"format": "ISO8601"} if isinstance(first, str) else {}
        try:
            dates = pandas.to_datetime(pandas.Series(written, dtype=object), errors="coerce", utc=True, **format_)
        except (TypeError, ValueError, OverflowError) as error:  # of objects that are no dates
            raise InputError(f"column {name!r} must hold dates: {error}") from None
        bad = dates.isna().to_numpy() & ~missing
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                "column {name!r} must hold dates as in {example}, got {got} in {place}; {advice}",
                name=name,
                example="'31.1.2024 12:00' or '2024-01-31 12:00'" if texts.dayfirst else "'2024-01-31 12:00'",
                got=shown(values[i]),
                place=self.place(i),
                advice=_dates_advice(values[i], texts),
            )
        return np.asarray(dates.dt.tz_localize(None).to_numpy())

    def labels(self, names: tuple[Hashable, ...]) -> tuple[Int, npt.NDArray[np.generic]]:
        """For each row the number of its label, (n,), −1 where it is missing, and the labels in order of appearance.

        Labels are whole numbers or strings; those in several columns are joined to one string, from which each of
        them can be told: one that has a comma or a quote is in quotes, as in CSV files.
        """
        code, labels = self._factorized(names[0])
        labels = _quoted(labels) if len(names) > 1 else labels
        for name in names[1:]:
            other, others = self._factorized(name)
            others = _quoted(others)
            both = np.where((code < 0) | (other < 0), -1, code * len(others) + other)
            code, pairs = _without_missing(*_codes(both), missing=-1)
            firsts, seconds = np.divmod(pairs.astype(np.intp), max(len(others), 1))
            labels = np.array([f"{a}, {b}" for a, b in zip(labels[firsts], others[seconds], strict=True)], dtype=str)
        return code, labels

    def _factorized(self, name: Hashable) -> tuple[Int, npt.NDArray[np.generic]]:
        """For each row the number of its label, −1 where it is missing, and the labels in order of appearance."""
        column = self.frame[name]
        if is_arrow(column) and holds_several(column):
            raise _no_label(name, str(column.type))
        try:
            code, unique = codes_of(column) if is_arrow(column) else _codes(column)
        except (TypeError, NotImplementedError):  # of values that cannot be hashed or compared
            values = column.tolist() if hasattr(column, "tolist") else list(column)
            odd = next((value for value in values if not isinstance(value, Hashable)), values[0])
            raise _no_label(name, f"a {type(odd).__name__}, {odd!r}") from None
        for label in unique.tolist() if unique.dtype.kind == "O" else ():
            if unique.ndim > 1 or isinstance(label, tuple | list | dict | set | frozenset | bytes | np.ndarray):
                raise _no_label(name, f"a {type(label).__name__}, {label!r}")
        known, labels = _without_missing(code, unique)
        if unique.dtype.kind == "O" and len(labels) > len(set(labels.tolist())):
            raise _same_label(name, unique)
        return known, labels


def _no_label(name: Hashable, got: str) -> InputError:
    """The error for a column of tracks that does not hold labels."""
    return InputError(
        "{track}: column {name!r} must hold a number or a string in each row, got {got}; give what it consists of as "
        "several columns",
        track=Option("track"),
        name=name,
        got=got,
    )


def _same_label(name: Hashable, unique: npt.NDArray[Any]) -> InputError:
    """The error for a column of tracks in which different labels, as 1 and "1", are the same text."""
    seen: dict[str, Any] = {}
    for label in unique.tolist():
        if not _is_missing(label) and (first := seen.setdefault(str(label).rstrip("\0"), label)) is not label:
            break
    return InputError(
        "{track}: column {name!r} holds {first} and {label}, which are two labels and the same text; convert all of it "
        "to text, or give other labels to tracks that are not the same",
        track=Option("track"),
        name=name,
        first=shown(first),
        label=shown(label),
    )


def _quoted(labels: npt.NDArray[np.generic]) -> npt.NDArray[np.str_]:
    """Labels as texts, those with a comma or a quote in quotes."""
    texts = [str(label) for label in labels.tolist()]
    marked = ['"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text for text in texts]
    return np.array(marked, dtype=str)


def counted_from(moments: npt.NDArray[Any], unit: str | None, origin: Any = None) -> tuple[Float, Any]:  # noqa: ANN401
    """Times (n,) as numbers of a unit, NaN where they are missing, and the time they count from.

    Dates, and whole numbers of more digits than doubles hold, count from the first of them, or from a given origin;
    other numbers stay as they are.
    """
    if moments.dtype.kind in "mM":
        known = moments[~np.isnat(moments)]
        origin = known[0] if origin is None and len(known) else origin
        if origin is None:
            return np.full(len(moments), np.nan), None
        return (moments - origin) / np.array(1, dtype=f"timedelta64[{UNITS[str(unit)]}]"), origin
    if moments.dtype.kind == "f" and np.isnan(moments).all():
        return moments, origin
    if origin is None:
        origin = moments[0] if moments.dtype.kind == "i" and len(moments) and abs(moments[0]) > EXACT else 0
    return (moments - origin if origin else moments).astype(np.float64), origin


def counted_from_1970(moments: npt.NDArray[Any], unit: str | None) -> Float:
    """Times as numbers of a unit, (n,), which depend on no other row: dates count from the beginning of 1970."""
    return counted_from(moments, unit, np.zeros(1, dtype=moments.dtype)[0])[0]


def _values(column: Any, *, whole: bool = False) -> npt.NDArray[Any]:  # noqa: ANN401
    """A column as a NumPy array: numbers as floats, or with `whole` as int64 if they are whole and none is missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if is_arrow(column):
        values = values_of(column)
    elif isinstance(column, np.ndarray) or not hasattr(column, "to_numpy"):
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


def _number(value: Any, decimal: str = ".") -> float | None:  # noqa: ANN401
    """A number, or a text that is one, as a float; NaN for a missing value; None for anything else."""
    if decimal != "." and isinstance(value, str):
        if "." in value:  # which may separate thousands
            return None
        value = value.replace(decimal, ".")
    try:
        return np.nan if _is_missing(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _has_comma(value: object) -> bool:
    """Whether a text would be a number with a point in place of its comma."""
    return isinstance(value, str) and value.count(",") == 1 and _number(value, ",") is not None


def _is_almost_number(value: object) -> bool:
    """Whether a value would be a number with another mark before its decimals."""
    return _number(value) is not None or _has_comma(value)


def _advice(value: object, decimal: str) -> str | Message:
    """What to do with something that is no number."""
    if decimal == "." and _has_comma(value):
        text = "write decimals with a point, or read the file with {decimal}"
        return Message(text, decimal=Option("decimal", ","))
    if isinstance(value, str) and GROUPED.fullmatch(value.strip()):
        return "write numbers without marks between thousands"
    if decimal != "." and _number(value) is not None:
        return Message("with {decimal} no number has a point: leave it out", decimal=Option("decimal", ","))
    return "correct it, or leave it empty, which is a gap"


def _dates_advice(value: object, texts: Texts) -> object:
    """What to do with something that is no date."""
    if not texts.dayfirst and iso_date(value) != value:
        return Message("read the file with {dayfirst} if days come before months", dayfirst=Option("dayfirst", True))
    return Either(python="convert others with pandas.to_datetime first", command="write all of them in this way")


def _codes(column: Any) -> tuple[Int, npt.NDArray[Any]]:  # noqa: ANN401
    """For each row the number of its label, and the labels in order of appearance, missing ones among them or −1."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return codes_in_runs(column)
    if (pandas := modules.get("pandas")) is not None:  # if it was never imported, the column is not from pandas
        own = type(column).__module__.partition(".")[0] == "pandas"
        code, labels = pandas.factorize(column if own else np.asarray(column))
        if isinstance(labels, pandas.MultiIndex):
            labels = _objects(labels)
        elif not isinstance(labels, np.ndarray):
            labels = np.asarray(labels.astype(object) if labels.dtype.kind == "O" else labels)
        return code, labels
    unique, first, inverse = np.unique(np.asarray(column), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse], unique[np.argsort(first)]


def _objects(values: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    """An array of shape (n,) of any objects, be they sequences."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _without_missing(code: Int, unique: npt.NDArray[Any], missing: object = None) -> tuple[Int, npt.NDArray[Any]]:
    """Numbers of labels, −1 where they are missing, and the labels as whole numbers or strings."""
    if unique.dtype.kind in "iu" and missing is None:
        return code.astype(np.intp, copy=False), unique
    absent = np.array([label == missing or _is_missing(label) for label in unique.tolist()], dtype=bool)
    if absent.any():
        number = np.where(absent, -1, np.cumsum(~absent) - 1)
        code, unique = np.where(code < 0, -1, number[code]), unique[~absent]
    if unique.dtype.kind == "f" and ((unique == np.round(unique)) & (np.abs(unique) < 2.0**62)).all():
        unique = unique.astype(np.int64)
    return code.astype(np.intp), unique if unique.dtype.kind in "iu" else unique.astype(str)
