"""Files that are read as one table, whole or in sections: several small files, or a range of a large one.

They are CSV files, or others whose readers are a `RowReader`: all but Parquet and NPZ files. A large file that cannot
be read in ranges, since it is compressed or no CSV file, is a section that is read in batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from itofit._checks import InputError
from itofit.data.frames.file_rows import FILE_NAME, FileRows
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.reading.arrow_files import ArrowFile
from itofit.data.reading.csv_ranges import ByteRange, CsvRange, byte_ranges
from itofit.data.reading.excel_files import Excel
from itofit.data.reading.file_errors import errors_naming
from itofit.data.reading.file_kinds import kind_by_name
from itofit.data.reading.json_lines import JsonLines
from itofit.data.reading.listing import AnyFile, Found, key_columns
from itofit.data.reading.numpy_files import Npy
from itofit.data.reading.readers import Csv, RowReader, size_of_text

ROW_BYTES = 32
"""Rough size of a row of text."""
MOST_RANGES = 20_000
"""Of a file: with more rows, ranges are longer."""


READERS: dict[str, type[Csv | JsonLines | ArrowFile | Npy]] = {
    "CSV": Csv,
    "text": Csv,
    "JSON lines": JsonLines,
    "Arrow": ArrowFile,
    "NumPy": Npy,
}
"""What reads a kind of file."""


def row_reader(file: AnyFile, sheet: str | None = None) -> RowReader:
    """The reader of a file, by the end of its name; of an Excel file, that of a sheet."""
    kind = kind_by_name(file.name) or "CSV"
    return Excel(file, sheet) if kind == "Excel" else READERS[kind](file)


class KeyedFile(NamedTuple):
    """A file or a range of it, with the columns that its directories are called after."""

    file: AnyFile
    keys: dict[str, Any]
    sheet: str | None = None
    range: ByteRange | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        return str(self.file) + (f", bytes {self.range.start} to {self.range.stop}" if self.range else "")

    @property
    def reader(self) -> RowReader:
        """What reads its rows."""
        return row_reader(self.file, self.sheet) if self.range is None else CsvRange(Csv(self.file), self.range)


class CsvFiles:
    """CSV files, or others of one kind, that are read as one table.

    Parameters
    ----------
    files : sequence of Found
    path : str or path
        What the user called them.
    sheet : str, optional
        Of Excel files.
    """

    def __init__(self, files: Sequence[Found], path: object, sheet: str | None = None) -> None:
        self.files, self.path, self.sheet = list(files), path, sheet
        self.keys = key_columns(self.files) | {FILE_NAME: [str(found.file) for found in self.files]}

    def size(self) -> int:
        """Rough number of bytes of text."""
        return sum(size_of_text(found.file, found.size) for found in self.files)

    def numbers_tracks(self) -> bool:
        """Whether every file has its own track 0, 1, ..., since it is an array of several tracks."""
        reader = self._keyed(0).reader
        return isinstance(reader, Npy) and reader.has_several_tracks()

    @property
    def key_names(self) -> set[str]:
        """Columns that are not in the files."""
        return set(self.keys)

    def head(self) -> Table:
        """The first rows of all columns, of the first file that has rows."""
        table: Table | None = None
        for number, found in enumerate(self.files):
            if not found.size:
                continue
            with errors_naming(found.file):
                table = self._keyed(number).reader.head()
            if table.n_rows:
                return Table(_with_keys(_as_pandas(table.frame), self._keyed(number).keys))
        if table is None:
            raise InputError("all files are empty")
        return table

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout in one table."""
        assert n_rows is None, "sections are read for themselves"
        table = whole_table([self._keyed(number) for number in range(len(self.files))], layout)
        assert table is not None, "the head has rows"
        yield table

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def sections(self, layout: Layout, n_rows: int) -> list[CsvSection]:
        """Files in order: small ones together, until they have about so many rows, a large one in ranges."""
        enough = n_rows * ROW_BYTES
        made: list[CsvSection] = []
        waiting: list[KeyedFile] = []
        n_bytes = 0
        for number, found in enumerate(self.files):
            size = size_of_text(found.file, found.size)
            if waiting and (n_bytes + size > 2 * enough or size > enough):
                made.append(CsvSection(tuple(waiting), None))
                waiting, n_bytes = [], 0
            if size > enough:
                made += self._of_large(number, n_rows)
                continue
            waiting.append(self._keyed(number))
            n_bytes += size
            if n_bytes >= enough:
                made.append(CsvSection(tuple(waiting), None))
                waiting, n_bytes = [], 0
        return [*made, CsvSection(tuple(waiting), None)] if waiting else made

    def _of_large(self, number: int, n_rows: int) -> list[CsvSection]:
        """The sections of a large file."""
        own = self._keyed(number)
        reader, ranges = own.reader, list[ByteRange]()
        if isinstance(reader, Csv):
            with errors_naming(own.file):
                ranges = byte_ranges(reader, self.files[number].size, n_rows, MOST_RANGES)
        if not ranges:
            return [CsvSection((own,), n_rows)]
        return [CsvSection((own._replace(range=each),), None) for each in ranges]

    def _keyed(self, number: int) -> KeyedFile:
        return KeyedFile(
            self.files[number].file, {name: values[number] for name, values in self.keys.items()}, self.sheet
        )


