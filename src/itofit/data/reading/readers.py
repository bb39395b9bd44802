"""Readers of files: the columns of a CSV or NPZ file, all rows at once or in parts."""

from __future__ import annotations

import csv
import gzip
import json
import warnings
import zipfile
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from itofit._checks import Either, InputError
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.names import Form
from itofit.data.reading.listing import AnyFile

HEAD_ROWS = 10_000
"""Rows from which it is decided which columns hold numbers."""
GZIP_RATIO = 5
"""Rough ratio of the size of a text to that of the same text compressed with gzip."""


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


def size_of_text(file: AnyFile, size: int) -> int:
    """Rough number of bytes of the text in a file of a size."""
    return size * (GZIP_RATIO if file.name.lower().endswith(".gz") else 1)


class Csv:
    """A text file with a header line; read by pandas."""

    def __init__(self, path: AnyFile) -> None:
        self.path = path

    def size(self) -> int:
        """Rough number of bytes of text."""
        return size_of_text(self.path, self.path.stat().st_size) if isinstance(self.path, Path) else 0

    def head(self) -> Table:
        """The first rows of all columns."""
        separator, names = self._header()
        if repeated := sorted(name for name, n in Counter(names).items() if n > 1 and name):
            raise InputError(f"several columns are called {repeated[0]!r}; rename them")
        if names and all(_is_number(name) for name in names):
            raise InputError(
                f"the first line must name the columns, got numbers ({separator.join(names[:3])}); add such a line"
            )
        longer = optional("pandas", "reading CSV files").errors.ParserWarning
        with warnings.catch_warnings():
            warnings.simplefilter("error", longer)
            try:
                return Table(self._read(separator, names, nrows=HEAD_ROWS))
            except longer:
                shown = separator.join(names[:3])
                raise InputError(f"lines have more values than the header has names ({shown})") from None

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout; tracks are read as text, so that their type is the same in every part."""
        separator, names = self._header()
        self._check_columns(names, layout)
        chosen = {"usecols": list(layout.columns), "dtype": dict.fromkeys(layout.track, str)}
        if n_rows is None:
            yield self._table(self._read(separator, names, **chosen), 0)
            return
        start = 0
        with self._read(separator, names, chunksize=n_rows, **chosen) as frames:
            for frame in frames:
                yield self._table(frame, start)
                start += len(frame)

    def _check_columns(self, names: list[str], layout: Layout) -> None:
        table = Table({name or f"Unnamed: {i}": () for i, name in enumerate(names)})
        for name, argument in layout.columns.items():
            table.check(argument, name)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def _read(self, separator: str, names: list[str], **options: Any) -> Any:  # noqa: ANN401
        pandas = optional("pandas", "reading CSV files")
        return pandas.read_csv(
            self._source(),
            sep=separator,
            encoding="utf-8-sig",
            names=[name or f"Unnamed: {i}" for i, name in enumerate(names)] or None,
            header=0,
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=len(names) > 1,  # in a single column they are gaps
            low_memory=False,
            **options,
        )

    def _table(self, frame: Any, start: int) -> Table:  # noqa: ANN401
        return Table(frame, lambda i: f"line {self.line(start + i)}")

    def _source(self) -> Path | IO[bytes]:
        """What pandas reads."""
        if isinstance(self.path, Path):
            return self.path
        source = self.path.open("rb")
        return gzip.open(source) if self._is_compressed else source  # type: ignore[return-value]

    @property
    def _is_compressed(self) -> bool:
        return self.path.name.lower().endswith(".gz")

    def _open(self) -> TextIO:
        if self._is_compressed:
            source = self.path if isinstance(self.path, Path) else self.path.open("rb")
            return gzip.open(source, "rt", encoding="utf-8-sig", newline="")
        opened: Any = self.path.open("r", encoding="utf-8-sig", newline="")
        text: TextIO = opened
        return text

    def names(self) -> list[str]:
        """The names of the columns; none if the file is empty."""
        return self._header()[1]

    def _header(self) -> tuple[str, list[str]]:
        """The separator and the names in the first line, without spaces around them."""
        with self._open() as file:
            line = next((line for line in file if line.strip()), "")
            kind = self.path.name.lower()
            separator = "\t" if kind.endswith((".tsv", ".tsv.gz")) else max(",;\t", key=line.count)
            names = next(csv.reader(chain([line], file), delimiter=separator, skipinitialspace=True), [])
        return separator, [name.strip() for name in names]

    def line(self, row: int) -> int:
        """The number of the line, from 1, that holds a row of data, from 0."""
        separator, names = self._header()
        with self._open() as file:
            reader = csv.reader(file, delimiter=separator)
            seen = -2
            for fields in reader:
                seen += bool("".join(fields).strip()) or len(fields) > 1 or (len(names) == 1 and seen > -2)
                if seen == row:
                    return reader.line_num
        raise InputError("has changed while it was read")


class ArrayHeader(NamedTuple):
    """The header of an array in an NPZ file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool  # Fortran order


