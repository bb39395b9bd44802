"""Which columns of a file hold what: those the user names, else those that their names and first rows suggest."""

from __future__ import annotations

from collections.abc import Hashable
from difflib import get_close_matches
from itertools import combinations

from itofit._checks import InputError, Option
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
from itofit.data.periods import Periodic
from itofit.data.reading.numpy_files import Npz
from itofit.data.reading.readers import Reader
from itofit.data.reading.wide_tables import warn_if_wide

TIMES, TRACKS = ("time", "Time", "TIME", "t"), ("track", "Track", "TRACK")
"""Default names of the columns of times and tracks."""


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
    _check_roles(layout)
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


def _check_roles(layout: Layout) -> None:
    """Raise if a column has two of them."""
    roles: list[tuple[str, tuple[Hashable, ...]]] = [
        ("state", layout.state),
        ("velocity", layout.velocity),
        ("track", layout.track),
    ]
    roles += [] if layout.time is None else [("time", (layout.time,))]
    for (one, names), (other, others) in combinations(roles, 2):
        taken = set(others)
        if both := [name for name in names if name in taken]:
            raise InputError(
                "the column {name!r} is named twice, as {one} and as {other}",
                name=both[0],
                one=Option(one, keyword=True),
                other=Option(other, keyword=True),
            )


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
