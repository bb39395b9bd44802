"""Passes over data: every question to them is a sum over their blocks.

A pass maps a pure function over the blocks and adds the results up. The order of the additions is a binary tree over
the numbers of the blocks, so that the sum, to the last bit, depends neither on the number of threads nor on which block
is done first:

    ((0 + 1) + (2 + 3)) + (4 + 5) ...

Of n blocks at most as many partial sums are kept as n has binary digits. Blocks of data in memory are worked on by
several threads; others come one after the other, as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from itofit._blocks import map_in_order
from itofit._checks import InputError
from itofit.data.names import HasVariables

if TYPE_CHECKING:
    from itofit.data.transitions import Transitions

T = TypeVar("T")
Block_co = TypeVar("Block_co", covariant=True)


class Blocks(Protocol[Block_co]):
    """What a pass can go through."""

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


def add_up(
    data: Blocks[Any],
    function: Callable[[Any, int], T],
    *,
    most_rows: int | None = None,
    shown: Callable[[int], None] = lambda n_done: None,
) -> T:
    """The sum of function(block, number of the block) over the blocks of data, in a fixed order of additions.

    Parameters
    ----------
    data : Data
        Or anything with `blocks` and `in_memory`.
    function : callable
        Pure: its result follows from its arguments alone. Results are numbers, arrays, lists (which are joined in
        order), tuples of these, or objects with a method `plus`.
    most_rows : int, optional
        Cut blocks into parts of at most so many rows, and number these.
    shown : callable, optional
        Called with the number of rows that are done, after each block.

    Examples
    --------
    >>> import numpy as np, itofit
    >>> from itofit.data.passes import add_up
    >>> data = itofit.Transitions(np.arange(5.0), np.ones(5), h=0.1)
    >>> add_up(data, lambda block, number: (len(block), block.increments.sum()), most_rows=2)
    (5, np.float64(5.0))
    """

    def work(numbered: tuple[int, Any]) -> tuple[T, int]:
        number, block = numbered
        return function(block, number), len(block)

    partial_sums: list[tuple[int, T]] = []  # with the heights of their trees, which fall
    n_done = 0
    for result, n_rows in map_in_order(work, enumerate(_parts(data, most_rows)), threads=data.in_memory):
        height, total = 0, result
        while partial_sums and partial_sums[-1][0] == height:
            total = added(partial_sums.pop()[1], total)
            height += 1
        partial_sums.append((height, total))
        n_done += n_rows
        shown(n_done)
    if not partial_sums:
        raise InputError("the data hold no block")
    _, total = partial_sums.pop()
    while partial_sums:
        total = added(partial_sums.pop()[1], total)
    return total


def _parts(data: Blocks[Any], most_rows: int | None) -> Iterator[Any]:
    for block in data.blocks():
        if most_rows is None or len(block) <= most_rows:
            yield block
        else:
            yield from (block[start : start + most_rows] for start in range(0, len(block), most_rows))


def added(one: Any, other: Any) -> Any:  # noqa: ANN401
    """The sum of two partial sums."""
    if one is None or other is None:  # if one block has no value, the total has none
        return None
    if hasattr(one, "plus"):
        return one.plus(other)
    if isinstance(one, tuple):
        parts = [added(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    return one + other
