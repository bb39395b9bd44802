"""Arrow's own files: Feather, IPC files and IPC streams, in their batches of rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from itofit._checks import InputError
from itofit.data.frames.layout import Layout, Table, optional
from itofit.data.reading.listing import AnyFile
from itofit.data.reading.readers import HEAD_ROWS, check_columns

PURPOSE = "reading Arrow files"
FILE, OLD_FEATHER = b"ARROW1", b"FEA1"
"""How files begin; streams begin with something else."""


class ArrowFile:
    """A file of Arrow's record batches."""

    def __init__(self, path: AnyFile) -> None:
        self.path = path

    def size(self) -> int:
        """Its number of bytes."""
        return self.path.stat().st_size if isinstance(self.path, Path) else 0

    def head(self) -> Table:
        """The first rows of all columns."""
        pyarrow = optional("pyarrow", PURPOSE)
        with self._opened() as (schema, batches):
            first = next((batch for batch in batches if batch.num_rows), None)
            if first is None:
                return Table(schema.empty_table())
            rows = first.slice(0, HEAD_ROWS)
            rows.validate(full=True)
            return Table(pyarrow.Table.from_batches([rows]))

    def parts(self, layout: Layout, n_rows: int | None) -> Iterator[Table]:
        """The columns of the layout."""
        pyarrow = optional("pyarrow", PURPOSE)
        with self._opened() as (schema, batches):
            check_columns(schema.names, layout)
            names = [str(name) for name in layout.columns]
            chosen = (_checked(batch.select(names)) for batch in batches)
            start = 0
            if n_rows is None:
                wanted = pyarrow.schema([schema.field(name) for name in names])
                yield _table(pyarrow.Table.from_batches(list(chosen), wanted), 0)
                return
            for batch in chosen:
                for first in range(0, batch.num_rows, n_rows):
                    rows = batch.slice(first, n_rows)
                    yield _table(pyarrow.Table.from_batches([rows]), start)
                    start += rows.num_rows

    def columns_of(self, name: Hashable) -> list[Hashable]:
        """The column of this name itself."""
        return [name]

    def names(self) -> list[str]:
        """The names of the columns."""
        with self._opened() as (schema, _):
            return list(schema.names)

    def place(self, row: int) -> str:
        """A row by its number."""
        return f"row {row}"

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The schema, and the batches, each read when its turn comes."""
        pyarrow, ipc = optional("pyarrow", PURPOSE), optional("pyarrow.ipc", PURPOSE)
        try:
            with _source(pyarrow, self.path) as source:
                begin = source.read(len(FILE))
                source.seek(0)
                if begin.startswith(OLD_FEATHER):
                    raise InputError("is of version 1 of Feather, which is not read; write it again with version 2")
                if begin == FILE:
                    file = ipc.open_file(source)
                    yield file.schema, (file.get_batch(i) for i in range(file.num_record_batches))
                else:
                    stream = ipc.open_stream(source)
                    yield stream.schema, iter(stream)
        except (pyarrow.ArrowException, pyarrow.ArrowMemoryError, KeyError, NotImplementedError) as error:
            raise ValueError(f"it is no Arrow file that can be read ({str(error).strip()})") from error


@contextmanager
def _source(pyarrow: Any, file: AnyFile) -> Iterator[Any]:  # noqa: ANN401
    """A file as pyarrow reads it; not mapped into memory, for it may become shorter while it is read."""
    if isinstance(file, Path):
        if not file.stat().st_size:
            raise InputError("holds nothing")
        with pyarrow.OSFile(str(file)) as source:
            yield source
        return
    with file.open("rb") as opened, pyarrow.PythonFile(opened, mode="r") as source:
        yield source


def _checked(batch: Any) -> Any:  # noqa: ANN401
    """A batch whose buffers are as long as they say, and whose offsets lie within them."""
    batch.validate(full=True)
    return batch


def _table(table: Any, start: int) -> Table:  # noqa: ANN401
    return Table(table, lambda i: f"row {start + i}")
