"""Files of JSON lines: an object in each line, whose keys are the names of columns."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from itofit._checks import InputError, shown
from itofit.data.frames.layout import Layout, Table
from itofit.data.reading.listing import AnyFile
from itofit.data.reading.python_values import frame_of
from itofit.data.reading.readers import HEAD_ROWS, check_columns, opened_text, size_of_text

PURPOSE = "reading JSON lines"


class JsonLines:
    """A text file with a JSON object in each line; a key that a line does not have is a gap."""

    def __init__(self, path: AnyFile) -> None:
        self.path = path

    def size(self) -> int:
        """Rough number of bytes of text."""
        return size_of_text(self.path, self.path.stat().st_size) if isinstance(self.path, Path) else 0

    def head(self) -> Table:
        """The first rows of all columns, which are those of these rows."""
        rows = list(islice(self._rows(), HEAD_ROWS))
        if not rows:
            raise InputError("holds nothing")
        return self._table(_names(rows), rows, 0)

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout."""
        check_columns(self.names(), layout)
        names, rows, start = [str(name) for name in layout.columns], self._rows(), 0
        while part := list(islice(rows, n_rows)):
            yield self._table(names, part, start)
            start += len(part)

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def names(self) -> list[str]:
        """The names of the columns; none if the file is empty."""
        return _names(islice(self._rows(), HEAD_ROWS))

    def place(self, row: int) -> str:
        """The line that holds a row of data."""
        with opened_text(self.path) as file:
            filled = (number for number, line in enumerate(file, 1) if line.strip())
            return f"line {next(islice(filled, row, None), '?')}"

    def _table(self, names: list[str], rows: list[dict[str, Any]], start: int) -> Table:
        frame = frame_of(names, ([row.get(name) for name in names] for row in rows), PURPOSE)
        return Table(frame, lambda i: self.place(start + i))

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The objects of all lines that are not empty."""
        with opened_text(self.path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(line, number)


def _object(line: str, number: int) -> dict[str, Any]:
    """What a line says."""
    problem = ""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        value, problem = None, f" ({error})"
    if not isinstance(value, dict):
        raise InputError(
            f'line {number} must be a JSON object such as {{"time": 0.5, "x": 1.2}}, got {shown(line.strip())}{problem}'
        )
    return value


def _names(rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[str]:
    """The keys of all rows, in the order in which they appear."""
    return list(dict.fromkeys(name for row in rows for name in row))
