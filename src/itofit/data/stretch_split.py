"""A split of data in stretches of rows, so that tracks are held out in long pieces wherever the data are.

Single rows that are held out would cut every track about them: with 10 % of them, every ten rows. Here rows are cut in
stretches of equal lengths, and of so many that follow each other, `n_together`, some at random are held out:

    stretches    |. 0 .|. 1 .|. 2 .|. 3 .|. 4 .|. 5 .|. 6 .|. 7 .|
    held out             ^                       ^                       n_together = 4, one of them
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from itofit.data import rows
from itofit.data.following import continues
from itofit.data.large.blocked import BlockedTransitions
from itofit.data.large.parts import PartedTransitions, SplitPart
from itofit.data.large.stretches import Part
from itofit.data.rows import TRAIN, VALIDATION, Split
from itofit.data.transitions import Transitions

STRETCH_ROWS = 10_000
"""Rows of a stretch, at least, if there are enough of them."""
PARTS_LOOKED_AT = 4
"""Of data in parts, to see whether rows follow each other."""


class StretchSplit(Split):
    """Stretches of rows to train on, and some that are held out.

    Parameters
    ----------
    seed : int
    n_rows : int
    share : float
        How much is held out, about, between 0 and 1.

    Examples
    --------
    >>> from itofit.data.stretch_split import StretchSplit
    >>> StretchSplit(0, 24, 0.25).held_out(0, 24).astype(int)
    array([0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
           0, 0])
    """

    def __init__(self, seed: int, n_rows: int, share: float) -> None:
        super().__init__(seed, n_rows, n_rows, round(share * n_rows))
        self.n_together = stretches_together(share)
        self.n_chosen = round(share * self.n_together)
        self.n_stretches = self.n_together * max(1, n_rows // (self.n_together * STRETCH_ROWS))

    def parts(self, block: int) -> npt.NDArray[np.uint8]:
        """TRAIN or VALIDATION for each row of a block."""
        start = block * rows.PASS_ROWS
        out = self.held_out(start, min(start + rows.PASS_ROWS, self.n_rows))
        return np.where(out, VALIDATION, TRAIN).astype(np.uint8)

    def held_out(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Whether each of the rows from one to another is held out, shape (stop − start,)."""
        stretch = np.arange(start, stop) * self.n_stretches // self.n_rows
        together, place = np.divmod(stretch, self.n_together)
        numbers = np.unique(together)
        chosen = np.array([self._chosen(int(number)) for number in numbers])
        return np.asarray(chosen[together - numbers[0], place])

    def _chosen(self, number: int) -> npt.NDArray[np.bool_]:
        """Which of some stretches that follow each other are held out, shape (n_together,)."""
        order = np.random.default_rng([self.seed, number]).permutation(self.n_together)
        return np.isin(np.arange(self.n_together), order[: self.n_chosen])


def stretches_together(share: float) -> int:
    """How many stretches, at least, it takes to hold a share of them out and two of each side."""
    return math.ceil(2 / min(share, 1 - share))


def in_stretches(
    data: BlockedTransitions | PartedTransitions, share: float, seed: int
) -> tuple[BlockedTransitions | PartedTransitions, BlockedTransitions | PartedTransitions]:
    """Data to learn from and data held out, in stretches, where the data are and in as little memory."""
    split = StretchSplit(seed, len(data), share)
    if isinstance(data, PartedTransitions):
        starts = np.cumsum([0, *data.lengths]).tolist()
        own = list(zip(data.parts, starts, data.lengths, strict=False))
        train, rest = (
            PartedTransitions([SplitPart(part, start, n, split, side) for part, start, n in own], data).on(data.cluster)
            for side in (TRAIN, VALIDATION)
        )
        return train, rest
    blocks = (Transitions.from_blocks(partial(_blocks_of_side, data, split, side)) for side in (TRAIN, VALIDATION))
    learned_from, judged_by = (own._carrying(data.units) for own in blocks)
    return learned_from, judged_by


def _blocks_of_side(data: BlockedTransitions, split: Split, side: int) -> Iterator[Transitions]:
    for number, block in enumerate(data.blocks()):
        chosen = np.flatnonzero(split.parts(number) == side)
        if len(chosen):
            yield block[chosen]


class Following(NamedTuple):
    """How many pairs of neighbouring transitions there are, and in how many the second starts where the first ended."""

    n_pairs: int
    n_follow: int


def rows_follow(data: Transitions | BlockedTransitions | PartedTransitions) -> bool:
    """Whether most transitions start where the one before them ended: of data not in memory, most of some."""
    if data.kind == "general":
        return False
    if isinstance(data, PartedTransitions):
        counts = data.run(following_in_part, data.parts[:: -(-len(data.parts) // PARTS_LOOKED_AT)])
    else:
        counts = [_following(data if isinstance(data, Transitions) else next(data.blocks()))]
    return sum(count.n_follow for count in counts) > sum(count.n_pairs for count in counts) / 2


def following_in_part(part: Part) -> Following:
    """That of the first block of a part."""
    block = next(iter(part.blocks()), None)
    return Following(0, 0) if block is None else _following(block)


def _following(block: Transitions) -> Following:
    rows_but_last = np.arange(len(block) - 1)
    return Following(len(block) - 1, int(continues(block, rows_but_last, rows_but_last + 1).sum()))
