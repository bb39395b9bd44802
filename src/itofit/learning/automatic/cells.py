"""Transitions gathered into cells: few points in memory that say of the data what fits need.

The likelihood of transitions depends on them through sums over those that start at the same place. So transitions are
gathered, in one pass:

- few of them as they are, one for each cell;
- many, with one input, by the cells of a fine grid, in which drift and covariance hardly change;
- many, with more inputs, as a random subset (fits are finished on all of them, see `itofit.learning.automatic.method`).

Every cell belongs to one of five folds, of whole groups of transitions where that makes folds of similar sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from itofit._checks import Float, Int
from itofit._progress import Progress
from itofit.data.blocked import BlockedTransitions
from itofit.data.rows import LEFT_OUT, Split, scaled
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions

FOLDS = 5
LEAST_FOLD = 0.5
"""Least size of a fold made of whole groups, relative to an equal one; otherwise folds are made of single rows."""
SIDE = 1024
"""Cells of the grid, in each fold."""
MOST_ROWS_ALONE = 5_000
"""With one input and more transitions than this they are put on a grid."""
MOST_ROWS = 16_000
"""With several inputs and more transitions than this a subset is drawn."""

Values = Callable[[Transitions, Int], Float]
"""Of a block of transitions and the folds of its rows: values of shape (rows, c) that are summed in each cell."""


class Cells(NamedTuple):
    """Sums over the transitions of each cell."""

    u: Float  # (n, m): the mean of the scaled inputs, weighted by h
    count: Float  # type: ignore[assignment]  # (n,): transitions
    duration: Float  # (n,): Σ h
    fold: Int  # (n,)
    sums: Float  # (n, c): of the values that were asked for
    squares: Float  # (c,): Σ of the values' squares over all transitions


class Plan:
    """Which cell and which fold each transition belongs to.

    Parameters
    ----------
    found : Survey
        Of the transitions.
    shift, scale : arrays of shape (m,)
        Of the inputs, to [−½, ½].
    seed : int
        Of the folds and the subset.
    search_rows : int, optional
        The number of transitions above which they are gathered or drawn from.
    """

    def __init__(self, found: Survey, shift: Float, scale: Float, seed: int, search_rows: int | None = None) -> None:
        self.n_rows, self.shift, self.scale, self.seed = found.n_rows, shift, scale, seed
        self.n_inputs = len(shift)
        limit = (MOST_ROWS_ALONE if self.n_inputs == 1 else MOST_ROWS) if search_rows is None else search_rows
        self.gathered = found.n_rows > limit and self.n_inputs == 1 and search_rows is None
        self.drawn = found.n_rows > limit and not self.gathered
        self.split = Split(seed, found.n_rows, min(limit, found.n_rows), 1)
        self.fold_of_group = None if found.groups is None else _balanced_folds(found.groups, seed)

    @property
    def how(self) -> str:
        """What becomes of the transitions, in words."""
        if self.gathered:
            return f"a grid of {SIDE} cells"
        return f"{self.split.n_searched} of them, drawn at random" if self.drawn else "all of them"

    def folds(self, block: Transitions, index: int) -> Int:
        """The fold of each row of a block."""
        if self.fold_of_group is not None:
            assert block.groups is not None
            labels, place = np.unique(block.groups, return_inverse=True)
            return np.array([self.fold_of_group[label] for label in labels.tolist()])[place]
        rng = np.random.default_rng([self.seed, 1, index])
        return rng.permutation(len(block)) % FOLDS

    def scaled(self, x: Float) -> Float:
        """Inputs in [−½, ½]."""
        return scaled(x, self.shift, self.scale)

    def gather(self, data: Transitions | BlockedTransitions, values: Values, progress: Progress, label: str) -> Cells:
        """Sum values over the cells, in one pass."""
        n_bins = SIDE * FOLDS if self.gathered else 0
        parts: list[Float] = []
        squares, n = np.zeros(1), 0
        for index, block in enumerate(data.blocks()):
            n += len(block)
            progress.show(label, f"{n:,} of {self.n_rows:,} transitions", n / self.n_rows)
            fold = self.folds(block, index)
            kept = block
            if self.drawn:
                rows = np.flatnonzero(self.split.parts(index) != LEFT_OUT)
                if not len(rows):
                    continue
                kept, fold = block[rows], fold[rows]
            found = values(kept, fold)
            squares = squares + np.einsum("nc,nc->c", found, found)
            u, h = self.scaled(kept.inputs), kept.h
            table = np.concatenate([np.ones((1, len(h))), h[None], u.T * h, found.T])
            if n_bins:
                binned = _binned(self._bins(u, fold), table, n_bins)
                parts = [parts[0] + binned if parts else binned]
            else:
                parts.append(np.concatenate([table, fold[None]]))
        total = np.concatenate(parts, axis=1)
        m = self.n_inputs
        if n_bins:
            total = np.concatenate([total, (np.arange(n_bins) % FOLDS)[None]])[:, total[0] > 0]
        return Cells(
            u=np.ascontiguousarray((total[2 : 2 + m] / total[1]).T),
            count=total[0],
            duration=total[1],
            fold=total[-1].astype(int),
            sums=np.ascontiguousarray(total[2 + m : -1].T),
            squares=squares,
        )

    def _bins(self, u: Float, fold: Int) -> Int:
        return np.clip(((u[:, 0] + 0.5) * SIDE).astype(np.int64), 0, SIDE - 1) * FOLDS + fold


def _balanced_folds(groups: dict[object, int], seed: int) -> dict[object, int] | None:
    """A fold for each group, with about as many transitions in each; None if the groups are too few or too unequal."""
    labels = list(groups)
    shuffled = [labels[i] for i in np.random.default_rng(seed).permutation(len(labels))]
    load, fold_of = [0] * FOLDS, {}
    for label in sorted(shuffled, key=lambda label: -groups[label]):
        fold_of[label] = load.index(min(load))
        load[fold_of[label]] += groups[label]
    return fold_of if min(load) * FOLDS > LEAST_FOLD * sum(load) else None


def _binned(place: Int, table: Float, n_bins: int) -> Float:
    """The sum of each row of a table over the columns of each place."""
    return np.stack([np.bincount(place, row, n_bins) for row in table])
