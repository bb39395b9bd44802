"""Arrays of an `.npz` file, of which nothing is believed before it is checked.

An archive says how large its members are before they are unpacked, and the header of an array how large it is. Both are
compared with each other and with the size of the file, so that a small file cannot ask for much memory. Members that
nobody asks for are not read. Nothing is executed.
"""

from __future__ import annotations

import math
import zipfile
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

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
            shape, by_columns, dtype = _header(name, opened)  # type: ignore[arg-type]
            data = opened.read()
        n_bytes = math.prod(shape) * dtype.itemsize
        if len(data) != n_bytes:
            raise ValueError(f"{name} has {len(data):,} bytes of data, its header says {shown_size(n_bytes)}")
        array = np.frombuffer(bytearray(data), dtype=dtype) if n_bytes else np.empty(math.prod(shape), dtype=dtype)
        return array.reshape(shape, order="F" if by_columns else "C")


def _header(name: str, opened: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, whose data are next in the file."""
    version = np.lib.format.read_magic(opened)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of version {version} of NumPy's format, which holds records")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(opened)
    if dtype.kind not in KINDS:
        raise ValueError(f"{name} holds {dtype}, which is not read; expected numbers or text")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{name} has no shape: {shape}")
    if not dtype.itemsize and math.prod(shape) > ALWAYS_ALLOWED:
        raise ValueError(f"{name} holds nothing {math.prod(shape)} times")
    return shape, by_columns, dtype


def shown_size(n_bytes: int) -> str:
    """A number of bytes, absurd ones by their order of magnitude."""
    return f"{n_bytes:,}" if n_bytes < 10**18 else "more than any computer has"
