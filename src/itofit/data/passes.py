"""Passes over data: every question to them is a sum over their blocks.

A pass maps a pure function over the blocks and adds the results up. The order of the additions is a binary tree over
the numbers of the blocks (`large/tree_sums.py`), so that the sum, to the last bit, depends neither on the number of
threads or machines nor on which block is done first:

    ((0 + 1) + (2 + 3)) + (4 + 5) ...

Of n blocks at most as many partial sums are kept as n has binary digits. Blocks of data in memory are worked on by
several threads. Data in parts are read in stretches of blocks, by several threads or by the workers of a Dask cluster.
Others come one after the other, as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from itofit._blocks import map_in_order, n_threads, one_thread
from itofit._checks import InputError
from itofit.data.large.tree_sums import Node, TreeSum, added, as_sent
from itofit.data.names import HasVariables

if TYPE_CHECKING:
    from itofit.data.transitions import Transitions

__all__ = ["Blocks", "Data", "Done", "InStretches", "OnCluster", "Stretched", "add_up", "added", "sums_of_stretch"]

S = TypeVar("S")
T = TypeVar("T")
Block_co = TypeVar("Block_co", covariant=True)
Function = Callable[[Any, int], T]
Shown = Callable[[int], None]


class Blocks(Protocol[Block_co]):
    """What a pass can go through.

    Where it can be read in stretches, it has an attribute `in_stretches` as well, which is not None.
    """

    @property
    def in_memory(self) -> bool:
        """Whether all of it is in memory; otherwise every pass reads it anew."""
        ...

    def blocks(self) -> Iterator[Block_co]:
        """All of it in order, in blocks that are the same in every pass."""
        ...


@runtime_checkable
class Data(HasVariables, Protocol):
    """Transitions, wherever they are: what learning, judging and drawing ask of them.

    It is `Blocks` of transitions with names and a kind. All blocks have PASS_ROWS rows but the last, so that the number
    of a block and a place in it give the number of a row.
    """

    @property
    def in_memory(self) -> bool:
        """Whether all of them are in memory; otherwise every pass reads them anew."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...

    def blocks(self) -> Iterator[Transitions]:
        """All transitions in order, in blocks of PASS_ROWS rows, the last one shorter."""
        ...


class Stretched(Protocol):
    """Blocks that follow each other and can be read on their own; it can be pickled."""

    @property
    def first(self) -> int:
        """The number of its first block."""
        ...

    @property
    def block_rows(self) -> int:
        """Rows of every block but the last of all."""
        ...

    def blocks(self, marks: dict[tuple[int, int], int]) -> Iterator[Any]:
        """The blocks; what they are recognised by in later passes is written down."""
        ...


class OnCluster(Protocol):
    """What adds up on other machines."""

    @property
    def n_threads(self) -> int:
        """Threads of all workers."""
        ...

    def add_up(
        self, stretches: Sequence[Stretched], function: Function[T], most_rows: int | None, shown: Shown
    ) -> Done:
        """The sums over all stretches."""
        ...

    def run(self, function: Callable[[S], T], items: Sequence[S], shown: Shown) -> list[T]:
        """The result of a function for each item, in order."""
        ...


class InStretches(Protocol):
    """Data that can be read in stretches."""

    @property
    def cluster(self) -> OnCluster | None:
        """What adds up instead of the threads of this machine."""
        ...

    def stretches(self, n_threads: int) -> Sequence[Stretched]:
        """All blocks, in stretches that suit so many threads."""
        ...

    def compare(self, marks: dict[tuple[int, int], int]) -> None:
        """Raise if blocks are not those of an earlier pass."""
        ...


class Done(NamedTuple):
    """Sums over one or several stretches that follow each other."""

    sums: TreeSum[Any]
    n_rows: int
    marks: dict[tuple[int, int], int]

    def plus(self, other: Done) -> Done:
        """With the stretches that follow."""
        sums: TreeSum[Any] = TreeSum()
        for node in self.sums.nodes + other.sums.nodes:
            sums.add(node)
        return Done(sums, self.n_rows + other.n_rows, self.marks | other.marks)


