"""Stretches of data in parts: blocks that follow each other and can be read on their own, wherever.

Parts have any numbers of rows, blocks have PASS_ROWS of them, whatever the parts are, so that what is learned does not
depend on the parts:

    parts      |-------- 0 --------|---- 1 ----||- 3 -|------- 4 --------|          (2 is empty)
    blocks     |. 0 .|. 1 .|. 2 .|. 3 .|. 4 .|. 5 .|. 6 .|. 7 .|
    stretches  |---- blocks 0..3 ------|--- 4..6 ------|-- 7 --|

A stretch begins with the first block that begins in a part. So it reads its parts from their beginnings, leaves out at
most a block of rows there, and takes what its last block lacks from the beginning of the next part. Where a part can
give its beginning for less than all of it (`beginning`), that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable
from zlib import crc32

import numpy as np

from itofit._checks import Either, Float, InputError, Int, message_of
from itofit.data.frames.layout import MissingPackageError
from itofit.data.names import HasVariables, Kind, plural, same_names, same_surroundings
from itofit.data.transitions import Transitions
from itofit.data.units import Units

MARGIN = 512
"""Rows of a part before the first block of a stretch, at least: tracks are followed into it from as far as that."""
BLOCKS_AT_ONCE = 32
"""Blocks of a stretch, about, at most: what is done again if a worker dies."""
MOST_STRETCHES = 50_000
"""Of a pass, about: each costs a scheduler some tenths of a millisecond. With more blocks stretches are longer."""
STRETCHES_PER_THREAD = 16
"""If there are enough blocks, and parts are small."""
PARTS_AT_ONCE = 8
"""Parts of a stretch, about, if there are enough: of one more it may read some in vain."""
LEFT_PER_THREAD = 2
"""A stretch is no longer than what is left for a thread, in so many of them: the last ones are short, so that all
threads are busy to the end."""
SHORTEST, MOST_PER_THREAD = 4, 8
"""But none is shorter than the longest by more than a factor, unless there are fewer than so many for a thread."""


@runtime_checkable
class Part(Protocol):
    """A part of the data: a file, a row group, a partition.

    It can be pickled, and read wherever it is sent to. It may have a method `beginning(n_rows)`, which gives blocks of
    its first transitions, at least so many, where that costs less than all of them.
    """

    @property
    def name(self) -> str:
        """What errors call it, as in "tracks/a.parquet, row group 3"."""
        ...

    def blocks(self) -> Iterable[Transitions]:
        """Its transitions in order, in blocks that fit into memory; the same in every pass, none if it is empty.

        Arrays of a block are not changed later on.
        """
        ...


class Variables(NamedTuple):
    """What all blocks have in common."""

    n_inputs: int
    n_outputs: int
    kind: Kind
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    n_covariates: int
    periods: Float
    units: Units

    @classmethod
    def of(cls, data: HasVariables) -> Variables:
        """Those of transitions or a model."""
        return cls(*(getattr(data, name) for name in cls._fields))


class Piece(NamedTuple):
    """A part that a stretch reads, or the beginning of it."""

    number: int  # among all parts
    part: Part
    n_rows: int  # of the whole part


Marks = dict[tuple[int, int], int]
"""By the number of a part and a number of its own blocks: what their ends were, to see later that they are the same."""


@dataclass(frozen=True)
class Stretch:
    """Blocks that follow each other."""

    first: int  # the number of its first block
    pieces: tuple[Piece, ...]
    n_skipped: int  # rows of the pieces before it
    n_rows: int
    block_rows: int
    variables: Variables

    def blocks(self, marks: Marks) -> Iterator[Transitions]:
        """The blocks; the marks of the pieces are written down."""
        for block, _ in self.overlapping(0, marks):
            yield block

    def overlapping(self, overlap: int, marks: Marks) -> Iterator[tuple[Transitions, int]]:
        """The blocks, each after so many rows of those before it, and how many these are: fewer where the data begin.

        There must be so many rows in the pieces: `stretches` is told about the overlap.
        """
        n_before = sum(piece.n_rows for piece in self.pieces[:-1])
        stream = _Stream(self.pieces, self.variables, marks, self.n_skipped + self.n_rows - n_before)
        with closing(stream):
            n_before = min(overlap, self.n_skipped)
            stream.take(self.n_skipped - n_before)
            before = stream.take(n_before)
            for start in range(0, self.n_rows, self.block_rows):
                own = stream.take(min(self.block_rows, self.n_rows - start))
                rows = [*before, *own]
                block = rows[0] if len(rows) == 1 else Transitions.concatenate(rows)
                yield block, n_before
                n_before = min(overlap, len(block))
                before = [block[len(block) - n_before :]] if n_before else []
            stream.finish()


class _Stream:
    """The rows of some pieces, one after the other; of the last so many."""

    def __init__(self, pieces: Sequence[Piece], variables: Variables, marks: Marks, n_of_last: int) -> None:
        self.pieces, self.variables, self.marks, self.n_of_last = list(pieces), variables, marks, n_of_last
        self.is_beginning = False  # whether only the beginning of a piece is read, of which another stretch reads all
        self.rest: list[Transitions] = []
        self.own: Iterator[Transitions] | None = None  # of the first of the pieces
        self.n_given = self.n_blocks = self.ends = 0

    def take(self, n: int) -> list[Transitions]:
        """The next n rows, in one or more blocks."""
        taken: list[Transitions] = []
        while n:
            block = self.rest.pop() if self.rest else self._next()
            if len(block) > n:
                self.rest.append(block[n:])
                block = block[:n]
            taken.append(block)
            n -= len(block)
        return taken

    def _next(self) -> Transitions:
        """The next block of the first piece that has one."""
        while self.pieces:
            piece = self.pieces[0]
            with errors_naming_part(piece.part.name):
                block = self._block_of(piece)
            if block is not None:
                return block
            self._leave()
        raise InputError("the source has changed while it was read: it ended before all rows were there")

    def _block_of(self, piece: Piece) -> Transitions | None:
        """The next block of a piece, which has the form of all; None after the last."""
        if self.own is None:
            beginning = getattr(piece.part, "beginning", None) if len(self.pieces) == 1 else None
            self.is_beginning = beginning is not None and self.n_of_last < piece.n_rows
            self.own = iter(beginning(self.n_of_last) if beginning and self.is_beginning else piece.part.blocks())
        block = next(self.own, None)
        if block is None and self.n_given < (self.n_of_last if self.is_beginning else piece.n_rows):
            raise changed(piece, f"has {plural(self.n_given, 'transition')}")
        if block is None:
            return None
        self.n_given, self.n_blocks = self.n_given + len(block), self.n_blocks + 1
        if self.n_given > piece.n_rows:
            raise changed(piece, f"has {self.n_given} transitions or more")
        check_form(block, self.variables)
        if self.is_beginning:
            return block
        self.ends = mark(block, self.ends)
        self.marks[piece.number, self.n_blocks] = self.ends
        return block

    def finish(self) -> None:
        """See that the last piece has no more rows than it should, if it is at its end."""
        if self.pieces and not self.rest and self.n_given == self.pieces[0].n_rows:
            with errors_naming_part(self.pieces[0].part.name):
                self._block_of(self.pieces[0])

    def _leave(self) -> None:
        del self.pieces[0]
        self.close()
        self.own, self.n_given, self.n_blocks, self.ends = None, 0, 0, 0

    def close(self) -> None:
        """Let the part close its files."""
        if self.own is not None and hasattr(self.own, "close"):
            self.own.close()


def mark(block: Transitions, before: int = 0) -> int:
    """A number that tells a block by its ends, given that of the blocks before it."""
    ends = (part[[0, -1]].tobytes() for part in (block.inputs, block.increments, block.h))
    return crc32(b"".join(ends), crc32(len(block).to_bytes(8, "little"), before))


def check_form(block: HasVariables, variables: HasVariables) -> None:
    """Raise if a block has other variables than others have."""
    own, others = ((data.n_inputs, data.n_outputs, data.kind) for data in (block, variables))
    if own != others:
        raise InputError(
            f"has {plural(own[0], 'input')} and {plural(own[1], 'output')}, kind {own[2]}; other parts have "
            f"{others[0]} and {others[1]}, kind {others[2]}"
        )
    same_surroundings(block, variables)
    same_names(block, variables)


def changed(piece: Piece, now: str) -> InputError:
    """The error for a part that is not what it was."""
    return InputError(
        "{now} and had {before} in an earlier pass: {advice}",
        now=now,
        before=piece.n_rows,
        advice=Either(
            python="the data must be the same each time they are read",
            command="the file has changed while it was read",
        ),
    )


def changed_values(part: Part) -> InputError:
    """The error for a part that has as many rows as before, and others."""
    advice = Either(
        python="the data must be the same each time they are read", command="the file has changed while it was read"
    )
    text = "{name} has other values than in an earlier pass: {advice}"
    return InputError(text, name=part.name, advice=advice)


@contextmanager
def errors_naming_part(name: str) -> Iterator[None]:
    """Let errors name the part that they came from."""
    try:
        yield
    except MissingPackageError:
        raise
    except InputError as error:
        message = message_of(error)
        if message.startswith(name):
            raise
        raise InputError("{name}: {problem}", name=name, problem=message) from None
    except (OSError, ValueError, EOFError) as error:
        problem = str(error).strip() or type(error).__name__
        raise InputError("{name} cannot be read: {problem}", name=name, problem=problem) from error


def stretches(
    parts: Sequence[Part],
    lengths: Sequence[int],
    block_rows: int,
    variables: Variables,
    n_threads: int,
    overlap: int = 0,
) -> list[Stretch]:
    """All blocks of some parts, in stretches: enough for so many threads.

    Parameters
    ----------
    parts : sequence of Part
    lengths : sequence of int
        Rows of each.
    block_rows : int
    variables : Variables
    n_threads : int
        Sums do not depend on it.
    overlap : int
        Rows before the first block of a stretch that can be read in addition.
    """
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    starts = ends - lengths
    n_rows = int(ends[-1]) if len(ends) else 0
    n_blocks = -(-n_rows // block_rows)
    wanted = _blocks_of_a_stretch(n_blocks, int((ends > starts).sum()), n_threads)
    first_blocks = np.unique(-(-(starts[ends > starts] + MARGIN) // block_rows))
    inner = first_blocks[(first_blocks > 0) & (first_blocks < n_blocks)]
    cuts = [0, *_cuts(inner, n_blocks, wanted, n_threads), n_blocks]
    made = []
    for first, end in pairwise(cuts):
        begin, stop = first * block_rows, min(end * block_rows, n_rows)
        low = int(np.searchsorted(ends, max(0, begin - overlap), side="right"))
        high = int(np.searchsorted(starts, stop, side="left"))
        own = tuple(Piece(i, parts[i], int(lengths[i])) for i in range(low, high) if lengths[i])
        made.append(Stretch(first, own, begin - int(starts[low]), stop - begin, block_rows, variables))
    return made


def _blocks_of_a_stretch(n_blocks: int, n_parts: int, n_threads: int) -> int:
    """How many are best, about, at most."""
    several_parts = PARTS_AT_ONCE * n_blocks // max(n_parts, 1)
    few = n_blocks // (STRETCHES_PER_THREAD * n_threads)
    return max(min(max(few, several_parts), max(BLOCKS_AT_ONCE, several_parts)), n_blocks // MOST_STRETCHES, 1)


def _cuts(candidates: Int, n_blocks: int, longest: int, n_threads: int) -> Iterator[int]:
    """Numbers of blocks that stretches begin with, after the first: of about as many blocks as suit, or a part.

    Of those in reach the one that is divided by 2 most often is taken: the tree of sums has fewer nodes then.
    """
    at = 0
    shortest = max(1, min(longest // SHORTEST, n_blocks // (MOST_PER_THREAD * n_threads)))
    while True:
        wanted = max(shortest, min(longest, (n_blocks - at) // (LEFT_PER_THREAD * n_threads)))
        if n_blocks - at <= 1.5 * wanted:
            return
        near = candidates[np.searchsorted(candidates, at + max(1, 3 * wanted // 4)) :]
        if not len(near):
            return
        reach = near[: max(1, int(np.searchsorted(near, at + 1.25 * wanted, side="right")))]
        at = int(min(reach, key=lambda block: (-(block & -block), abs(block - at - wanted))))
        yield at