class Npz:
    """A file of NumPy's arrays by name; those with two axes are several columns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Bytes of all arrays, uncompressed."""
        with zipfile.ZipFile(self.path) as file:
            return sum(member.file_size for member in file.infolist())

    def headers(self) -> dict[str, ArrayHeader]:
        """Headers of all arrays by name; raise if the file is a model."""
        headers = {}
        with zipfile.ZipFile(self.path) as file:
            for member in file.namelist():
                if member.endswith(".npy"):
                    with file.open(member) as opened:
                        headers[member.removesuffix(".npy")] = _header_of(member, opened)
        if "metadata" in headers and headers["metadata"].dtype.kind == "U":
            self._check_no_model()
        return headers

    def _check_no_model(self) -> None:
        with np.load(self.path, allow_pickle=False) as file:
            try:
                metadata = json.loads(str(file["metadata"]))
            except ValueError:
                return
        if isinstance(metadata, dict) and metadata.get("program") == "itofit":
            advice = Either(python="itofit.load reads it", command="itofit info shows it")
            raise InputError("this is a learned model, not data: {advice}", advice=advice)

    def form(self) -> Form | None:
        """The form of the transitions that the arrays hold, by the names of these; None if they are columns."""
        names = set(self.headers())
        if {"x0", "v0", "x1", "v1"} <= names:
            return "underdamped"
        if {"x0", "x1"} <= names:
            return "pairs"
        return "increments" if {"inputs", "increments"} <= names else None

    def head(self) -> Table:
        """The first rows of all columns."""
        columns: dict[Hashable, npt.NDArray[Any]] = {}
        with zipfile.ZipFile(self.path) as file:
            for name, header in self._tables().items():
                with file.open(f"{name}.npy") as opened:
                    _header_of(name, opened)
                    columns |= _split(name, header, _next_rows(opened, header, HEAD_ROWS))
        return Table(columns)

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout."""
        wanted, start = set(layout.columns), 0
        headers = {name: header for name, header in self._tables().items() if wanted & set(_columns(name, header))}
        for arrays in self.arrays(tuple(headers), n_rows):
            columns: dict[Hashable, npt.NDArray[Any]] = {}
            for name, array in arrays.items():
                columns |= _split(name, headers[name], array)
            yield Table(columns, _numbered(start))
            start += len(next(iter(columns.values())))

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The columns of an array."""
        header = self.headers().get(str(name))
        return [name] if header is None else list(_columns(str(name), header))

    def _tables(self) -> dict[str, ArrayHeader]:
        """Arrays that have rows and perhaps columns."""
        return {name: header for name, header in self.headers().items() if len(header.shape) in (1, 2)}

    def arrays(self, names: tuple[str, ...], n_rows: int | None) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Arrays by name, in parts of n_rows rows, or whole if that is None; those without axes are in each part."""
        headers = self.headers()
        lengths = {name: headers[name].shape[0] for name in names if headers[name].shape}
        if len(set(lengths.values())) > 1:
            got = ", ".join(f"{n} in {name}" for name, n in lengths.items())
            raise InputError(f"arrays must have the same number of rows, one for each observation, got {got}")
        if n_rows is None:
            with np.load(self.path, allow_pickle=False) as file:
                yield {name: file[name] for name in names}
            return
        with ExitStack() as stack:
            file = stack.enter_context(zipfile.ZipFile(self.path))
            opened = {name: stack.enter_context(file.open(f"{name}.npy")) for name in names}
            for name in names:
                _header_of(name, opened[name])
                if headers[name].by_columns and len(headers[name].shape) > 1:
                    raise InputError(f"{name} is stored by columns, which cannot be read in parts: save it in C order")
            numbers = {name: _next_rows(opened[name], headers[name], 1) for name in names if name not in lengths}
            n = max(lengths.values(), default=0)
            for start in range(0, n, n_rows):
                yield numbers | {
                    name: _next_rows(opened[name], headers[name], min(n_rows, n - start)) for name in lengths
                }


class ArrayParts:
    """Arrays of an NPZ file in parts, from the start each time it is called."""

    def __init__(self, reader: Npz, names: tuple[str, ...], n_rows: int | None) -> None:
        self.reader, self.names, self.n_rows = reader, names, n_rows

    def __call__(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """One pass over the file."""
        return self.reader.arrays(self.names, self.n_rows)


def _header_of(member: str, opened: IO[bytes]) -> ArrayHeader:
    """Shape, type and order of an array, whose data are next in the file."""
    version = np.lib.format.read_magic(opened)
    if version > (2, 0):
        raise InputError(f"{member} holds records, expected numbers")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(opened)
    if dtype.hasobject:
        raise InputError(f"{member} holds Python objects, which are not read; save numbers or strings")
    return ArrayHeader(shape, dtype, by_columns)


def _next_rows(opened: IO[bytes], header: ArrayHeader, n_rows: int) -> npt.NDArray[Any]:
    """The next rows of an array, at most n_rows; the number itself if it has no axes."""
    whole = header.by_columns or not header.shape
    shape = header.shape if whole else (min(n_rows, header.shape[0]), *header.shape[1:])
    n_bytes = int(np.prod(shape, dtype=np.int64)) * header.dtype.itemsize
    array = np.frombuffer(opened.read(n_bytes), dtype=header.dtype)
    return array.reshape(shape, order="F")[:n_rows] if header.by_columns else array.reshape(shape)


def _columns(name: str, header: ArrayHeader) -> list[Hashable]:
    """What the columns of an array are called."""
    if len(header.shape) < 2 or header.shape[1] == 1:
        return [name]
    letter = "x" if name == "state" else name
    return [f"{letter}{j}" for j in range(1, header.shape[1] + 1)]


def _split(name: str, header: ArrayHeader, array: npt.NDArray[Any]) -> dict[Hashable, npt.NDArray[Any]]:
    """The columns of an array by their names."""
    table = array[:, None] if array.ndim == 1 else array
    return {column: table[:, j] for j, column in enumerate(_columns(name, header))}


def _numbered(start: int) -> Any:  # noqa: ANN401
    """The function that names the rows of a part that begins at this row."""
    return lambda i: f"row {start + i}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
