"""Readers of files: what each of them does, and that of text files, whose columns are read at once or in parts."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TextIO

from itofit._checks import InputError
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.reading.file_kinds import EXCEL
from itofit.data.reading.listing import AnyFile

HEAD_ROWS = 10_000
"""Rows from which it is decided which columns hold numbers."""
COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""Ends of the names of compressed texts, and what opens them."""
UNPACKED = 5
"""Rough ratio of the size of a text to that of the same text compressed."""
WITHOUT_NAMES = (".txt", ".dat", ".tsv")
"""Ends of the names of texts that may have lines of comments, and no line with names."""


class Reader(Protocol):
    """A file of observations: how large it is, what its first rows hold, and its columns, whole or in parts."""

    @property
    def path(self) -> object:
        """What messages call it."""
        ...

    def size(self) -> int:
        """Rough number of bytes of data."""
        ...

    def head(self) -> Table:
        """The first rows of all columns."""
        ...

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout, in tables of n_rows rows, or in one table if that is None."""
        ...

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The columns that a name stands for."""
        ...


class RowReader(Reader, Protocol):
    """A file with a row for each observation, which may be one of several that are read as one table."""

    def names(self) -> list[str]:
        """The names of the columns; none if the file is empty."""
        ...

    def place(self, row: int) -> str:
        """What to call a row of data, counted from 0."""
        ...


def compression(file: AnyFile) -> str:
    """The end of the name of a file that is compressed; empty if it is not."""
    return next((suffix for suffix in COMPRESSED if file.name.lower().endswith(suffix)), "")


def kind_of(file: AnyFile) -> str:
    """The name of a file in small letters, without the end that says how it is compressed."""
    return file.name.lower().removesuffix(compression(file))


def size_of_text(file: AnyFile, size: int) -> int:
    """Rough number of bytes of the text in a file of a size."""
    return size * (UNPACKED if compression(file) or kind_of(file).endswith(EXCEL) else 1)


def opened_text(file: AnyFile) -> TextIO:
    """A text file that is open for reading, be it compressed."""
    how: dict[str, Any] = {"encoding": "utf-8-sig", "newline": ""}
    if packed := compression(file):
        source = file if isinstance(file, Path) else file.open("rb")
        unpacked: TextIO = COMPRESSED[packed](source, "rt", **how)
        return unpacked
    opened: Any = file.open("r", **how)
    text: TextIO = opened
    return text


def check_names(names: list[str], separator: str = ", ") -> None:
    """Raise unless columns have different names, and not numbers alone."""
    if repeated := sorted(name for name, n in Counter(names).items() if n > 1 and name):
        raise InputError(f"several columns are called {repeated[0]!r}; rename them")
    if names and all(_is_number(name) for name in names):
        raise InputError(
            f"the first line must name the columns, got numbers ({separator.join(names[:3])}); add such a line"
        )


def named(names: list[str]) -> list[str]:
    """Names of columns, those without one as pandas calls them."""
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


class Dialect(NamedTuple):
    """How a text file is written."""

    separator: str  # SPACES: any number of blanks
    names: list[str]  # of columns, as they stand there, without spaces around them
    header: bool  # whether there is a line of names
    skipped: int  # lines before it, or before the first line of data


EXACT_PANDAS = 3
"""The first version of pandas that reads numbers to the last digit without being asked to."""
SPACES = r"\s+"


