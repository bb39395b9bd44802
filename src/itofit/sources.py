"""Sources of blocks: what can be read again and again, block by block."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from itofit._checks import InputError
from itofit.rows import slices

Source: TypeAlias = Callable[[], Any] | Iterable[Any]


class BlockSource:
    """Blocks that can be iterated over again and again.

    Parameters
    ----------
    source : callable, sequence, array or other re-iterable
        A function without arguments that starts a new iteration, a list of blocks or anything else that can be iterated
        over more than once; or whole arrays, which are sliced: one if a block is an array, otherwise a tuple of them.
        Arrays may be of any kind that has a shape and can be sliced, in memory or not.
    blocks_are_arrays : bool
        Whether a block is one array.
    """

    def __init__(self, source: Source, *, blocks_are_arrays: bool) -> None:
        self.source = source
        self.blocks_are_arrays = blocks_are_arrays
        self.last: Iterator[Any] | None = None
        if isinstance(source, Iterator):
            raise InputError(
                f"source is a {type(source).__name__}, which can be read once: give a function that starts a new one, "
                "or a list of blocks"
            )

    def blocks(self) -> Generator[object]:
        """All blocks, from the first on."""
        given = self.source() if callable(self.source) else self.source
        if _is_array(given) or self._holds_arrays(given):
            yield from self._slices(given)
            return
        try:
            if isinstance(given, str | bytes | Mapping) or hasattr(given, "iloc"):  # a table is no sequence of blocks
                raise TypeError
            blocks = iter(given)
        except TypeError:
            got = f"{type(given).__name__}{' from the function' if callable(self.source) else ''}"
            raise InputError(f"source must be a function or a sequence that gives blocks, got {got}") from None
        if blocks is self.last:
            raise InputError(
                "the source gives the same iterator again, which was read before: if it is a function, it must start "
                "a new iteration each time it is called"
            )
        self.last = blocks
        try:
            yield from blocks
        finally:
            if isinstance(blocks, Generator):
                blocks.close()

    def _holds_arrays(self, given: object) -> bool:
        """Whether the source is a tuple or list of whole arrays, and perhaps numbers, and not of blocks.

        Where a block is an array, only a tuple of one and of as many times is taken for whole arrays.
        """
        if self.blocks_are_arrays:
            return (
                isinstance(given, tuple)
                and len(given) == 2
                and all(_is_array(part) for part in given)
                and np.ndim(given[1]) == 1
                and len(given[0]) == len(given[1])
            )
        if not isinstance(given, tuple | list):
            return False
        return any(_is_array(part) for part in given) and all(_is_array(part) or np.isscalar(part) for part in given)

    def _slices(self, given: Any) -> Iterator[object]:  # noqa: ANN401
        """Blocks of whole arrays."""
        if _is_array(given):
            if not self.blocks_are_arrays:
                raise InputError("source is one array, but a block has several: give a tuple of arrays, as in (x0, x1)")
            for rows in slices(len(given)):
                yield given[rows]
                _release(given)
            return
        lengths = sorted({len(part) for part in given if _is_array(part)})
        if len(lengths) > 1:
            raise InputError(f"all arrays of source must have the same length, got {' and '.join(map(str, lengths))}")
        for rows in slices(lengths[0]):
            yield tuple(part[rows] if _is_array(part) else part for part in given)
            for part in given:
                _release(part)


def _release(array: object) -> None:
    """Give back the memory that a file mapped for reading alone has taken; what is needed again is read again."""
    if isinstance(array, np.memmap) and array.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _is_array(value: object) -> bool:
    """Whether something is an array of any kind: of NumPy, a memory-mapped one, one of an HDF5 file."""
    shape = getattr(value, "shape", ())
    return isinstance(shape, tuple) and len(shape) > 0 and hasattr(value, "__getitem__") and not hasattr(value, "iloc")
