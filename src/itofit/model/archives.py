"""Arrays of an `.npz` file, of which nothing is believed before it is checked.

An archive says how large its members are before they are unpacked, and the header of an array how large it is. Both are
compared with each other and with the size of the file, so that a small file cannot ask for much memory. Members that
nobody asks for are not read. Nothing is executed.
"""

from __future__ import annotations

import zipfile
from typing import Any, BinaryIO

import numpy.typing as npt

from itofit.data.reading.numpy_files import header_of, next_rows

MOST_TIMES, ALWAYS_ALLOWED = 50, 16_000_000
"""Bytes that members may unpack to, in units of the size of the file, and besides; what itofit writes is not packed."""
KINDS = "biufcU"
"""Kinds of numbers and texts that are read."""


class Archive:
    """The arrays of an open `.npz` file of some size, by their names.

    Parameters
    ----------
    opened : binary file
    n_bytes : int
        Its size.
    """

    def __init__(self, opened: BinaryIO, n_bytes: int) -> None:
        self._file = zipfile.ZipFile(opened)
        self._left = MOST_TIMES * n_bytes + ALWAYS_ALLOWED  # bytes that may still be unpacked
        self._members = {
            member.filename.removesuffix(".npy"): member
            for member in self._file.infolist()
            if member.filename.endswith(".npy")
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Of all arrays."""
        return tuple(self._members)

    def read(self, name: str, most: int | None = None) -> npt.NDArray[Any]:
        """An array of at most so many bytes; a ValueError says what is wrong with it."""
        member = self._members[name]
        if member.file_size > min(self._left, self._left if most is None else most):
            raise ValueError(f"{name} would take {member.file_size:,} bytes, far more than such a file holds")
        self._left -= member.file_size
        with self._file.open(member) as opened:
            header = header_of(name, opened, member.file_size)
            if header.dtype.kind not in KINDS:
                raise ValueError(f"{name} holds {header.dtype}, which is not read; expected numbers or text")
            return next_rows(name, opened, header, None).copy(order="K")  # the last bits of products depend on it
