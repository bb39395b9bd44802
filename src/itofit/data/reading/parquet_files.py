"""Parquet files, one or many: their columns in one table, or in sections of row groups that are read on their own.

Of every file only its footer is read at first: it has the names and types of columns, and the row groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from itofit._checks import InputError, Option
from itofit.data.frames.file_rows import FILE_NAME, FileRows
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.reading.file_errors import errors_naming
from itofit.data.reading.listing import AnyFile, Found, key_columns
from itofit.data.reading.readers import HEAD_ROWS

AT_ONCE = 16
"""Footers that are read at the same time: they may be far away."""
SMALL_TABLE = 1_000_000
"""Bytes of a file up to which it is not worth to read its columns in several threads."""
LARGE_GROUP, BATCH = 32, 4
"""A row group with more rows than so many times those of a section is read in batches of a few times as many."""
MOST_SECTIONS = 20_000
"""Of a source: with more row groups than that, a section has several."""


LabelRange = tuple[Any, ...]
"""The least and the greatest label of a track; an empty tuple where there are no rows."""


class Footer(NamedTuple):
    """What a file says of itself."""

    n_rows: tuple[int, ...]  # of each row group
    n_bytes: int  # of all columns, uncompressed
    schema: Any
    label_ranges: dict[str, list[LabelRange | None]]  # of columns that may hold tracks, in each row group


class Groups(NamedTuple):
    """Row groups of a file that are read, with the columns that its directories are called after."""

    file: AnyFile
    groups: tuple[int, ...]
    n_rows: tuple[int, ...]  # of each
    first_row: int  # number in the file of the first of them
    keys: dict[str, Any]
    n_bytes: int
    columns: tuple[str, ...]  # of the file
    texts: tuple[str, ...]  # columns of text, of which tracks are read in another way
    label_ranges: dict[str, LabelRange | None]  # of columns that may hold tracks

    @property
    def name(self) -> str:
        """The file and the row groups."""
        if len(self.groups) < 2:
            return str(self.file) + "".join(f", row group {group}" for group in self.groups)
        return f"{self.file}, row groups {self.groups[0]} to {self.groups[-1]}"

    def each(self) -> Iterator[Groups]:
        """Every row group for itself."""
        first = self.first_row
        for group, n in zip(self.groups, self.n_rows, strict=True):
            yield self._replace(groups=(group,), n_rows=(n,), first_row=first)
            first += n


class ParquetFiles:
    """Parquet files that are read as one table.

    Parameters
    ----------
    files : sequence of Found
    path : str or path
        What the user called them.
    labels : sequence of names
        Columns that may hold tracks.
    """

    def __init__(self, files: Sequence[Found], path: object, labels: Sequence[Hashable] = ()) -> None:
        self.files, self.path = list(files), path
        with ThreadPoolExecutor(AT_ONCE) as pool:
            footers = list(pool.map(partial(_footer, labels=labels), [found.file for found in self.files]))
        first = footers[0].schema
        self.footers = [own._replace(schema=first) if own.schema.equals(first) else own for own in footers]
        self._texts: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # columns, and those of text, by schema
        self.keys = key_columns(self.files) | {FILE_NAME: [str(found.file) for found in self.files]}

    def size(self) -> int:
        """Bytes of all columns, uncompressed."""
        return sum(footer.n_bytes for footer in self.footers)

    @property
    def key_names(self) -> set[str]:
        """Columns that are not in the files."""
        return set(self.keys)

    def head(self) -> Table:
        """The first rows of all columns, of the first file that has rows."""
        number = next((i for i, footer in enumerate(self.footers) if sum(footer.n_rows)), 0)
        with opened(self.files[number].file) as file:
            rows = next(file.iter_batches(batch_size=HEAD_ROWS), None)
            pyarrow = optional("pyarrow", "reading Parquet files")
            table = file.schema_arrow.empty_table() if rows is None else pyarrow.Table.from_batches([rows])
        return Table(_with_keys(table, self._keys_of(number)))

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout in one table."""
        assert n_rows is None, "sections are read for themselves"
        self._check(layout)
        pyarrow = optional("pyarrow", "reading Parquet files")
        every = [self._groups(i, tuple(range(len(footer.n_rows)))) for i, footer in enumerate(self.footers)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tables = list(pool.map(partial(read_groups, layout=layout), every))
        files = _file_rows(every, [table.num_rows for table in tables])
        yield Table(pyarrow.concat_tables(tables, promote_options="permissive"), files=files)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def sections(self, layout: Layout, n_rows: int) -> list[ParquetSection]:
        """Row groups in order, in sections of at least so many rows but for the last; large ones for themselves."""
        self._check(layout)
        total = sum(sum(footer.n_rows) for footer in self.footers)
        least = max(n_rows, total // MOST_SECTIONS)
        made: list[ParquetSection] = []
        waiting: dict[int, list[int]] = {}
        n_waiting = 0
        for i, footer in enumerate(self.footers):
            for group, n in enumerate(footer.n_rows):
                if n_waiting and n_waiting + n > 2 * least:
                    made.append(self._section(waiting, n_rows))
                    waiting, n_waiting = {}, 0
                waiting.setdefault(i, []).append(group)
                n_waiting += n
                if n_waiting >= least:
                    made.append(self._section(waiting, n_rows))
                    waiting, n_waiting = {}, 0
        return [*made, self._section(waiting, n_rows)] if waiting else made

    def _section(self, chosen: dict[int, list[int]], n_rows: int) -> ParquetSection:
        largest = max(self.footers[i].n_rows[group] for i, groups in chosen.items() for group in groups)
        batch = BATCH * n_rows if largest > LARGE_GROUP * n_rows else None
        return ParquetSection(tuple(self._groups(i, tuple(groups)) for i, groups in chosen.items()), batch)

    def _groups(self, number: int, groups: tuple[int, ...]) -> Groups:
        footer = self.footers[number]
        first = sum(footer.n_rows[: groups[0]]) if groups else 0
        if id(footer.schema) not in self._texts:
            names = footer.schema.names
            texts = tuple(name for name in names if _kind(footer.schema.field(name).type) == "text")
            self._texts[id(footer.schema)] = tuple(names), texts
        ranges = {name: _joined_ranges([own[group] for group in groups]) for name, own in footer.label_ranges.items()}
        own = self._keys_of(number), footer.n_bytes, *self._texts[id(footer.schema)], ranges
        n_rows = tuple(footer.n_rows[group] for group in groups)
        return Groups(self.files[number].file, groups, n_rows, first, *own)

    def _keys_of(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.keys.items()}

    def _check(self, layout: Layout) -> None:
        """Raise if a file lacks a column, or has it in another type."""
        first = self.footers[0].schema
        of_first = set(first.names)  # which a schema lists anew each time
        for i, (found, footer) in enumerate(zip(self.files, self.footers, strict=True)):
            if i and footer.schema is first:
                continue
            with errors_naming(found.file):
                own = set(footer.schema.names)
                names = [*footer.schema.names, *(name for name in self.keys if name not in own)]
                table = Table(dict.fromkeys(names, np.zeros(0)))
                for name, argument in layout.columns.items():
                    table.check(argument, name)
                    if name in of_first and name in own:
                        _check_type(argument, name, first.field(name).type, footer.schema.field(name).type, self.files)


def _footer(file: AnyFile, labels: Sequence[Hashable]) -> Footer:
    with errors_naming(file), opened(file) as parquet:
        metadata, schema = parquet.metadata, parquet.schema_arrow
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        ranges = {}
        for name in labels:
            place = schema.names.index(name) if name in schema.names and len(schema) == metadata.num_columns else -1
            if place >= 0 and _kind(schema.field(place).type) in ("numbers", "text"):
                ranges[str(name)] = [_label_range(group, place) for group in groups]
        n_bytes = sum(group.total_byte_size for group in groups)
        return Footer(tuple(group.num_rows for group in groups), n_bytes, schema, ranges)


def _label_range(group: Any, place: int) -> LabelRange | None:  # noqa: ANN401
    """The least and the greatest label in a row group; None if the file does not say."""
    if not group.num_rows:
        return ()
    statistics = group.column(place).statistics
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int | str):
        return None
    return statistics.min, statistics.max


def _joined_ranges(ranges: Sequence[LabelRange | None]) -> LabelRange | None:
    """That of several row groups."""
    known = [own for own in ranges if own]
    if None in ranges:
        return None
    return (min(low for low, _ in known), max(high for _, high in known)) if known else ()


@contextmanager
def opened(file: AnyFile, labels: Sequence[Hashable] = ()) -> Iterator[Any]:
    """A Parquet file that is open for reading; texts in some columns are read as numbers of them, which is faster."""
    parquet = optional("pyarrow.parquet", "reading Parquet files")
    options: dict[str, Any] = {"read_dictionary": list(labels)}
    if isinstance(file, Path):
        state = file.stat()
        key = str(file), state.st_mtime_ns, state.st_size
        with parquet.ParquetFile(file, metadata=_FOOTERS.get(key), **options) as own:
            _FOOTERS.keep(key, own.metadata)
            yield own
    else:
        with file.open("rb") as source, parquet.ParquetFile(source, pre_buffer=True, **options) as own:
            yield own


class _Footers:
    """Footers of large files, which are read for each of their sections: those that were needed last."""

    def __init__(self, most: int = 32, least_groups: int = 8) -> None:
        self.most, self.least_groups = most, least_groups
        self.held: dict[Any, Any] = {}

    def get(self, key: object) -> Any:  # noqa: ANN401
        """That of a file, by its path, size and time; None if it is not held."""
        return self.held.get(key)

    def keep(self, key: object, footer: Any) -> None:  # noqa: ANN401
        """Hold it, if it has many row groups."""
        if footer.num_row_groups >= self.least_groups and key not in self.held:
            for oldest in list(self.held)[: max(0, len(self.held) + 1 - self.most)]:
                self.held.pop(oldest, None)
            self.held[key] = footer


_FOOTERS = _Footers()


def _kind(type_: Any) -> str:  # noqa: ANN401
    """What a column holds, as far as other files must hold the same."""
    types = optional("pyarrow", "reading Parquet files").types
    if types.is_dictionary(type_):
        return _kind(type_.value_type)
    for kind, tests in KINDS.items():
        if any(getattr(types, f"is_{test}")(type_) for test in tests):
            return kind
    return str(type_)


KINDS = {
    "numbers": ("integer", "floating", "decimal", "null"),
    "text": ("string", "large_string", "string_view"),
    "dates": ("timestamp", "date"),
    "durations": ("duration",),
}


def _check_type(argument: str, name: Hashable, first: Any, own: Any, files: Sequence[Found]) -> None:  # noqa: ANN401
    if _kind(first) != _kind(own) and "null" not in (str(first), str(own)):
        raise InputError(
            "{option}: column {name!r} holds {own}, but {first} in {file}; write it in the same way in all files",
            option=Option(argument),
            name=name,
            own=own,
            first=first,
            file=files[0].file,
        )


class ParquetSection:
    """Row groups of one or more files.

    Parameters
    ----------
    groups : tuple of Groups
    batch_rows : int or None
        Read in tables of so many rows; None: in one table.
    """

    def __init__(self, groups: tuple[Groups, ...], batch_rows: int | None) -> None:
        self.groups, self.batch_rows = groups, batch_rows

    @property
    def name(self) -> str:
        """The file and the row groups, or the files."""
        if len(self.groups) > 1:
            return f"{self.groups[0].file} to {self.groups[-1].file} ({len(self.groups)} files)"
        return self.units[0]

    @property
    def units(self) -> list[str]:
        """Files and row groups."""
        return [own.name for own in self.groups]

    @property
    def sources(self) -> list[str]:
        """The files."""
        return [str(own.file) for own in self.groups]

    @property
    def dask_frame(self) -> str:
        """The first of the files."""
        return f"dask.dataframe.read_parquet({self.sources[0]!r})"

    def pieces(self) -> list[ParquetSection]:
        """Every row group for itself."""
        return [ParquetSection((group,), self.batch_rows) for own in self.groups for group in own.each()]

    def first_rows(self, layout: Layout, n_rows: int) -> Table | None:
        """The first of them, unless all are wanted."""
        own = self.groups[0]
        if n_rows >= sum(own.n_rows):
            return None
        return next(self._in_batches(own, layout, n_rows))

    def label_ranges(self, layout: Layout) -> list[LabelRange | None]:
        """The least and the greatest label of each unit; None where it is not known."""
        if len(layout.track) != 1:
            return [None]
        return [own.label_ranges.get(str(layout.track[0])) for own in self.groups]

    def tables(self, layout: Layout) -> Iterator[tuple[int, Table]]:
        """The rows of each file in one table, or in several if row groups are large."""
        for unit, own in enumerate(self.groups):
            if self.batch_rows is not None:
                yield from ((unit, table) for table in self._in_batches(own, layout, self.batch_rows))
            else:
                table = read_groups(own, layout)
                yield unit, Table(table, files=_file_rows([own], [table.num_rows]))

    def _in_batches(self, own: Groups, layout: Layout, n_rows: int) -> Iterator[Table]:
        pyarrow = optional("pyarrow", "reading Parquet files")
        with errors_naming(own.file), opened(own.file, [name for name in own.texts if name in layout.track]) as file:
            names = [name for name in layout.columns if name in own.columns]
            start = own.first_row
            for rows in file.iter_batches(n_rows, row_groups=list(own.groups), columns=names):
                table = _with_keys(pyarrow.Table.from_batches([rows]), own.keys, layout)
                yield Table(table, files=_file_rows([own._replace(first_row=start)], [rows.num_rows]))
                start += rows.num_rows


def read_groups(own: Groups, layout: Layout) -> Any:  # noqa: ANN401
    """The columns of a layout in some row groups of a file, as an Arrow table."""
    with errors_naming(own.file), opened(own.file, [name for name in own.texts if name in layout.track]) as file:
        names = [name for name in layout.columns if name in own.columns]
        threads = own.n_bytes > SMALL_TABLE
        every = len(own.groups) == file.metadata.num_row_groups
        table = (
            file.read(columns=names, use_threads=threads)
            if every
            else file.read_row_groups(list(own.groups), columns=names, use_threads=threads)
        )
        return _with_keys(table, own.keys, layout)


def _file_rows(groups: Sequence[Groups], n_rows: Sequence[int]) -> FileRows:
    """Which rows of a table came from which file, given how many each has."""
    names = tuple(str(own.file) for own in groups)
    starts = np.cumsum([0, *n_rows[:-1]])
    return FileRows(starts, names, tuple(partial(_row, own.first_row) for own in groups))


def _row(start: int, position: int) -> str:
    return f"row {start + position}"


def _with_keys(table: Any, keys: dict[str, Any], layout: Layout | None = None) -> Any:  # noqa: ANN401
    """A table with the columns that its directories are called after, if they are wanted."""
    pyarrow = optional("pyarrow", "reading Parquet files")
    for name, value in keys.items():
        if name not in table.column_names and (layout is None or name in layout.columns):
            place = pyarrow.array(np.zeros(table.num_rows, dtype=np.int32), mask=None)
            if value is None:
                column = pyarrow.nulls(table.num_rows)
            else:
                column = pyarrow.DictionaryArray.from_arrays(place, pyarrow.array([value]))
            table = table.append_column(name, column)
    return table
