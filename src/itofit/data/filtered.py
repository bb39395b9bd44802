"""Some of the transitions: in memory if all of them are, otherwise read block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from itofit.data.large.parts import PartedTransitions
from itofit.data.passes import Data
from itofit.data.transitions import Transitions

Keep = Callable[[Transitions], npt.NDArray[np.bool_]]
"""Of a block of transitions: which rows to keep, shape (rows,)."""


def those(data: Data, keep: Keep) -> Data:
    """The transitions that a function says to keep."""
    if isinstance(data, Transitions):
        return data[keep(data)]
    if isinstance(data, PartedTransitions):
        return data.those(keep)

    def kept() -> Iterator[Transitions]:
        for block in data.blocks():
            rows = np.flatnonzero(keep(block))
            if len(rows):
                yield block[rows]

    return Transitions.from_blocks(kept)


def at_most(data: Data, longest: float) -> Data:
    """The transitions that took at most this time."""
    return those(data, lambda block: block.h <= longest)