class Csv:
    """A text file with a line of names, or, if the end of its name allows that, without one; read by pandas."""

    def __init__(self, path: AnyFile) -> None:
        self.path = path

    def size(self) -> int:
        """Rough number of bytes of text."""
        return size_of_text(self.path, self.path.stat().st_size) if isinstance(self.path, Path) else 0

    def head(self) -> Table:
        """The first rows of all columns."""
        dialect = self.dialect()
        separator = " " if dialect.separator == SPACES else dialect.separator
        check_names(dialect.names, separator)
        errors = optional("pandas", "reading CSV files").errors
        longer = errors.ParserWarning
        with warnings.catch_warnings():
            warnings.simplefilter("error", longer)
            try:
                return Table(self._read(dialect, nrows=HEAD_ROWS))
            except (longer, errors.ParserError) as error:
                if dialect.names[0].startswith("#"):
                    raise InputError(
                        f"the first line must name the columns, got a comment ({dialect.names[0]}); remove it, or call "
                        "the file .txt, in which lines of comments may come first"
                    ) from None
                if not isinstance(error, longer):
                    raise
                shown = separator.join(dialect.names[:3])
                raise InputError(f"lines have more values than the header has names ({shown})") from None

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout; tracks are read as text, so that their type is the same in every part."""
        dialect = self.dialect()
        check_columns(dialect.names, layout)
        chosen = {
            "usecols": list(layout.columns),
            "dtype": dict.fromkeys(layout.track, str),
            "decimal": layout.texts.decimal,
        }
        if n_rows is None:
            yield self._table(self._read(dialect, **chosen), 0)
            return
        start = 0
        with self._read(dialect, chunksize=n_rows, **chosen) as frames:
            for frame in frames:
                yield self._table(frame, start)
                start += len(frame)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def _read(self, dialect: Dialect, **options: Any) -> Any:  # noqa: ANN401
        pandas = optional("pandas", "reading CSV files")
        if int(pandas.__version__.split(".")[0]) < EXACT_PANDAS:
            options["float_precision"] = "round_trip"
        return pandas.read_csv(
            self._source(),
            sep=dialect.separator,
            encoding="utf-8-sig",
            names=named(dialect.names) or None,
            header=0 if dialect.header else None,
            skiprows=dialect.skipped,
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=len(dialect.names) > 1,  # in a single column they are gaps
            low_memory=False,
            **options,
        )

    def _table(self, frame: Any, start: int) -> Table:  # noqa: ANN401
        return Table(frame, lambda i: self.place(start + i))

    def _source(self) -> Path | IO[bytes]:
        """What pandas reads."""
        if isinstance(self.path, Path):
            return self.path
        source: IO[bytes] = self.path.open("rb")
        packed = compression(self.path)
        return COMPRESSED[packed](source) if packed else source

    def names(self) -> list[str]:
        """The names of the columns; none if the file is empty."""
        return self.dialect().names

    def begins_with_names(self, dialect: Dialect) -> bool:
        """Whether the first line that is not empty has the names of columns, with a mark between them."""
        commented = dialect.skipped and kind_of(self.path).endswith(WITHOUT_NAMES)
        return dialect.header and dialect.separator != SPACES and not commented

    def dialect(self) -> Dialect:
        """The separator and the names, from the first line that is not empty, in some files no comment either."""
        free = kind_of(self.path).endswith(WITHOUT_NAMES)
        with opened_text(self.path) as file:
            line, comment, skipped = "", "", 0
            for line in file:
                is_comment = free and line.lstrip().startswith("#")
                if line.strip() and not is_comment:
                    break
                comment = line.strip().lstrip("#") if is_comment else comment
                skipped += 1
            else:
                line = ""
            lines = chain([line], file)
            separator = self._separator(line)
            first = next(_fields(lines, separator), ([], 0))[0]
            if len(first) == 1 and separator == "," and _is_comma_number(next(file, "")):
                separator = ";"  # in a single column, which has none
        first = [name.strip() for name in first]
        if not (free and first and all(map(_is_number_or_comma, first))):
            return Dialect(separator, first, True, skipped)
        told = [name.strip() for name in next(_fields([comment], separator), ([], 0))[0]]
        if len(told) != len(first) or any(map(_is_number_or_comma, told)):
            told = ["x"] if len(first) == 1 else [f"x{i}" for i in range(1, len(first) + 1)]
        return Dialect(separator, told, False, skipped)

    def _separator(self, line: str) -> str:
        """What stands between the values of a line."""
        kind = kind_of(self.path)
        if kind.endswith(".tsv"):
            return "\t"
        if kind.endswith(WITHOUT_NAMES):
            if found := next((mark for mark in "\t;" if mark in line.strip()), ""):
                return found
            words = line.split()
            return SPACES if "," not in line or (len(words) > 1 and all(map(_is_number_or_comma, words))) else ","
        return max(",;\t", key=line.count)

    def place(self, row: int) -> str:
        """The line that holds a row of data."""
        return f"line {self.line(row)}"

    def line(self, row: int) -> int:
        """The number of the line, from 1, that holds a row of data, from 0."""
        dialect = self.dialect()
        with opened_text(self.path) as file:
            seen = -1 - dialect.header
            for fields, number in _fields(islice(file, dialect.skipped, None), dialect.separator):
                seen += bool("".join(fields).strip()) or len(fields) > 1 or len(dialect.names) == 1
                if seen == row:
                    return dialect.skipped + number
        raise InputError("has changed while it was read")


def check_columns(names: list[str], layout: Layout) -> None:
    """Raise unless a file whose columns have these names has all columns of a layout."""
    table = Table(dict.fromkeys(named(names), ()))
    for name, argument in layout.columns.items():
        table.check(argument, name)


def _fields(lines: Iterable[str], separator: str) -> Iterator[tuple[list[str], int]]:
    """The fields of each row of a text, and the number of the line, from 1, in which it ends."""
    if separator == SPACES:
        yield from ((line.split(), number) for number, line in enumerate(lines, 1))
        return
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    for fields in reader:
        yield fields, reader.line_num


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_number_or_comma(text: str) -> bool:
    return _is_number(text) or _is_comma_number(text)


def _is_comma_number(text: str) -> bool:
    """Whether a text is a number that is written with a comma."""
    return text.count(",") == 1 and "." not in text and _is_number(text.replace(",", "."))
