"""Which columns of a file hold what: those the user names, else those that their names and first rows suggest."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from difflib import get_close_matches

from itofit._checks import DataWarning, Either, InputError, Message, Option, user_level
from itofit.data.frames.file_rows import FILE_NAME
from itofit.data.frames.layout import (
    PLAIN,
    Clock,
    ColumnNames,
    Layout,
    Table,
    Texts,
    checked_layout,
    column_names,
)
from itofit.data.large.blocked import FORMS
from itofit.data.names import Form
from itofit.data.periods import Periodic
from itofit.data.reading.csv_files import CsvFiles
from itofit.data.reading.numpy_files import Npz
from itofit.data.reading.parquet_files import ParquetFiles
from itofit.data.reading.readers import Reader
from itofit.data.reading.wide_tables import warn_if_wide

TIMES, TRACKS = ("time", "Time", "TIME", "t"), ("track", "Track", "TRACK")
"""Default names of the columns of times and tracks."""
NOT_FOR_ARRAYS: dict[str, object] = {
    "track": "tracks are told apart by an array called groups",
    "velocity": "velocities are arrays called v0 and v1",
    "unit": Message("h is numbers, whose unit {time_unit} tells", time_unit=Option("time_unit", keyword=True)),
    "decimal": "they are numbers and not texts",
    "dayfirst": "they are numbers and not texts",
    "second_order": "they do not say what follows what, as columns of times and positions do",
}
"""Options of columns, and why they say nothing about arrays that are transitions."""


def layout_of(
    reader: Reader,
    state: ColumnNames | None,
    velocity: ColumnNames | None,
    track: ColumnNames | None,
    covariates: ColumnNames | None,
    clock: Clock,
    *,
    texts: Texts = PLAIN,
    periodic: Periodic | None = None,
    second_order: bool = False,
    wide: bool = False,
) -> Layout:
    """The layout of a file; the columns of the state are tracks of one variable if it is `wide`."""
    head = reader.head()
    if any("\0" in str(name) for name in head.columns):  # every second byte of Latin letters in UTF-16
        raise InputError("cannot be read: it is not text in UTF-8, and seems to be in UTF-16; save it as UTF-8")
    if not head.n_rows:
        raise InputError("holds names of columns and no rows")
    if clock.time is None and clock.dt is None:
        clock = clock._replace(time=next((name for name in TIMES if name in head.columns), None))
        if clock.time is None:
            contents = "the columns are " + head.column_list()
            if isinstance(reader, Npz):
                contents = f"the arrays are {head.column_list()}, and neither x0, x1 and h nor inputs, increments and h"
            raise InputError(
                "give {time}, the column of times, or {dt}, the time between rows; {contents}",
                time=Option("time", keyword=True),
                dt=Option("dt", keyword=True),
                contents=contents,
            )
    if track is None and not wide:
        track = next((name for name in TRACKS if name in head.columns), None)
    guessed = state is None
    if state is None:
        used = {clock.time, *TIMES, *getattr(reader, "key_names", ())}
        for argument, names in (("track", track), ("velocity", velocity), ("covariates", covariates)):
            used |= set() if names is None else set(column_names(argument, names))
        state = _variables(head, used, wide)
    else:
        state = _all_columns(reader, "state", state)
    velocity = None if velocity is None else _all_columns(reader, "velocity", velocity)
    covariates = None if covariates is None else _all_columns(reader, "covariates", covariates)
    layout = checked_layout(state, velocity, track, covariates, clock, periodic, second_order)._replace(texts=texts)
    if guessed and not wide and not layout.track and not layout.velocity:
        warn_if_wide(head, layout.state, texts.decimal)
    for name, argument in layout.columns.items():
        _check_column(head, argument, name)
    return layout


def _variables(head: Table, used: set[Hashable], wide: bool) -> list[Hashable]:
    """The columns of the state, if the user names none: those of numbers that are not used otherwise."""
    if wide and (labels := next((name for name in TRACKS if head.has(name)), None)):
        text = "there is a column {name!r}, so rows are observations of several tracks: leave out {wide}"
        raise InputError(text, name=labels, wide=Option("wide", True))
    state = [name for name in head.columns if name not in used and _is_variable(head, name)]
    if not state:
        raise InputError(f"no column holds numbers that could be a state; the columns are {head.column_list()}")
    return state


def _all_columns(reader: Reader, argument: str, names: ColumnNames) -> list[Hashable]:
    """The columns that some names stand for: in an NPZ file, one name may stand for several."""
    return [column for name in column_names(argument, names) for column in reader.columns_of(name)]


def _check_column(head: Table, argument: str, name: Hashable) -> None:
    """Raise unless there is a column of this name, and suggest the only one that begins with the same letter."""
    if not head.has(name):
        word = str(name).strip().lower()
        similar = {str(column): str(column).strip().lower() for column in head.columns}
        near = get_close_matches(word, similar.values(), n=1)
        begins = [column for column, plain in similar.items() if plain and (plain[0] == word[:1])]
        if not near and len(begins) == 1 and 1 in (len(begins[0].strip()), len(word)):  # tme for t, v for velocity
            raise head.no_such_column(argument, name, f" (is it {begins[0]!r} that you mean?)")
    head.check(argument, name)


def _is_variable(head: Table, name: Hashable) -> bool:
    """Whether a column holds numbers and is not an index that pandas wrote."""
    return not str(name).startswith(("Unnamed: ", "__index_level_")) and head.holds_numbers(name)


def warn_of_joined_files(reader: Reader, layout: Layout) -> None:
    """Warn if moves lead from one file to the next only since nothing says where tracks begin."""
    if layout.time is not None or not isinstance(reader, ParquetFiles | CsvFiles) or len(reader.files) == 1:
        return
    n = len(reader.files)
    if not layout.track:
        text = (
            "{n} files without times and tracks are read as one track, with a move from the end of each to the "
            "beginning of the next: give {own} if every file is a track"
        )
        own: Option | Either = Option("track", FILE_NAME)
    elif layout.track == ("track",) and isinstance(reader, CsvFiles) and reader.numbers_tracks():
        text = (
            "each of {n} files numbers its tracks from 0, and there are moves from the end of a track to the beginning "
            "of that of the same number in the next file: give {own} if they are different tracks"
        )
        own = Either(python=f"track={[FILE_NAME, 'track']!r}", command=f"--track {FILE_NAME},track")
    else:
        return
    warnings.warn(DataWarning(Message(text, n=n, own=own)), stacklevel=user_level())


# Arrays that are transitions


def check_for_arrays(form: Form, **given: object) -> None:
    """Raise if an option of columns was given for arrays that are transitions: it is not None."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                "the arrays are transitions themselves, for which {option} says nothing: leave it out, since {why}"
                "{or_columns}",
                option=Option(name, True if value is True else None),
                why=NOT_FOR_ARRAYS[name],
                or_columns=or_columns(form),
            )


def or_columns(form: Form) -> Message:
    """What else to do if arrays that look like transitions are columns."""
    arrays = [name for name in FORMS[form][1] if name not in ("h", "groups", "covariates")]
    state = Either(python=f"state={arrays!r}", command=f"--state {','.join(arrays)}")
    return Message("; if {arrays} are columns of observations, say so: {state}", arrays=_listed(arrays), state=state)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
