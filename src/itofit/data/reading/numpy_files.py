"""NumPy's own files: an array, or several of them by name, of which nothing is believed before it is checked.

The header of an array says how large it is. That is compared with the size of the file, or of the member of an archive,
so that a small file cannot ask for much memory, and what is larger than `MOST_AT_ONCE` is read in parts alone. Nothing
is executed: arrays of Python objects are refused.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from itofit._checks import Either, InputError
from itofit.data.frames.file_rows import FILE_NAME
from itofit.data.frames.layout import Layout, Table
from itofit.data.names import Form
from itofit.data.reading.listing import AnyFile
from itofit.data.reading.readers import HEAD_ROWS, check_columns

MOST_AT_ONCE = 200_000_000
"""Bytes of an array that are read at once if it cannot be read in parts, and most that a row may have."""
MOST_COLUMNS = 100_000
"""Columns of an array: each has a name."""
MOST_HEADER = 10_000
"""Bytes of the header of an array, as NumPy allows."""


class ArrayHeader(NamedTuple):
    """The header of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool  # Fortran order
    length: int  # bytes of the header itself

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def head_rows(self) -> int:
        """How many rows the head of a table has, fewer if they are long."""
        return min(HEAD_ROWS, 1 + MOST_AT_ONCE // (10 * max(self.row_bytes, 1)))


def read_header(name: str, opened: IO[bytes]) -> ArrayHeader:
    """Shape, type and order of an array, whose data are next in a file; an error if there is no such header."""
    version = np.lib.format.read_magic(opened)
    if version > (2, 0):
        raise InputError(f"{name} holds records, expected numbers")
    length = opened.read(2 if version == (1, 0) else 4)
    n_header = int.from_bytes(length, "little")
    if n_header > MOST_HEADER:
        raise InputError(f"the header of {name} has {n_header:,} bytes, expected at most {MOST_HEADER:,}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, by_columns, dtype = read(io.BytesIO(length + opened.read(n_header)))
    except (ValueError, TypeError, SyntaxError, RecursionError, TokenError) as error:
        raise InputError(f"{name} has no header that can be read ({str(error)[:80]})") from error
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, which are not read; save numbers or strings")
    if not all(type(axis) is int and axis >= 0 for axis in shape):
        raise InputError(f"{name} has no shape: {str(shape)[:80]}")
    if not dtype.itemsize and math.prod(shape) > MOST_AT_ONCE:
        raise InputError(f"{name} holds nothing very many times")
    return ArrayHeader(shape, dtype, by_columns, np.lib.format.MAGIC_LEN + len(length) + n_header)


def header_of(name: str, opened: IO[bytes], n_bytes: int) -> ArrayHeader:
    """The header of an array in a file of a size; raise if its data do not fit that."""
    header = read_header(name, opened)
    left = n_bytes - header.length
    if header.n_bytes != left:
        raise InputError(f"{name} has {left:,} bytes of data, its header says {shown_size(header.n_bytes)}")
    if header.row_bytes > MOST_AT_ONCE and header.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {header.dtype}, too long a text for a number or a label")
    return header


def shown_size(n_bytes: int) -> str:
    """A number of bytes, absurd ones by their order of magnitude."""
    return f"{n_bytes:,}" if n_bytes < 10**18 else "more than any computer has"


def next_rows(name: str, opened: IO[bytes], header: ArrayHeader, n_rows: int | None) -> npt.NDArray[Any]:
    """The next rows of an array, at most n_rows; all if that is None or it is stored by columns or has no axes."""
    whole = n_rows is None or header.by_columns or not header.shape
    if n_rows is not None and whole and header.n_bytes > MOST_AT_ONCE:
        raise InputError(f"{name} is stored by columns, which cannot be read in parts: save it in C order")
    shape = header.shape if whole else (min(n_rows or 0, header.shape[0]), *header.shape[1:])
    n_bytes = math.prod(shape) * header.dtype.itemsize
    data = opened.read(n_bytes)
    if len(data) != n_bytes:
        raise EOFError(f"{name} ends after {len(data):,} of {n_bytes:,} bytes")
    array = np.frombuffer(data, dtype=header.dtype) if n_bytes else np.empty(math.prod(shape), dtype=header.dtype)
    return array.reshape(shape, order="F" if header.by_columns else "C")


class Npz:
    """A file of NumPy's arrays by name; those with two axes are several columns.

    Parameters
    ----------
    path : Path
    with_file_name : bool
        Whether there is a column with the path of the file.
    """

    def __init__(self, path: Path, with_file_name: bool = False) -> None:
        self.path, self.with_file_name = path, with_file_name

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
                        name = member.removesuffix(".npy")
                        headers[name] = header_of(name, opened, file.getinfo(member).file_size)
        if "metadata" in headers and headers["metadata"].dtype.kind == "U" and not headers["metadata"].shape:
            self._check_no_model()
        return headers

    def _check_no_model(self) -> None:
        try:
            metadata = json.loads(str(self._array("metadata")))
        except (ValueError, RecursionError):
            return
        if isinstance(metadata, dict) and metadata.get("program") == "itofit":
            advice = Either(python="itofit.load reads it", command="itofit info shows it")
            raise InputError("this is a learned model, not data: {advice}", advice=advice)

    def _array(self, name: str) -> npt.NDArray[Any]:
        """An array without axes."""
        with zipfile.ZipFile(self.path) as file, file.open(f"{name}.npy") as opened:
            return next_rows(name, opened, header_of(name, opened, file.getinfo(f"{name}.npy").file_size), 1)

    def form(self, of_columns: Sequence[str] = ()) -> Form | None:
        """The form of the transitions that the arrays hold, by the names of these; None if they are columns.

        They are columns if one has a name that only a column has, `of_columns`, and there is no h.
        """
        names = set(self.headers())
        if "h" not in names and names & set(of_columns):
            return None
        if {"x0", "v0", "x1", "v1"} <= names:
            return "underdamped"
        if {"x0", "x1"} <= names:
            return "pairs"
        return "increments" if {"inputs", "increments"} <= names else None

    def head(self) -> Table:
        """The first rows of all columns."""
        columns: dict[Hashable, npt.NDArray[Any]] = {}
        tables = self._tables()
        n = min((header.head_rows for header in tables.values()), default=0)
        with zipfile.ZipFile(self.path) as file:
            for name, header in tables.items():
                with file.open(f"{name}.npy") as opened:
                    header_of(name, opened, file.getinfo(f"{name}.npy").file_size)
                    columns |= _split(name, header, next_rows(name, opened, header, n)[:n])
        return Table(columns | self._file_name(n))

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout."""
        wanted, start = set(layout.columns), 0
        headers = {name: header for name, header in self._tables().items() if wanted & set(_columns(name, header))}
        for arrays in self.arrays(tuple(headers), n_rows):
            columns: dict[Hashable, npt.NDArray[Any]] = {}
            for name, array in arrays.items():
                columns |= _split(name, headers[name], array)
            n = len(next(iter(columns.values())))
            yield Table(columns | self._file_name(n), _numbered(start))
            start += n

    def _file_name(self, n: int) -> dict[Hashable, npt.NDArray[Any]]:
        """The column with the path of the file, of n rows, if there is one."""
        return {FILE_NAME: np.full(n, str(self.path))} if self.with_file_name else {}

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The columns of an array."""
        header = self.headers().get(str(name))
        return [name] if header is None else list(_columns(str(name), header))

    def _tables(self) -> dict[str, ArrayHeader]:
        """Arrays that have rows and perhaps columns, but not those of pictures and the like."""
        return {
            name: header
            for name, header in self.headers().items()
            if len(header.shape) in (1, 2) and math.prod(header.shape[1:]) <= MOST_COLUMNS
        }

    def arrays(self, names: tuple[str, ...], n_rows: int | None) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Arrays by name, in parts of n_rows rows, or whole if that is None; those without axes are in each part."""
        headers = self.headers()
        lengths = {name: headers[name].shape[0] for name in names if headers[name].shape}
        if len(set(lengths.values())) > 1:
            got = ", ".join(f"{n} in {name}" for name, n in lengths.items())
            raise InputError(f"arrays must have the same number of rows, one for each observation, got {got}")
        with ExitStack() as stack:
            file = stack.enter_context(zipfile.ZipFile(self.path))
            opened = {name: stack.enter_context(file.open(f"{name}.npy")) for name in names}
            for name in names:
                header_of(name, opened[name], file.getinfo(f"{name}.npy").file_size)
                if n_rows is not None and headers[name].by_columns and len(headers[name].shape) > 1:
                    raise InputError(f"{name} is stored by columns, which cannot be read in parts: save it in C order")
            numbers = {name: next_rows(name, opened[name], headers[name], 1) for name in names if name not in lengths}
            n = max(lengths.values(), default=0)
            step = max(n, 1) if n_rows is None else n_rows
            for start in range(0, max(n, 1) if n_rows is None else n, step):
                yield numbers | {
                    name: next_rows(name, opened[name], headers[name], min(step, n - start)) for name in lengths
                }


class ArrayParts:
    """Arrays of an NPZ file in parts, from the start each time it is called."""

    def __init__(self, reader: Npz, names: tuple[str, ...], n_rows: int | None) -> None:
        self.reader, self.names, self.n_rows = reader, names, n_rows

    def __call__(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """One pass over the file."""
        return self.reader.arrays(self.names, self.n_rows)


class Npy:
    """A file with one array: a track (n,) or (n, d), several of them (n_tracks, n, d), or records with names (n,)."""

    def __init__(self, path: AnyFile) -> None:
        self.path = path

    def size(self) -> int:
        """Bytes of the array."""
        return self.path.stat().st_size if isinstance(self.path, Path) else 0

    def head(self) -> Table:
        """The first rows of all columns."""
        header = self._header()
        return next(self._tables(header.head_rows), Table(dict.fromkeys(self.names(), np.zeros(0))))

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """All columns, those of the layout among them."""
        check_columns(self.names(), layout)
        if n_rows is not None and self._header().n_bytes > MOST_AT_ONCE and self._header().by_columns:
            raise InputError("is stored by columns, which cannot be read in parts: save it in C order")
        return self._tables(n_rows)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def names(self) -> list[str]:
        """The names of the columns: x, or x1, x2, ..., and track if there are several; or those of records."""
        header = self._header()
        if header.dtype.names is not None:
            return list(header.dtype.names)
        return [str(name) for name in _columns("x", header)] + ["track"] * (len(header.shape) == 3)

    def has_several_tracks(self) -> bool:
        """Whether it has three axes, of which the first numbers tracks."""
        return len(self._header().shape) == 3

    def place(self, row: int) -> str:
        """A row by its number, in its track if there are several."""
        shape = self._header().shape
        return f"row {row}" if len(shape) < 3 else f"row {row % shape[1]} of track {row // shape[1]}"

    def _header(self) -> ArrayHeader:
        with self.path.open("rb") as opened:
            return self._read_header(opened)

    def _read_header(self, opened: IO[bytes]) -> ArrayHeader:
        n_bytes = opened.seek(0, io.SEEK_END)
        opened.seek(0)
        header = header_of("the array", opened, n_bytes)
        if header.dtype.names is None and header.dtype.kind not in "fiub":
            raise InputError(f"the array must hold real numbers, got {header.dtype}")
        most = 1 if header.dtype.names is not None else 3
        if not 1 <= len(header.shape) <= most:
            wanted = "(n,) of records" if most == 1 else "(n,), (n, d) or (n_tracks, n, d)"
            raise InputError(f"the array must have shape {wanted}, got {header.shape}")
        return header

    def _tables(self, n_rows: int | None) -> Iterator[Table]:
        """All rows, in tables of so many."""
        with self.path.open("rb") as opened:
            header = self._read_header(opened)
            several = len(header.shape) == 3
            n = math.prod(header.shape[:2]) if several else header.shape[0]
            rows = header._replace(shape=(n, *header.shape[2:])) if several and not header.by_columns else header
            whole = next_rows("the array", opened, header, n).reshape(n, -1) if header.by_columns else None
            step = max(n, 1) if n_rows is None else n_rows
            for start in range(0, n, step):
                stop = min(start + step, n)
                own = next_rows("the array", opened, rows, stop - start) if whole is None else whole[start:stop]
                if header.dtype.names is not None:
                    columns: dict[Hashable, Any] = {name: own.reshape(-1)[name] for name in header.dtype.names}
                else:
                    columns = _split("x", header, own)
                if several:
                    columns["track"] = np.arange(start, stop) // header.shape[1]
                yield Table(columns, partial(self._place_in_part, start))

    def _place_in_part(self, start: int, row: int) -> str:
        return self.place(start + row)


def _columns(name: str, header: ArrayHeader) -> list[Hashable]:
    """What the columns of an array are called."""
    if len(header.shape) < 2 or header.shape[-1] == 1:
        return [name]
    if header.shape[-1] > MOST_COLUMNS:
        text = f"{name} of shape {header.shape} has more than {MOST_COLUMNS:,} columns: should it be transposed?"
        raise InputError(text)
    letter = "x" if name == "state" else name
    return [f"{letter}{j}" for j in range(1, header.shape[-1] + 1)]


def _split(name: str, header: ArrayHeader, array: npt.NDArray[Any]) -> dict[Hashable, npt.NDArray[Any]]:
    """The columns of an array by their names."""
    table = array[:, None] if array.ndim == 1 else array
    return {column: table[:, j] for j, column in enumerate(_columns(name, header))}


def _numbered(start: int) -> Any:  # noqa: ANN401
    """The function that names the rows of a part that begins at this row."""
    return lambda i: f"row {start + i}"
