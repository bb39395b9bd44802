"""Wide tables, in which every column is a track of one variable, as tables with a row for each observation.

time  cell1  cell2             time  track  x
0.0   1.1    5.0               0.0   cell1  1.1
0.1   1.2    4.9       →       0.1   cell1  1.2
0.0   cell2  5.0
0.1   cell2  4.9
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from itofit._checks import DataWarning, InputError, Message, Option, user_level
from itofit.data.frames.file_rows import FileRows
from itofit.data.frames.layout import Clock, ColumnNames, Layout, Table, checked_layout
from itofit.data.periods import Periodic
from itofit.data.reading.crossing import OfSection, Section
from itofit.data.reading.file_errors import errors_naming
from itofit.data.reading.readers import Reader

VARIABLE, TRACK = "x", "track"
"""What the variable and the column of tracks are called."""
MOST_VARIABLES, FEW_TRACKS = 10, 3
"""More columns than the first are rarely the variables of one system; from the second on names can say that they are
tracks."""
TRACK_NAME = re.compile(
    r"(animal|cell|id|particle|path|realisation|realization|replicate|rep|run|sample|series|sim|subject|track"
    r"|traj|trajectory|trial|)[\s_.-]*\d+",
    re.IGNORECASE,
)
"""Names of columns that are tracks: cell1, run_2, or a number."""
LARGEST_RATIO = 10
"""Between the standard deviations of tracks of one variable, if they are to be recognised."""


def wide_layout(inner: Layout, periodic: Periodic | None, second_order: bool) -> Layout:
    """The layout of the long table, given that of the wide one, whose states are the tracks."""
    for name in (VARIABLE, TRACK):
        if name in (inner.time, *inner.covariates):
            raise InputError(
                "{wide}: the column {name!r} cannot be a time or a covariate, for the long table has one of this name; "
                "rename it",
                wide=Option("wide", True),
                name=name,
            )
    clock = Clock(inner.time, inner.dt, inner.unit)
    made = checked_layout(VARIABLE, None, TRACK, inner.covariates or None, clock, periodic, second_order)
    return made._replace(texts=inner.texts)


def check_wide(track: ColumnNames | None, velocity: ColumnNames | None) -> None:
    """Raise if a wide table is said to have what it cannot have."""
    for name, given in (("track", track), ("velocity", velocity)):
        if given is not None:
            text = "{wide} says that every column is a track of one variable: leave out {other}"
            raise InputError(text, wide=Option("wide", True), other=Option(name))


class WideReader:
    """A reader of wide tables.

    Parameters
    ----------
    reader : Reader
        Of the file.
    inner : Layout
        Which columns of the file hold what; its states are the tracks.
    """

    def __init__(self, reader: Reader, inner: Layout) -> None:
        self.reader, self.inner = reader, inner

    @property
    def path(self) -> object:
        """What messages call it."""
        return self.reader.path

    def size(self) -> int:
        """Rough number of bytes of data."""
        return self.reader.size()

    def head(self) -> Table:
        """The first rows as a long table."""
        return long_table(self.reader.head(), self.inner)

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The rows as long tables of about n_rows rows."""
        fewer = None if n_rows is None else max(1, n_rows // len(self.inner.state))
        return (long_table(table, self.inner) for table in self.reader.parts(self.inner, fewer))

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]


