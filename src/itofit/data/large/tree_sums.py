"""Sums in a fixed order: a binary tree over the numbers of what is added.

A node (start, height) is the sum over the numbers from start to start + 2^height − 1, start being a multiple of
2^height. Numbers that follow each other, from any one on, are a few such nodes, and the nodes of one run of numbers
join those of the next:

    0..3, 4, 5   and   6..7, 8..9   are   0..7, 8..9

So sums over runs can be made anywhere, in any order of time, and their total is the same to the last bit.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")


class Node(NamedTuple, Generic[T]):
    """The sum over 2^height numbers from start on."""

    start: int
    height: int
    value: T


class TreeSum(Generic[T]):
    """The sum over numbers that follow each other, in as few nodes as there can be."""

    def __init__(self) -> None:
        self.nodes: list[Node[T]] = []

    def add(self, node: Node[T]) -> None:
        """Add what follows the numbers so far."""
        start, height, value = node
        while self.nodes and self.nodes[-1].height == height and self.nodes[-1].start % (2 << height) == 0:
            start, _, before = self.nodes.pop()
            value = added(before, value)
            height += 1
        self.nodes.append(Node(start, height, value))

    def total(self) -> T:
        """The sum of all nodes; there is one at least."""
        *rest, (_, _, total) = self.nodes
        for _, _, value in reversed(rest):
            total = added(value, total)
        return total


def as_sent(value: Any) -> Any:  # noqa: ANN401
    """A result as it is after it was sent: its arrays have no gaps.

    Products of matrices are rounded in an order that depends on how these lie in memory. So what is sent and what is
    not must lie alike.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.c_contiguous or value.flags.f_contiguous else np.ascontiguousarray(value)
    if isinstance(value, tuple):
        parts = [as_sent(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return [as_sent(part) for part in value] if isinstance(value, list) else value


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
