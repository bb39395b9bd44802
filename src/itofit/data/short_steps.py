"""Transitions without the longest ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from itofit.data.passes import Data
from itofit.data.transitions import Transitions


def at_most(data: Data, longest: float) -> Data:
    """The transitions that took at most this time: in memory if all of them are, otherwise read block by block."""
    if isinstance(data, Transitions):
        return data[data.h <= longest]

    def kept() -> Iterator[Transitions]:
        for block in data.blocks():
            rows = np.flatnonzero(block.h <= longest)
            if len(rows):
                yield block[rows]

    return Transitions.from_blocks(kept)