class WideFiles(WideReader):
    """A reader of wide tables that can be read in sections."""

    def sections(self, layout: Layout, n_rows: int) -> list[WideSection]:
        """Those of the files."""
        reader: Any = self.reader
        fewer = max(1, n_rows // len(self.inner.state))
        return [WideSection(section, self.inner) for section in reader.sections(self.inner, fewer)]


@dataclass(frozen=True)
class WideSection(OfSection):
    """A section of a wide table."""

    section: Section
    inner: Layout

    @property
    def dask_frame(self) -> str:
        """Python code for a Dask data frame of the wide table."""
        return self.section.dask_frame

    def pieces(self) -> list[WideSection]:
        """The smallest sections that it can be cut into."""
        return [WideSection(piece, self.inner) for piece in self.section.pieces()]

    def first_rows(self, layout: Layout, n_rows: int) -> Table | None:
        """None: the first observations of all tracks are all over the long table."""
        return None

    def tables(self, layout: Layout) -> Iterator[tuple[int, Table]]:
        """Numbers of units and their rows as long tables."""
        for unit, table in self.section.tables(self.inner):
            with errors_naming(self.sources[unit]):
                long = long_table(table, self.inner)
            yield unit, long


def long_table(table: Table, inner: Layout) -> Table:
    """A wide table with a row for each observation: those of the first track, then those of the next."""
    n, k = table.n_rows, len(inner.state)
    decimal = inner.texts.decimal
    for name, argument in inner.columns.items():
        table.check(argument, name)
    values = [table.numbers(name, decimal) for name in inner.state]
    driving = [name for name in inner.covariates if name != inner.time]  # times may be dates
    columns: dict[Hashable, Any] = {name: np.tile(table.numbers(name, decimal), k) for name in driving}
    if inner.time is not None:
        columns[inner.time] = np.tile(np.asarray(table.frame[inner.time]), k)
    columns[VARIABLE] = np.concatenate(values)
    columns[TRACK] = np.repeat(np.array([str(name) for name in inner.state]), n)
    if table.files is None:
        return Table(columns, lambda row: table.place(row % max(n, 1)))
    return Table(columns, files=_tiled(table.files, n, k))


def _tiled(files: FileRows, n: int, k: int) -> FileRows:
    """Which rows came from which file, in k copies of n rows."""
    if len(files.names) == 1:
        return files._replace(places=(lambda row: files.places[0](row % max(n, 1)),))
    starts = (np.arange(k)[:, None] * n + files.starts).ravel()
    return FileRows(starts, files.names * k, files.places * k)


def warn_if_wide(head: Table, names: Sequence[Hashable], decimal: str) -> None:
    """Say that columns look like tracks of one variable, if they do."""
    if not looks_wide(head, names, decimal):
        return
    message = Message(
        "the columns {first!r} to {last!r} look like {n} tracks of one variable: if they are, give {wide}; if they are "
        "variables, name them with {state}",
        first=names[0],
        last=names[-1],
        n=len(names),
        wide=Option("wide", True),
        state=Option("state", keyword=True),
    )
    warnings.warn(DataWarning(message), stacklevel=user_level())


def looks_wide(head: Table, names: Sequence[Hashable], decimal: str = ".") -> bool:
    """Whether columns may be tracks of one variable.

    They are more than a system has variables, or are called like tracks; and they vary about equally, and over
    ranges that meet.

    Examples
    --------
    >>> import numpy as np
    >>> from itofit.data.frames.layout import Table
    >>> from itofit.data.reading.wide_tables import looks_wide
    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> looks_wide(Table({f"cell{i}": x[:, i] for i in range(4)}), ["cell0", "cell1", "cell2", "cell3"])
    True
    >>> looks_wide(Table({f"x{i}": x[:, i] for i in range(4)}), ["x0", "x1", "x2", "x3"])
    False
    """
    called_tracks = len(names) >= FEW_TRACKS and all(TRACK_NAME.fullmatch(str(name).strip()) for name in names)
    if not called_tracks and len(names) <= MOST_VARIABLES:
        return False
    try:
        values = np.stack([head.numbers(name, decimal) for name in names])
    except InputError:  # which is reported when the rows are read
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without values
        spread, low, high = np.nanstd(values, axis=1), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        center = np.nanquantile(values, [0.1, 0.9])
    known = np.isfinite(spread)
    if not known.any() or spread[known].max() > LARGEST_RATIO * spread[known].min():
        return False
    return bool(((low <= center[1]) & (high >= center[0]))[known].all())
