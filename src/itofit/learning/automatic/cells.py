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
from itofit.data.passes import Data, add_up
from itofit.data.rows import LEFT_OUT, Split
from itofit.data.survey import Survey
from itofit.data.transitions import Transitions
from itofit.waves.scaling import Scaling

FOLDS = 5
"""Parts of the data, of which all but one predict that one."""
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
    survey : Survey
        Of the transitions.
    scaling : Scaling
        Of the inputs, to [−½, ½].
    seed : int
        Of the folds and the subset.
    search_rows : int, optional
        The number of transitions above which they are gathered or drawn from.
    """

    def __init__(self, survey: Survey, scaling: Scaling, seed: int, search_rows: int | None = None) -> None:
        self.n_rows, self.scaling, self.seed = survey.n_rows, scaling, seed
        self.n_inputs = len(scaling.shift)
        limit = (MOST_ROWS_ALONE if self.n_inputs == 1 else MOST_ROWS) if search_rows is None else search_rows
        self.gathered = survey.n_rows > limit and self.n_inputs == 1 and search_rows is None
        self.drawn = survey.n_rows > limit and not self.gathered
        self.split = Split(seed, survey.n_rows, min(limit, survey.n_rows), 1)
        self.fold_of_group = None if survey.groups is None else _balanced_folds(survey.groups, seed)

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

    def gather(self, data: Data, values: Values, progress: Progress, label: str) -> Cells:
        """Sum values over the cells, in one pass."""
        n_bins, m = SIDE * FOLDS if self.gathered else 0, self.n_inputs

        def of_block(block: Transitions, number: int) -> tuple[Float | list[Float], Float | float]:
            fold = self.folds(block, number)
            if self.drawn:
                rows = np.flatnonzero(self.split.parts(number) != LEFT_OUT)
                if not len(rows):
                    return [], 0.0
                block, fold = block[rows], fold[rows]
            own = values(block, fold)
            squares = np.einsum("nc,nc->c", own, own)
            u, h = self.scaling.points(block.inputs), block.h
            table = np.concatenate([np.ones((1, len(h))), h[None], u.T * h, own.T])
            if n_bins:
                return _binned(self._bins(u, fold), table, n_bins), squares
            return [np.concatenate([table, fold[None]])], squares

        def shown(n_done: int) -> None:
            progress.show(label, f"{n_done:,} of {self.n_rows:,} transitions", n_done / self.n_rows)

        sums, squares = add_up(data, of_block, shown=shown)
        if n_bins:
            total = np.concatenate([sums, (np.arange(n_bins) % FOLDS)[None]])[:, sums[0] > 0]
        else:
            total = np.concatenate(sums, axis=1)
        return Cells(
            u=np.ascontiguousarray((total[2 : 2 + m] / total[1]).T),
            count=total[0],
            duration=total[1],
            fold=total[-1].astype(int),
            sums=np.ascontiguousarray(total[2 + m : -1].T),
            squares=np.asarray(squares),
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
