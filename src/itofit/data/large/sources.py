"""Sources of blocks: what can be read again and again, block by block."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar
from zlib import crc32

import numpy as np

from itofit._checks import Either, Float, InputError, Message, Option, plain_array
from itofit.data.names import plural
from itofit.data.rows import slices

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
                "{source} is a {kind}, which can be read once: give a function that starts a new one, or a list of "
                "blocks",
                source=Option("source"),
                kind=type(source).__name__,
            )

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"last": None}  # an iteration cannot be pickled

    def blocks(self) -> Generator[object]:
        """All blocks, from the first on."""
        given = self.source() if callable(self.source) else self.source
        if _is_array(given) or self._holds_arrays(given):
            yield from self._slices(given)
            return
        try:
            if isinstance(given, str | bytes | Mapping) or hasattr(given, "iloc"):  # a table is no sequence
                raise TypeError
            blocks = iter(given)
        except TypeError:
            got = f"{type(given).__name__}{' from the function' if callable(self.source) else ''}"
            text = "{source} must be a function or a sequence that gives blocks, got {got}"
            raise InputError(text, source=Option("source"), got=got) from None
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
                text = "{source} is one array, but a block has several: give a tuple of arrays, as in (x0, x1)"
                raise InputError(text, source=Option("source"))
            for rows in slices(len(given)):
                yield given[rows]
                _release(given)
            return
        lengths = sorted({len(part) for part in given if _is_array(part)})
        if len(lengths) > 1:
            got = " and ".join(map(str, lengths))
            raise InputError(
                "all arrays of {source} must have the same length, got {got}", source=Option("source"), got=got
            )
        for rows in slices(lengths[0]):
            yield tuple(part[rows] if _is_array(part) else part for part in given)
            for part in given:
                _release(part)


def _release(array: object) -> None:
    """Give back the memory of an array that is mapped from a file for reading; it is read again when needed."""
    if isinstance(array, np.memmap) and array.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _is_array(value: object) -> bool:
    """Whether a value is an array of any kind: of NumPy, memory-mapped, or of an HDF5 file."""
    shape = getattr(value, "shape", ())
    return isinstance(shape, tuple) and len(shape) > 0 and hasattr(value, "__getitem__") and not hasattr(value, "iloc")


class Block(Protocol):
    """A block of transitions."""

    def __len__(self) -> int: ...
    @property
    def inputs(self) -> Float: ...  # noqa: D102
    @property
    def increments(self) -> Float: ...  # noqa: D102
    @property
    def h(self) -> Float: ...  # noqa: D102


B = TypeVar("B", bound=Block)


class FirstPass:
    """What a source gave in its first whole pass, and must give again in every later one."""

    def __init__(self) -> None:
        self.lengths: list[int] | None = None
        self._ends: list[int] = []

    def checked(self, blocks: Iterable[tuple[int, B]]) -> Iterator[B]:
        """The blocks, given with their numbers; raise if they differ from those of the first pass."""
        lengths: list[int] = []
        before = self.lengths
        if before is None:
            self._ends = []
        for i, block in blocks:
            n = len(lengths)
            if before is not None and (n >= len(before) or len(block) != before[n]):
                had = f"had {before[n]}" if n < len(before) else "did not exist"
                raise _changed(
                    f"block {i} of the source has {plural(len(block), 'transition')} and {had} in an earlier pass: the "
                    "source must give the same blocks each time it is read"
                )
            ends = crc32(b"".join(part[[0, -1]].tobytes() for part in (block.inputs, block.increments, block.h)))
            if before is None:
                self._ends.append(ends)
            elif ends != self._ends[n]:
                raise _changed(
                    f"block {i} of the source has other values than in an earlier pass: the source must give the same "
                    "blocks each time it is read"
                )
            lengths.append(len(block))
            yield block
        if before is not None and len(lengths) < len(before):
            raise _changed(
                f"block {len(lengths)} of the source is missing: it gave {plural(len(before), 'block')} in an earlier "
                "pass; if it is a function, it must start a new iteration each time it is called"
            )
        self.lengths = lengths


def _changed(problem: str) -> InputError:
    """The error for a source that gives other blocks than in its first pass."""
    return InputError("{problem}", problem=Either(python=problem, command="the file has changed while it was read"))


OPTIONAL = ("groups", "covariates")
"""Arrays that a block may lack."""


def block_arguments(block: object, names: tuple[str, ...], h: float | None) -> dict[str, Any]:
    """The arrays of a block by their names, of which groups and covariates may be missing; h may be that of all.

    Covariates need a name: only in a dictionary or table can they be told from others.
    """
    order = [name for name in names if name != "covariates" and (name != "h" or h is None)]
    if isinstance(block, Mapping) or hasattr(block, "iloc"):
        arguments = dict(block)  # type: ignore[call-overload]
    elif isinstance(block, tuple | list) and len(block) <= len(order):
        arguments = dict(zip(order, block, strict=False))
    else:
        got = f"{len(block)} elements" if isinstance(block, tuple | list) else type(block).__name__
        raise InputError(f"must be a tuple ({', '.join(order[:-1])}), a dictionary or Transitions, got {got}")
    if unknown := [str(name) for name in arguments if name not in names]:
        raise InputError(f"has {', '.join(unknown)}, which is none of {', '.join(names)}")
    if h is not None:
        third = np.asarray(arguments.get("groups", 0))
        if "h" in arguments or third.dtype.kind == "f":
            raise InputError("h was given twice, in the block and as {h}", h=Option("h", keyword=True))
        arguments["h"] = h
    if missing := [name for name in names if name not in (*arguments, *OPTIONAL)]:
        raise InputError(
            "{names} missing{advice}",
            names=" and ".join(missing) + (" is" if len(missing) == 1 else " are"),
            advice=""
            if missing != ["h"]
            else Message("; give it in each block, or to from_blocks as {h}", h=Option("h", keyword=True)),
        )
    first = plain_array(names[0], arguments[names[0]])
    if first.ndim and not len(first):
        raise InputError("is empty; leave such blocks out")
    return arguments