def add_up(
    data: Blocks[Any],
    function: Callable[[Any, int], T],
    *,
    most_rows: int | None = None,
    shown: Shown = lambda n_done: None,
) -> T:
    """The sum of function(block, number of the block) over the blocks of data, in a fixed order of additions.

    Parameters
    ----------
    data : Data
        Or anything with `blocks` and `in_memory`.
    function : callable
        Pure: its result follows from its arguments alone. Results are numbers, arrays, lists (which are joined in
        order), tuples of these, or objects with a method `plus`. It may be sent to other machines, so it must hold
        no more than it needs, and nothing that cannot be pickled.
    most_rows : int, optional
        Cut blocks into parts of at most so many rows, and number these.
    shown : callable, optional
        Called with the number of rows that are done, after each block or stretch of blocks. It stays here.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> from itofit.data.passes import add_up
    >>> data = itofit.Transitions(np.arange(5.0), np.ones(5), h=0.1)
    >>> add_up(data, lambda block, number: (len(block), block.increments.sum()), most_rows=2)
    (5, np.float64(5.0))
    """
    in_stretches: InStretches | None = getattr(data, "in_stretches", None)
    if in_stretches is not None:
        return _over_stretches(in_stretches, function, most_rows, shown)

    def work(numbered: tuple[int, Any]) -> tuple[T, int]:
        number, block = numbered
        return function(block, number), len(block)

    sums: TreeSum[T] = TreeSum()
    n_done = 0
    numbered = enumerate(_cut(data.blocks(), most_rows))
    for number, (result, n_rows) in enumerate(map_in_order(work, numbered, threads=data.in_memory)):
        sums.add(Node(number, 0, result))
        n_done += n_rows
        shown(n_done)
    return _total(sums)


def _over_stretches(data: InStretches, function: Callable[[Any, int], T], most_rows: int | None, shown: Shown) -> T:
    """The sum over the blocks of data in stretches."""
    if data.cluster is not None:
        done = data.cluster.add_up(data.stretches(data.cluster.n_threads), function, most_rows, shown)
        data.compare(done.marks)
        return _total(done.sums)
    sums: TreeSum[T] = TreeSum()
    n_done = 0

    stretches = data.stretches(n_threads())

    def work(stretch: Stretched) -> Done:
        with one_thread() if len(stretches) > 1 else nullcontext():  # threads within threads wait for each other
            return sums_of_stretch(stretch, function, most_rows)

    for own in map_in_order(work, stretches, threads=True):
        data.compare(own.marks)
        for node in own.sums.nodes:
            sums.add(node)
        n_done += own.n_rows
        shown(n_done)
    return _total(sums)


def sums_of_stretch(stretch: Stretched, function: Callable[[Any, int], T], most_rows: int | None) -> Done:
    """The sums over the blocks of a stretch."""
    sums: TreeSum[T] = TreeSum()
    marks: dict[tuple[int, int], int] = {}
    n_rows = 0
    number = stretch.first * (1 if most_rows is None else -(-stretch.block_rows // most_rows))
    for block in _cut(stretch.blocks(marks), most_rows):
        sums.add(Node(number, 0, as_sent(function(block, number))))
        number, n_rows = number + 1, n_rows + len(block)
    return Done(sums, n_rows, marks)


def _total(sums: TreeSum[T]) -> T:
    if not sums.nodes:
        raise InputError("the data hold no block")
    return sums.total()


def _cut(blocks: Iterator[Any], most_rows: int | None) -> Iterator[Any]:
    for block in blocks:
        if most_rows is None or len(block) <= most_rows:
            yield block
        else:
            yield from (block[start : start + most_rows] for start in range(0, len(block), most_rows))
