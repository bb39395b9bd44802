"""Rows of points and targets, in memory or not, and which of them training may see.

All passes over data go through blocks of a fixed number of rows, whatever blocks the data came in. So nothing that is
learned depends on how the data were cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from itofit._checks import Float

PASS_ROWS = 262_144
"""Rows of a block: enough for all cores, few enough for any memory."""
LEFT_OUT, TRAIN, VALIDATION = 0, 1, 2
"""Parts of the rows."""


class ArrayRows:
    """Points x (n, m) with targets y (n, p) in memory, in blocks of PASS_ROWS."""

    in_memory = True

    def __init__(self, x: Float, y: Float) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice) -> ArrayRows:
        return ArrayRows(self.x[rows], self.y[rows])

    def blocks(self) -> Iterator[ArrayRows]:
        """All rows in order."""
        for rows in slices(len(self)):
            yield self[rows]


def scaled(x: Float, shift: Float, scale: Float) -> Float:
    """(x − shift) / scale for points x (n, m), column by column: far faster than broadcasting over narrow rows."""
    return ((x.T - shift[:, None]) / scale[:, None]).T


def column_range(x: Float) -> tuple[Float, Float]:
    """Smallest and largest value of each column, far faster than NumPy's minimum over the rows of a narrow array."""
    return np.array([column.min() for column in x.T]), np.array([column.max() for column in x.T])


def column_sum(x: Float) -> Float:
    """The sum of each column, for narrow arrays."""
    return np.array([column.sum() for column in x.T])


def slices(n_rows: int) -> Iterator[slice]:
    """The blocks of n_rows rows."""
    for start in range(0, n_rows, PASS_ROWS):
        yield slice(start, min(start + PASS_ROWS, n_rows))


def n_held_out(share: float, n: int) -> int:
    """How many of n are a share of them, with at least one on each side."""
    return min(max(round(share * n), 1), n - 1)


class Split:
    """A random part of the rows to train on and one to validate on.

    Both are spread evenly over the blocks and drawn at random within each, from the seed and the block's number. So
    the part of a row is a function of the seed, its index and the number of rows.

    Parameters
    ----------
    seed : int
    n_rows : int
    n_searched : int
        Rows in the two parts together; at least 2.
    n_held_out : int
        Rows of the second.
    """

    def __init__(self, seed: int, n_rows: int, n_searched: int, n_held_out: int) -> None:
        self.seed = seed
        self.n_rows = n_rows
        self.n_searched = n_searched
        self.n_held_out = n_held_out

    def parts(self, block: int) -> npt.NDArray[np.uint8]:
        """LEFT_OUT, TRAIN or VALIDATION for each row of a block."""
        start = block * PASS_ROWS
        stop = min(start + PASS_ROWS, self.n_rows)
        searched_before, searched_after = (self.n_searched * row // self.n_rows for row in (start, stop))
        n_searched = searched_after - searched_before
        out_before, out_after = (self.n_held_out * n // self.n_searched for n in (searched_before, searched_after))
        rng = np.random.default_rng([self.seed, block])
        searched = np.arange(stop - start)
        if n_searched < len(searched):
            searched = rng.choice(searched, n_searched, replace=False, shuffle=False)
        part = np.full(stop - start, LEFT_OUT, dtype=np.uint8)
        part[searched] = TRAIN
        part[rng.choice(searched, out_after - out_before, replace=False, shuffle=False)] = VALIDATION
        return part
