"""Sheets of Excel files, read by openpyxl without executing anything: values, and of formulas the last results."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from itofit._checks import DataWarning, InputError, Message, Option, user_level
from itofit.data.frames.layout import Layout, MissingPackageError, Table, optional
from itofit.data.names import did_you_mean
from itofit.data.reading.listing import AnyFile
from itofit.data.reading.python_values import frame_of
from itofit.data.reading.readers import HEAD_ROWS, check_columns, check_names, named

PURPOSE = "reading Excel files"
MOST_ROWS = 1_048_576
"""Rows that a sheet can have."""
MOST_BESIDES = 200_000_000
"""Bytes of texts and styles that are unpacked: all that is not a sheet is held in memory."""
FIRST_ROWS = 1000
"""Rows in which a sheet that holds something begins, and that are read together."""
CELL_BYTES = 4
"""Rough ratio of the size of a cell in the file, which is a text, to that of a number."""
NO_VALUES = frozenset({"", "#N/A", "#N/A N/A", "N/A", "NA", "NaN", "nan", "n/a", "null", "NULL", "-nan", "-NaN"})
"""Texts that are gaps, as in CSV files."""


class Excel:
    """A sheet of an Excel file, with names in its first row that is not empty.

    Parameters
    ----------
    path : path
    sheet : str, optional
        Default: the first one.
    """

    def __init__(self, path: AnyFile, sheet: str | None = None) -> None:
        self.path, self.sheet = path, sheet

    def size(self) -> int:
        """Rough number of bytes of the numbers in it."""
        with _problems(), self.path.open("rb") as source, zipfile.ZipFile(source) as file:
            return sum(member.file_size for member in file.infolist()) // CELL_BYTES

    def head(self) -> Table:
        """The first rows of all columns."""
        self._warn_of_others()
        rows = list(islice(self._rows(), HEAD_ROWS + 1))
        if not rows:
            raise InputError("holds nothing")
        names = _texts(rows[0][1])
        check_names(names)
        return _table(named(names), rows[1:], range(len(names)))

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout."""
        rows = self._rows()
        names = named(_texts(next(rows, (0, ()))[1]))
        check_columns(names, layout)
        wanted = [str(name) for name in layout.columns]
        places = [names.index(name) for name in wanted]
        while part := list(islice(rows, n_rows)):
            yield _table(wanted, part, places)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def names(self) -> list[str]:
        """The names of the columns; none if the sheet is empty."""
        return _texts(next(self._rows(), (0, ()))[1])

    def place(self, row: int) -> str:
        """The row of the sheet, as Excel numbers it, that holds a row of data."""
        return f"row {next(islice(self._rows(), row + 1, None), ('?', ()))[0]}"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The book."""
        openpyxl = optional("openpyxl", PURPOSE, "excel")
        with _problems(), self.path.open("rb") as source:
            _check_sizes(source)
            with _silence():
                book = openpyxl.load_workbook(source, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()

    def _sheet_of(self, book: Any) -> Any:  # noqa: ANN401
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        if not sheets:
            raise InputError("holds no sheet with cells")
        if self.sheet is None:
            return next(iter(sheets.values()))
        if self.sheet not in sheets:
            raise InputError(
                "{sheet}: there is no sheet {name!r}{hint}; the sheets are {sheets}",
                sheet=Option("sheet"),
                name=self.sheet,
                hint=did_you_mean(self.sheet, list(sheets)),
                sheets=", ".join(map(repr, sheets)),
            )
        return sheets[self.sheet]

    def _rows(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Numbers and cells of rows from the first that is not empty; empty ones are gaps in a single column."""
        with self._opened() as book:
            width = 0
            for number, cells in enumerate(_cells(self._sheet_of(book)), 1):
                if number > MOST_ROWS:
                    raise InputError(f"a sheet has at most {MOST_ROWS:,} rows")
                own = [None if isinstance(cell, str) and cell.strip() in NO_VALUES else cell for cell in cells]
                filled = [place for place, cell in enumerate(own) if cell is not None]
                if not width and filled:
                    width = filled[-1] + 1
                elif not filled and width != 1:
                    continue
                if filled and filled[-1] >= width:
                    raise InputError(f"row {number} has more values than the header has names")
                if width:
                    yield number, own[:width] + [None] * (width - len(own))

    def _warn_of_others(self) -> None:
        """Say which sheet is read if that was not chosen and others hold something."""
        if self.sheet is not None:
            return
        with self._opened() as book:
            chosen, *others = book.worksheets or [self._sheet_of(book)]
            filled = [sheet.title for sheet in others if _holds_something(sheet)]
            name = chosen.title
        if filled:
            message = Message(
                "{path}: the sheet {name!r} is read and not {others}; choose with {sheet}",
                path=self.path,
                name=name,
                others=", ".join(map(repr, filled[:5])) + (", ..." if len(filled) > 5 else ""),
                sheet=Option("sheet", keyword=True),
            )
            warnings.warn(DataWarning(message), stacklevel=user_level())


def _table(names: list[str], rows: list[tuple[int, Sequence[Any]]], places: Sequence[int]) -> Table:
    """Some columns of rows, which messages call by their numbers."""
    numbers = [number for number, _ in rows]
    frame = frame_of(names, ([cells[place] for place in places] for _, cells in rows), PURPOSE)
    return Table(frame, lambda i: f"row {numbers[i]}")


def _texts(cells: Sequence[Any]) -> list[str]:
    """The names in cells."""
    return ["" if cell is None else str(cell).strip() for cell in cells]


def _holds_something(sheet: Any) -> bool:  # noqa: ANN401
    return any(cell is not None for row in islice(_cells(sheet), FIRST_ROWS) for cell in row)


def _cells(sheet: Any) -> Iterator[Sequence[Any]]:  # noqa: ANN401
    """The rows of a sheet."""
    sheet.reset_dimensions()  # which need not be true
    rows = sheet.iter_rows(values_only=True)
    while True:
        with _silence():
            some = list(islice(rows, FIRST_ROWS))
        if not some:
            return
        yield from some


@contextmanager
def _silence() -> Iterator[None]:
    """Without warnings of what openpyxl does not keep: styles, filters, and the like."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _check_sizes(source: Any) -> None:  # noqa: ANN401
    """Raise if a small file would take much memory."""
    with zipfile.ZipFile(source) as file:
        besides = sum(own.file_size for own in file.infolist() if not own.filename.startswith("xl/worksheets/"))
    if besides > MOST_BESIDES:
        raise InputError(f"would unpack to {besides:,} bytes besides its sheets, which is not read; save it as CSV")
    source.seek(0)


@contextmanager
def _problems() -> Iterator[None]:
    """Let whatever a damaged file makes of openpyxl be one error."""
    try:
        yield
    except (InputError, MissingPackageError, MemoryError, zipfile.BadZipFile):
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"it is no Excel file ({error})") from error
    except Exception as error:  # openpyxl raises KeyError, TypeError, errors of XML, ...
        raise ValueError(f"it is no Excel file that can be read ({type(error).__name__}: {error})") from error