class CsvSection:
    """Several files, each read in one table, a range of a large one, or such a file in batches of rows."""

    def __init__(self, files: tuple[KeyedFile, ...], batch_rows: int | None) -> None:
        self.files, self.batch_rows = files, batch_rows

    @property
    def name(self) -> str:
        """The file, or the files."""
        names = self.units
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)} files)"

    @property
    def units(self) -> list[str]:
        """The files, or the range of one."""
        return [own.name for own in self.files]

    @property
    def sources(self) -> list[str]:
        """The files."""
        return [str(own.file) for own in self.files]

    @property
    def dask_frame(self) -> str:
        """The first of the files."""
        return f"dask.dataframe.read_csv({self.sources[0]!r})"

    def pieces(self) -> list[CsvSection]:
        """Every file for itself."""
        return [CsvSection((own,), self.batch_rows) for own in self.files]

    def first_rows(self, layout: Layout, n_rows: int) -> Table | None:
        """None: files and ranges are small."""
        return None

    def tables(self, layout: Layout) -> Iterator[tuple[int, Table]]:
        """The rows of each file in one table, or in several if they are read in batches."""
        for unit, own in enumerate(self.files):
            if self.batch_rows is not None:
                yield from ((unit, table) for table in self._in_batches(own, layout))
            elif (table := whole_table([own], layout)) is not None:
                yield unit, table

    def _in_batches(self, own: KeyedFile, layout: Layout) -> Iterator[Table]:
        reader, start = own.reader, 0
        with errors_naming(own.file):
            for table in reader.parts(_inside(layout, own), self.batch_rows):
                frame = _with_keys(_as_pandas(table.frame), own.keys, layout)
                places = (partial(_place, reader, start),)
                yield Table(frame, files=FileRows(np.zeros(1, dtype=np.intp), (str(own.file),), places))
                start += len(frame)


def whole_table(files: Sequence[KeyedFile], layout: Layout) -> Table | None:
    """The columns of a layout in files, as one table; None if they hold no rows."""
    frames = [(own, frame) for own in files if (frame := _frame(own, layout)) is not None]
    if not frames:
        return None
    rows = FileRows(
        np.cumsum([0, *(len(frame) for _, frame in frames[:-1])]),
        tuple(str(own.file) for own, _ in frames),
        tuple(partial(_place, own.reader, 0) for own, _ in frames),
    )
    whole = frames[0][1]
    if len(frames) > 1:
        whole = optional("pandas", "reading CSV files").concat([frame for _, frame in frames], ignore_index=True)
    return Table(whole, files=rows)


def _frame(own: KeyedFile, layout: Layout) -> Any:  # noqa: ANN401
    """The columns of a file as a DataFrame; None if it holds no rows."""
    reader = own.reader
    with errors_naming(own.file):
        if not reader.names() or (table := next(reader.parts(_inside(layout, own), None), None)) is None:
            return None
        frame = _as_pandas(table.frame)
        return _with_keys(frame, own.keys, layout) if len(frame) else None


def _as_pandas(frame: Any) -> Any:  # noqa: ANN401
    """A DataFrame of pandas, from one, an Arrow table or arrays by name."""
    if hasattr(frame, "to_pandas"):
        return frame.to_pandas()
    return optional("pandas", "reading several files").DataFrame(frame) if isinstance(frame, Mapping) else frame


def _inside(layout: Layout, own: KeyedFile) -> Layout:
    """The layout of the columns that are in a file itself."""
    wanted = [name for name in own.keys if name in layout.columns]
    if not wanted:
        return layout
    inside = {name for name in own.reader.names() if name in wanted}
    outside = set(wanted) - inside

    def kept(names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        return tuple(name for name in names if name not in outside)

    return layout._replace(
        state=kept(layout.state),
        velocity=kept(layout.velocity),
        track=kept(layout.track),
        covariates=kept(layout.covariates),
        time=None if layout.time in outside else layout.time,
    )


def _with_keys(frame: Any, keys: dict[str, Any], layout: Layout | None = None) -> Any:  # noqa: ANN401
    """A DataFrame with the columns that its directories are called after, if they are wanted."""
    new = {
        name: np.nan if value is None else value
        for name, value in keys.items()
        if name not in frame.columns and (layout is None or name in layout.columns)
    }
    return frame.assign(**new) if new else frame


def _place(reader: RowReader, start: int, position: int) -> str:
    return reader.place(start + position)
