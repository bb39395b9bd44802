"""Ranges of a large CSV file that are read on their own: every line belongs to the range that its first byte is in.

    bytes    |header|....line....|..line..|.......line......|..line..|
    ranges          |------ 0 ------|------ 1 ------|------ 2 ------|
    read            |----------------------|----------------|--------|

A line break within quotes ends no row. If the beginning of a file on this machine has quotes, all of it is looked
through once, and ranges are cut where no quotes are open. Elsewhere ranges have equal lengths, and one in which the
number of quotes is odd is an error.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from itofit._checks import InputError
from itofit.data.reading.readers import Csv, Dialect, compression

BEGINNING = 2**20
"""Bytes from which it is told how long rows are, and whether there are quotes."""


class ByteRange(NamedTuple):
    """Bytes of a file; lines that begin in it are read."""

    start: int
    stop: int
    body: int  # where the first row of the file begins
    dialect: Dialect  # of the file, so that a range need not read the line of names again


def byte_ranges(whole: Csv, size: int, n_rows: int, most: int) -> list[ByteRange]:
    """Ranges of a file of some size, each of about n_rows rows, at most so many; none if it can only be read as one.

    Parameters
    ----------
    whole : Csv
    size : int
        Bytes of the file.
    n_rows : int
        Rows of a range, about.
    most : int
        Number of ranges, about, at most.
    """
    if compression(whole.path) or not whole.begins_with_names(dialect := whole.dialect()):
        return []
    with whole.path.open("rb") as file:
        body = _body(file)
        if body is None:
            return []
        file.seek(body)
        beginning = file.read(BEGINNING)
        n_lines = max(1, beginning.count(b"\n"))
        wanted = max(len(beginning) * n_rows // n_lines, size // most, 1)
        if b'"' in beginning and isinstance(whole.path, Path):
            cuts = list(_outside_quotes(file, body, wanted))
        else:
            cuts = [*range(body, size, wanted), size]
    return [ByteRange(start, stop, body, dialect) for start, stop in pairwise(cuts)]


def _body(file: IO[bytes]) -> int | None:
    """Where the first row begins, after the line of names; None if lines end in a way that pandas alone knows."""
    n_bytes = 0

    def lines() -> Iterator[str]:
        nonlocal n_bytes
        for line in file:
            n_bytes += len(line)
            text = line.decode("utf-8-sig")
            if text.strip() or started:
                yield text

    started = False
    texts = lines()
    first = next(texts, "")
    started = True
    if "\r" in first.rstrip("\r\n"):
        return None
    next(csv.reader(_chained(first, texts)), None)
    return n_bytes


def _chained(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others


def _outside_quotes(file: IO[bytes], body: int, wanted: int) -> Iterator[int]:
    """The bytes at which rows begin, at least so many apart, and the end: where no quotes are open."""
    file.seek(body)
    yield body
    is_open = False
    while chunk := file.read(wanted):
        is_open ^= bool(chunk.count(b'"') % 2)
        while line := file.readline():  # the rest of the last one, and those within quotes
            is_open ^= bool(line.count(b'"') % 2)
            if not is_open:
                break
        yield file.tell()


class CsvRange(Csv):
    """The rows of a CSV file that begin in a range of its bytes.

    Parameters
    ----------
    whole : Csv
        The reader of the file.
    own : ByteRange
    """

    def __init__(self, whole: Csv, own: ByteRange) -> None:
        self.__dict__ |= whole.__dict__
        self.own = own

    def _source(self) -> IO[bytes]:
        """A line of names, which nobody reads, and the lines of the range."""
        separator, names, *_ = self.dialect()
        return BytesIO(separator.join("-" * bool(names) for _ in names).encode() + b"\n" + self._lines()[0])

    def dialect(self) -> Dialect:
        """That of the file, but for the lines before its names."""
        return self.own.dialect._replace(skipped=0)

    def _lines(self) -> tuple[bytes, int]:
        """The lines that begin in the range, and where the first of them does."""
        start, stop, body, _ = self.own
        first = max(start - 1, body)  # a line begins after the break before it
        with self.path.open("rb") as file:
            file.seek(first)
            lines = file.read(stop - first)
            if lines and not lines.endswith(b"\n"):
                lines += file.readline()
        if start > body:
            begins = lines.find(b"\n", 0, stop - 1 - first) + 1
            lines, first = (lines[begins:], first + begins) if begins else (b"", stop)
        if lines.count(b'"') % 2:
            raise InputError(
                f"there is a line break within quotes near byte {stop}, and a file that is read in parts cannot have "
                "any there: write it without, or as a Parquet file"
            )
        return lines, first

    def line(self, row: int) -> int:
        """The number of the line in the file, from 1, that holds a row of the range, from 0."""
        lines, first = self._lines()
        n_before = 0
        with self.path.open("rb") as file:
            while first > 0 and (chunk := file.read(min(first, BEGINNING))):
                n_before, first = n_before + chunk.count(b"\n"), first - len(chunk)
        separator, names, *_ = self.dialect()
        reader = csv.reader(lines.decode().splitlines(keepends=True), delimiter=separator)
        seen = -1
        for fields in reader:
            seen += bool("".join(fields).strip()) or len(fields) > 1 or len(names) == 1
            if seen == row:
                return n_before + reader.line_num
        raise InputError("has changed while it was read")
